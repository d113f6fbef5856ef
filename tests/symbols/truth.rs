//! Names, lines and inlined calls equal those of `llvm-symbolizer`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::skips::are_installed;
use crate::sources::{C, CPP};
use crate::workshop::{Workshop, ask_here};

/// Asks `llvm-symbolizer` about addresses: for each, file and line of the calls, innermost first.
fn symbolize(file: &str, addresses: &[u64]) -> Vec<Vec<(String, String, u32)>> {
    let mut child = Command::new("llvm-symbolizer")
        .args(["--inlining", "--functions=linkage", "--demangle", "--output-style=LLVM", "--obj", file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("llvm-symbolizer runs");
    let asked: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(asked.as_bytes()).expect("it reads"));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it was written");
    let text = String::from_utf8(output.stdout).expect("text");
    let blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    let call = |pair: &[&str]| {
        let mut place = pair[1].rsplitn(3, ':');
        let (_, line) = (place.next(), place.next().and_then(|line| line.parse().ok()).unwrap_or(0));
        (pair[0].to_owned(), place.next().unwrap_or_default().to_owned(), line)
    };
    blocks.map(|block| block.trim().lines().collect::<Vec<_>>().chunks_exact(2).map(call).collect()).collect()
}

/// The last component of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The last component of a name without parameters. Each tool has its own way to write a lambda or
/// a closure.
fn brief(name: &str) -> String {
    if name.contains("lambda") || name.contains("closure") {
        return "lambda".to_owned();
    }
    let name = name.replace("(anonymous namespace)::", "");
    let name = name.split('(').next().unwrap_or_default();
    // The hash of a Rust symbol, and the suffix of a clone by GCC.
    let is_hash =
        |end: &str| end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = name.rsplit_once("::").filter(|(_, end)| is_hash(end)).map_or(name, |(name, _)| name);
    let clones = [".constprop.", ".part.", ".isra.", ".cold"];
    let name = clones.iter().filter_map(|clone| name.find(clone)).min().map_or(name, |end| &name[..end]);
    name.rsplit("::").next().unwrap_or_default().split('<').next().unwrap_or_default().to_owned()
}

/// Compares every address of `.text`, and returns the share that is equal and the first
/// differences.
fn compare(shop: &Workshop, file: &str) -> (f64, Vec<String>) {
    let (start, end) = shop.section(file, ".text");
    let path = shop.path(file);
    let addresses: Vec<u64> = (start..end).collect();
    let theirs = symbolize(path.to_str().expect("UTF-8"), &addresses);
    assert_eq!(theirs.len(), addresses.len());
    let ours = ask_here(&path, addresses.iter().copied());
    let (mut same, mut compared, mut differences) = (0u32, 0u32, Vec::new());
    for (address, theirs) in addresses.iter().zip(theirs) {
        let ours = &ours.lines[address];
        // Start-up code of the C library has no lines, and its padding no names.
        if theirs.iter().all(|(_, _, line)| *line == 0) || ours.is_empty() {
            continue;
        }
        compared += 1;
        let theirs: Vec<_> =
            theirs.iter().map(|(name, file, line)| (brief(name), base(file).to_owned(), *line)).collect();
        let ours: Vec<_> =
            ours.iter().map(|line| (brief(&line.full), base(&line.file).to_owned(), line.line)).collect();
        match ours == theirs {
            true => same += 1,
            false => differences.push(format!("{address:#x}: {ours:?}, not {theirs:?}")),
        }
    }
    assert!(compared > 100, "{compared} of {} addresses", addresses.len());
    differences.truncate(5);
    (f64::from(same) / f64::from(compared), differences)
}

#[test]
fn names_lines_and_inlined_calls_equal_those_of_llvm_symbolizer() {
    if !are_installed(&["g++", "llvm-symbolizer"]) {
        return;
    }
    let shop = Workshop::new();
    for (compiler, source, arguments) in
        [("gcc", C, ["-O2", "-g"]), ("gcc", C, ["-O0", "-gdwarf-4"]), ("g++", CPP, ["-O1", "-g"])]
    {
        shop.build(compiler, source, &arguments, "app");
        let (share, differences) = compare(&shop, "app");
        assert!(share > 0.99, "{compiler} {arguments:?}: {share}, such as\n{}", differences.join("\n"));
    }
}

/// Regression test: an inlined function of another unit, without linkage name, was named after the
/// function that calls it: `next::evidence`.
#[test]
fn functions_of_other_units_are_not_named_after_their_callers() {
    const RUST: &str = "mod far {
    pub fn evidence(n: u64) -> u64 {
        (0..n).fold(n, |sum, i| sum ^ i * std::hint::black_box(7))
    }
    #[inline(never)]
    pub fn other(n: u64) -> u64 { evidence(n) / 2 }
}
mod near {
    #[inline(never)]
    pub fn next(n: u64) -> u64 { super::far::evidence(n + 1) + super::far::other(n) }
}
fn main() { println!(\"{}\", near::next(std::env::args().count() as u64)) }
";
    let shop = Workshop::new();
    let arguments = ["-O", "-Ccodegen-units=4", "-Cdebuginfo=line-tables-only"];
    let app = shop.build("rustc", ("app.rs", RUST), &arguments, "app");
    let symbols = shop.symbols("app");
    let next = symbols.iter().find(|symbol| symbol.name.contains("near4next")).expect("it is not inlined");
    let known = ask_here(&app, next.addresses());
    let names: BTreeSet<&str> = known.lines.values().flatten().map(|line| &*line.full).collect();
    assert!(names.contains("evidence") && names.contains("app::near::next"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("next::")), "{names:?}");
}

/// Real programs and libraries; those that are not installed are left out.
const INSTALLED: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/bin/python3",
    "/usr/bin/sqlite3",
    "/usr/bin/redis-server",
    "/usr/bin/clang",
    "/usr/bin/node",
    "/usr/lib/postgresql/15/bin/postgres",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
];

/// Addresses of one file, and those at which the tools differ.
#[derive(Default)]
struct Comparison {
    /// The number of addresses with a name here or there.
    named: usize,
    /// Those with other files, lines or inlined calls.
    places: Vec<String>,
    /// Those with another name of the function itself.
    names: Vec<String>,
}

/// Compares addresses that are spread over the code at random.
fn compare_at_random(shop: &Workshop, path: &Path, count: usize) -> Comparison {
    let file = path.to_str().expect("UTF-8");
    let (start, end) = shop.section(file, ".text");
    let mut random = 88_172_645_463_325_252u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        start + random % (end - start)
    };
    let addresses: BTreeSet<u64> = (0..count).map(|_| draw()).collect();
    let addresses: Vec<u64> = addresses.into_iter().collect();
    let theirs = symbolize(file, &addresses);
    assert_eq!(theirs.len(), addresses.len());
    let ours = ask_here(path, addresses.iter().copied());
    let mut comparison = Comparison::default();
    for (address, theirs) in addresses.iter().zip(theirs) {
        let place = |file: &str, line: u32| if line == 0 { String::new() } else { format!("{}:{line}", base(file)) };
        let theirs = theirs.iter().filter(|(name, ..)| name != "??");
        let theirs: Vec<_> = theirs.map(|(name, file, line)| (brief(name), place(file, *line))).collect();
        let ours = ours.lines[address].iter().filter(|line| !line.full.contains("+0x"));
        let ours: Vec<_> = ours.map(|line| (brief(&line.full), place(&line.file, line.line))).collect();
        comparison.named += usize::from(!ours.is_empty() || !theirs.is_empty());
        let is_same_place = {
            let mut pairs = ours.iter().zip(&theirs).rev();
            let outermost = pairs.next();
            let is_outermost_there = outermost.is_none_or(|(ours, theirs)| ours.1 == theirs.1);
            is_outermost_there && pairs.all(|(ours, theirs)| ours == theirs) && ours.len() == theirs.len()
        };
        // Without debug information there is only the name.
        let has_place = ours.iter().chain(&theirs).any(|(_, place)| !place.is_empty());
        if ours != theirs {
            let kind = if is_same_place || !has_place { &mut comparison.names } else { &mut comparison.places };
            kind.push(format!("{address:#x}: {ours:?}, not {theirs:?}"));
        }
    }
    comparison
}

