//! Generated programs whose function names encode their only legal callers, and a judge of sampled
//! stacks that knows nothing but the names.
//!
//! A function is called `f37_memcpy_from_3_9`: number 37, busy in memcpy, called by 3 and 9 alone.
//! Functions are arranged in layers. Each calls into the next layer only, so a stack that skips,
//! duplicates or invents a frame breaks the rule somewhere. `f0_entry_from_r` is the root, called
//! by `main` and by a thread's `worker`. Each function does more work after a callee returns, so
//! that no call becomes a jump.

mod c_family;
pub(crate) mod judge;
mod rust;

use std::path::PathBuf;

use super::run::text;
use super::targets;

/// The language of a generated program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// C, -O2 without frame pointers.
    C,
    /// C++ with exceptions thrown through several frames and virtual calls, -O2.
    Cpp,
    /// Rust, as `cargo build --release` compiles it.
    Rust,
    /// Rust as above, with panics that are caught several frames up.
    Panics,
}

impl Language {
    fn is_c_family(self) -> bool {
        matches!(self, Language::C | Language::Cpp)
    }
}

/// The work of a function, apart from calling its callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The root of the chains.
    Entry,
    /// Arithmetic, with no calls except to its callees.
    Plain,
    /// A copy of some kilobytes.
    Memcpy,
    /// malloc and free (C++: new and delete; Rust: Vec and Box).
    Malloc,
    /// Sine, exponential, power.
    Libm,
    /// A system call.
    Syscall,
    /// The clock, in the vdso.
    Clock,
    /// A frame whose size is known at run time only.
    Alloca,
    /// A frame with a larger alignment than the stack's.
    Aligned,
    /// Formatting and comparing text.
    Text,
    /// A hash map (Rust).
    Map,
    /// A sort whose comparison function calls the callees.
    Sort,
    /// The comparison function of a C sort.
    Compare,
    /// A function that is called through a table of virtual functions.
    Virtual,
    /// A function that throws now and then.
    Throw,
    /// A function that catches what its callees throw.
    Catch,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Entry,
        Kind::Plain,
        Kind::Memcpy,
        Kind::Malloc,
        Kind::Libm,
        Kind::Syscall,
        Kind::Clock,
        Kind::Alloca,
        Kind::Aligned,
        Kind::Text,
        Kind::Map,
        Kind::Sort,
        Kind::Compare,
        Kind::Virtual,
        Kind::Throw,
        Kind::Catch,
    ];

    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A function to be generated.
struct Function {
    number: usize,
    kind: Kind,
    callers: Vec<usize>,
    callees: Vec<usize>,
}

impl Function {
    fn name(&self) -> String {
        let callers: Vec<String> = self.callers.iter().map(usize::to_string).collect();
        let callers = if callers.is_empty() { "r".to_owned() } else { callers.join("_") };
        format!("f{}_{}_from_{callers}", self.number, self.kind.word())
    }
}

const LAYERS: usize = 10;
const WIDTH: usize = 30;

/// Builds a program of about 300 functions and returns the path of its binary.
pub(crate) fn program(language: Language) -> PathBuf {
    build(language, &[])
}

/// Builds the same program with all libraries linked statically.
pub(crate) fn static_program(language: Language) -> PathBuf {
    build(language, &[if language.is_c_family() { "-static" } else { "-Ctarget-feature=+crt-static" }])
}

fn build(language: Language, linking: &[&str]) -> PathBuf {
    let functions = graph(language);
    match language {
        Language::C => c_family_program("c", "cc", &c_family::source(&functions, false), linking),
        Language::Cpp => c_family_program("cpp", "c++", &c_family::source(&functions, true), linking),
        Language::Rust | Language::Panics => {
            let flags = [&["--edition=2024", "-Copt-level=3", "-Dwarnings"], linking].concat();
            targets::generated("chains_rs", &rust::source(&functions), "rs", "rustc", &flags)
        }
    }
}

