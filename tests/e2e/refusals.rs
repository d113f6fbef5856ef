//! sigtop reports what it cannot watch, find, run or understand in one plain sentence, with the
//! matching exit status.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::run::{Ran, SIGTOP, run, text, tool};
use crate::harness::skips::skip;
use crate::harness::targets;

/// Runs sigtop with these arguments.
fn sigtop(arguments: &[&str]) -> Ran {
    run(Command::new(SIGTOP).args(arguments))
}

/// Asserts that sigtop refuses: this status, nothing on stdout, and one sentence on stderr that
/// contains all of these parts.
fn refused(arguments: &[&str], code: i32, says: &[&str]) {
    let ran = sigtop(arguments);
    let err = ran.err();
    assert_eq!((ran.code(), ran.out().as_str()), (code, ""), "{arguments:?}: {err}");
    assert_eq!(err.trim_end().lines().count(), 1, "{arguments:?}: {err}");
    for part in says {
        assert!(err.contains(part), "{arguments:?}: {part:?} is not in {err:?}");
    }
}

/// Returns a minimal ELF file for i386.
fn program_of_32_bits() -> PathBuf {
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0".to_vec();
    // Entry, program headers at 52, no sections, flags, sizes: one program header.
    for word in [0x0804_8054u32, 52, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [1u32, 0, 0x0804_8000, 0x0804_8000, 0x80, 0x80, 5, 0x1000] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(0x80, 0x90);
    let path = targets::scratch("elf32").join("program");
    fs::write(&path, bytes).expect("writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    path
}

#[test]
fn a_32_bit_program_is_refused() {
    refused(&["--", text(&program_of_32_bits())], 126, &["32-bit", "x86-64"]);
}

/// Uses a setuid program of another user: root makes one, other users take one of the system's.
#[test]
fn a_setuid_program_is_refused() {
    let program = if nix::unistd::geteuid().is_root() {
        let copy = targets::scratch("setuid").join("ends");
        fs::copy(targets::c("ends"), &copy).expect("writable");
        std::os::unix::fs::chown(&copy, Some(65534), Some(65534)).expect("we are root");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("we are root");
        copy
    } else {
        // The test does not use su, which is reported as dropping the variable for any user.
        let is_setuid = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o4000 != 0);
        let names = ["/usr/bin/passwd", "/usr/bin/chsh", "/usr/bin/mount", "/bin/mount"];
        let Some(program) = names.map(PathBuf::from).into_iter().find(is_setuid) else {
            return skip("no setuid program is installed, and only root makes one of another user");
        };
        program
    };
    refused(&["--", text(&program)], 126, &["setuid", "LD_PRELOAD"]);
}

#[test]
fn a_missing_program_exits_with_127() {
    refused(&["--", "/nowhere/at/all"], 127, &["/nowhere/at/all"]);
    refused(&["--", "no-such-command-anywhere"], 127, &["no-such-command-anywhere"]);
}

#[test]
fn a_file_that_cannot_be_executed_exits_with_126() {
    let file = targets::scratch("plain").join("plain");
    fs::write(&file, "just text\n").expect("writable");
    refused(&["--", text(&file)], 126, &[text(&file)]);
    let directory = targets::scratch("directory");
    refused(&["--", text(&directory)], 126, &[text(&directory)]);
}

#[test]
fn sudo_is_refused_with_the_command_that_works() {
    refused(&["--", "sudo", "./app"], 126, &["sudo drops LD_PRELOAD; run: sudo sigtop -- ./app"]);
}

#[test]
fn wrong_arguments_exit_with_2() {
    for arguments in [
        &["--no-such-option"][..],
        &["--hz", "fast", "--", "true"],
        &["--clock", "sundial", "--", "true"],
        &["--hz", "0", "--", "true"],
        &["--period", "-1ms", "--", "true"],
        &["--focus", "(", "--", "true"],
    ] {
        let ran = sigtop(arguments);
        assert_eq!(ran.code(), 2, "{arguments:?}: {}", ran.err());
        assert!(ran.out().is_empty() && !ran.err().is_empty(), "{arguments:?}");
    }
}

/// Each mistake is answered by what was meant.
#[test]
fn mistakes_are_answered_by_what_was_meant() {
    refused(&["--attach", "2622"], 2, &["did you mean `--pid 2622`?"]);
    refused(&["-o", "x.svg", "--", "true"], 2, &["to record to a file: sigtop record -o x.svg -- true"]);
    let pid = std::process::id().to_string();
    refused(&[&pid], 2, &[&format!("{pid} is a running process: sigtop --pid {pid}")]);
    let script = targets::scratch("script").join("work.py");
    fs::write(&script, "print(1)\n").expect("writable");
    let script = text(&script);
    refused(&[script, "a b"], 2, &[&format!("is not executable: sigtop -- python3 {script} 'a b'")]);
    refused(&["record", "-o", "x.sigtop", script], 2, &[&format!("sigtop record -o x.sigtop -- python3 {script}")]);
    let ran = sigtop(&["--hz", "100000", "--", "true"]);
    assert!(ran.code() == 2 && ran.err().contains("between 0.1 and 20 000 Hz"), "{}", ran.err());
}

/// A file of another format than sigtop's is not written without samples.
#[test]
fn a_program_without_samples_leaves_no_picture() {
    let directory = targets::scratch("no picture");
    let file = directory.join("x.svg");
    refused(&["record", "-o", text(&file), "true"], 125, &["true ended", "no samples", "nothing was written"]);
    assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
}

/// Pprof's users type one dash, and the last of two equal options counts.
#[test]
fn report_takes_the_options_of_pprof() {
    let file = targets::scratch("dashes").join("a.folded");
    fs::write(&file, "a;b 30\na;c 20\na;d 10\n").expect("writable");
    let ran = sigtop(&["report", "-top", "-nodecount=1", text(&file)]);
    assert!(ran.out().contains("Showing top 1 nodes out of 4") && ran.code() == 0, "{}{}", ran.out(), ran.err());
    let ran = sigtop(&["report", "--top", "--cum", "--nodecount", "5", "--nodecount", "2", text(&file)]);
    assert!(ran.out().contains("Showing top 2 nodes out of 4") && ran.code() == 0, "{}{}", ran.out(), ran.err());
}

#[test]
fn help_is_short_and_has_topics() {
    let ran = sigtop(&["-h"]);
    let out = ran.out();
    assert!(ran.code() == 0 && out.lines().count() <= 11 && out.contains("sigtop help TOPIC"), "{out}");
    assert!(sigtop(&["help", "sampling"]).out().contains("--budget"));
    let out = sigtop(&["record", "-h"]).out();
    assert!(out.contains("--duration") && !out.contains("--budget") && out.contains("sampled from outside"), "{out}");
    assert!(sigtop(&["record", "--help"]).out().contains("--budget"));
}

#[test]
fn a_command_needs_no_double_dash() {
    let ran = sigtop(&[text(&targets::c("ends")), "0", "exit", "3"]);
    assert_eq!(ran.code(), 3, "{}", ran.err());
    // A name is searched on the PATH as by a shell, and the words after it are the program's own.
    let ran = sigtop(&["sh", "-c", "echo ran; exit 4"]);
    assert_eq!((ran.code(), ran.out().as_str()), (4, "ran\n"), "{}", ran.err());
    refused(&["no-such-command-anywhere"], 2, &["`no-such-command-anywhere` is neither a subcommand nor a program"]);
    refused(&["./no-such-file"], 2, &["`./no-such-file` is neither a subcommand nor a program"]);
    refused(&["recrod"], 2, &["did you mean: sigtop record?"]);
}

#[test]
fn options_are_accepted_before_a_subcommand() {
    for arguments in [&["--no-config", "env", "--path"][..], &["--config", "/nowhere", "env", "--path"]] {
        let ran = sigtop(arguments);
        assert_eq!((ran.code(), ran.out()), (0, sigtop(&["env", "--path"]).out()), "{}", ran.err());
    }
    let file = targets::scratch("before").join("a.sigtop");
    let ran = sigtop(&["--quiet", "--no-config", "record", "-o", text(&file), "--", "sh", "-c", "exit 5"]);
    assert_eq!((ran.code(), ran.err().as_str()), (5, ""));
    assert!(file.is_file());
    refused(&["--hz", "99", "env"], 2, &["`env`", "sigtop env --help", "sigtop -- env"]);
}

/// The extension selects the format. An unknown one does not become a recording, and nothing is
/// written or run.
#[test]
fn an_unknown_file_extension_is_refused() {
    let directory = targets::scratch("endings");
    for name in ["x.json", "a.b.c", "trace.perfetto"] {
        let file = directory.join(name);
        for option in
            [&["record", "-o", text(&file), "--", "true"][..], &["--batch", "--save", text(&file), "--", "true"]]
        {
            refused(option, 2, &[text(&file), ".sigtop", ".pb.gz", ".folded", ".speedscope.json", "--format"]);
        }
    }
    assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
    let named = directory.join("x.json");
    for arguments in [&[text(&directory.join("plain"))][..], &[text(&named), "--format", "sigtop"]] {
        let ran = sigtop(&[&["record", "--quiet", "-o"], arguments, &["--", "true"]].concat());
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""));
        assert_eq!(sigtop(&["view", "--batch", arguments[0]]).code(), 0, "{arguments:?}");
    }
}