#[test]
fn names_of_installed_programs_equal_those_of_llvm_symbolizer() {
    if !are_installed(&["llvm-symbolizer"]) {
        return;
    }
    let shop = Workshop::new();
    let count = if std::env::var_os("SIGTOP_LONG").is_some() { 10_000 } else { 1_000 };
    let own = Path::new(env!("CARGO_BIN_EXE_sigtop"));
    let installed = INSTALLED.iter().map(Path::new).filter(|path| path.exists());
    for path in installed.chain([own]) {
        let Comparison { named, places, names } = compare_at_random(&shop, path, count);
        let shown = path.display();
        println!("{shown}: of {named} addresses {} have other places, {} other names", places.len(), names.len());
        places.iter().chain(&names).for_each(|difference| println!("  {difference}"));
        let at_most = |share: f64| (named as f64 * share).ceil() as usize;
        assert!(places.len() <= at_most(0.002), "{shown}: {} of {named}:\n{}", places.len(), places.join("\n"));
        // Of several symbols at one address sigtop takes the public one (`newlocale`), LLVM the
        // first or the last (`__newlocale`); libc has most of them. LLVM also names data in code,
        // and has no names of some hidden functions.
        assert!(names.len() <= at_most(0.12), "{shown}: {} of {named}:\n{}", names.len(), names.join("\n"));
    }
}
