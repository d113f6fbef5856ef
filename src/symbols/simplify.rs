//! Full names to short ones: what tells functions apart at a glance stays, parameters and template and generic arguments
//! go. Pure text work on demangled names of C++ and Rust.

/// `std::map<int, X>::operator[](int const&)` is `std::map::operator[]`.
pub(super) fn cpp(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut at = 0;
    while let Some(byte) = full.as_bytes().get(at) {
        let rest = &full[at..];
        if let Some(length) = operator(full, at) {
            short.push_str(&rest[..length]);
            at += length;
            // `operator< <int>`: the arguments are set off, lest they look like the operator.
            at += usize::from(full[at..].starts_with(" <"));
            continue;
        }
        match byte {
            b'(' if rest.starts_with("(anonymous namespace)") => {
                short.push_str("(anonymous namespace)");
                at += "(anonymous namespace)".len();
            }
            b'<' if rest.starts_with("<lambda") && (short.is_empty() || short.ends_with("::")) => {
                short.push_str("{lambda}");
                at += group(rest);
            }
            b'{' => {
                let length = group(rest);
                short.push_str(&lambda(&rest[..length]));
                at += length;
            }
            b'(' => {
                at += group(rest);
                at += qualifiers(&full[at..]);
            }
            b'<' | b'[' => at += group(rest),
            b' ' if rest.starts_with(" [") => at += 1,
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                short.push_str(&rest[..length]);
                at += length;
            }
        }
    }
    short.truncate(short.trim_end().len());
    // Nothing but arguments is no name; better too long than none.
    if short.is_empty() { full.to_owned() } else { short }
}

/// Length of the operator's name that begins at `at`: `operator<<`, `operator()`, `operator new[]`; of a conversion only
/// the word.
fn operator(text: &str, at: usize) -> Option<usize> {
    const WORD: &str = "operator";
    // Of two with the same beginning the longer one is first.
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
    let rest = text[at..].strip_prefix(WORD)?;
    let is_part = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..))
    };
    let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
    if is_part(before) || is_part(rest.as_bytes().first()) {
        return None;
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(0, |sign| sign.len());
    Some(WORD.len() + sign)
}

/// Length of the group that begins `text` with a bracket, both brackets included; all of it when it is not closed.
fn group(text: &str) -> usize {
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
            // Between parentheses it may be the sign for "greater".
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

/// Brackets within brackets; no compiler gets there.
const MAX_OPEN: usize = 1_000;

/// `{lambda(int)#1}` is `{lambda#1}`; other names in braces stay.
fn lambda(name: &str) -> String {
    match name.strip_prefix("{lambda(").and_then(|rest| rest.rsplit_once('#')) {
        Some((_, number)) => format!("{{lambda#{number}"),
        None => name.to_owned(),
    }
}

/// Length of what may follow parameters and belongs to them: ` const`, ` &&`.
fn qualifiers(text: &str) -> usize {
    const WORDS: [&str; 7] = [" const", " volatile", " restrict", " noexcept", " &&", " &", " "];
    let mut rest = text;
    while let Some(after) = WORDS.iter().find_map(|word| rest.strip_prefix(word)) {
        if after.starts_with('[') {
            break;
        }
        rest = after;
    }
    text.len() - rest.len()
}

/// Levels of types within types that are told apart.
const MAX_DEPTH: usize = 16;

/// `<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend` is `alloc::vec::Vec::extend`.
pub(super) fn rust(full: &str) -> String {
    rust_within(full, MAX_DEPTH)
}

fn rust_within(full: &str, depth: usize) -> String {
    let mut short = String::with_capacity(full.len());
    let mut at = 0;
    while let Some(byte) = full.as_bytes().get(at) {
        let rest = &full[at..];
        match byte {
            b'<' => {
                let length = group(rest);
                let inner = rest[1..length].strip_suffix('>').unwrap_or(&rest[1..length]);
                at += length;
                if depth == 0 {
                    continue;
                }
                let is_after_path = short.ends_with("::");
                if let Some(implementation) = inner.strip_prefix("impl ").filter(|_| is_after_path || short.is_empty())
                {
                    // `core::slice::<impl [T]>`: the type says it; the module is only where the block stands.
                    let (of, on) = split(implementation, " for ");
                    short = subject(on.map_or(of, |on| on), on.map(|_| of), depth);
                } else if is_after_path {
                    // A turbofish.
                    short.truncate(short.len() - 2);
                } else if !short.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '}')) {
                    // Not the arguments of the name before it, but a type of its own.
                    let (of, as_) = split(inner, " as ");
                    short.push_str(&subject(of, as_, depth));
                }
            }
            b'{' => {
                let length = group(rest);
                short.push_str(&rest[..length]);
                at += length;
            }
            b'-' if rest.starts_with("->") => {
                short.push_str("->");
                at += 2;
            }
            _ => {
                let length = rest.chars().next().map_or(1, char::len_utf8);
                short.push_str(&rest[..length]);
                at += length;
            }
        }
    }
    if short.is_empty() { full.to_owned() } else { short }
}

