//! The syntax that names of C++ and Rust share: brackets, names of operators, and paths. It only
//! works on the text.

/// Maximum nesting of brackets. Compilers do not reach it.
const MAX_OPEN: usize = 1_000;

/// Returns the length of the name of an operator that begins at `at`: `operator<<`, `operator()`,
/// `operator new[]`. Of a conversion operator, only the word counts.
pub fn operator(text: &str, at: usize) -> Option<usize> {
    const WORD: &str = "operator";
    // If one sign begins with another, the longer one comes first.
    const SIGNS: [&str; 46] = [
        " delete[]",
        " delete",
        " new[]",
        " new",
        " co_await",
        " \"\" ",
        " \"\"",
        "\"\"",
        "<=>",
        "<<=",
        ">>=",
        "->*",
        "()",
        "[]",
        "<<",
        ">>",
        "<=",
        ">=",
        "==",
        "!=",
        "&&",
        "||",
        "++",
        "--",
        "+=",
        "-=",
        "*=",
        "/=",
        "%=",
        "^=",
        "&=",
        "|=",
        "->",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "&",
        "|",
        "~",
        "!",
        "=",
        "<",
        ">",
    ];
    let bytes = text.as_bytes();
    if bytes.get(at..at + WORD.len()) != Some(WORD.as_bytes()) {
        return None;
    }
    let rest = &text[at + WORD.len()..];
    let before = at.checked_sub(1).and_then(|before| bytes.get(before));
    if before.is_some_and(is_word) || rest.as_bytes().first().is_some_and(is_word) {
        return None;
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(0, |sign| sign.len());
    Some(WORD.len() + sign)
}

/// Whether a byte is part of an identifier.
pub fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// Returns the length of the group in brackets that `text` begins with, including both brackets. If
/// the group is not closed, it is the length of `text`.
pub fn group(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'o'
            && let Some(length) = operator(text, at)
        {
            at += length;
            continue;
        }
        match byte {
            b'-' if bytes.get(at + 1) == Some(&b'>') => at += 1,
            b'(' => open.push(b')'),
            b'[' => open.push(b']'),
            b'{' => open.push(b'}'),
            b'<' => open.push(b'>'),
            // Between parentheses, `>` may be the operator.
            b'>' if open.last() != Some(&b'>') => {}
            b')' | b']' | b'}' | b'>' => {
                if let Some(index) = open.iter().rposition(|&close| close == byte) {
                    open.truncate(index);
                }
            }
            _ => {}
        }
        at += 1;
        if open.is_empty() {
            return at;
        }
        if open.len() > MAX_OPEN {
            break;
        }
    }
    text.len()
}

/// A step over a name, outside of all brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameToken {
    /// A character, an operator's name or `->`.
    Text,
    /// The separator `::` of a path.
    Separator,
    /// A group in brackets.
    Group,
}

/// Splits a name into tokens, each with its start and end.
pub fn tokens(name: &str) -> impl Iterator<Item = (NameToken, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = name.get(at..).filter(|rest| !rest.is_empty())?;
        let (token, length) = match (operator(name, at), rest.as_bytes()[0]) {
            (Some(length), _) => (NameToken::Text, length),
            (None, b'<' | b'(' | b'[' | b'{') => (NameToken::Group, group(rest)),
            (None, b':') if rest.starts_with("::") => (NameToken::Separator, 2),
            (None, b'-') if rest.starts_with("->") => (NameToken::Text, 2),
            (None, _) => (NameToken::Text, rest.chars().next().map_or(1, char::len_utf8)),
        };
        let start = at;
        at += length;
        Some((token, start, at))
    })
}

/// Splits at the first `word` outside of all brackets.
pub fn split<'t>(text: &'t str, word: &str) -> (&'t str, Option<&'t str>) {
    let found = tokens(text).find(|&(token, start, _)| token != NameToken::Group && text[start..].starts_with(word));
    match found {
        Some((_, start, _)) => (&text[..start], Some(&text[start + word.len()..])),
        None => (text, None),
    }
}

/// Maximum depth of nested types that are shortened.
pub const MAX_DEPTH: usize = 16;

/// Removes the paths of all types in a text: `alloc::vec::Vec<app::Item>` becomes `Vec<Item>`.
pub fn bare_types(text: &str) -> String {
    bare_types_within(text, MAX_DEPTH)
}

