//! The parts of a short name: of the paths of C++ and Rust, of the functions of Go and of
//! interpreters, and of files.

use crate::symbols::name_syntax::{NameToken, tokens};

/// Returns the last part of a short name: `parse_value` of `json::Parser::parse_value`. A part that
/// means nothing on its own (`{closure}`) keeps the one before.
pub fn bare_name(short: &str) -> &str {
    let frame = NameFrame::new(short);
    let start = frame.parts().last().copied().unwrap_or(0);
    &short[frame.before.len() + start..]
}

/// A short name: its path, and what is kept before and after it.
#[derive(Clone, Copy)]
pub(super) struct NameFrame<'a> {
    /// The address or `async fn ` before the path.
    pub(super) before: &'a str,
    /// The path.
    pub(super) core: &'a str,
    /// The file and line after it, or the offset in a module.
    pub(super) after: &'a str,
    /// Whether this is a function of an interpreter: `Encoder.encode (encoder.py:12)`.
    pub(super) is_interpreted: bool,
}

/// The part of a Python name between a function and one that is defined in it.
const LOCALS: &str = "<locals>";

impl<'a> NameFrame<'a> {
    /// Splits a short name.
    pub(super) fn new(short: &'a str) -> NameFrame<'a> {
        let before = match short.split_once(' ') {
            Some((word, _)) if word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => 17,
            Some(("async", rest)) if rest.starts_with("fn ") => "async fn ".len(),
            _ => 0,
        };
        let (before, core) = short.split_at(before);
        let end = core.rfind(' ').filter(|&at| is_file_and_line(&core[at + 1..]));
        let place = interpreted_place(core).filter(|_| end.is_none());
        let end = end.or(place).or_else(|| offset(core));
        let (core, after) = core.split_at(end.unwrap_or(core.len()));
        NameFrame { before, core, after, is_interpreted: place.is_some() }
    }

    /// The starts of the path's parts, but not of those that mean nothing on their own.
    pub(super) fn parts(&self) -> Vec<usize> {
        let mut starts = vec![0];
        if self.is_interpreted {
            starts.extend(self.core.match_indices('.').map(|(at, _)| at + 1));
            starts.retain(|&start| !self.core[start..].starts_with(LOCALS));
        } else if self.core.contains("::") {
            let ends = tokens(self.core)
                .take_while(|&(_, start, end)| !is_conversion(&self.core[start..end], &self.core[end..]));
            starts.extend(ends.filter(|(token, ..)| *token == NameToken::Separator).map(|(.., end)| end));
        } else if self.core.contains('/') && !self.core.contains(' ') {
            // A path of a file, or of Go's functions: `net/http.(*conn).serve`.
            starts.extend(self.core.match_indices('/').map(|(at, _)| at + 1));
            let package = starts.last().copied().unwrap_or(0);
            if !self.core.starts_with('/')
                && let Some((at, _)) = self.core[package..].match_indices('.').next()
            {
                starts.push(package + at + 1);
            }
        }
        starts.retain(|&start| start == 0 || is_telling(&self.core[start..], self.after));
        starts
    }

    /// The function of an interpreter without its file and line, if its name tells enough.
    pub(super) fn without_place(self) -> Option<NameFrame<'a>> {
        let is_named = !self.last_part().core.starts_with(['<', '(']);
        (self.is_interpreted && is_named).then_some(NameFrame { after: "", ..self })
    }

    /// An address in a library without the end of the library's name: its version.
    pub(super) fn without_version(self) -> NameFrame<'a> {
        let end = self.core.find(".so").filter(|&end| end > 0 && self.after.starts_with("+0x"));
        NameFrame { core: &self.core[..end.unwrap_or(self.core.len())], ..self }
    }

    /// The name with the last part of the path alone.
    pub(super) fn last_part(self) -> NameFrame<'a> {
        let start = self.parts().last().copied().unwrap_or(0);
        NameFrame { core: &self.core[start..], ..self }
    }
}

/// Whether the end of a path means something on its own: `parse`, but not `{closure}` without the
/// place where it is.
fn is_telling(end: &str, after: &str) -> bool {
    let is_unnamed = end.starts_with(['{', '(', '<']);
    !end.is_empty() && (!is_unnamed || !after.is_empty() && !end.contains("::"))
}

/// Whether an operator converts to the type that follows, whose path is not the function's.
fn is_conversion(token: &str, rest: &str) -> bool {
    token == "operator" && rest.starts_with(' ')
}

fn is_file_and_line(word: &str) -> bool {
    word.rsplit_once(':').is_some_and(|(file, line)| {
        !file.is_empty() && !file.ends_with(':') && !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The start of the file after the name of an interpreter's function: `run (app.py:12)`,
/// `get x (node:fs:9)`, `f (<string>:1)`.
fn interpreted_place(name: &str) -> Option<usize> {
    let at = name.rfind(" (")?;
    let place = name[at + 2..].strip_suffix(')')?;
    let is_file = is_file_and_line(place) || place.starts_with('<') || place.contains('.');
    (is_file && at > 0).then_some(at)
}

/// The start of the offset in `libc.so.6+0x12ab`.
fn offset(name: &str) -> Option<usize> {
    let at = name.rfind("+0x")?;
    name[at + 3..].bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(at)
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, foreign_name};

    #[test]
    fn bare_names_still_tell() {
        for (short, bare) in [
            ("json::Parser::parse_value", "parse_value"),
            ("main", "main"),
            ("tokio::run::{closure}", "run::{closure}"),
            ("tokio::run::{closure} run.rs:12", "{closure} run.rs:12"),
            ("async fn app::fetch", "fetch"),
            ("core::ptr::drop_in_place<Vec<Item>>", "drop_in_place<Vec<Item>>"),
            ("Foo::operator std::vector", "operator std::vector"),
            ("std::operator<<", "operator<<"),
            ("net/http.(*conn).serve", "http.(*conn).serve"),
            ("/usr/lib/libc.so.6", "libc.so.6"),
            ("parse src/a.rs:12", "parse src/a.rs:12"),
            ("Encoder.encode (encoder.py:12)", "encode (encoder.py:12)"),
            ("make.<locals>.visit (a.py:3)", "visit (a.py:3)"),
            ("App.<lambda> (a.py:3)", "<lambda> (a.py:3)"),
            ("get x (node:fs:9)", "get x (node:fs:9)"),
            ("Foo::operator()", "operator()"),
            ("libc.so.6+0x12ab", "libc.so.6+0x12ab"),
            ("::", "::"),
            ("", ""),
        ] {
            assert_eq!(bare_name(short), bare, "{short}");
        }
    }

    proptest! {
        #![proptest_config(property(CASES))]
        /// A frame is the name in three pieces, and its parts begin between characters.
        #[test]
        fn foreign_names_have_parts(name in foreign_name()) {
            let frame = NameFrame::new(&name);
            prop_assert_eq!([frame.before, frame.core, frame.after].concat(), name.clone());
            prop_assert!(frame.parts().iter().all(|&start| frame.core.is_char_boundary(start)));
            prop_assert!(frame.core.ends_with(frame.last_part().core));
            prop_assert!(name.ends_with(bare_name(&name)));
            frame.without_place();
        }
    }
}
