//! `--disasm` prints the same as pprof if both get the same output from objdump. The output of
//! GNU's and of LLVM's objdump for pprof is stored next to pprof's report, and a stand-in script
//! repeats it. Without objdump, sigtop disassembles the code itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::making::tests;

/// Writes a script named `tool` that repeats the output that pprof got from the real one.
fn stand_in(directory: &Path, tool: &str, version: &str) {
    let said = tests().join(format!("golden/disasm-{tool}.said.txt"));
    let script = format!(
        r#"#!/bin/sh
[ "$1" = --version ] && {{ echo '{version}'; exit; }}
[ "$1 $2 $3 $4" = '--disassemble --demangle --no-show-raw-insn --line-numbers' ] || exit 9
while IFS= read -r line; do
    case $line in
        '$$$ '*) if [ "$line" = "\$\$\$ $6" ]; then is_asked=1; else is_asked=; fi ;;
        *) if [ -n "$is_asked" ]; then printf '%s\n' "$line"; fi ;;
    esac
done < '{}'
"#,
        said.display()
    );
    fs::write(directory.join(tool), script).unwrap();
    fs::set_permissions(directory.join(tool), fs::Permissions::from_mode(0o755)).unwrap();
}

fn printed(path: &Path, question: &str) -> String {
    let mut sigtop = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    sigtop.args(["report", "--symbolize=none"]).args(question.split(' ').map(|word| format!("-{word}")));
    let ran = sigtop.arg("code.pb.gz").current_dir(tests().join("profiles")).env("PATH", path).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    match ran.status.code() {
        Some(0) => String::from_utf8(ran.stdout).unwrap(),
        _ => said.trim_start_matches("sigtop: ").to_owned(),
    }
}

fn compared(tool: &str) -> usize {
    let golden = fs::read_to_string(tests().join(format!("golden/disasm-{tool}.txt"))).unwrap();
    let (first, rest) = golden.split_once('\n').unwrap();
    let (_, version) = first.split_once(", ").unwrap();
    assert!(first.starts_with("# google/pprof "), "{first}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disasm-{tool}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    stand_in(&directory, tool, version);
    let mut compared = 0;
    for part in rest.split("$$$ ").skip(1) {
        let (question, expected) = part.split_once('\n').unwrap();
        assert_eq!(printed(&directory, question), expected, "{tool} {question}");
        compared += 1;
    }
    fs::remove_dir_all(directory).unwrap();
    compared
}

#[test]
fn machine_code_is_pprofs_to_the_letter() {
    assert!(compared("objdump") >= 9);
    assert!(compared("llvm-objdump") >= 9);
}

#[test]
fn what_pprof_does_not_find_is_found_by_its_bare_name_and_its_address() {
    let nowhere = Path::new("/nonexistent");
    for question in ["-disasm=^app::mix$", "-disasm=0x1205", "-disasm=0x555555555205"] {
        let page = printed(nowhere, question);
        assert!(
            page.contains("mix") && page.contains("\n     1.12s      1.12s (flat, cum) 17.67% of Total\n"),
            "{page}"
        );
        assert_eq!(page.matches("ROUTINE").count(), 1, "{page}");
    }
}

#[test]
fn without_objdump_the_code_is_the_same_but_for_its_wording() {
    let golden = fs::read_to_string(tests().join("golden/disasm-objdump.txt")).unwrap();
    let theirs = golden.split("$$$ ").find_map(|part| part.strip_prefix("-disasm=.\n")).unwrap();
    let ours = printed(Path::new("/nonexistent"), "-disasm=.");
    // Flat, cum, address and mnemonic without its suffix. sigtop leaves out padding between
    // functions, and pprof stops a byte early.
    let rows = |page: &str| -> Vec<String> {
        let rows = page.lines().filter_map(|line| line.split_once(": "));
        let rows = rows.filter(|(start, _)| start.len() == 32);
        let row = |(start, text): (&str, &str)| {
            let mnemonic = text.split_whitespace().next().unwrap_or_default();
            format!("{start} {}", mnemonic.trim_end_matches(['q', 'l', 'b', 'w']))
        };
        rows.map(row).collect()
    };
    let (ours, theirs) = (rows(&ours), rows(theirs));
    let others: Vec<&String> = ours.iter().filter(|row| !theirs.contains(row)).collect();
    assert!(ours.len() > 150 && others.len() <= 7, "{} of {}: {others:#?}", others.len(), ours.len());
}