/// Builds the C program without an index of its unwind tables.
pub(crate) fn program_without_index() -> PathBuf {
    build(Language::C, &["-Wl,--no-eh-frame-hdr"])
}

/// Compiles the source once for all ways of linking it.
fn c_family_program(extension: &str, compiler: &str, source: &str, linking: &[&str]) -> PathBuf {
    let name = format!("chains_{extension}");
    let flags = ["-O2", "-fomit-frame-pointer", "-pthread", "-Wall", "-Wextra", "-Werror"];
    let object = targets::generated(&name, source, extension, compiler, &[&flags, &["-c"][..]].concat());
    targets::generated(&name, "", extension, compiler, &[&flags, linking, &[text(&object)]].concat())
}

/// Generates the call graph, which is always the same for a language.
fn graph(language: Language) -> Vec<Function> {
    let mut random = Random(88_172_645_463_325_252);
    let mut functions = vec![Function { number: 0, kind: Kind::Entry, callers: Vec::new(), callees: Vec::new() }];
    let mut above = vec![0];
    for layer in 0..LAYERS {
        let mut here = Vec::new();
        // A C sort calls its comparison function and nothing else.
        let exclusive = |caller: &&usize| language.is_c_family() && functions[**caller].kind == Kind::Sort;
        let (sorts, callers): (Vec<&usize>, Vec<&usize>) = above.iter().partition(exclusive);
        let mut made: Vec<(Kind, Vec<usize>)> = sorts.iter().map(|sort| (Kind::Compare, vec![**sort])).collect();
        let callers: Vec<usize> = callers.into_iter().copied().collect();
        for place in 0..WIDTH - made.len() {
            let mut of = vec![callers[place % callers.len()]];
            for _ in 0..random.below(3) {
                of.push(callers[random.below(callers.len())]);
            }
            of.sort_unstable();
            of.dedup();
            made.push((kind(language, layer, &mut random), of));
        }
        for (kind, callers) in made {
            let number = functions.len();
            callers.iter().for_each(|&caller| functions[caller].callees.push(number));
            functions.push(Function { number, kind, callers, callees: Vec::new() });
            here.push(number);
        }
        above = here;
    }
    functions
}

fn kind(language: Language, layer: usize, random: &mut Random) -> Kind {
    const C: &[Kind] = &[
        Kind::Plain,
        Kind::Memcpy,
        Kind::Malloc,
        Kind::Libm,
        Kind::Syscall,
        Kind::Clock,
        Kind::Alloca,
        Kind::Aligned,
        Kind::Text,
        Kind::Sort,
    ];
    const CPP: &[Kind] = &[
        Kind::Plain,
        Kind::Memcpy,
        Kind::Malloc,
        Kind::Libm,
        Kind::Alloca,
        Kind::Aligned,
        Kind::Sort,
        Kind::Virtual,
        Kind::Virtual,
        Kind::Throw,
        Kind::Throw,
        Kind::Catch,
    ];
    const RUST: &[Kind] = &[
        Kind::Plain,
        Kind::Memcpy,
        Kind::Malloc,
        Kind::Libm,
        Kind::Clock,
        Kind::Text,
        Kind::Map,
        Kind::Sort,
        Kind::Virtual,
        Kind::Virtual,
        Kind::Catch,
        Kind::Catch,
        Kind::Throw,
        Kind::Throw,
    ];
    let kinds = match language {
        Language::C => C,
        Language::Cpp => CPP,
        Language::Rust => &RUST[..RUST.len() - 2],
        Language::Panics => RUST,
    };
    let last = layer + 1 == LAYERS;
    loop {
        return match kinds[random.below(kinds.len())] {
            // Everything that is thrown is caught: the second layer catches all, and the first
            // neither throws nor calls past it.
            _ if layer == 1 && language != Language::C => Kind::Catch,
            Kind::Sort if layer == 0 && language != Language::C => continue,
            Kind::Throw if layer < 2 => continue,
            // These call their callees.
            Kind::Sort | Kind::Catch if last => continue,
            kind => kind,
        };
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
