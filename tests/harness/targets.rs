//! Compiles the programs to be profiled, once each: a binary is kept under a hash of its source,
//! compiler and flags, so that concurrent and later runs share it.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::quiet::beside_others;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/targets");

/// Returns the binary of `tests/targets/NAME.c`, built with -O2 and without frame pointers.
pub(crate) fn c(name: &str) -> PathBuf {
    compile(name, &source(name, "c"), "c", "cc", &["-O2", "-fomit-frame-pointer", "-pthread"])
}

/// The binary of `tests/targets/NAME.c`, linked statically.
pub(crate) fn static_c(name: &str) -> PathBuf {
    compile(name, &source(name, "c"), "c", "cc", &["-O2", "-pthread", "-static"])
}

/// The library of `tests/targets/NAME.c`, to be preloaded.
pub(crate) fn preload(name: &str) -> PathBuf {
    compile(name, &source(name, "c"), "c", "cc", &["-O2", "-pthread", "-shared", "-fPIC"])
}

/// The library that `tests/targets/NAME.c` has, too.
pub(crate) fn library(name: &str) -> PathBuf {
    compile(name, &source(name, "c"), "c", "cc", &["-O2", "-shared", "-fPIC", "-DLIBRARY"])
}

/// The binary of `tests/targets/NAME.cpp`, -O2.
pub(crate) fn cpp(name: &str) -> PathBuf {
    compile(name, &source(name, "cpp"), "cpp", "c++", &["-O2"])
}

/// The binary of `tests/targets/NAME.rs`, as `cargo build --release` makes it.
pub(crate) fn rust(name: &str) -> PathBuf {
    compile(name, &source(name, "rs"), "rs", "rustc", &["--edition=2024", "-Copt-level=3"])
}

/// The binary of `tests/targets/NAME.go`, with C code in it, by this compiler.
pub(crate) fn go(compiler: &Path, name: &str) -> PathBuf {
    let compiler = compiler.to_str().expect("a path in UTF-8");
    compile(name, &source(name, "go"), "go", compiler, &["build"])
}

/// The binary of `tests/targets/sanitized.cpp` with these flags; `None` where the compiler has no
/// such runtime.
pub(crate) fn sanitized(flags: &[&str]) -> Option<PathBuf> {
    let nothing = scratch("sanitizer").join("nothing");
    let mut probe = Command::new("c++");
    probe.args(["-x", "c++", "-", "-o"]).arg(&nothing).args(flags).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut probe = probe.spawn().ok()?;
    probe.stdin.take()?.write_all(b"int main() {}").ok()?;
    let flags = [&["-O1", "-g", "-pthread"], flags].concat();
    probe.wait().ok()?.success().then(|| compile("sanitized", &source("sanitized", "cpp"), "cpp", "c++", &flags))
}

/// Returns the binary of a source that a test generates.
pub(crate) fn generated(name: &str, text: &str, extension: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    compile(name, text, extension, compiler, flags)
}

/// Creates a directory for the files of one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scratch/{name}-{}-{count}", std::process::id()));
    fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

fn source(name: &str, extension: &str) -> String {
    let path = format!("{SOURCES}/{name}.{extension}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn compile(name: &str, text: &str, extension: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    beside_others();
    let mut hasher = DefaultHasher::new();
    (text, compiler, flags).hash(&mut hasher);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("targets/{:016x}", hasher.finish()));
    let binary = directory.join(name);
    if binary.exists() {
        return binary;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let part = format!("{name}.{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    fs::create_dir_all(&directory).expect("the target directory is writable");
    let source = directory.join(format!("{part}.{extension}"));
    fs::write(&source, text).expect("the target directory is writable");
    let mut command = Command::new(compiler);
    command.args(flags).arg("-o").arg(directory.join(&part)).arg(&source);
    // Libraries come last, where the linker looks for missing symbols. A Rust crate's name has no
    // dots.
    match extension {
        "rs" => command.args(["--crate-name", name]),
        "go" => &mut command,
        _ => command.arg("-lm"),
    };
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{compiler} {name}: {}", String::from_utf8_lossy(&output.stderr));
    fs::remove_file(&source).expect("it was just written");
    // The first binary stays: another test may be running it.
    let _equal_one_is_there = fs::hard_link(directory.join(&part), &binary);
    fs::remove_file(directory.join(&part)).expect("it was just made");
    assert!(binary.exists(), "{}", binary.display());
    binary
}
