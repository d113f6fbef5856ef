//! The names that run-time compilers give to code, as functions: `JS:*fib /srv/app.js:1:13` of V8,
//! `py::fib:/srv/app.py` of CPython, `int app.Fib.of(int)` of Java. Names of other compilers stay as
//! they are.
//!
//! V8 compiles a function several times and marks the tier before its name; all are one function.

use crate::symbols::resolved::ResolvedLine;
use crate::symbols::sanitize::sanitize;

/// The kinds that V8 writes before a name and its place, in all its versions.
const V8_KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Eval:", "Script:"];
/// V8's marks of tiers: interpreter, baseline, mid-tier and optimizing compilers.
const V8_TIERS: [char; 4] = ['~', '^', '+', '*'];

/// Returns the function of a name. Its line is unknown: compilers name the line where the function
/// begins.
pub(super) fn function(raw: &[u8]) -> ResolvedLine {
    let text = sanitize(&String::from_utf8_lossy(raw));
    let v8 = V8_KINDS.iter().find_map(|kind| text.strip_prefix(kind)).and_then(v8_function);
    let python = || text.strip_prefix("py::").and_then(python_function);
    v8.or_else(python).or_else(|| java_function(&text)).unwrap_or_else(|| line(text.clone(), text, ""))
}

fn line(full: String, short: String, file: &str) -> ResolvedLine {
    ResolvedLine { full, short, file: file.to_owned(), line: 0, inlined: false }
}

/// `*fib /srv/app.js:1:13`; a function without a name has only the place.
fn v8_function(rest: &str) -> Option<ResolvedLine> {
    let rest = rest.strip_prefix(V8_TIERS).unwrap_or(rest);
    // Names may have blanks (`get size`), places seldom.
    let (name, place) = rest.rsplit_once(' ')?;
    // A place ends with line and column.
    let (before, _column) = place.rsplit_once(':').filter(|(_, column)| is_number(column))?;
    let (file, at) = before.rsplit_once(':').filter(|(_, at)| is_number(at))?;
    let name = if name.is_empty() { "(anonymous)" } else { name };
    let path = file.strip_prefix("file://").unwrap_or(file);
    Some(with_place(name, path, &format!(":{at}")))
}

/// `fib:/srv/app.py`.
fn python_function(rest: &str) -> Option<ResolvedLine> {
    let (name, file) = rest.split_once(':')?;
    (!name.is_empty() && !file.is_empty()).then(|| with_place(name, file, ""))
}

/// `int app.Fib.of(int, java.lang.String)`: the short name lacks result and parameters, and the
/// number of a class that Java made: `app.Fib$$Lambda$14/0x0000000800c03000`.
fn java_function(text: &str) -> Option<ResolvedLine> {
    let (before, _) = text.strip_suffix(')')?.split_once('(')?;
    let (result, name) = before.split_once(' ')?;
    let is_name = !result.is_empty() && name.contains('.') && !name.contains([' ', ':']);
    let short = match name.split_once("/0x") {
        Some((class, rest)) => format!("{class}{}", rest.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())),
        None => name.to_owned(),
    };
    is_name.then(|| line(text.to_owned(), short, ""))
}

fn with_place(name: &str, path: &str, at: &str) -> ResolvedLine {
    let base = path.rsplit('/').next().unwrap_or_default();
    line(format!("{name} ({path}{at})"), format!("{name} ({base}{at})"), path)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(raw: &str) -> (String, String, String) {
        let ResolvedLine { full, short, file, .. } = function(raw.as_bytes());
        (full, short, file)
    }

    fn expect(raw: &str, full: &str, short: &str, file: &str) {
        assert_eq!(names(raw), (full.to_owned(), short.to_owned(), file.to_owned()), "{raw}");
    }

    #[test]
    fn v8_names_lose_kind_and_tier() {
        for tier in ["~", "^", "+", "*", ""] {
            let raw = format!("JS:{tier}fib /srv/app.js:1:13");
            expect(&raw, "fib (/srv/app.js:1)", "fib (app.js:1)", "/srv/app.js");
        }
        expect("JS:* file:///a/b.mjs:7:2", "(anonymous) (/a/b.mjs:7)", "(anonymous) (b.mjs:7)", "/a/b.mjs");
        expect("LazyCompile:*get x node:fs:9:1", "get x (node:fs:9)", "get x (node:fs:9)", "node:fs");
        expect("LazyCompile:~next node:internal/x:9:1", "next (node:internal/x:9)", "next (x:9)", "node:internal/x");
        expect("Builtin:ArrayMap", "Builtin:ArrayMap", "Builtin:ArrayMap", "");
    }

    #[test]
    fn python_names_show_their_file() {
        expect("py::App.run:/srv/app.py", "App.run (/srv/app.py)", "App.run (app.py)", "/srv/app.py");
        expect("py::f:<frozen importlib>", "f (<frozen importlib>)", "f (<frozen importlib>)", "<frozen importlib>");
        expect("py::", "py::", "py::", "");
    }

    #[test]
    fn java_names_lose_result_and_parameters() {
        let java = |raw: &str, short: &str| expect(raw, raw, short, "");
        java("int app.Fib.of(int, java.lang.String[])", "app.Fib.of");
        java("void Main.<init>()", "Main.<init>");
        java("void Main$$Lambda$14/0x0000000800c03000.run()", "Main$$Lambda$14.run");
        for other in ["Interpreter", "StubRoutines (2)", "vtable stub", "I2C/C2I adapters", "int ns::f(int)", "a.b()"] {
            java(other, other);
        }
    }

    #[test]
    fn hostile_names_are_safe_to_display() {
        let line = function(b"py::f\x1b[2J:/a\xff.py");
        assert!(!line.full.contains('\x1b') && !line.file.contains('\x1b'), "{line:?}");
        for raw in ["JS:", "JS:~", "JS: :", "JS:a b:c:d", "py:::", "", "JS:~f :1:2", " .()", "a /0x.()"] {
            names(raw);
        }
    }
}
