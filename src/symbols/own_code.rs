//! Tells own code, that of the program's authors, from foreign code: language runtimes, system
//! libraries and downloaded packages.
//!
//! The source file decides where debug information names it. Without it, own code is in the
//! program's executable and has no name of a runtime or of a widely used library. An interpreter's
//! executable is foreign: its scripts are the program.
//!
//! | code | own | because of |
//! | --- | --- | --- |
//! | `/srv/app/src/main.rs` | yes | file |
//! | `/rustc/4e…/library/core/src/slice/sort.rs` | no | file |
//! | `parse` in `/srv/app/server`, no file | yes | executable |
//! | `rayon_core::join` in `/srv/app/server`, no file | no | name |
//! | `sha256` in `/srv/app/libx.so`, no file | no | no executable |
//!
//! Names and files are those of a target, and may be any text. A wrong answer moves time between
//! rows, and never loses any.

use super::{INTERPRETED_CODE, is_library};

/// A function, with all that tells whose code it is.
#[derive(Clone, Copy, Debug)]
pub struct CodeOrigin<'a> {
    /// The full name.
    pub name: &'a str,
    /// The source file; empty if unknown.
    pub file: &'a str,
    /// The path of the module; empty for code in no file, or if it is unknown.
    pub module: &'a str,
    /// Whether the module is the executable of a sampled process.
    pub is_program: bool,
}

/// Directories of source files that are foreign: at the start of a path.
const FOREIGN_ROOTS: [&str; 9] =
    ["/rustc/", "/rust/deps/", "/lib/", "/lib64/", "/nix/store/", "/gnu/store/", "/build/glibc-", "node:", "<frozen "];

/// Parts of the paths of source files that are foreign.
const FOREIGN_PARTS: [&str; 16] = [
    "/.cargo/registry/",
    "/registry/src/",
    "/git/checkouts/",
    "/lib/rustlib/",
    "/library/core/src/",
    "/library/alloc/src/",
    "/library/std/src/",
    "/site-packages/",
    "/dist-packages/",
    "/lib/python2.",
    "/lib/python3",
    "/lib64/python3",
    "/node_modules/",
    "/pkg/mod/",
    "/include/c++/",
    " internals>",
];

/// Directories of foreign modules. A program there is its own all the same.
const SYSTEM_ROOTS: [&str; 7] = ["/lib/", "/lib64/", "/lib32/", "/usr/", "/nix/store/", "/gnu/store/", "/snap/"];

/// Interpreters and virtual machines, by the start of their executable's name.
const INTERPRETERS: [&str; 20] = [
    "python", "pypy", "node", "ruby", "perl", "php", "java", "dotnet", "mono", "lua", "beam", "julia", "deno", "bun",
    "guile", "bash", "dash", "sh", "zsh", "busybox",
];

/// Interpreters and virtual machines as libraries, by the start of their names.
const INTERPRETER_LIBRARIES: [&str; 6] = ["libjvm", "libnode", "libperl", "libpython", "libruby", "libv8"];

/// Crates and namespaces of runtimes and of libraries that most programs of their language use.
const FOREIGN_PATHS: [&str; 58] = [
    "addr2line",
    "ahash",
    "aho_corasick",
    "alloc",
    "async_executor",
    "async_io",
    "async_std",
    "async_task",
    "backtrace",
    "boost",
    "bytes",
    "compiler_builtins",
    "core",
    "crossbeam",
    "crossbeam_channel",
    "crossbeam_deque",
    "crossbeam_epoch",
    "crossbeam_queue",
    "crossbeam_utils",
    "dashmap",
    "flate2",
    "futures",
    "futures_channel",
    "futures_core",
    "futures_executor",
    "futures_util",
    "getrandom",
    "gimli",
    "h2",
    "hashbrown",
    "http",
    "hyper",
    "hyper_util",
    "indexmap",
    "itoa",
    "libc",
    "memchr",
    "miniz_oxide",
    "mio",
    "once_cell",
    "panic_unwind",
    "parking_lot",
    "parking_lot_core",
    "proc_macro",
    "rand",
    "rand_chacha",
    "rand_core",
    "rayon",
    "rayon_core",
    "regex",
    "regex_automata",
    "rustc_demangle",
    "ryu",
    "serde",
    "serde_json",
    "smallvec",
    "std",
    "tokio",
];

