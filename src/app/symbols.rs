//! `sigtop symbols`: shows where the function names of a file, of all files that a process maps, or
//! of those in a recording come from.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};

use super::args::{ConfigArgs, SymbolArgs};
use super::downloads::Downloads;
use super::failure::Failure;
use super::replay::{self, ReplayOptions};
use crate::link::recording::MAGIC;
use crate::profile::module::ModuleFile;
use crate::session::unread_reason;
use crate::symbols::coverage::{NameCoverage, coverage};
use crate::symbols::download::DebuginfodClient;
use crate::symbols::explain::{self, Explanation};
use crate::tally::measure;
use crate::wire::interpreter::{FrameAccess, Interpreter};

/// Width of the first column, including the gap after it.
const TOPIC_COLUMNS: usize = 12;

/// Runs `sigtop symbols`.
pub(super) fn run(target: &OsStr, debug_information: &SymbolArgs, config: &ConfigArgs) -> Result<u8, Failure> {
    let downloads = Downloads::new(debug_information, config)?;
    let explainer = Explainer { servers: downloads.client().cloned() };
    let explained = explain_target(target, &explainer);
    downloads.finish();
    let (explanations, shares) = explained?;
    let text = format_explanations(&explanations) + &shares;
    // A closed pipe is not an error: the reader has seen enough.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("cannot write to stdout", error))
        }
        _ => Ok(0),
    }
}

/// Explains a process, a recording or a file. The second text follows the explanations.
fn explain_target(target: &OsStr, explainer: &Explainer) -> Result<(Vec<Explanation>, String), Failure> {
    Ok(match target.to_str().and_then(|text| text.parse::<u32>().ok()) {
        Some(pid) => (explain_process(pid, explainer)?, String::new()),
        None if is_recording(target) => explain_recording(target, explainer)?,
        None => (vec![explain_file(target, explainer)?], String::new()),
    })
}

/// Explains files, after it has downloaded their debug files if the user allows that.
struct Explainer {
    servers: Option<DebuginfodClient>,
}

impl Explainer {
    fn explain(&self, file: &ModuleFile, pid: u32) -> Explanation {
        self.servers.iter().for_each(|servers| explain::download(file, pid, servers));
        explain::explain(file, pid, self.servers.as_ref())
    }
}

fn explain_process(pid: u32, explainer: &Explainer) -> Result<Vec<Explanation>, Failure> {
    let files = explain::files_of(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(127, format!("no process {pid}; for a file of this name: sigtop symbols ./{pid}"))
        }
        _ => {
            let message =
                format!("cannot read the memory map of process {pid}: {error}; run sigtop as its user or root");
            Failure::new(126, message)
        }
    })?;
    if files.is_empty() {
        let message = format!("process {pid} maps no files: it has exited or is a kernel thread");
        return Err(Failure::new(126, message));
    }
    Ok(files.iter().map(|file| explainer.explain(file, pid)).collect())
}

fn is_recording(path: &OsStr) -> bool {
    let mut first = [0];
    let file = std::path::Path::new(path).is_file().then(|| File::open(path));
    file.is_some_and(|file| file.and_then(|mut file| file.read_exact(&mut first)).is_ok()) && first[0] == MAGIC[0]
}

/// Explains the files that have samples in a recording, as they are on this machine, and how much
/// of the samples has names.
fn explain_recording(path: &OsStr, explainer: &Explainer) -> Result<(Vec<Explanation>, String), Failure> {
    let name = path.to_string_lossy();
    let file = File::open(path).map_err(|error| Failure::new(126, format!("{name} cannot be read: {error}")))?;
    let how = ReplayOptions { servers: explainer.servers.clone(), ..ReplayOptions::default() };
    let finished = replay::finish(Box::new(file), &name, &how);
    let finished = finished.map_err(|error| Failure::new(126, format!("{name} {error}")))?;
    let (profile, names) = (&finished.model.profile, &finished.model.names);
    let files = names.states().map(|(module, _)| explainer.explain(profile.modules.file(module), 0));
    let shares = format_coverage(&coverage(profile, names, finished.model.clock));
    Ok((files.collect(), shares + &format_interpreters(&profile.interpreters())))
}

/// Formats how many samples have frames of each interpreter:
///
/// ```text
/// Python 3.11: 954 stacks with Python functions, 3 of them with a freed one; 2 could not be read
/// ```
fn format_interpreters(interpreters: &[Interpreter]) -> String {
    let mut out = String::new();
    for found in interpreters {
        let Interpreter { access, merged, unnamed, unmerged, .. } = found;
        // Writing to a String cannot fail.
        let _ = match access {
            FrameAccess::All | FrameAccess::Sleeping => writeln!(
                out,
                "\n{found}: {merged} stacks with Python functions, {unnamed} of them with a freed one; \
                 {unmerged} could not be read"
            ),
            FrameAccess::Nobody => writeln!(out, "\n{found}: {}", unread_reason(found)),
        };
        if *access == FrameAccess::Sleeping {
            out.push_str("The agent reads no running threads under a seccomp filter; --engine external does\n");
        }
    }
    out
}

