//! Demangles Rust, C++, Fortran, D, Haskell and OCaml names to a full and a short form, both safe
//! to display. C names and unknown forms stay as they are. [`simplify`](super::simplify) shortens full
//! names.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use cpp_demangle::{DemangleOptions, ParseOptions};

use super::other_languages;
use super::sanitize::sanitize;
use super::simplify;

/// Maximum length of a name that is demangled; longer ones are shown as they are.
const MAX_MANGLED_BYTES: usize = 8 << 10;
/// Maximum length of a demangled name. A few dozen bytes can expand to gigabytes.
const MAX_BYTES: usize = 64 << 10;
/// Maximum time for all names of one file, besides that which real names take.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Time that a name may take without counting. A hundred thousand real ones take less than a
/// second, so a long session never reaches the maximum.
const FREE_TIME: Duration = Duration::from_micros(200);
/// Maximum memory for names that were demangled already.
const MAX_CACHE_BYTES: usize = 4 << 20;
/// Maximum nesting of a C++ name, so that the demangler does not overflow a small stack.
const MAX_DEPTH: u32 = 96;

/// Maximum number of places where the name in a mangled name is expected to end.
const MAX_NAME_ENDS: usize = 64;

/// A name in its two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name with parameters, template and generic arguments; without crate hashes.
    pub full: String,
    /// The name without these.
    pub short: String,
    /// Whether the name was mangled, so that it includes namespace and class.
    pub is_mangled: bool,
}

/// Demangles the names of one file within a time limit: malicious names take long, and a file can
/// have thousands. After the limit, names are shown as they are. Inlined functions have the same
/// names at many addresses, so results are cached.
#[derive(Default)]
pub(super) struct Demangler {
    spent: Cell<Duration>,
    known: RefCell<HashMap<Box<[u8]>, Name>>,
    known_bytes: Cell<usize>,
}

impl Demangler {
    /// Demangles a symbol or a linkage name.
    pub(super) fn name(&self, raw: &[u8]) -> Name {
        if let Some(name) = self.known.borrow().get(raw) {
            return name.clone();
        }
        if self.spent.get() > MAX_TIME {
            return plain(&String::from_utf8_lossy(raw), NameLanguage::C);
        }
        let started = Instant::now();
        let name = demangle(raw);
        self.spent.set(self.spent.get() + started.elapsed().saturating_sub(FREE_TIME));
        self.remember(raw, &name);
        name
    }

    fn remember(&self, raw: &[u8], name: &Name) {
        let mut known = self.known.borrow_mut();
        let bytes = raw.len() + name.full.len() + name.short.len() + size_of::<(Box<[u8]>, Name)>();
        if self.known_bytes.get() + bytes > MAX_CACHE_BYTES {
            known.clear();
            self.known_bytes.set(0);
        }
        self.known_bytes.set(self.known_bytes.get() + bytes);
        known.insert(raw.into(), name.clone());
    }
}

/// Demangles a symbol or a linkage name. Some names of a few hundred bytes take a second.
pub fn demangle(raw: &[u8]) -> Name {
    let raw = String::from_utf8_lossy(raw);
    let (raw, is_stub) = match raw.strip_suffix("@plt") {
        Some(raw) => (raw, true),
        None => (without_version(&raw), false),
    };
    let (base, clone) = split_clone(raw);
    let known = if base.len() > MAX_MANGLED_BYTES {
        None
    } else {
        // Demanglers may panic on malformed names.
        catch_unwind(AssertUnwindSafe(|| {
            rust(base).or_else(|| cpp(base)).or_else(|| fortran(base)).or_else(|| other_languages::demangle(base))
        }))
        .unwrap_or(None)
    };
    let is_mangled = known.is_some();
    let (mut full, mut short) = known.unwrap_or_else(|| (base.to_owned(), without_alias(base).to_owned()));
    // The suffix of LTO is meaningless to users; others name a copy or a part of the function.
    if !clone.is_empty() && !clone.starts_with(".llvm.") {
        full = if is_mangled { format!("{full} [clone {clone}]") } else { format!("{full}{clone}") };
    }
    if is_stub {
        full.push_str("@plt");
        short.push_str("@plt");
    }
    Name { full: sanitize(&full), short: sanitize(&short), is_mangled }
}

/// Returns the spellings of a symbol: its raw name and, if it is mangled, the name with parameters,
/// without, and also without template and generic arguments.
pub fn spellings(raw: &str) -> Vec<String> {
    let name = demangle(split_clone(raw).0.as_bytes());
    let mut all = vec![sanitize(raw)];
    if name.is_mangled {
        let brief = DemangleOptions::new().recursion_limit(MAX_DEPTH).no_params().no_return_type();
        let symbol = catch_unwind(|| {
            let symbol = parse_cpp(split_clone(raw).0)?;
            bounded(|text| symbol.structured_demangle(text, &brief))
        });
        let is_cpp = name.full.ends_with(')');
        all.push(name.full);
        all.extend(symbol.unwrap_or(None).filter(|_| is_cpp).map(|name| sanitize(&name)));
        all.push(name.short);
    }
    all
}

/// The languages whose names have arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLanguage {
    /// C and others: names without arguments.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

impl NameLanguage {
    /// Guesses the language of an unmangled name.
    pub fn guess(name: &str) -> NameLanguage {
        match name {
            _ if !name.contains("::") => NameLanguage::C,
            _ if name.starts_with('<') || [" as ", "::<", "{closure"].iter().any(|sign| name.contains(sign)) => {
                NameLanguage::Rust
            }
            _ => NameLanguage::Cpp,
        }
    }
}