/// Differences are drawn, and files of two clocks have none.
#[test]
fn files_that_cannot_be_compared_say_why() {
    let directory = targets::scratch("compared");
    let [cpu, wall] = ["cpu", "wall"].map(|clock| directory.join(format!("{clock}.sigtop")));
    for (clock, file) in [("cpu", &cpu), ("wall", &wall)] {
        let ran = sigtop(&["record", "--quiet", "--clock", clock, "-o", text(file), "--", "true"]);
        assert_eq!(ran.code(), 0, "{}", ran.err());
    }
    let [cpu, wall] = [text(&cpu), text(&wall)];
    refused(&["view", "--diff-base", cpu, wall], 2, &[cpu, "by the cpu clock", wall, "by the wall clock"]);
    refused(&["view", "--batch", cpu, wall], 2, &[cpu, "by the cpu clock", wall, "by the wall clock"]);
    refused(&["view", "--diff-base", cpu, cpu], 2, &["needs a terminal", "sigtop report --diff-base OLD NEW"]);
    refused(&["view", "--batch", "-", "-"], 2, &["stdin can be read once"]);
    refused(&["view", "--diff-base", "./missing", cpu], 125, &["cannot read ./missing"]);
}

/// A program that does not start leaves no file.
#[test]
fn a_recording_that_does_not_begin_leaves_no_file() {
    let directory = targets::scratch("no recording");
    for name in ["a.sigtop", "a.folded"] {
        let file = directory.join(name);
        refused(&["record", "-o", text(&file), "--", "./missing"], 127, &["missing"]);
        refused(&["record", "-o", text(&file), "--pid", "4194304"], 127, &["4194304"]);
        refused(&["--batch", "--save", text(&file), "--", "./missing"], 127, &["missing"]);
    }
    assert_eq!(fs::read_dir(&directory).expect("there").count(), 0);
}