/// Packages of Go's library: the first part of their paths.
const GO_PACKAGES: [&str; 37] = [
    "archive",
    "bufio",
    "bytes",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "encoding",
    "errors",
    "fmt",
    "hash",
    "html",
    "image",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
];

/// Packages of Java's library.
const JAVA_PACKAGES: [&str; 6] = ["java", "javax", "jdk", "sun", "kotlin", "scala"];

/// Suffixes that compilers append to the names of copies and parts of functions, after a dot.
const COPY_SUFFIXES: [&str; 7] = ["cold", "constprop", "isra", "llvm", "lto_priv", "part", "warm"];

/// Functions that start programs and threads. They are foreign whatever file they are from.
const START_FUNCTIONS: [&str; 17] = [
    "_dl_start_user",
    "_fini",
    "_init",
    "_start",
    "__clone",
    "__clone3",
    "__libc_csu_init",
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "call_init",
    "clone",
    "clone3",
    "deregister_tm_clones",
    "frame_dummy",
    "register_tm_clones",
    "start_thread",
];

/// Functions of C's library and of allocators, which static programs contain.
const LIBRARY_FUNCTIONS: [&str; 23] = [
    "aligned_alloc",
    "calloc",
    "cfree",
    "free",
    "malloc",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "posix_memalign",
    "realloc",
    "rust_begin_unwind",
    "rust_eh_personality",
    "rust_panic",
    "strchr",
    "strcmp",
    "strcpy",
    "strlen",
    "strncmp",
    "syscall",
    "gogo",
    "morestack",
];

/// Prefixes of the names of C's library, of loaders, unwinders, allocators and run-time compilers.
/// Names that begin with two underscores are reserved for implementations.
const LIBRARY_PREFIXES: [&str; 14] = [
    "__",
    "_IO_",
    "_Unwind_",
    "_dl_",
    "_int_",
    "je_",
    "mi_",
    "operator delete",
    "operator new",
    "pthread_",
    "Builtin:",
    "BytecodeHandler:",
    "RegExp:",
    "Stub:",
];

impl CodeOrigin<'_> {
    /// Whether it is own code.
    pub fn is_own(&self) -> bool {
        let CodeOrigin { name, file, module, is_program } = *self;
        if module == INTERPRETED_CODE {
            return !is_foreign_file(file);
        }
        let is_bracketed = module.starts_with('[') || module.contains("vdso");
        if is_bracketed || (!is_program && is_system_module(module)) || START_FUNCTIONS.contains(&name) {
            return false;
        }
        if is_program && is_interpreter(module) {
            return false;
        }
        match file {
            "" => (is_program || module.is_empty()) && !is_foreign_name(name),
            _ => !is_foreign_file(file),
        }
    }
}

fn is_system_module(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or_default();
    is_library(name, "")
        || SYSTEM_ROOTS.iter().any(|root| module.starts_with(root))
        || FOREIGN_PARTS.iter().any(|part| module.contains(part))
        || INTERPRETER_LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// Whether an executable is an interpreter: `python3.12`, `node`, but no `nodetool`.
fn is_interpreter(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or_default();
    INTERPRETERS.iter().any(|interpreter| {
        name.strip_prefix(interpreter).is_some_and(|rest| {
            rest.bytes().all(|byte| byte.is_ascii_digit() || b".-_".contains(&byte)) || rest == ".smp"
        })
    })
}

fn is_foreign_file(file: &str) -> bool {
    // Images of containers build programs there, and packages of sources unpack there.
    let is_in_usr = file.starts_with("/usr/") && !file.starts_with("/usr/src/");
    is_in_usr
        || FOREIGN_ROOTS.iter().any(|root| file.starts_with(root))
        || FOREIGN_PARTS.iter().any(|part| file.contains(part))
}

/// Whether a name of an executable's function tells that it is foreign.
fn is_foreign_name(name: &str) -> bool {
    let path = qualified_name(name);
    if LIBRARY_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) || name.ends_with("@plt") {
        return true;
    }
    match path.strip_prefix('<') {
        Some(subject) => is_foreign_method(subject),
        None => owner(path) == PathOwner::Foreign,
    }
}