/// Returns an unmangled name from debug information.
pub fn plain(text: &str, language: NameLanguage) -> Name {
    let short = match language {
        NameLanguage::C => without_alias(text).to_owned(),
        NameLanguage::Cpp => simplify::cpp(text),
        NameLanguage::Rust => simplify::rust(text),
    };
    Name { full: sanitize(text), short: sanitize(&short), is_mangled: false }
}

/// Removes the version: `memcpy@@GLIBC_2.14` is memcpy.
fn without_version(raw: &str) -> &str {
    match raw.find('@') {
        Some(at) if at > 0 => &raw[..at],
        _ => raw,
    }
}

/// Removes the prefix of glibc's internal names: `__GI_memcpy` is memcpy.
fn without_alias(name: &str) -> &str {
    name.strip_prefix("__GI_").filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Splits off the suffix that compilers append to the name of a copy or a part: `.constprop.0`,
/// `.part.3.cold`, `.llvm.1234`.
fn split_clone(raw: &str) -> (&str, &str) {
    const KINDS: [&str; 11] = [
        "cold",
        "part",
        "isra",
        "constprop",
        "lto_priv",
        "llvm",
        "localalias",
        "clone",
        "resolver",
        "unlikely",
        "warm",
    ];
    let mut cut = raw.len();
    let mut end = raw.len();
    while let Some(dot) = raw[..end].rfind('.') {
        let part = &raw[dot + 1..end];
        if KINDS.contains(&part) {
            cut = dot;
        } else if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        end = dot;
    }
    if cut == 0 { (raw, "") } else { raw.split_at(cut) }
}

fn rust(base: &str) -> Option<(String, String)> {
    let name = rustc_demangle::try_demangle(base).ok()?;
    // A legacy name looks like a C++ one, but for its hash.
    if base.starts_with("_ZN") && !has_hash(base) {
        return None;
    }
    let full = bounded(|text| write!(text, "{name:#}"))?;
    let short = simplify::rust(&full);
    Some((full, short))
}

/// Whether a legacy name ends with a hash, which is its last part: `17h0123456789abcdefE`.
fn has_hash(base: &str) -> bool {
    let end = base.as_bytes().last_chunk::<20>();
    end.is_some_and(|end| {
        end.starts_with(b"17h") && end[19] == b'E' && end[3..19].iter().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Whether a name is that of a procedure in a Fortran module, as gfortran makes it.
pub(super) fn is_fortran(raw: &[u8]) -> bool {
    str::from_utf8(raw).is_ok_and(|raw| fortran(raw).is_some())
}

/// `__solver_MOD_step` is `step` of the module `solver`.
fn fortran(base: &str) -> Option<(String, String)> {
    let (module, procedure) = base.strip_prefix("__")?.split_once("_MOD_")?;
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let name = format!("{module}::{procedure}");
    (is_name(module) && is_name(procedure)).then(|| (name.clone(), name))
}

fn cpp(base: &str) -> Option<(String, String)> {
    if !base.starts_with("_Z") {
        return None;
    }
    let symbol = parse_cpp(base).or_else(|| without_types(base))?;
    let options = DemangleOptions::new().recursion_limit(MAX_DEPTH);
    let full = bounded(|text| symbol.structured_demangle(text, &options));
    // Without the return type, the text begins with the name, so its start need not be guessed.
    let brief = bounded(|text| symbol.structured_demangle(text, &options.no_return_type()))?;
    let short = simplify::cpp(&thunk(brief.clone()));
    Some((thunk(full.unwrap_or(brief)), short))
}

fn parse_cpp(mangled: &str) -> Option<cpp_demangle::BorrowedSymbol<'_>> {
    let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
    cpp_demangle::BorrowedSymbol::new_with_options(mangled.as_bytes(), &options).ok()
}

/// Parses the name of a function without its return type and parameters: cpp_demangle refuses types
/// such as those of `std::enable_if<!std::is_array<T>::value>`. The name is the shortest part that
/// is a whole name; names with arguments or classes end in `E`.
fn without_types(mangled: &str) -> Option<cpp_demangle::BorrowedSymbol<'_>> {
    // What is refused refers to a member of a type.
    let last = mangled.rfind("sr")?;
    let ends = mangled[..last].match_indices('E').map(|(at, _)| at + 1).take(MAX_NAME_ENDS);
    ends.filter_map(|end| parse_cpp(&mangled[..end])).next()
}

/// Converts `{virtual override thunk({offset(-16)}, A::f())}` to `thunk to A::f()`.
fn thunk(name: String) -> String {
    let inner = name.strip_prefix("{virtual override thunk(").and_then(|inner| inner.strip_suffix(")}"));
    match inner.and_then(|inner| inner.rsplit_once("}, ")) {
        Some((_, target)) => format!("thunk to {target}"),
        None => name,
    }
}

/// Returns the text that `write` writes, or `None` if it fails or exceeds [`MAX_BYTES`].
fn bounded(write: impl FnOnce(&mut BoundedString) -> fmt::Result) -> Option<String> {
    let mut text = BoundedString(String::new());
    write(&mut text).ok()?;
    Some(text.0)
}

struct BoundedString(String);

impl Write for BoundedString {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
