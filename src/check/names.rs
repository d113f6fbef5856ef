//! Names of functions that are the same in two builds.
//!
//! A compiler gives names that change from build to build: hashes, numbers of copies, and lines of
//! closures. [`canonical`] removes them. A function that is then in one build only may differ in its
//! generic arguments: [`NameMatcher`] pairs it with the only function of the other build that has
//! the same name without them.

use std::collections::HashMap;

use crate::symbols::demangle::{NameLanguage, plain};

/// Endings that compilers append to the names of copies and parts of a function.
const CLONES: [&str; 9] =
    ["llvm", "constprop", "isra", "part", "cold", "lto_priv", "clone", "specialized", "localalias"];

/// Returns a name without what changes from build to build.
///
/// `parse::h0123456789abcdef.llvm.42` is `parse`, `main::{closure at src/main.rs:12:5}` is
/// `main::{closure at src/main.rs}`, and code without a name in `libz.so+0x4410` is `libz.so+?`.
pub fn canonical(name: &str) -> String {
    let name = without_clones(name);
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    };
    if let Some((module, offset)) = name.rsplit_once("+0x")
        && !offset.is_empty()
        && offset.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return format!("{module}+?");
    }
    without_lines(name)
}

/// Removes ` [clone .isra.0]`, `.constprop.0`, `.llvm.123` and `.cold` from the end.
fn without_clones(mut name: &str) -> &str {
    loop {
        if let Some((start, _)) = name.rsplit_once(" [clone ").filter(|_| name.ends_with(']')) {
            name = start;
            continue;
        }
        let Some((start, last)) = name.rsplit_once('.') else { return name };
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let (start, word) = if is_number { start.rsplit_once('.').unwrap_or((start, "")) } else { (start, last) };
        if start.is_empty() || !CLONES.contains(&word) {
            return name;
        }
        name = start;
    }
}

/// Removes `:12` and `:12:5` behind the name of a file, as closures have them.
fn without_lines(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon);
        out.push_str(before);
        let digits = after[1..].bytes().take_while(u8::is_ascii_digit).count();
        let is_behind_file = before.rsplit(['/', ' ']).next().is_some_and(|file| file.contains('.'));
        if digits > 0 && (is_behind_file || out.ends_with(LINE)) {
            out.push_str(LINE);
            rest = &after[1 + digits..];
            continue;
        }
        out.push(':');
        rest = &after[1..];
    }
    out.push_str(rest);
    out.replace(LINE, "")
}

/// Stands for a line number that was removed.
const LINE: &str = "\u{1}";

/// Pairs the names of two builds.
#[derive(Debug, Default)]
pub struct NameMatcher {
    /// The common name of a function of the base, and of one of the new build, by canonical name.
    common: [HashMap<String, String>; 2],
}

impl NameMatcher {
    /// Pairs the canonical names of the base with those of the new build.
    pub fn new<'n>(base: impl Iterator<Item = &'n str>, new: impl Iterator<Item = &'n str>) -> NameMatcher {
        let sides = [base.collect::<Vec<&str>>(), new.collect()];
        let mut sides_of: HashMap<&str, [bool; 2]> = HashMap::new();
        for (side, names) in sides.iter().enumerate() {
            names.iter().for_each(|name| sides_of.entry(name).or_default()[side] = true);
        }
        // Functions of one build only, by their name without generic arguments.
        let mut lonely: HashMap<String, [Vec<&str>; 2]> = HashMap::new();
        for (name, is_in) in &sides_of {
            if let [true, false] | [false, true] = is_in {
                let short = plain(name, NameLanguage::guess(name)).short;
                lonely.entry(short).or_default()[usize::from(is_in[1])].push(name);
            }
        }
        let mut matcher = NameMatcher::default();
        for (short, [base, new]) in lonely {
            if let ([one], [other]) = (base.as_slice(), new.as_slice()) {
                matcher.common[0].insert((*one).to_owned(), short.clone());
                matcher.common[1].insert((*other).to_owned(), short);
            }
        }
        matcher
    }

    /// The name under which a function is compared. `side` is 0 for the base and 1 for the new
    /// build.
    pub fn name<'n>(&'n self, side: usize, canonical: &'n str) -> &'n str {
        self.common[side].get(canonical).map_or(canonical, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_build_to_build_is_removed() {
        for (name, expected) in [
            ("json::parse::h0123456789abcdef", "json::parse"),
            ("json::parse::h0123456789abcdef.llvm.1234", "json::parse"),
            ("parse.constprop.0.isra.3", "parse"),
            ("parse.part.0.cold", "parse"),
            ("app::f(int) [clone .isra.0] [clone .cold]", "app::f(int)"),
            ("main::{closure at src/main.rs:12:5}", "main::{closure at src/main.rs}"),
            ("f::{lambda(int)#1}::operator()", "f::{lambda(int)#1}::operator()"),
            ("libz.so.1+0x4410", "libz.so.1+?"),
            ("std::vec<a::b>::push", "std::vec<a::b>::push"),
            ("handle (app.py:42)", "handle (app.py)"),
            ("main.(*T).Run", "main.(*T).Run"),
            (".cold", ".cold"),
            ("", ""),
        ] {
            assert_eq!(canonical(name), expected, "{name}");
        }
    }

    #[test]
    fn functions_that_differ_in_generic_arguments_alone_are_paired() {
        let base = ["main", "Vec<u8>::push", "Map<a>::get", "Map<b>::get", "gone"];
        let new = ["main", "Vec<u16>::push", "Map<c>::get", "added"];
        let matcher = NameMatcher::new(base.into_iter(), new.into_iter());
        assert_eq!((matcher.name(0, "Vec<u8>::push"), matcher.name(1, "Vec<u16>::push")), ("Vec::push", "Vec::push"));
        // Nothing tells which of two it was.
        assert_eq!((matcher.name(0, "Map<a>::get"), matcher.name(1, "Map<c>::get")), ("Map<a>::get", "Map<c>::get"));
        assert_eq!(
            (matcher.name(0, "main"), matcher.name(0, "gone"), matcher.name(1, "added")),
            ("main", "gone", "added")
        );
    }
}
