//! Names, lines and inlined calls equal those of `llvm-symbolizer`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use sigtop::symbols::demangle::demangle;

use crate::skips::are_installed;
use crate::sources::{C, CPP};
use crate::workshop::{Symbol, Workshop, ask_here};

/// Asks `llvm-symbolizer` about addresses: for each, name, file and line of the calls, innermost
/// first.
fn symbolize(file: &str, names: &str, addresses: &[u64]) -> Vec<Vec<(String, String, u32)>> {
    let mut child = Command::new("llvm-symbolizer")
        .args(["--inlining", "--functions=linkage", names, "--output-style=LLVM", "--obj", file])
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

/// The last component of a name without parameters and generic arguments. Each tool has its own way
/// to write a lambda or a closure.
fn brief(name: &str) -> String {
    let name =
        name.strip_suffix(" more at this address").and_then(|name| name.rsplit_once(" and ")).map_or(name, |it| it.0);
    let braces = name.replace("$u7b$", "{").replace("$u7d$", "}").replace("{{vtable.shim}}", "");
    let name = braces.replace("(anonymous namespace)::", "").replace("$LT$", "<").replace("$GT$", ">");
    let (mut outside, mut depth) = (String::new(), 0u32);
    for char in name.chars() {
        match char {
            '(' if depth == 0 => break,
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            char if depth == 0 => outside.push(char),
            _ => {}
        }
    }
    if outside.contains("lambda") || outside.contains("closure") {
        return "lambda".to_owned();
    }
    let name = outside.as_str();
    // The hash of a Rust symbol, and the suffix of a clone by GCC.
    let is_hash =
        |end: &str| end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = name.rsplit_once("::").filter(|(_, end)| is_hash(end)).map_or(name, |(name, _)| name);
    let clones = [".constprop.", ".part.", ".isra.", ".cold"];
    let name = clones.iter().filter_map(|clone| name.find(clone)).min().map_or(name, |end| &name[..end]);
    name.rsplit("::").next().unwrap_or_default().to_owned()
}

/// Compares every address of `.text`, and returns the share that is equal and the first
/// differences.
fn compare(shop: &Workshop, file: &str) -> (f64, Vec<String>) {
    let (start, end) = shop.section(file, ".text");
    let path = shop.path(file);
    let addresses: Vec<u64> = (start..end).collect();
    let theirs = symbolize(text(&path), "--demangle", &addresses);
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

/// Real programs and libraries; those that are not installed are left out. `SIGTOP_BINARY` names
/// another one.
const INSTALLED: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/bin/python3",
    "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "/usr/bin/redis-server",
    "/usr/bin/clang",
    "/usr/bin/node",
    "/usr/lib/postgresql/15/bin/postgres",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
];

/// The symbols of a file and of its debug file.
struct SymbolIndex<'a> {
    shop: &'a Workshop,
    path: &'a Path,
    symbols: Vec<Symbol>,
    starts: HashMap<String, BTreeSet<u64>>,
}

