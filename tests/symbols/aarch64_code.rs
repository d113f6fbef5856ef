//! The code of a whole libc of aarch64 has the lines that objdump prints, but for those that are
//! explained here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crossbeam_channel::unbounded;
use object::{Object as _, ObjectSymbol as _};
use sigtop::profile::module::ModuleId;
use sigtop::symbols::assembly::LineState;
use sigtop::symbols::worker::{self, CodeRequest};

use crate::skips::are_installed;
use crate::workshop::{Workshop, module};

const LIBC: &str = "/usr/aarch64-linux-gnu/lib/libc.so.6";

/// Returns the lines of the functions at some addresses of a file, by address.
fn lines(path: &Path, addresses: impl Iterator<Item = u64>) -> BTreeMap<u64, String> {
    let ((_, names), (named, _)) = (unbounded(), unbounded());
    let ((request, requests), (replies, codes)) = (unbounded(), unbounded());
    let worker = worker::spawn_for_code(names, named, requests, replies, worker::SymbolOptions::default()).unwrap();
    let mut lines = BTreeMap::new();
    for address in addresses {
        if lines.contains_key(&address) {
            continue;
        }
        let file = module(path);
        request.send(CodeRequest { module: ModuleId(7), file, pid: std::process::id(), address }).unwrap();
        let code = loop {
            match codes.recv().expect("an answer").code {
                Ok(code) if code.lines == LineState::Reading => {}
                last => break last,
            }
        };
        let instructions = code.iter().flat_map(|code| &code.instructions);
        lines.extend(instructions.map(|instruction| (instruction.address, instruction.text.to_string())));
    }
    drop(request);
    worker.join().expect("the worker ends well");
    lines
}

/// Returns mnemonic and operands of a line in one spelling: decimal constants, addresses with `@`
/// and without the names that objdump adds, and one name of each condition.
fn normalize(line: &str) -> (String, Vec<String>) {
    let line = line.split("//").next().unwrap_or(line).replace('\t', " ");
    let (mnemonic, operands) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let condition = |word: &str| word.replace("hs", "cs").replace("lo", "cc");
    let mnemonic = if mnemonic.starts_with("b.") { condition(mnemonic) } else { mnemonic.to_owned() };
    let takes_address = mnemonic.starts_with("b.")
        || ["b", "bl", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp"].contains(&mnemonic.as_str());
    let operands: Vec<&str> = operands.trim().split(", ").filter(|operand| !operand.is_empty()).collect();
    let count = operands.len();
    let operand = |(index, operand): (usize, &str)| {
        if takes_address && index + 1 == count {
            let address = operand.split(' ').next().unwrap_or(operand);
            let value = u64::from_str_radix(address.trim_start_matches("0x"), 16);
            return value.map_or_else(|_| operand.to_owned(), |value| format!("@{value}"));
        }
        let (before, number) = operand.split_once('#').unwrap_or((operand, ""));
        let digits = number.trim_end_matches(['!', ']', '}']);
        let (sign, magnitude) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
        let value = match magnitude.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).map(|value| value.to_string()).ok(),
            None => magnitude.parse::<f64>().map(|value| value.to_string()).ok(),
        };
        match value {
            Some(value) => format!("{before}#{sign}{value}{}", &number[digits.len()..]),
            None if ["hs", "lo"].contains(&operand) => condition(operand),
            None => operand.to_owned(),
        }
    };
    (mnemonic, operands.iter().enumerate().map(|(index, text)| operand((index, text))).collect())
}

/// Returns why a line differs from objdump's, if it is known.
fn explain(
    (ours, own): &(String, Vec<String>),
    (theirs, others): &(String, Vec<String>),
    is_name: impl Fn(&str, u64) -> bool,
) -> Option<&'static str> {
    let is_sve = |operand: &String| {
        let register = operand.trim_start_matches('{');
        ["z", "p"].iter().any(|kind| register.strip_prefix(kind).is_some_and(|rest| rest.starts_with(char::is_numeric)))
    };
    if ours == "(bad)" {
        return (theirs == "cntb" || others.iter().any(is_sve)).then_some("SVE");
    }
    let (last, other) = (own.last()?, others.last()?);
    match (ours.as_str(), theirs.as_str()) {
        ("hint", "bti") => Some("bti"),
        ("sys", "dc") => Some("dc"),
        ("mov", "dup") | ("ushll", "uxtl") | ("sshll", "sxtl") => Some("an alias for vectors"),
        _ if ours != theirs => None,
        ("mrs", _) if last.starts_with("s3_") => Some("a system register by its number"),
        ("msr", _) if own[0].starts_with("s3_") => Some("a system register by its number"),
        ("add" | "sub" | "cmp", _) if other.starts_with("uxtw") => Some("an index of 32 bits without uxtw"),
        _ if last.replace(" #0]", "]") == *other => Some("a shift by nothing"),
        _ => {
            let address = other.strip_prefix('@').and_then(|address| address.parse().ok())?;
            is_name(last, address).then_some("a name for an address")
        }
    }
}

/// Returns the names of functions that a file exports, with their addresses.
fn exported(file: &str) -> BTreeSet<(String, u64)> {
    let bytes = fs::read(file).expect("it is installed");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    elf.dynamic_symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address()))).collect()
}

#[test]
fn a_whole_libc_is_disassembled_as_by_objdump() {
    if !are_installed(&["aarch64-linux-gnu-objdump"]) {
        return;
    }
    let listed = Workshop::new().run("aarch64-linux-gnu-objdump", &["-d", "--no-show-raw-insn", LIBC]);
    let theirs: BTreeMap<u64, &str> = listed
        .lines()
        .filter_map(|line| {
            let (address, text) = line.split_once(":\t")?;
            Some((u64::from_str_radix(address.trim(), 16).ok()?, text))
        })
        .collect();
    let ours = lines(Path::new(LIBC), theirs.keys().copied());
    let exported = exported(LIBC);
    let (mut explained, mut count, mut unexplained) = (BTreeMap::<_, usize>::new(), 0, Vec::new());
    for (address, ours) in &ours {
        let Some(theirs) = theirs.get(address) else { continue };
        count += 1;
        let (one, other) = (normalize(ours), normalize(theirs));
        let is_name = |name: &str, address: u64| {
            let (symbol, offset) = name
                .rsplit_once("+0x")
                .map_or((name, Some(0)), |(symbol, offset)| (symbol, u64::from_str_radix(offset, 16).ok()));
            let start = offset.and_then(|offset| address.checked_sub(offset)).unwrap_or(address);
            let is_stub =
                name.ends_with("@plt") && (theirs.contains(&format!("<{name}>")) || theirs.contains("<*ABS*+"));
            let own = symbol.strip_prefix("libc.so.6").map(|more| match more.strip_prefix("+0x") {
                Some(base) => u64::from_str_radix(base, 16) == Ok(start),
                None => start == 0,
            });
            is_stub || own.unwrap_or_else(|| exported.contains(&(symbol.to_owned(), start)))
        };
        match explain(&one, &other, is_name) {
            _ if one == other => {}
            Some(why) => *explained.entry(why).or_default() += 1,
            None => unexplained.push(format!("{address:x}: {ours} | {theirs}")),
        }
    }
    println!("{count} of {} lines, of which differ: {explained:?}", theirs.len());
    let kinds: usize =
        explained.iter().filter(|(why, _)| **why != "a name for an address").map(|(_, count)| count).sum();
    assert!(100 * count > 95 * theirs.len() && 200 * kinds < count, "gaps are between functions");
    assert!(unexplained.is_empty(), "{} lines differ:\n{}", unexplained.len(), unexplained.join("\n"));
}
