//! Verbs that print something and are done: `sigtop symbols`, `sigtop env`, and `sigtop` alone where there is no screen.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use sigtop::attach::find::{self, Carrier};
use sigtop::attach::library::{Places, preload_value};
use sigtop::attach::stand_in;
use sigtop::profile::module::ModuleFile;
use sigtop::symbols::inquiry::{self, Inquiry};
use sigtop::write;

use super::Failure;

/// Where names come from, of a file or of all that a process maps.
pub(crate) fn symbols(what: &OsStr) -> Result<u8, Failure> {
    let pid = what.to_str().and_then(|text| text.parse::<u32>().ok());
    let own = std::process::id();
    let inquiries: Vec<Inquiry> = match pid {
        Some(pid) => {
            let files = inquiry::files_of(pid).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    let sentence =
                        format!("there is no process {pid}; for a file of this name: sigtop symbols ./{pid}");
                    Failure { sentence, status: 127 }
                }
                _ => {
                    let sentence = format!("the maps of process {pid} cannot be read ({error}): be its user, or root");
                    Failure { sentence, status: 126 }
                }
            })?;
            if files.is_empty() {
                let sentence = format!("process {pid} has no files mapped: it has ended, or is a thread of the kernel");
                return Err(Failure { sentence, status: 126 });
            }
            files.iter().map(|file| inquiry::inquire(file, pid)).collect()
        }
        None => {
            let path = std::path::absolute(what).map_err(|error| Failure::own("cannot tell the folder", error))?;
            let file = ModuleFile { path, build_id: [].into(), device: 0, inode: 0 };
            let inquiry = inquiry::inquire(&file, own);
            if let Err(sentence) = inquiry.opened {
                let status = if file.path.exists() { 126 } else { 127 };
                return Err(Failure { sentence, status });
            }
            vec![inquiry]
        }
    };
    let text = write::inquiry::text(&inquiries);
    // A reader that has seen enough is no failure.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::own("cannot write to stdout", error)),
        _ => Ok(0),
    }
}

/// `sigtop env`
pub(crate) fn env(path_only: bool, libprofiler: Option<&Path>, header: bool) -> Result<u8, Failure> {
    if header {
        print!("{}", include_str!("../../assets/sigtop.h"));
        return Ok(0);
    }
    if let Some(directory) = libprofiler {
        let directory = stand_in::fill(directory)?;
        println!("{}", stand_in::line(&directory, std::env::var_os("LD_LIBRARY_PATH").as_deref()));
        return Ok(0);
    }
    let library = Places::of_user().library()?;
    if path_only {
        println!("{}", library.display());
    } else {
        let value = preload_value(std::env::var_os("LD_PRELOAD").as_deref(), &library);
        println!("export LD_PRELOAD={}", value.to_string_lossy());
    }
    Ok(0)
}

/// `sigtop` alone, without a screen: what can be watched, and how to begin.
pub(crate) fn overview() -> Result<u8, Failure> {
    let carriers = find::carriers();
    if carriers.is_empty() {
        println!("No process of yours carries the agent.");
    } else {
        println!("Processes that carry the agent:");
        for Carrier { pid, comm, .. } in &carriers {
            println!("  {pid:>8}  {comm}");
        }
    }
    println!(
        "\nBegin with one of:\n  sigtop -- ./app              start a program and watch it\n  \
         sigtop --pid {}        watch one that carries the agent\n  \
         sigtop demo                  see what the screen says\n\nsigtop --help tells the rest.",
        carriers.first().map_or("PID   ".to_owned(), |carrier| format!("{:<6}", carrier.pid))
    );
    Ok(0)
}