/// The owner of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathOwner {
    Own,
    Foreign,
    /// The path of a type has one part only: `u8`, `F`, `[T]`. It tells nothing.
    Nobody,
}

/// Whether a method of a type, `<T as Trait>::f` without its first bracket, is foreign. It is own
/// if the type or the trait is.
fn is_foreign_method(subject: &str) -> bool {
    let subject = subject.strip_prefix("impl ").unwrap_or(subject);
    let (first, second) = split_subject(subject);
    let is_own = |path: &str| type_owner(path) == PathOwner::Own;
    !is_own(first) && !is_own(second)
}

/// The owner of a type: `&mut dyn alloc::vec::Vec<T>`.
fn type_owner(text: &str) -> PathOwner {
    let mut path = text.trim_start_matches(['&', '*', '[', '(', '<', ' ']);
    for word in ["mut ", "const ", "dyn "] {
        path = path.strip_prefix(word).unwrap_or(path);
    }
    if path.contains("::") { owner(path) } else { PathOwner::Nobody }
}

/// The owner of a path by its first part.
fn owner(path: &str) -> PathOwner {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    // `core[8f2a]::slice`: the hash of the crate.
    let rest = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest);
    let is_copy = || COPY_SUFFIXES.contains(&rest[1..].split('.').next().unwrap_or_default());
    let is_foreign = match rest.chars().next() {
        Some(':') => FOREIGN_PATHS.contains(&first),
        Some('.') if is_copy() => LIBRARY_FUNCTIONS.contains(&first),
        Some('.' | '/') => GO_PACKAGES.contains(&first) || JAVA_PACKAGES.contains(&first),
        _ => LIBRARY_FUNCTIONS.contains(&first) || START_FUNCTIONS.contains(&first),
    };
    if is_foreign { PathOwner::Foreign } else { PathOwner::Own }
}

/// The name without the type of its result, which compilers write before instances of templates:
/// `void std::__invoke<F>(F&&)`.
fn qualified_name(name: &str) -> &str {
    const ANONYMOUS: &str = "(anonymous namespace)";
    let (mut start, mut depth, mut at) = (0, 0_u32, 0);
    let bytes = name.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'<' | b'{' => depth += 1,
            // The second character of an arrow is no bracket.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b'}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            b'(' if name[at..].starts_with(ANONYMOUS) => at += ANONYMOUS.len() - 1,
            b'(' => break,
            b'o' if at == start && name[at..].starts_with("operator") => break,
            b' ' if name[at + 1..].starts_with(['(', '[']) && !name[at + 1..].starts_with(ANONYMOUS) => break,
            b' ' => start = at + 1,
            _ => {}
        }
        at += 1;
    }
    &name[start..]
}

/// The type and the trait of a method, `T as Trait>::f`, or the trait and the type, `Trait for
/// T>::f`. The second is empty if there is none.
fn split_subject(subject: &str) -> (&str, &str) {
    let (mut depth, mut second) = (0_u32, None);
    let bytes = subject.as_bytes();
    let end = bytes.iter().enumerate().position(|(at, byte)| {
        match byte {
            b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' if depth == 0 => return true,
            b'>' => depth -= 1,
            b' ' if depth == 0 && second.is_none() => {
                let word = [" as ", " for "].into_iter().find(|word| subject[at..].starts_with(word));
                second = word.map(|word| (at, at + word.len()));
            }
            _ => {}
        }
        false
    });
    let end = end.unwrap_or(subject.len());
    match second {
        Some((before, after)) => (&subject[..before], &subject[after.min(end)..end]),
        None => (&subject[..end], ""),
    }
}

#[cfg(test)]
mod tests;
