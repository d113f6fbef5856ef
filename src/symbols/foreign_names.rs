//! Names as hostile programs have them, for property tests: pieces of names of C++, Rust and other
//! languages in any order, cut anywhere, with letters of one to four bytes. Random characters
//! alone reach few of the branches that a name goes through.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Number of cases of each property.
pub(crate) const CASES: u32 = 4_096;

/// Maximum number of pieces in a name.
const MAX_PIECES: usize = 16;

const PIECES: &[&str] = &[
    "::",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "&",
    "*",
    "->",
    ", ",
    " ",
    "_",
    "#",
    "$",
    "/",
    ".",
    "@",
    "+0x1f",
    "operator",
    "operator<",
    "operator<<",
    "operator()",
    "operator new[]",
    "operator \"\" ",
    "operator->",
    " as ",
    " for ",
    "impl ",
    "<impl ",
    "<dyn ",
    "dyn ",
    "async fn ",
    "const",
    " const",
    "unsigned ",
    "char",
    "{closure#0}",
    "{{closure}}",
    "{closure_env#1}",
    "{impl#2}",
    "{lambda(int)#1}",
    "'lambda'(int)",
    "(anonymous namespace)",
    "[clone .cold]",
    " [clone .constprop.0]",
    "[abi:cxx11]",
    ".llvm.1234",
    "::h0123456789abcdef",
    "alloc::vec::Vec<",
    "core::fmt::Debug",
    "std::__1::",
    "std::",
    "u8",
    "A",
    "f",
    "get_first",
    "get_last",
    "main",
    " (app.py:12)",
    "<locals>",
    "<lambda>",
    "net/http.(*conn)",
    "~",
    "_Z",
    "_ZN",
    "_R",
    "_RNv",
    "3foo",
    "E",
    "__",
    "[mutex 0x7f10]",
    " held by ",
    " 4711",
    "0000000000401136 ",
    "ü",
    "é",
    "ß",
    "漢",
    "字",
    "한",
    "हिन्दी",
    "𝕏",
    "🦀",
    "e\u{301}",
    "\u{200d}",
    "\u{202e}",
    "\u{feff}",
    "\x1b[31m",
    "\n",
    "\0",
];

fn pieces() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        12 => select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-z_]{1,12}",
    ];
    vec(piece, 0..MAX_PIECES)
}

/// A name, cut at any character.
pub(crate) fn foreign_name() -> impl Strategy<Value = String> {
    (pieces(), any::<Index>(), any::<bool>()).prop_map(|(pieces, end, is_cut)| {
        let name = pieces.concat();
        let length = name.chars().count();
        let end = if is_cut && length > 0 { end.index(length) } else { length };
        name.chars().take(end).collect()
    })
}

/// Two to five names that differ in some pieces.
pub(crate) fn similar_names() -> impl Strategy<Value = Vec<String>> {
    (pieces(), vec((any::<Index>(), foreign_name()), 1..5)).prop_map(|(pieces, changes)| {
        let changed = changes.into_iter().map(|(at, piece)| {
            let mut own = pieces.clone();
            match own.len() {
                0 => own.push(piece),
                length => own[at.index(length)] = piece,
            }
            own.concat()
        });
        std::iter::once(pieces.concat()).chain(changed).collect()
    })
}
