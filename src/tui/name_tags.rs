//! Tags tell names apart that read the same in little room. A tag is the last part of the path in
//! which the names differ or, if they have the same path, the first difference in generics and
//! arguments.
//!
//! | full names | tags |
//! | --- | --- |
//! | `dfa::find`, `nfa::find` | ` (dfa)`, ` (nfa)` |
//! | `find_first`, `find_last` | `…first`, `…last` |
//! | `f(int)`, `f(long)` | `(int)`, `(long)` |
//! | `<A as Debug>::fmt`, `<A as Display>::fmt` | ` (Debug)`, ` (Display)` |
//! | `Vec<u8>::push`, `Vec<u16>::push` | ` <u8>`, ` <u16>` |
//! | `f()`, `f() [clone .cold]` | none, ` [.cold]` |
//! | `A.run (a.py:1)`, `B.run (a.py:9)` | ` (A)`, ` (B)` |
//! | `run (a.py:1)`, `run (b.py:9)` | ` (a.py:1)`, ` (b.py:9)` |

use std::collections::HashMap;

use super::name_parts::NameFrame;
use crate::symbols::name_syntax::{MAX_DEPTH, NameToken, bare_types, inside, is_subject, is_word, split, tokens};

/// Maximum number of differences that are considered for one name.
const MAX_DIFFERENCES: usize = 8;
/// Maximum columns of arguments that are shown from their start. Longer ones are shown from the
/// difference on.
const MAX_ARGUMENTS: usize = 20;

/// Returns a tag for each name, given as full and short: text to put behind it, empty if the name
/// needs none.
pub(super) fn tags(names: &[(&str, &str)]) -> Vec<String> {
    let mut tags = vec![String::new(); names.len()];
    let mut groups = vec![(0..names.len()).collect::<Vec<usize>>()];
    for _ in 0..MAX_DIFFERENCES {
        let mut equal: Vec<Vec<usize>> = Vec::new();
        for group in groups {
            let shorts: Vec<&str> = group.iter().map(|&index| names[index].1).collect();
            let new = path_tags(&shorts).unwrap_or_else(|| {
                let fulls: Vec<&str> = group.iter().map(|&index| names[index].0).collect();
                argument_tags(&fulls)
            });
            let mut by_tag: HashMap<&str, Vec<usize>> = HashMap::new();
            for (&index, tag) in group.iter().zip(&new) {
                by_tag.entry(tag).or_default().push(index);
            }
            // Members that share this difference are distinguished by their next one.
            let is_smaller = |same: &Vec<usize>| (2..group.len()).contains(&same.len());
            equal.extend(by_tag.into_values().filter(is_smaller));
            for (&index, tag) in group.iter().zip(new) {
                tags[index] = tag;
            }
        }
        groups = equal;
    }
    tags
}

/// The tags of names with different paths: the last part in which they differ, or else the rest of
/// the last one.
fn path_tags(shorts: &[&str]) -> Option<Vec<String>> {
    let paths: Vec<Vec<&str>> = shorts.iter().map(|short| parts(short)).collect();
    let longest = paths.iter().map(Vec::len).max()?;
    let differing = (1..longest).find_map(|from_end| {
        let part = |path: &Vec<&'_ str>| path.iter().rev().nth(from_end).map_or("", |part| *part).to_owned();
        let all: Vec<String> = paths.iter().map(part).collect();
        all.iter().any(|part| *part != all[0]).then_some(all)
    });
    if let Some(differing) = differing {
        let tag = |part: String| if part.is_empty() { part } else { format!(" ({part})") };
        return Some(differing.into_iter().map(tag).collect());
    }
    let last: Vec<&str> = paths.iter().filter_map(|path| path.last().copied()).collect();
    let at = common_prefix(&last);
    if last.iter().all(|last| last.len() == at) {
        return None;
    }
    // The names differ in a word that was cut.
    Some(last.iter().map(|last| format!("…{}", &last[last[..at].rfind('_').map_or(at, |at| at + 1)..])).collect())
}

/// The parts of a path. The file and line of an interpreter's function come before the others.
fn parts(short: &str) -> Vec<&str> {
    let frame = NameFrame::new(short);
    if frame.is_interpreted {
        let place = frame.after.trim_start_matches(" (").trim_end_matches(')');
        return [place].into_iter().chain(frame.core.split('.')).collect();
    }
    let mut parts = Vec::new();
    let mut part = 0;
    for (token, start, end) in tokens(short) {
        if token == NameToken::Separator {
            parts.push(&short[part..start]);
            part = end;
        }
    }
    parts.push(&short[part..]);
    // A reference has the same path as what it refers to.
    parts[0] = parts[0].trim_start_matches(['&', '*']);
    parts
}