/// The type that a method belongs to, or its trait when the type is only a parameter.
fn subject(of: &str, as_: Option<&str>, depth: usize) -> String {
    let bare = of.trim_start_matches(['&', '*']).trim_start_matches("mut ").trim_start_matches("const ");
    let is_parameter = bare.len() <= 2 && bare.starts_with(|first: char| first.is_ascii_uppercase()) || bare == "Self";
    match as_ {
        Some(as_) if is_parameter => rust_within(as_, depth - 1),
        _ => rust_within(of, depth - 1),
    }
}

/// Splits at the first `word` that stands outside of all brackets.
fn split<'t>(text: &'t str, word: &str) -> (&'t str, Option<&'t str>) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(after) = rest.strip_prefix(word) {
            return (&text[..at], Some(after));
        }
        at += match rest.as_bytes()[0] {
            b'<' | b'(' | b'[' | b'{' => group(rest),
            b'-' if rest.starts_with("->") => 2,
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_names() {
        for (full, short) in [
            ("main", "main"),
            ("std::map<int, std::string, std::less<int> >::operator[](int const&)", "std::map::operator[]"),
            ("std::vector<int, std::allocator<int> >::push_back(int&&)", "std::vector::push_back"),
            ("std::operator<< <std::char_traits<char> >(std::ostream&, char const*)", "std::operator<<"),
            ("Foo::operator< <int>(int)", "Foo::operator<"),
            ("Foo::operator<<<int>(int)", "Foo::operator<<"),
            ("operator<(Foo const&, Foo const&)", "operator<"),
            ("Foo::operator<=>(Foo const&) const", "Foo::operator<=>"),
            ("Foo::operator>>(int)", "Foo::operator>>"),
            ("Foo::operator->() const", "Foo::operator->"),
            ("Foo::operator->*(int)", "Foo::operator->*"),
            ("Foo::operator()()", "Foo::operator()"),
            ("Foo::operator()(int) const &", "Foo::operator()"),
            ("Foo::operator,(int)", "Foo::operator,"),
            ("operator new(unsigned long)", "operator new"),
            ("operator delete[](void*)", "operator delete[]"),
            ("operator \"\" _km(long double)", "operator \"\" _km"),
            ("Foo::operator int()", "Foo::operator int"),
            ("Foo::operator std::vector<int, std::allocator<int> ><int>() const", "Foo::operator std::vector"),
            ("Foo::operator bool() const [clone .part.0]", "Foo::operator bool"),
            ("my_operator(int)", "my_operator"),
            ("operators::run(int)", "operators::run"),
            ("(anonymous namespace)::foo(int)", "(anonymous namespace)::foo"),
            ("a::(anonymous namespace)::Foo<(anonymous namespace)::B>::f()", "a::(anonymous namespace)::Foo::f"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
            ("foo::bar(int)::{lambda(auto:1)#2}::operator()<int>(int) const", "foo::bar::{lambda#2}::operator()"),
            ("f(A<B>)::{lambda(std::vector<int> const&)#1}::operator()() const", "f::{lambda#1}::operator()"),
            ("main::<lambda(int)>::operator()", "main::{lambda}::operator()"),
            ("A::{unnamed type#1}::A()", "A::{unnamed type#1}::A"),
            ("A::f() const::B::g()", "A::f::B::g"),
            ("foo::bar[abi:cxx11](int)", "foo::bar"),
            ("boost::foo<((3)>(2))>()", "boost::foo"),
            ("boost::foo<((3)<(2))>(int)", "boost::foo"),
            ("call<&(Foo::operator>(Foo const&))>(int)", "call"),
            ("call<&Foo::operator-> >(int)", "call"),
            ("std::function<void (int)>::operator()(int) const", "std::function::operator()"),
            ("guard variable for main::x", "guard variable for main::x"),
            ("thunk to foo::bar(int)", "thunk to foo::bar"),
            ("foo::~foo()", "foo::~foo"),
            ("größe<int>::messen(int)", "größe::messen"),
        ] {
            assert_eq!(cpp(full), short, "{full}");
        }
    }

    #[test]
    fn rust_names() {
        for (full, short) in [
            ("app::main", "app::main"),
            ("alloc::vec::Vec<T,A>::push", "alloc::vec::Vec::push"),
            ("<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend", "alloc::vec::Vec::extend"),
            ("<alloc::vec::Vec<u32>>::push", "alloc::vec::Vec::push"),
            ("<alloc::vec::Vec<u32> as core::fmt::Debug>::fmt", "alloc::vec::Vec::fmt"),
            ("core::mem::swap::<u32>", "core::mem::swap"),
            ("app::run::<alloc::vec::Vec<u8>, 4>::{closure#0}", "app::run::{closure#0}"),
            ("app::main::{{closure}}", "app::main::{{closure}}"),
            ("core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>", "core::ptr::drop_in_place"),
            (
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
            ),
            ("alloc::slice::<impl [T]>::to_vec", "[T]::to_vec"),
            ("<[u8]>::to_vec", "[u8]::to_vec"),
            ("core::fmt::num::imp::<impl core::fmt::Display for u32>::fmt", "u32::fmt"),
            ("<T as core::convert::Into<U>>::into", "core::convert::Into::into"),
            ("<&mut F as core::ops::FnOnce<A>>::call_once", "core::ops::FnOnce::call_once"),
            ("core::iter::<impl core::iter::Iterator for I>::by_ref", "core::iter::Iterator::by_ref"),
            ("<&app::Thing<u8> as core::fmt::Display>::fmt", "&app::Thing::fmt"),
            ("<(u8, app::Pair<T>) as core::fmt::Debug>::fmt", "(u8, app::Pair)::fmt"),
            ("<fn(A) -> B as app::Call<A>>::call", "fn(A) -> B::call"),
            ("<dyn app::Draw<Out = u8> as app::Show>::show", "dyn app::Draw::show"),
            ("<<app::A as app::B>::C as app::D>::run", "app::A::C::run"),
            ("<app::Tree<<app::A as app::B>::Item> as core::clone::Clone>::clone", "app::Tree::clone"),
            ("app::größe::<u8>", "app::größe"),
        ] {
            assert_eq!(rust(full), short, "{full}");
        }
    }

    #[test]
    fn unbalanced_brackets_end_somewhere() {
        for text in
            ["<", "a<", "a(", ")", "a>b", "{", "<<<<", "operator", "operator<", "a<(>", "<impl ", "<a as ", "::<x"]
        {
            assert!(!cpp(text).is_empty(), "{text}");
            assert!(!rust(text).is_empty(), "{text}");
        }
        let deep = "<".repeat(60_000);
        assert!(!cpp(&deep).is_empty());
        assert!(!rust(&deep).is_empty());
    }
}