fn bare_types_within(text: &str, depth: usize) -> String {
    let mut bare = String::with_capacity(text.len());
    // The start of the path that is being copied.
    let mut path = 0;
    for (token, start, end) in tokens(text) {
        let copied = &text[start..end];
        match token {
            // A closure means nothing without the function that it is in.
            NameToken::Separator if text[end..].starts_with('{') => bare.push_str(copied),
            NameToken::Separator => bare.truncate(path),
            NameToken::Group if copied.starts_with('{') => bare.push_str(unnamed(copied)),
            NameToken::Group if depth > 0 && copied.len() > 1 => {
                let (inner, close) = inside(copied);
                bare.push_str(&copied[..1]);
                bare.push_str(&bare_types_within(inner, depth - 1));
                bare.push_str(close);
            }
            NameToken::Group => bare.push_str(copied),
            NameToken::Text => {
                bare.push_str(copied);
                if !copied.as_bytes().first().is_some_and(is_word) {
                    path = bare.len();
                }
            }
        }
    }
    bare
}

/// Splits a group after its opening bracket into what it contains and the closing bracket, which is
/// empty if the group is not closed.
pub fn inside(group: &str) -> (&str, &str) {
    let inner = &group[1..];
    match inner.chars().next_back() {
        Some('>' | ')' | ']' | '}') => inner.split_at(inner.len() - 1),
        _ => (inner, ""),
    }
}

/// Whether the brackets at `start` hold the type that a method of Rust belongs to, as in
/// `<Vec<T> as Extend<T>>::extend`, and not arguments.
pub fn is_subject(name: &str, start: usize) -> bool {
    let (before, group) = name.split_at(start);
    let is_argument = before.ends_with("::") || before.as_bytes().last().is_some_and(is_word);
    group.starts_with("<impl ") || group.starts_with('<') && !is_argument && !before.ends_with(['}', '>', ']', ')'])
}

/// The name of something without a name, as all compilers' forms of it are shown: `{{closure}}`,
/// `{closure#0}` and `{closure_env#0}` are `{closure}`.
pub fn unnamed(group: &str) -> &str {
    const KINDS: [(&str, &str); 6] = [
        ("closure", "{closure}"),
        ("async_fn", "{async fn}"),
        ("async_block", "{async block}"),
        ("async_closure", "{async closure}"),
        ("coroutine", "{coroutine}"),
        ("impl#", "{impl}"),
    ];
    let inner = group.trim_start_matches('{');
    KINDS.iter().find(|(kind, _)| inner.starts_with(kind)).map_or(group, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, foreign_name};

    #[test]
    fn types_lose_their_paths() {
        for (text, bare) in [
            ("alloc::vec::Vec<app::Item>", "Vec<Item>"),
            ("&mut alloc::boxed::Box<dyn core::ops::Fn(a::B) -> c::D>", "&mut Box<dyn Fn(B) -> D>"),
            ("<a::B as c::D>::Item", "Item"),
            ("std::rt::lang_start<()>::{{closure}}", "lang_start<()>::{closure}"),
            ("a::f::{closure_env#3}<u8>", "f::{closure}<u8>"),
            ("char const*, unsigned long", "char const*, unsigned long"),
            ("std::map<int, std::pair<a::b, c> >", "map<int, pair<b, c> >"),
            ("", ""),
        ] {
            assert_eq!(bare_types(text), bare, "{text}");
        }
    }

    #[test]
    fn tokens_cover_a_name_without_gaps() {
        for name in ["a::b<c::d>::{x}(y)", "operator<<", "<", "é::(", "fn(A) -> B", "::", "a->b"] {
            let mut at = 0;
            for (_, start, end) in tokens(name) {
                assert!(start == at && end > at, "{name}");
                at = end;
            }
            assert_eq!(at, name.len());
        }
    }

    #[test]
    fn splits_outside_of_brackets_only() {
        assert_eq!(split("Vec<a as b> as c", " as "), ("Vec<a as b>", Some("c")));
        assert_eq!(split("a", " as "), ("a", None));
    }

    proptest! {
        #![proptest_config(property(CASES))]
        /// Tokens cover the name, and every offset is between characters.
        #[test]
        fn foreign_names_are_tokens(name in foreign_name(), word in prop_oneof![Just(" as "), Just(" for ")]) {
            let mut covered = 0;
            for (token, start, end) in tokens(&name) {
                prop_assert_eq!(start, covered);
                let text = &name[start..end];
                if token == NameToken::Group {
                    let (inner, close) = inside(text);
                    prop_assert_eq!(inner.len() + close.len() + 1, text.len());
                    unnamed(text);
                    is_subject(&name, start);
                }
                covered = end;
            }
            prop_assert_eq!(covered, name.len());
            let (first, second) = split(&name, word);
            prop_assert_eq!(second.map_or(first.to_owned(), |second| [first, word, second].concat()), name.clone());
            bare_types(&name);
        }
    }
}