/// The number of bytes in which all texts begin alike.
fn common_prefix(texts: &[&str]) -> usize {
    let first = texts.first().copied().unwrap_or_default().as_bytes();
    let alike = |text: &&str| first.iter().zip(text.bytes()).take_while(|(one, other)| **one == *other).count();
    let mut at = texts.iter().map(alike).min().unwrap_or(0);
    while !texts.iter().all(|text| text.is_char_boundary(at)) {
        at -= 1;
    }
    at
}

/// The tags of names with the same path, by their first difference. Types lose their paths if the
/// rest differs.
fn argument_tags(fulls: &[&str]) -> Vec<String> {
    let difference = NameDifference::between(fulls);
    let tags: Vec<String> = fulls.iter().map(|full| difference.tag(full)).collect();
    if tags.iter().any(|tag| *tag != tags[0]) {
        return tags;
    }
    let whole = NameDifference { types: str::to_owned, ..difference };
    fulls.iter().map(|full| whole.tag(full)).collect()
}

/// The place where full names differ first.
struct NameDifference {
    /// Its byte.
    letter: usize,
    /// The same, or the start of the identifier that it is in.
    at: usize,
    /// Formats the types in a tag.
    types: fn(&str) -> String,
}

impl NameDifference {
    fn between(names: &[&str]) -> NameDifference {
        let letter = common_prefix(names);
        let goes_on = names.iter().any(|name| name.as_bytes().get(letter).is_some_and(is_word));
        let before = names.first().map_or(&[][..], |name| &name.as_bytes()[..letter]);
        let letters = before.iter().rev().take_while(|byte| goes_on && is_word(byte)).count();
        NameDifference { letter, at: letter - letters, types: bare_types }
    }

    /// The tag of a name.
    fn tag(&self, name: &str) -> String {
        self.tag_at(name, self.at, MAX_DEPTH)
    }

    /// The tag of a name, or of a type in it, that differs at `at`.
    fn tag_at(&self, name: &str, at: usize, depth: usize) -> String {
        let mut part = 0;
        for (token, start, end) in tokens(name) {
            if token == NameToken::Separator {
                part = end;
            }
            if at >= end {
                continue;
            }
            return match token {
                NameToken::Group => self.group_tag(name, (start, end), at, depth),
                // What follows the arguments, such as ` const`.
                NameToken::Text if !is_word(&name.as_bytes()[start]) => name[start..].replace("[clone ", "["),
                NameToken::Text | NameToken::Separator => self.part_tag(name, part, depth),
            };
        }
        String::new()
    }

    /// The tag of a name that differs in the part of its path that begins at `part`.
    fn part_tag(&self, name: &str, part: usize, depth: usize) -> String {
        let rest = &name[part..];
        let end = tokens(rest).find(|(token, ..)| *token != NameToken::Text).map_or(rest.len(), |(_, start, _)| start);
        let is_last = !tokens(&rest[end..]).any(|(token, ..)| token == NameToken::Separator);
        // Of the function's own name, only the end differs. The offset of the difference counts in
        // the whole name, not in a type inside of it.
        let is_own = is_last && depth == MAX_DEPTH;
        let alike = if is_own { &rest[..self.letter.saturating_sub(part).min(end)] } else { "" };
        let start = alike.rfind('_').map_or(0, |underscore| underscore + 1);
        if start < end { format!(" ({})", &rest[start..end]) } else { String::new() }
    }

    /// The tag of a name that differs in the brackets from `start` to `end`.
    fn group_tag(&self, name: &str, (start, end): (usize, usize), at: usize, depth: usize) -> String {
        let group = &name[start..end];
        let (inner, close) = inside(group);
        let at = at.saturating_sub(start + 1).min(inner.len());
        if is_subject(name, start) && depth > 0 {
            return self.subject_tag(inner, at, depth - 1);
        }
        let types = self.types;
        match group.as_bytes()[0] {
            b'{' => inner.rsplit_once('#').map_or_else(|| format!(" {group}"), |(_, number)| format!(" #{number}")),
            b'[' => format!(" {}", group.replace("[clone ", "[")),
            open => {
                let gap = if open == b'(' && start > 0 && is_word(&name.as_bytes()[start - 1]) { "" } else { " " };
                let open = char::from(open);
                match types(inner) {
                    all if all.chars().count() > MAX_ARGUMENTS && at > 0 => {
                        format!("{gap}{open}…{}{close}", types(&inner[at..]))
                    }
                    all => format!("{gap}{open}{all}{close}"),
                }
            }
        }
    }

