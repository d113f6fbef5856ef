//! Tests of which file a command executes and whether the agent can be preloaded into it, with real
//! files made by changing the system's shell.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use sigtop::attach::AttachError;
use sigtop::attach::program::{Program, ProgramKind, examine, find, resolve_command};

/// A directory that is removed at the end of its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("sigtop-program-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Returns the bytes of the system's shell, a dynamic program.
fn shell() -> Vec<u8> {
    fs::read("/bin/sh").unwrap()
}

/// Replaces each occurrence of `old` by `new`, which has the same length.
fn changed(mut program: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let places: Vec<usize> = (0..program.len() - old.len()).filter(|&at| program[at..].starts_with(old)).collect();
    assert!(!places.is_empty());
    for at in places {
        program[at..at + new.len()].copy_from_slice(new);
    }
    program
}

/// Removes the interpreter: for the kernel the program is statically linked then.
fn without_interpreter(mut program: Vec<u8>) -> Vec<u8> {
    let start = u64::from_le_bytes(program[32..40].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(program[56..58].try_into().unwrap()) as usize;
    let header =
        (0..count).map(|index| start + 56 * index).find(|&at| program[at..at + 4] == 3u32.to_le_bytes()).unwrap();
    program[header..header + 4].fill(0);
    program
}

fn with_go(program: Vec<u8>) -> Vec<u8> {
    changed(program, b".note.ABI-tag\0", b".go.buildinfo\0")
}

fn refusal(path: &Path) -> (String, u8) {
    let error = examine(path).unwrap_err();
    let said = error.to_string();
    let name = path.to_str().unwrap();
    assert!(said.contains(name) && !said.contains('\n'), "{said}");
    (said.replace(name, "IT"), error.exit_status())
}

#[test]
fn a_dynamic_program_is_fine_and_so_is_a_link_to_it() {
    let scratch = Scratch::new("fine");
    let program = scratch.file("app", shell(), 0o755);
    let (path, form) = (program.clone(), ProgramKind::Binary);
    let expected = Program { path, form, warnings: Vec::new(), obstacle: None, weakness: None };
    assert_eq!(examine(&program).unwrap(), expected);
    let link = scratch.0.join("link");
    symlink(&program, &link).unwrap();
    assert_eq!(examine(&link).unwrap().form, ProgramKind::Binary);
}

#[test]
fn programs_without_preloading_are_refused_in_one_sentence() {
    let scratch = Scratch::new("sentences");
    let mut bits32 = shell();
    bits32[4] = 1;
    let mut arm = shell();
    arm[18..20].copy_from_slice(&183u16.to_le_bytes());
    let mut object = shell();
    object[16..18].copy_from_slice(&1u16.to_le_bytes());
    for (name, content, expected) in [
        ("bits32", bits32, "IT is a 32-bit program, and sigtop's agent is x86-64: build it for x86-64"),
        ("arm", arm, "IT is a program for AArch64, and sigtop's agent is x86-64: build it for x86-64"),
        ("object", object, "IT is ELF, but not a program (an object file, or broken)"),
        ("broken", b"\x7fELF\x02\x01\x01".to_vec(), "IT is ELF, but not a program (an object file, or broken)"),
    ] {
        assert_eq!(refusal(&scratch.file(name, content, 0o755)), (expected.to_owned(), 126));
    }
}

#[test]
fn static_programs_are_to_be_sampled_from_outside() {
    let scratch = Scratch::new("outside");
    for (name, content, expected) in [
        ("static", without_interpreter(shell()), "is statically linked, so nothing can be preloaded into it"),
        ("go", without_interpreter(with_go(shell())), "is a static Go program, so nothing can be preloaded into it"),
    ] {
        let program = examine(&scratch.file(name, content, 0o755)).unwrap();
        assert_eq!((program.form, program.obstacle.as_deref()), (ProgramKind::Binary, Some(expected)));
    }
    assert_eq!(examine(&scratch.file("dynamic", shell(), 0o755)).unwrap().obstacle, None);
}

#[test]
fn musl_and_go_programs_are_accepted_with_a_warning() {
    let scratch = Scratch::new("warned");
    let go = examine(&scratch.file("go", with_go(shell()), 0o755)).unwrap();
    assert!(go.form == ProgramKind::Binary && go.warnings[0].contains("is a Go program"), "{go:?}");
    let musl = changed(shell(), b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0\0\0");
    let musl = examine(&scratch.file("musl", musl, 0o755)).unwrap();
    let weakness = musl.weakness.as_deref();
    assert_eq!(weakness, Some("uses musl, whose own functions have no unwind tables"), "{musl:?}");
    // Frames of Python are read by the agent.
    let python = changed(shell(), b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0\0\0");
    assert_eq!(examine(&scratch.file("python3.12", python, 0o755)).unwrap().weakness, None);
    // The loader, called by its name, is a static program that preloads.
    assert!(examine(&scratch.file("ld-linux-x86-64.so.2", without_interpreter(shell()), 0o755)).is_ok());
}

#[test]
fn a_program_that_needs_its_sanitizer_first_is_refused() {
    let scratch = Scratch::new("sanitizer");
    let path = scratch.file("asan", changed(shell(), b"libc.so.6\0", b"libasan.so"), 0o755);
    // The string that follows is taken for the rest of the name: it begins as it should all the
    // same.
    let (said, status) = refusal(&path);
    assert!(said.starts_with("IT needs AddressSanitizer's runtime loaded first") && status == 126, "{said}");
}

#[test]
fn setuid_setgid_and_capabilities_are_refused() {
    let scratch = Scratch::new("rights");
    let owned = scratch.file("own", shell(), 0o6755);
    assert!(examine(&owned).is_ok(), "setuid to ourselves is nothing");
    if !nix::unistd::geteuid().is_root() {
        return; // only root can give a file away
    }
    let setuid = scratch.file("setuid", shell(), 0o755);
    chown(&setuid, Some(1), None).unwrap();
    fs::set_permissions(&setuid, PermissionsExt::from_mode(0o4755)).unwrap();
    let expected = "IT is setuid, so the loader ignores LD_PRELOAD: run sigtop as its user (uid 1)";
    assert_eq!(refusal(&setuid), (expected.to_owned(), 126));
    let setgid = scratch.file("setgid", shell(), 0o755);
    chown(&setgid, None, Some(1)).unwrap();
    fs::set_permissions(&setgid, PermissionsExt::from_mode(0o2755)).unwrap();
    let expected = "IT is setgid, so the loader ignores LD_PRELOAD: run sigtop with its group (gid 1)";
    assert_eq!(refusal(&setgid), (expected.to_owned(), 126));
}

#[test]
fn files_that_are_no_programs_are_refused() {
    let scratch = Scratch::new("no-program");
    let path = |name: &str| scratch.0.join(name);
    assert_eq!(refusal(&path("missing")), ("IT: no such file".to_owned(), 127));
    assert_eq!(refusal(&scratch.0), ("IT is a directory".to_owned(), 126));
    let plain = scratch.file("plain", shell(), 0o644);
    assert_eq!(refusal(&plain), ("IT is not executable (chmod +x)".to_owned(), 126));
    assert_eq!(refusal(Path::new("/dev/null")).0, "IT is not a regular file");
    let form = |name: &str, content: &[u8]| examine(&scratch.file(name, content, 0o755)).unwrap().form;
    assert_eq!(form("text", b"echo hello\n"), ProgramKind::Shell);
    assert_eq!(form("empty", b""), ProgramKind::Shell);
    assert_eq!(form("strange", b"MZ\0\0"), ProgramKind::Unknown);
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let scratch = Scratch::new("script");
    let interpreter = |line: &str| match examine(&scratch.file("script", format!("{line}\nexit\n"), 0o755)) {
        Ok(Program { form: ProgramKind::Script { interpreter }, .. }) => Ok(interpreter),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string().replace(scratch.0.to_str().unwrap(), "DIR")),
    };
    assert_eq!(interpreter("#!/bin/sh"), Ok("/bin/sh".into()));
    assert_eq!(interpreter("#! \t/bin/sh  -e  "), Ok("/bin/sh".into()));
    let found = find(OsStr::new("sh"), std::env::var_os("PATH").as_deref()).unwrap();
    assert_eq!(interpreter("#!/usr/bin/env sh"), Ok(found.clone()));
    assert_eq!(interpreter("#!/usr/bin/env -S A=1 sh -e"), Ok(found));
    assert!(interpreter("#!/usr/bin/env -i sh").unwrap_err().contains("(env -i) that drops LD_PRELOAD"));
    assert!(
        interpreter("#!/usr/bin/env no-such-command")
            .unwrap_err()
            .ends_with("wants no-such-command as its interpreter: not found")
    );
    assert!(interpreter("#!").unwrap_err().ends_with("names no interpreter"));
    let missing = interpreter("#!/nowhere/sh").unwrap_err();
    assert!(missing.starts_with("DIR/script wants /nowhere/sh as its interpreter: No such file"), "{missing}");

    let fixed = scratch.file("static", without_interpreter(shell()), 0o755);
    let script = scratch.file("of-static", format!("#!{}\n", fixed.display()).into_bytes(), 0o755);
    assert!(examine(&script).unwrap().obstacle.unwrap().starts_with("is statically linked"));

    let mut line = "#!/bin/sh".to_owned();
    for depth in 1..=6 {
        let found = interpreter(&line);
        assert_eq!(found.is_ok(), depth <= 5, "{depth}: {found:?}");
        let copy = scratch.file(&format!("script-{depth}"), format!("{line}\n"), 0o755);
        line = format!("#!{}", copy.display());
    }
    let own = scratch.file("own", format!("#!{}\n", scratch.0.join("own").display()), 0o755);
    assert!(refusal(&own).0.contains("deeper than the kernel goes"));
}

#[test]
fn commands_are_searched_as_execvp_searches() {
    let scratch = Scratch::new("path");
    let (one, two) = (scratch.0.join("one"), scratch.0.join("two"));
    fs::create_dir_all(one.join("folder")).unwrap();
    fs::create_dir(&two).unwrap();
    let search = std::env::join_paths([&scratch.0.join("missing"), &one, &two]).unwrap();
    let look = |name: &str| find(OsStr::new(name), Some(&search));
    scratch.file("one/plain", "", 0o644);
    scratch.file("two/app", "", 0o755);
    scratch.file("two/folder", "", 0o755);
    assert_eq!(look("app").unwrap(), two.join("app"));
    assert_eq!(look("folder").unwrap(), two.join("folder"));
    assert_eq!(look("plain").unwrap_err().exit_status(), 126);
    scratch.file("two/plain", "", 0o755);
    assert_eq!(look("plain").unwrap(), two.join("plain"));
    let missing = look("nothing").unwrap_err();
    assert_eq!(
        (missing.to_string().as_str(), missing.exit_status()),
        ("nothing: command not found (is it on the PATH?)", 127)
    );
    assert!(matches!(look(""), Err(AttachError::NotFound { .. })));
    assert_eq!(look("./app").unwrap(), Path::new("./app"));
    assert!(find(OsStr::new("sh"), None).is_ok());
    assert_eq!(find(OsStr::new("Cargo.toml"), Some(OsStr::new(""))).unwrap_err().exit_status(), 126);
}

#[test]
fn a_command_is_its_first_word() {
    let of = |words: &[&str]| resolve_command(&words.iter().map(OsString::from).collect::<Vec<_>>());
    assert!(of(&["sh", "-c", "true"]).unwrap().path.ends_with("sh"));
    assert_eq!(of(&["sudo", "sh"]).unwrap_err().to_string(), "sudo drops LD_PRELOAD; run: sudo sigtop -- sh");
    assert_eq!(of(&["no\x1bsuch"]).unwrap_err().to_string(), r"no\u{1b}such: command not found (is it on the PATH?)");
    assert_eq!(of(&[]).unwrap_err().exit_status(), 127);
}