/// Formats the shares of samples with names:
///
/// ```text
///     samples  with line  name only    neither  file
///      62.13%     40.10%     20.00%      2.03%  libc.so.6
/// ```
fn format_coverage(files: &[NameCoverage]) -> String {
    let all: u64 = files.iter().map(NameCoverage::total_ns).sum();
    if all == 0 {
        return String::new();
    }
    let mut out = format!("\n{:>10} {:>10} {:>10} {:>10}  file\n", "samples", "with line", "name only", "neither");
    for file in files {
        let share = |ns: u64| measure::percentage(ns, all);
        let [total, line, name, nameless] = [file.total_ns(), file.line_ns, file.name_ns, file.nameless_ns].map(share);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{total:>10} {line:>10} {name:>10} {nameless:>10}  {}", file.module);
    }
    out
}

fn explain_file(path: &OsStr, explainer: &Explainer) -> Result<Explanation, Failure> {
    let path = std::path::absolute(path).map_err(|error| Failure::internal("invalid path", error))?;
    let file = ModuleFile { path, build_id: [].into(), device: 0, inode: 0 };
    let explanation = explainer.explain(&file, std::process::id());
    match explanation.opened {
        Err(message) => Err(Failure::new(if file.path.exists() { 126 } else { 127 }, message)),
        Ok(_) => Ok(explanation),
    }
}

/// Formats the findings on each file:
///
/// ```text
/// /usr/lib/x86_64-linux-gnu/libz.so.1
///   build id    5d0e2b…
///   debug file  none was found
///               /usr/lib/debug/.build-id/5d/0e2b….debug: nothing
///   to do       apt install zlib1g-dbgsym (from the archive debian-debug)
/// ```
fn format_explanations(explanations: &[Explanation]) -> String {
    let mut out = String::new();
    for (index, explanation) in explanations.iter().enumerate() {
        let blank = if index > 0 { "\n" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{blank}{}", explanation.path);
        for (topic, finding) in explanation.findings() {
            let _ = writeln!(out, "  {topic:TOPIC_COLUMNS$}{finding}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::explain::{LineSource, NameSource};

    #[test]
    fn shares_are_of_all_samples() {
        let file = |module: &str, line_ns, name_ns, nameless_ns| NameCoverage {
            module: module.to_owned(),
            line_ns,
            name_ns,
            nameless_ns,
        };
        let expected = "
   samples  with line  name only    neither  file
    80.00%     50.00%     30.00%         0%  app
    20.00%         0%         0%     20.00%  [JIT]
";
        assert_eq!(format_coverage(&[file("app", 50, 30, 0), file("[JIT]", 0, 0, 20)]), expected);
        assert_eq!(format_coverage(&[]), "");
    }

    #[test]
    fn interpreters_that_are_not_read_are_named_with_the_reason() {
        let python = |minor| Interpreter { major: 3, minor, ..Interpreter::default() };
        let said = format_interpreters(&[python(13), python(15)]);
        let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        assert!(lines[0].starts_with("Python 3.13: this build is not read: it is free-threaded"), "{said}");
        assert_eq!(lines[1], "Python 3.15: frames of this version are not read: native frames only");
    }

    #[test]
    fn explanation_lists_findings_and_remedies() {
        let explanation = Explanation {
            path: "/opt/app".to_owned(),
            opened: Ok("/proc/7/root/opt/app".to_owned()),
            build_id: "12ab".to_owned(),
            functions: 1,
            names: NameSource::Exports,
            lines: LineSource::Nothing,
            debug_file: None,
            looked: vec![("/opt/app.debug".to_owned(), "another checksum".to_owned())],
            remedies: vec!["build it with -g".to_owned(), "or so".to_owned()],
        };
        let gone = Explanation { opened: Err("it is gone".to_owned()), ..explanation.clone() };
        let expected = "\
/opt/app
  build id    12ab
  opened as   /proc/7/root/opt/app
  names       only what it exports, 1 function; it was stripped
  lines       none: it has no line tables
  debug file  none was found
              /opt/app.debug: another checksum
  to do       build it with -g
              or so

/opt/app
  build id    12ab
  names       none: it is gone
";
        assert_eq!(format_explanations(&[explanation, gone]), expected);
    }
}
