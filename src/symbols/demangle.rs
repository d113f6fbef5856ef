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
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, foreign_name};

    fn full(raw: &str) -> String {
        demangle(raw.as_bytes()).full
    }

    fn short(raw: &str) -> String {
        demangle(raw.as_bytes()).short
    }

    #[test]
    fn cpp_has_its_parameters_in_full_only() {
        let name = demangle(b"_ZNSt3mapIiSsSt4lessIiESaISt4pairIKiSsEEEixERS3_");
        let arguments = "int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string> > ";
        assert_eq!(name.full, format!("std::map<{arguments}>::operator[](int const&)"));
        assert_eq!(name.short, "std::map::operator[]");
        assert!(name.is_mangled);
    }

    #[test]
    fn cpp_return_types_are_not_in_short_names() {
        // A function template's name begins with its return type; here with a pointer to a
        // function.
        assert_eq!(short("_Z3fooIiEPFvcEi"), "foo");
        assert_eq!(short("_ZZN3foo3barEiENKUlT_E_clIiEEDaS0_"), "foo::bar::{lambda#1}::operator()");
        assert_eq!(short("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc"), "std::operator<<");
        assert_eq!(short("_ZSt4moveIRSt6vectorIiSaIiEEEONSt16remove_referenceIT_E4typeEOS5_"), "std::move");
    }

    #[test]
    fn cpp_types_that_cannot_be_parsed_cost_only_the_parameters() {
        let make_shared =
            "_ZSt11make_sharedI3FooJRiEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES5_E4typeEEDpOT0_";
        assert_eq!(
            (full(make_shared), short(make_shared)),
            ("std::make_shared<Foo, int&>".into(), "std::make_shared".into())
        );
        let fill = "_ZSt9__fill_a1IPiiEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_";
        assert_eq!(short(fill), "std::__fill_a1");
        for refused in ["_ZsrE", "_Z3EsrE", "_ZNEsr", "_ZéEsr", &format!("_Z{}sr", "E".repeat(2_000))] {
            assert_eq!(short(refused), refused);
        }
    }

    #[test]
    fn rust_names_without_linkage_name_lose_their_arguments() {
        let fold = plain(
            "fold<core::iter::adapters::map::Map<core::ops::range::Range<u32>, app::{closure_env#0}>>",
            NameLanguage::Rust,
        );
        assert_eq!(fold.short, "fold");
        for (name, language) in [
            ("main", NameLanguage::C),
            ("std::vector<int>::push_back(int&&)", NameLanguage::Cpp),
            ("<a::B as c::D>::run", NameLanguage::Rust),
            ("a::run::{{closure}}", NameLanguage::Rust),
        ] {
            assert_eq!(NameLanguage::guess(name), language, "{name}");
        }
    }

    #[test]
    fn cpp_specials() {
        assert_eq!(
            (full("_ZThn16_N3foo3barEv").as_str(), short("_ZThn16_N3foo3barEv").as_str()),
            ("thunk to foo::bar()", "thunk to foo::bar")
        );
        assert_eq!(short("_ZN12_GLOBAL__N_13fooEi"), "(anonymous namespace)::foo");
        assert_eq!(short("_ZN3foo3barB5cxx11Ev"), "foo::bar");
        assert_eq!(short("_ZNK3FoocvSt6vectorIT_SaIS1_EEIiEEv"), "Foo::operator std::vector");
        assert_eq!(short("_ZN3FooD0Ev"), "Foo::~Foo");
    }

    #[test]
    fn rust_has_no_hash() {
        let legacy =
            "_ZN71_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..iter..Extend$LT$T$GT$$GT$6extend17h0123456789abcdefE";
        let legacy = legacy.replace(
            "_ZN71",
            &format!("_ZN{}", "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..iter..Extend$LT$T$GT$$GT$".len()),
        );
        assert_eq!(full(&legacy), "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend");
        assert_eq!(short(&legacy), "alloc::vec::Vec::extend");
        assert_eq!(full("_RNCNvCs1234_7mycrate3foo0B3_"), "mycrate::foo::{closure#0}");
        assert_eq!(short("_RNvMs_NtC5alloc3vecINtB4_3VecmE4push"), "alloc::vec::Vec::push");
    }

    #[test]
    fn cpp_names_are_not_mistaken_for_rust_names() {
        assert_eq!(full("_ZN3foo3barE"), "foo::bar");
        assert_eq!(full("_ZN3foo3barEv"), "foo::bar()");
    }

    #[test]
    fn fortran_procedures_are_named_by_their_module() {
        let name = demangle(b"__linear_solver_MOD_step2");
        assert_eq!(
            (name.full.as_str(), name.short.as_str(), name.is_mangled),
            ("linear_solver::step2", "linear_solver::step2", true)
        );
        assert_eq!(full("__m_MOD_f.constprop.0"), "m::f [clone .constprop.0]");
        for other in ["__a_MOD_", "___MOD_f", "__A_MOD_f", "_a_MOD_f", "a_MOD_f"] {
            assert_eq!((full(other).as_str(), short(other).as_str()), (other, other));
        }
    }

    #[test]
    fn short_names_have_no_abi_tags() {
        assert_eq!(full("_ZN3foo3barB5cxx11Ev"), "foo::bar[abi:cxx11]()");
        assert_eq!(short("_ZN3fooB5cxx113barEv"), "foo::bar");
        assert_eq!(short("_ZN3fooB5cxx11IiE3barEv"), "foo::bar");
    }

    #[test]
    fn full_names_show_copies_and_parts() {
        assert_eq!(full("_ZN3foo3barEi.part.0.cold"), "foo::bar(int) [clone .part.0.cold]");
        assert_eq!(short("_ZN3foo3barEi.part.0.cold"), "foo::bar");
        assert_eq!((full("work.constprop.0"), short("work.constprop.0")), ("work.constprop.0".into(), "work".into()));
        let rust = "_ZN3app4main17h0123456789abcdefE.llvm.1234567890";
        assert_eq!((full(rust), short(rust)), ("app::main".into(), "app::main".into()));
    }

    #[test]
    fn spellings_include_every_form() {
        let all = spellings("_ZN3appI3FooE3barEi.part.0");
        assert_eq!(all, ["_ZN3appI3FooE3barEi.part.0", "app<Foo>::bar(int)", "app<Foo>::bar", "app::bar"]);
        assert_eq!(spellings("_RNvMs_NtC5alloc3vecINtB4_3VecmE4push").len(), 3);
        assert_eq!(spellings("work.constprop.0"), ["work.constprop.0"]);
    }

    #[test]
    fn c_names_do_not_change() {
        for name in
            ["main", "__libc_start_main", "memcpy", "_start", "a.b", "x.1", ".cold", "main.(*T).Run", "_Zfoo", "_R"]
        {
            assert_eq!((full(name).as_str(), short(name).as_str()), (name, name));
            assert!(!demangle(name.as_bytes()).is_mangled);
        }
        assert_eq!(full("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(
            (full("__GI___nanosleep").as_str(), short("__GI___nanosleep").as_str()),
            ("__GI___nanosleep", "__nanosleep")
        );
        assert_eq!((full("memcpy@plt"), short("_ZN3foo3barEv@plt")), ("memcpy@plt".into(), "foo::bar@plt".into()));
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(full("a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(demangle(b"a\xff\x9bb").full, "a\u{fffd}\u{fffd}b");
        let name = demangle(b"_ZN3foo4b\x1b\x07rEv");
        assert!(!name.full.contains(char::is_control) && !name.short.contains(char::is_control), "{name:?}");
    }

    #[test]
    fn demangling_stops_after_the_time_limit() {
        let names = Demangler::default();
        assert_eq!(names.name(b"_ZN3foo3barEv").full, "foo::bar()");
        names.spent.set(MAX_TIME * 2);
        assert_eq!(names.name(b"_ZN3foo3bar\x1bEv").full, "_ZN3foo3bar\u{fffd}Ev");
        assert_eq!(names.name(b"_ZN3foo3barEv").full, "foo::bar()", "a known name takes no time");
    }

    #[test]
    fn many_real_names_do_not_reach_the_time_limit() {
        let names = Demangler::default();
        (0..10_000)
            .for_each(|_| drop(names.name(b"_ZNSt8_Rb_treeIiSt4pairIKiSsESt10_Select1stIS2_ESt4lessIiEE5clearEv")));
        assert!(names.spent.get() < MAX_TIME / 100 && names.known.borrow().len() == 1);
        let long = vec![b'a'; 1 << 20];
        (0..10u8).for_each(|end| drop(names.name(&[&long[..], &[b'a' + end]].concat())));
        assert!(names.known_bytes.get() <= MAX_CACHE_BYTES && names.known.borrow().len() < 10);
    }

    #[test]
    fn names_that_expand_to_gigabytes_are_refused() {
        // Every pair doubles the length of the substitution before it.
        let mut bomb = "_Z1fISt4pairIiiE".to_owned();
        for previous in 0..30u32 {
            let code = std::char::from_digit(previous, 36).unwrap().to_ascii_uppercase();
            bomb += &format!("St4pairIS{code}_S{code}_E");
        }
        bomb += "Evv";
        let started = std::time::Instant::now();
        assert!(full(&bomb).len() <= super::super::sanitize::MAX_NAME_BYTES);
        let rust = format!("_RINv1c1f{}{}E", "TB2_B2_".repeat(40), "E".repeat(40));
        assert!(full(&rust).len() <= super::super::sanitize::MAX_NAME_BYTES);
        assert!(full(&format!("_Z{}", "P".repeat(7_000))).len() <= super::super::sanitize::MAX_NAME_BYTES);
        assert!(full(&"_ZN".repeat(1 << 20)).len() <= super::super::sanitize::MAX_NAME_BYTES);
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }

    proptest! {
        #![proptest_config(property(CASES))]
        #[test]
        fn foreign_names_are_demangled(name in foreign_name(), start in 0usize..4) {
            let mangled = format!("{}{name}", ["", "_Z", "_ZN", "_R"][start]);
            let demangled = demangle(mangled.as_bytes());
            prop_assert!(!demangled.full.contains(char::is_control) && !demangled.short.contains(char::is_control));
            spellings(&mangled);
            plain(&name, NameLanguage::guess(&name));
        }
    }
}
