//! Names, lines and inlined calls equal those of `llvm-symbolizer`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::sources::{C, CPP};
use crate::workshop::{Workshop, ask_here, has};

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

/// The last component of a name without parameters. Each tool has its own way to write a lambda.
fn brief(name: &str) -> String {
    if name.contains("lambda") {
        return "lambda".to_owned();
    }
    let name = name.replace("(anonymous namespace)::", "");
    let name = name.split('(').next().unwrap_or_default();
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
    if !has("llvm-symbolizer") {
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