impl SymbolIndex<'_> {
    fn read<'a>(shop: &'a Workshop, path: &'a Path) -> SymbolIndex<'a> {
        let debug = shop.installed_debug_file(text(path));
        let files = [Some(text(path)), debug.as_deref()].into_iter().flatten();
        let mut symbols: Vec<Symbol> = files.flat_map(|file| shop.all_symbols(file)).collect();
        symbols.sort_by_key(|symbol| symbol.start);
        let mut starts: HashMap<String, BTreeSet<u64>> = HashMap::new();
        for symbol in &symbols {
            starts.entry(symbol.name.clone()).or_default().insert(symbol.start);
        }
        SymbolIndex { shop, path, symbols, starts }
    }

    /// The reason why sigtop has other names at an address than LLVM, whose symbol is `theirs`;
    /// `None` if nothing explains that.
    fn reason(&self, address: u64, ours: &[String], theirs: &str) -> Option<&'static str> {
        let starts = self.starts.get(theirs);
        let same = starts.into_iter().flatten().flat_map(|start| {
            let from = self.symbols.partition_point(|symbol| symbol.start < *start);
            self.symbols[from..].iter().take_while(move |symbol| symbol.start == *start)
        });
        let (mut is_alias, mut is_data) = (false, starts.is_some());
        for symbol in same {
            is_data &= !(symbol.is_code && symbol.name == theirs);
            is_alias |= ours.last().is_some_and(|ours| *ours == brief(&demangle(symbol.name.as_bytes()).full));
        }
        let covers = |symbol: &Symbol| symbol.is_code && symbol.addresses().contains(&address);
        let is_covered = self.symbols.iter().any(covers);
        let is_resolver = |ours: &String| ours.ends_with("_ifunc");
        match () {
            () if is_alias => Some("another name of the function"),
            () if is_data => Some("a name of data"),
            () if ours.last().is_some_and(is_resolver) => Some("the function instead of its resolver"),
            () if ours.is_empty() && !is_covered => Some("the name of what comes before"),
            () if theirs == "??" && is_covered => Some("no name"),
            () if !is_covered && self.is_part(address, ours) => Some("no name for a part of a function"),
            () => None,
        }
    }

    /// Whether a function with this name jumps to a place from which on no other begins up to this
    /// address.
    fn is_part(&self, address: u64, ours: &[String]) -> bool {
        let is_whole = |symbol: &&Symbol| symbol.is_code && ours == [brief(&demangle(symbol.name.as_bytes()).full)];
        let jumps_there = |whole: &Symbol| {
            let range = [whole.start, whole.addresses().end].map(|end| format!("{end:#x}"));
            let [start, end] = [format!("--start-address={}", range[0]), format!("--stop-address={}", range[1])];
            let code = self.shop.run("objdump", &["-d", "--no-show-raw-insn", &start, &end, text(self.path)]);
            let target = |line: &str| {
                let mut words = line.split_once(":\t")?.1.split_whitespace();
                words.next().filter(|mnemonic| mnemonic.starts_with('j'))?;
                u64::from_str_radix(words.next()?, 16).ok()
            };
            let begins = |from: u64| self.symbols.iter().any(|symbol| (from..=address).contains(&symbol.start));
            code.lines().filter_map(target).any(|target| target <= address && !begins(target))
        };
        self.symbols.iter().filter(is_whole).any(jumps_there)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Addresses of one file, and those at which the tools differ.
#[derive(Default)]
struct Comparison {
    /// The number of addresses with a name here or there.
    named: usize,
    /// Those with other files, lines or inlined calls.
    places: Vec<String>,
    /// Those with another name of the function itself.
    names: Vec<String>,
    /// The number of those with another name for a reason that is known.
    explained: BTreeMap<&'static str, usize>,
}

/// Compares addresses that are spread over the code at random.
fn compare_at_random(shop: &Workshop, path: &Path, count: usize) -> Comparison {
    let file = text(path);
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
    let theirs = symbolize(file, "--demangle", &addresses);
    assert_eq!(theirs.len(), addresses.len());
    let ours = ask_here(path, addresses.iter().copied());
    let mut comparison = Comparison::default();
    let mut renamed = Vec::new();
    for (&address, theirs) in addresses.iter().zip(theirs) {
        let place = |file: &str, line: u32| if line == 0 { String::new() } else { format!("{}:{line}", base(file)) };
        let ours = ours.lines[&address].iter().filter(|line| !line.full.contains("+0x"));
        let ours: Vec<_> = ours.map(|line| (brief(&line.full), place(&line.file, line.line))).collect();
        // LLVM has places of what no function covers, and does not find names that `dwz` has moved
        // to another unit or file.
        let theirs = theirs.iter().filter(|(name, _, line)| name != "??" || *line > 0 && !ours.is_empty());
        let mut theirs: Vec<_> = theirs.map(|(name, file, line)| (brief(name), place(file, *line))).collect();
        // `__GI_x` is libc's own name of `x`. Parts of a function that are inlined into it are no
        // calls.
        theirs.iter_mut().for_each(|(name, _)| *name = name.strip_prefix("__GI_").unwrap_or(name).to_owned());
        let bare = |name: &str| name.trim_start_matches("__libc_").trim_start_matches('_').to_owned();
        while let [.., part, whole] = &theirs[..]
            && theirs.len() > ours.len()
            && bare(&part.0) == bare(&whole.0)
        {
            let part = theirs.remove(theirs.len() - 2);
            theirs.last_mut().expect("the whole").1 = part.1;
            *comparison.explained.entry("its own part as a call").or_default() += 1;
        }
        let lost = theirs.iter_mut().zip(&ours).filter(|(theirs, _)| theirs.0 == "??");
        if lost.map(|(theirs, ours)| theirs.0.clone_from(&ours.0)).count() > 0 {
            *comparison.explained.entry("no name, but the place").or_default() += 1;
        }
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
            let difference = format!("{address:#x}: {ours:?}, not {theirs:?}");
            match is_same_place || !has_place {
                true => renamed.push((address, ours.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), difference)),
                false => comparison.places.push(difference),
            }
        }
    }
    let index = SymbolIndex::read(shop, path);
    let raw = symbolize(file, "--no-demangle", &renamed.iter().map(|(address, ..)| *address).collect::<Vec<_>>());
    for ((address, ours, difference), theirs) in renamed.into_iter().zip(raw) {
        match index.reason(address, &ours, theirs.last().map_or("", |(name, ..)| name)) {
            Some(reason) => *comparison.explained.entry(reason).or_default() += 1,
            None => comparison.names.push(difference),
        }
    }
    comparison
}

/// Of several symbols at one address sigtop takes the public one (`newlocale`), LLVM the first or
/// the last (`__newlocale`); LLVM also names data in code, and what no symbol covers.
#[test]
fn names_of_installed_programs_equal_those_of_llvm_symbolizer() {
    if !are_installed(&["llvm-symbolizer", "objdump"]) {
        return;
    }
    let shop = Workshop::new();
    let count = if std::env::var_os("SIGTOP_LONG").is_some() { 10_000 } else { 1_000 };
    let asked = std::env::var("SIGTOP_BINARY").ok();
    let own = env!("CARGO_BIN_EXE_sigtop");
    let files = match &asked {
        Some(asked) => vec![asked.as_str()],
        None => INSTALLED.into_iter().chain([own]).collect(),
    };
    for path in files.into_iter().map(Path::new).filter(|path| path.exists()) {
        let Comparison { named, places, names, explained } = compare_at_random(&shop, path, count);
        let shown = path.display();
        println!("{shown}: of {named} addresses {} have other places, {} other names", places.len(), names.len());
        explained.iter().for_each(|(reason, count)| println!("  {count} have in LLVM {reason}"));
        places.iter().chain(&names).for_each(|difference| println!("  {difference}"));
        let at_most = |share: f64| (named as f64 * share).ceil() as usize;
        assert!(places.len() <= at_most(0.002), "{shown}: {} of {named}:\n{}", places.len(), places.join("\n"));
        assert!(names.len() <= at_most(0.005), "{shown}: {} of {named}:\n{}", names.len(), names.join("\n"));
    }
}