/// The raw form goes to standard output for `-`.
#[test]
fn raw_output_goes_to_stdout_for_a_dash() {
    let ran = sigtop(&["--batch", "--quiet", "--raw", "-", "--", "true"]);
    assert!(ran.code() == 0 && ran.out().starts_with("# sigtop-raw "), "{}", ran.out());
}

/// Names in a table have the requested style.
#[test]
fn tables_use_the_requested_name_style() {
    let Some(_) = tool("c++") else { return };
    let source = "#include <ctime>\nnamespace deep { template <class T> __attribute__((noinline)) T burn(T x) { for (;;) \
                  { x = x * 7 + 1; asm volatile(\"\" : \"+r\"(x)); if (clock() > CLOCKS_PER_SEC / 2) return x; } } }\n\
                  int main() { return deep::burn<long>(1) == 0; }\n";
    let program = targets::generated("styled", source, "cpp", "c++", &["-O1", "-g"]);
    let table = |style: &[&str]| {
        let ran = sigtop(&[&["--batch", "--hz", "250"], style, &["--", text(&program)]].concat());
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.err()
    };
    assert!(table(&["--names", "short"]).contains("  deep::burn\n"));
    assert!(table(&["--names", "bare"]).contains("  burn\n"));
    for style in [&["--names", "full"][..], &[]] {
        assert!(table(style).contains("deep::burn<long>(long)"));
    }
}

#[test]
fn attaching_is_refused_with_the_reason() {
    let mut plain = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("sleep");
    let pid = plain.id().to_string();
    plain.kill().expect("ours");
    // The process is a zombie until it is reaped.
    let zombie = sigtop(&["--pid", &pid]);
    plain.wait().expect("ours");
    assert!([125, 126, 127].contains(&zombie.code()), "{}: {}", zombie.code(), zombie.err());
    let nobody = sigtop(&["--pid", "4194304"]);
    assert!([125, 126, 127].contains(&nobody.code()) && nobody.err().contains("4194304"), "{}", nobody.err());
    for ran in [&zombie, &nobody] {
        assert_eq!(ran.err().trim_end().lines().count(), 1, "{}", ran.err());
    }
}

#[test]
fn env_prints_the_path_of_the_library() {
    let path = sigtop(&["env", "--path"]);
    let line = sigtop(&["env"]);
    let path = path.out().trim().to_owned();
    assert!(fs::metadata(&path).is_ok_and(|file| file.len() > 10_000 && file.len() < 326 * 1024), "{path}");
    assert!(line.out().starts_with("export LD_PRELOAD=") && line.out().contains(&path), "{}", line.out());
}

/// An environment without variables, as of the first process of a container.
#[test]
fn an_empty_environment_suffices() {
    let mut command = Command::new(SIGTOP);
    command.env_clear().args(["--hz", "250", "--"]).arg(targets::c("ends")).args(["200", "exit", "3"]);
    let ran = run(&mut command);
    assert_eq!((ran.code(), ran.out().as_str()), (3, "to stdout\n"), "{}", ran.err());
    assert!(ran.err().contains("burn"), "no table: {}", ran.err());
}
