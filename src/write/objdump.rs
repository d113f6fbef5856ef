//! LLVM's or GNU's objdump, where one is installed: the machine code of a function with what it knows of functions and lines.
//! pprof's `-disasm` is made of it, and so is ours, that both say the same.

use std::path::Path;
use std::process::{Command, Stdio};

/// One instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The file's own address.
    pub(super) address: u64,
    /// As objdump sets it.
    pub(super) text: String,
    /// Function that it comes from; empty when unknown.
    pub(super) function: String,
    /// Source file; empty when unknown.
    pub(super) file: String,
    /// Source line; 0 when unknown.
    pub(super) line: i64,
}

/// LLVM's know the options that are needed from this version on.
const LEAST_LLVM: u32 = 8;

/// The one that pprof would take: LLVM's before GNU's.
pub(super) fn found() -> Option<&'static str> {
    ["llvm-objdump", "objdump"].into_iter().find(|tool| {
        let version = Command::new(tool).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
        version.is_ok_and(|version| is_known(&String::from_utf8_lossy(&version.stdout)))
    })
}

fn is_known(version: &str) -> bool {
    let llvm = version.split("LLVM version ").nth(1).map(|rest| rest.split('.').next().unwrap_or(rest));
    let is_new = |version: &str| version.parse().map_or(version.contains("trunk"), |major: u32| major >= LEAST_LLVM);
    llvm.is_some_and(is_new) || version.contains("GNU objdump")
}

/// The code from `start` to just before `stop`, as the `tool` sets it.
///
/// # Errors
/// A sentence if it fails.
pub(super) fn code(tool: &str, file: &Path, start: u64, stop: u64) -> Result<Vec<Told>, String> {
    let mut objdump = Command::new(tool);
    objdump.args(["--disassemble", "--demangle", "--no-show-raw-insn", "--line-numbers"]);
    objdump.args([format!("--start-address={start:#x}"), format!("--stop-address={stop:#x}")]).arg(file);
    match objdump.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(ran) if ran.status.success() => Ok(read(&String::from_utf8_lossy(&ran.stdout))),
        Ok(ran) => Err(format!("{tool} {}: {}", file.display(), ran.status)),
        Err(error) => Err(format!("{tool} cannot be started: {error}")),
    }
}

/// What it prints: instructions, and between them where they come from.
fn read(text: &str) -> Vec<Told> {
    let mut all = Vec::new();
    let mut place = Told::default();
    for line in text.lines().map(str::trim) {
        if let Some((address, text)) = instruction(line) {
            all.push(Told { address, text: text.to_owned(), ..place.clone() });
        } else if let Some((file, number)) = file_line(line) {
            (place.file, place.line) = (file.to_owned(), number);
        } else if let Some(function) = heading(line) {
            place.function = function.to_owned();
        } else {
            place = Told::default();
        }
    }
    all
}

/// `401136:  push   %rbp`
fn instruction(line: &str) -> Option<(u64, &str)> {
    let (digits, text) = line.split_once(':')?;
    let text = text.strip_prefix(char::is_whitespace)?;
    Some((u64::from_str_radix(digits, 16).ok()?, text.trim_start()))
}

/// A place or a name may stand behind a semicolon.
fn bare(line: &str) -> &str {
    match line.strip_prefix(';') {
        Some(rest) => rest.strip_prefix(char::is_whitespace).unwrap_or(rest),
        None => line,
    }
}

/// `/src/demo.c:12 (discriminator 3)`: the last number behind a colon is the line.
fn file_line(line: &str) -> Option<(&str, i64)> {
    let line = bare(line);
    let (at, digits) = line.rmatch_indices(':').find_map(|(at, _)| {
        let rest = &line[at + 1..];
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        (length > 0).then_some((at, &rest[..length]))
    })?;
    Some((&line[..at], digits.parse::<u32>().ok()?.into()))
}

/// `app::fib(int)():`, or a label with its address before it: whatever ends in a colon is a name. A name without `()` behind it
/// that begins as a number in hex would loses that beginning here, as it does in pprof.
fn heading(line: &str) -> Option<&str> {
    let named = bare(line);
    if let Some(at) = named.rfind("():").filter(|&at| at > 0) {
        return Some(&named[..at]);
    }
    let end = line.rfind(':')?;
    let rest = line[..end].trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    Some(rest.strip_prefix(char::is_whitespace).unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_llvms_are_not_asked() {
        let llvm = |version: &str| is_known(&format!("LLVM (http://llvm.org/):\n  Debian LLVM version {version}\n"));
        assert_eq!(["7.0.1", "8.0.0", "14.0.6", "trunk"].map(llvm), [false, true, true, true]);
        assert!(is_known("GNU objdump (GNU Binutils) 2.40\n") && !is_known("objdump of somebody else\n"));
    }

    #[test]
    fn places_hold_until_others_are_told() {
        let text = "\na.out:     file format elf64-x86-64\n\n\nDisassembly of section .text:\n\n\
             0000000000001139 <app::fib(int)>:\napp::fib(int)():\n/src/a:b.cc:12 (discriminator 3)\n\
             \x20   1139:\tpush   %rbp\n    113a:\tmov    %rsp,%rbp\n/src/c.h:7\n    113d:\tcall   1139 <app::fib(int)>\n\
             \x20   1142:\tret\n\n\t...\n    1143:\tnop\n";
        let told = read(text);
        let place = |function: &str, file: &str, line| (function.to_owned(), file.to_owned(), line);
        let places: Vec<_> = told.iter().map(|told| place(&told.function, &told.file, told.line)).collect();
        let (first, second) = (place("app::fib(int)", "/src/a:b.cc", 12), place("app::fib(int)", "/src/c.h", 7));
        assert_eq!(places, [first.clone(), first, second.clone(), second, place("", "", 0)]);
        assert_eq!((told[2].address, &*told[2].text), (0x113d, "call   1139 <app::fib(int)>"));
    }
}
