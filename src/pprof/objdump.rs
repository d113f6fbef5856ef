//! Runs LLVM's or GNU's objdump, if one is installed, and parses its output: the instructions of a
//! function with their functions and source lines. `-disasm` uses it because pprof does, so both
//! print the same.

use std::path::Path;
use std::process::{Command, Stdio};

/// An instruction with its source location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceInstruction {
    /// The address in the file.
    pub(super) address: u64,
    /// The text as objdump formats it.
    pub(super) text: String,
    /// The function, which may be inlined; empty if unknown.
    pub(super) function: String,
    /// The source file; empty if unknown.
    pub(super) file: String,
    /// The source line; 0 if unknown.
    pub(super) line: i64,
}

/// The first version of LLVM's objdump that has the required options.
const MIN_LLVM_VERSION: u32 = 8;

/// The installed tool that pprof would choose: LLVM's before GNU's.
pub(super) fn find_tool() -> Option<&'static str> {
    ["llvm-objdump", "objdump"].into_iter().find(|tool| {
        let version = Command::new(tool).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        version.is_ok_and(|version| is_supported(&String::from_utf8_lossy(&version.stdout)))
    })
}

fn is_supported(version: &str) -> bool {
    let llvm = version.split("LLVM version ").nth(1).map(|rest| rest.split('.').next().unwrap_or(rest));
    let is_new =
        |version: &str| version.parse().map_or(version.contains("trunk"), |major: u32| major >= MIN_LLVM_VERSION);
    llvm.is_some_and(is_new) || version.contains("GNU objdump")
}

/// Disassembles the addresses from `start` to `stop`, exclusive.
///
/// # Errors
/// If the tool fails; a message for the user.
pub(super) fn disassemble(tool: &str, file: &Path, start: u64, stop: u64) -> Result<Vec<SourceInstruction>, String> {
    let mut objdump = Command::new(tool);
    objdump.args(["--disassemble", "--demangle", "--no-show-raw-insn", "--line-numbers"]);
    objdump.args([format!("--start-address={start:#x}"), format!("--stop-address={stop:#x}")]).arg(file);
    match objdump.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(parse(&String::from_utf8_lossy(&output.stdout))),
        Ok(output) => Err(format!("{tool} {}: {}", file.display(), output.status)),
        Err(error) => Err(format!("cannot start {tool}: {error}")),
    }
}

/// Parses the output: instructions, with source locations between them.
fn parse(text: &str) -> Vec<SourceInstruction> {
    let mut all = Vec::new();
    let mut current = SourceInstruction::default();
    for line in text.lines().map(str::trim) {
        if let Some((address, text)) = parse_instruction(line) {
            all.push(SourceInstruction { address, text: text.to_owned(), ..current.clone() });
        } else if let Some((file, number)) = parse_source_line(line) {
            (current.file, current.line) = (file.to_owned(), number);
        } else if let Some(function) = parse_function(line) {
            current.function = function.to_owned();
        } else {
            current = SourceInstruction::default();
        }
    }
    all
}

/// Parses `401136:  push   %rbp`.
fn parse_instruction(line: &str) -> Option<(u64, &str)> {
    let (digits, text) = line.split_once(':')?;
    let text = text.strip_prefix(char::is_whitespace)?;
    Some((u64::from_str_radix(digits, 16).ok()?, text.trim_start()))
}

/// Removes the semicolon that LLVM's objdump puts before source lines and functions.
fn strip_semicolon(line: &str) -> &str {
    match line.strip_prefix(';') {
        Some(rest) => rest.strip_prefix(char::is_whitespace).unwrap_or(rest),
        None => line,
    }
}

/// Parses `/src/demo.c:12 (discriminator 3)`. The last number after a colon is the line.
fn parse_source_line(line: &str) -> Option<(&str, i64)> {
    let line = strip_semicolon(line);
    let (at, digits) = line.rmatch_indices(':').find_map(|(at, _)| {
        let rest = &line[at + 1..];
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        (length > 0).then_some((at, &rest[..length]))
    })?;
    Some((&line[..at], digits.parse::<u32>().ok()?.into()))
}

/// Parses `app::fib(int)():`, or a label with its address before it: every line that ends in a
/// colon is a name. As in pprof, a name without a trailing `()` loses leading hexadecimal digits.
fn parse_function(line: &str) -> Option<&str> {
    let name = strip_semicolon(line);
    if let Some(at) = name.rfind("():").filter(|&at| at > 0) {
        return Some(&name[..at]);
    }
    let end = line.rfind(':')?;
    let rest = line[..end].trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    Some(rest.strip_prefix(char::is_whitespace).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_of_llvm_are_not_used() {
        let llvm =
            |version: &str| is_supported(&format!("LLVM (http://llvm.org/):\n  Debian LLVM version {version}\n"));
        assert_eq!(["7.0.1", "8.0.0", "14.0.6", "trunk"].map(llvm), [false, true, true, true]);
        assert!(is_supported("GNU objdump (GNU Binutils) 2.40\n") && !is_supported("objdump of another vendor\n"));
    }

    #[test]
    fn source_location_holds_until_the_next() {
        let text = "\na.out:     file format elf64-x86-64\n\n\nDisassembly of section .text:\n\n\
             0000000000001139 <app::fib(int)>:\napp::fib(int)():\n/src/a:b.cc:12 (discriminator 3)\n\
             \x20   1139:\tpush   %rbp\n    113a:\tmov    %rsp,%rbp\n/src/c.h:7\n    113d:\tcall   1139 <app::fib(int)>\n\
             \x20   1142:\tret\n\n\t...\n    1143:\tnop\n";
        let instructions = parse(text);
        let location = |function: &str, file: &str, line| (function.to_owned(), file.to_owned(), line);
        let locations: Vec<_> = instructions.iter().map(|one| location(&one.function, &one.file, one.line)).collect();
        let (first, second) = (location("app::fib(int)", "/src/a:b.cc", 12), location("app::fib(int)", "/src/c.h", 7));
        assert_eq!(locations, [first.clone(), first, second.clone(), second, location("", "", 0)]);
        assert_eq!((instructions[2].address, &*instructions[2].text), (0x113d, "call   1139 <app::fib(int)>"));
    }
}