    /// The tag of a method of Rust that differs in its type or trait: `T as Trait`, or `impl Trait
    /// for T`.
    fn subject_tag(&self, subject: &str, at: usize, depth: usize) -> String {
        let (skipped, method) = match subject.strip_prefix("impl ") {
            Some(method) => ("impl ".len(), method),
            None => (0, subject),
        };
        let (first, second) = split(method, if skipped > 0 { " for " } else { " as " });
        let after = subject.len() - second.map_or(0, str::len);
        let (is_first, second) = (at < after || second.is_none(), second.unwrap_or_default());
        if is_first == (skipped > 0 && !second.is_empty()) {
            return format!(" ({})", (self.types)(if is_first { first } else { second }));
        }
        let (of, at) = if is_first { (first, at.saturating_sub(skipped)) } else { (second, at - after) };
        match self.tag_at(of, at.min(of.len()), depth) {
            tag if !tag.starts_with([' ', '(']) => format!(" ({})", (self.types)(of)),
            tag => tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, similar_names};

    #[test]
    fn the_last_different_part_of_paths_is_the_tag() {
        for (shorts, expected) in [
            (&["m::dfa::find", "m::nfa::find"][..], &[" (dfa)", " (nfa)"][..]),
            (&["a::dfa::find", "b::nfa::find"], &[" (dfa)", " (nfa)"]),
            (&["a::x::f", "a::y::f", "b::x::f"], &[" (a)", " (y)", " (b)"]),
            (&["x::f", "f"], &[" (x)", ""]),
            (&["a::find_first", "a::find_last"], &["…first", "…last"]),
            (&["öö", "öä"], &["…ö", "…ä"]),
        ] {
            let names: Vec<(&str, &str)> = shorts.iter().map(|short| (*short, *short)).collect();
            assert_eq!(tags(&names), expected, "{shorts:?}");
        }
    }

    #[test]
    fn the_first_difference_of_arguments_is_the_tag() {
        for (names, expected) in [
            (&["f(int)", "f(long)"][..], &["(int)", "(long)"][..]),
            (&["f(int)", "f(int, char const*)"], &["(int)", "(int, char const*)"]),
            (&["<a::A as core::Debug>::fmt", "<a::A as core::Display>::fmt"], &[" (Debug)", " (Display)"]),
            (&["<a::A as c::From<x::U>>::from", "<a::A as c::From<x::V>>::from"], &[" (From<U>)", " (From<V>)"]),
            (&["x::<impl c::Debug for u8>::fmt", "x::<impl c::Display for u8>::fmt"], &[" (Debug)", " (Display)"]),
            (&["alloc::vec::Vec<u8>::push", "alloc::vec::Vec<u16>::push"], &[" <u8>", " <u16>"]),
            (&["<alloc::vec::Vec<a::B>>::push", "<alloc::vec::Vec<a::C>>::push"], &[" <B>", " <C>"]),
            (&["f<a::X>", "f<b::X>"], &[" <a::X>", " <b::X>"]),
            (&["f", "f<u8>"], &["", " <u8>"]),
            (&["f()", "f() [clone .cold]"], &["", " [.cold]"]),
            (&["f()", "f() const"], &["", " const"]),
            (&["<&c::O<a::E> as D>::fmt", "<c::O<a::F> as D>::fmt"], &[" (&O<E>)", " (c)"]),
            (&["__memset_avx2_unaligned", "__memset_avx2_unaligned_erms"], &[" (unaligned)", " (unaligned_erms)"]),
            (&["m::f::{closure#0}", "m::f::{closure#1}"], &[" #0", " #1"]),
            (
                &[
                    "fold<alloc::vec::IntoIter<app::FirstItem>, a::A>",
                    "fold<alloc::vec::IntoIter<app::FirstItem>, b::B>",
                ],
                &[" <…A>", " <…B>"],
            ),
        ] {
            let names: Vec<(&str, &str)> = names.iter().map(|full| (*full, "f")).collect();
            assert_eq!(tags(&names), expected, "{names:?}");
        }
    }

    /// Regression test: the second offset was that of another name.
    #[test]
    fn types_with_letters_of_several_bytes_have_tags() {
        let names = [
            "<dyn operator<<üüüüüüüüüüüüüü>+operator< as u8>::operator 40",
            "<dyn operator<<[clone .é]>+operator< as u8>::operator 9",
        ];
        assert_eq!(tags(&names.map(|name| (name, "operator"))).len(), 2);
    }

    proptest! {
        #![proptest_config(property(CASES))]
        #[test]
        fn foreign_names_have_tags(names in similar_names(), shorts in similar_names()) {
            let all: Vec<(&str, &str)> = names.iter().zip(&shorts).map(|(full, short)| (&**full, &**short)).collect();
            prop_assert_eq!(tags(&all).len(), all.len());
            let equal: Vec<(&str, &str)> = names.iter().map(|full| (&**full, "operator")).collect();
            prop_assert_eq!(tags(&equal).len(), equal.len());
        }
    }

    #[test]
    fn any_text_has_tags() {
        let texts = ["", "<", "a<", "é<", "ö<", "a::", "::", "<x as", "<impl ", "{", "{}", "()", "é", "a b", "漢::字"];
        for one in texts {
            for other in texts {
                assert_eq!(tags(&[(one, other), (other, one), ("x", "x"), (one, one)]).len(), 4);
                assert_eq!(tags(&[(one, "f"), (other, "f")]).len(), 2);
            }
        }
        assert!(tags(&[]).is_empty());
    }
}
