//! Shortens demangled names of C++ and Rust: removes parameters and template and generic arguments,
//! and keeps the parts that distinguish functions. It only works on the text.

use super::name_syntax::{MAX_DEPTH, NameToken, bare_types, group, inside, operator, split, tokens, unnamed};

/// Shortens a C++ name: `std::map<int, X>::operator[](int const&)` to `std::map::operator[]`.
pub(super) fn cpp(full: &str) -> String {
    let mut short = String::with_capacity(full.len());
    let mut at = 0;
    while let Some(byte) = full.as_bytes().get(at) {
        let rest = &full[at..];
        if let Some(length) = operator(full, at) {
            short.push_str(&rest[..length]);
            at += length;
            // In `operator< <int>` a space separates the arguments from the operator.
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
    // If the name has nothing but arguments, it is shown in full.
    if short.is_empty() { full.to_owned() } else { short }
}

/// Shortens `{lambda(int)#1}` to `{lambda#1}`. Other names in braces are unchanged.
fn lambda(name: &str) -> String {
    match name.strip_prefix("{lambda(").and_then(|rest| rest.rsplit_once('#')) {
        Some((_, number)) => format!("{{lambda#{number}"),
        None => name.to_owned(),
    }
}

/// Returns the length of the qualifiers that may follow parameters, such as ` const` and ` &&`.
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

/// Shortens a Rust name: `<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend` to
/// `alloc::vec::Vec::extend`.
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
                let (inner, _) = inside(&rest[..length]);
                at += length;
                if depth == 0 {
                    continue;
                }
                if let Some(glue) = drop_glue(&short) {
                    // Its argument is all that tells it from others.
                    short.truncate(glue);
                    short.push_str(&format!("<{}>", bare_types(inner)));
                    continue;
                }
                let is_after_path = short.ends_with("::");
                if let Some(implementation) = inner.strip_prefix("impl ").filter(|_| is_after_path || short.is_empty())
                {
                    // Of `core::slice::<impl [T]>` only the type is kept. The module is that of the
                    // `impl` block.
                    let (of, on) = split(implementation, " for ");
                    short = subject(on.map_or(of, |on| on), on.map(|_| of), depth);
                } else if is_after_path {
                    // A turbofish.
                    short.truncate(short.len() - 2);
                } else if !short.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '}')) {
                    // The brackets hold a type and not the arguments of the name before them.
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

/// Returns the length of `path` without a separator at its end, if it names the code that drops a
/// value.
fn drop_glue(path: &str) -> Option<usize> {
    let path = path.strip_suffix("::").unwrap_or(path);
    (path.ends_with("ptr::drop_in_place") || path.ends_with("ptr::drop_glue")).then_some(path.len())
}

/// Returns the type that a method belongs to, or its trait if the type is only a parameter.
fn subject(of: &str, as_: Option<&str>, depth: usize) -> String {
    let bare = of.trim_start_matches(['&', '*']).trim_start_matches("mut ").trim_start_matches("const ");
    let is_parameter = bare.len() <= 2 && bare.starts_with(|first: char| first.is_ascii_uppercase()) || bare == "Self";
    match as_ {
        Some(as_) if is_parameter => rust_within(as_, depth - 1),
        _ => rust_within(of, depth - 1),
    }
}

/// Removes the parts of a short name that tell users nothing, and writes what has no name in one
/// way for all compilers:
///
/// * `(anonymous namespace)`, the inline namespaces of standard libraries and `{impl#0}` go;
/// * `{{closure}}` and `{closure#0}` are `{closure}`, however deeply they are nested, and whatever
///   shim calls them;
/// * the `operator()` of a lambda goes, and so does the type that has no name;
/// * `__memmove_avx512_unaligned_erms` is `memmove (avx512)`.
pub fn tidy(short: &str) -> String {
    if let Some(variant) = cpu_variant(short) {
        return variant;
    }
    if !short.contains(['{', '(', '$']) && !short.contains("::__") && !short.contains("_V2") {
        return short.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    let mut finish = |part: &mut String| {
        let part = std::mem::take(part);
        let is_noise = matches!(&*part, "(anonymous namespace)" | "__cxx11" | "__1" | "__ndk1" | "_V2" | "{impl}");
        let is_nested = part == "{closure}" && parts.last().is_some_and(|last| last == "{closure}");
        match parts.last_mut() {
            Some(last) if part == "operator()" && is_lambda(last) => {
                if !last.starts_with('{') || last == "{unnamed type}" {
                    *last = "{lambda}".to_owned();
                }
            }
            Some(last) if last == "{lambda}" && part.starts_with("{lambda} ") => *last = part,
            Some(last) if last == "{closure}" && matches!(&*part, "call_once" | "call_mut" | "call") => {}
            _ if is_noise || is_nested || part.starts_with("{shim:") => {}
            _ => parts.push(part),
        }
    };
    for (token, start, end) in tokens(short) {
        match token {
            NameToken::Separator => finish(&mut part),
            NameToken::Group if &short[start..end] == "{{vtable.shim}}" => {}
            NameToken::Group => part.push_str(unnamed(&short[start..end])),
            NameToken::Text => part.push_str(&short[start..end]),
        }
    }
    finish(&mut part);
    if parts.is_empty() { short.to_owned() } else { parts.join("::") }
}

/// Whether a short name ends in a lambda or a closure, which has no name of its own.
pub(super) fn ends_unnamed(short: &str) -> bool {
    named_end(short).is_some()
}

/// Names the lambda or closure at the end of a name by the place of its declaration:
/// `main::{lambda(int)#1}::operator()(int)` becomes `main::{lambda} app.cc:12`. `declared` is the
/// name of the declaration, which tells an async function from a closure.
pub(super) fn place_unnamed(name: &str, declared: &str, place: &str) -> String {
    let Some((end, kind)) = named_end(name) else { return name.to_owned() };
    let path = &name[..end];
    let separator = if path.is_empty() { "" } else { "::" };
    let declared = if declared.starts_with('{') { &declared[..group(declared)] } else { declared };
    match unnamed(declared) {
        "{async fn}" if !path.is_empty() => format!("async fn {path}"),
        _ if place.is_empty() => name.to_owned(),
        declared @ ("{async block}" | "{async closure}") => format!("{path}{separator}{declared} {place}"),
        _ => format!("{path}{separator}{kind} {place}"),
    }
}

/// Returns the length of the path before the lambda or closures at the end of a name, and what is
/// there.
fn named_end(name: &str) -> Option<(usize, &'static str)> {
    let mut parts = Vec::new();
    let mut part = 0;
    for (token, start, end) in tokens(name) {
        if token == NameToken::Separator {
            parts.push((part, start));
            part = end;
        }
    }
    parts.push((part, name.len()));
    let text = |(start, end): &(usize, usize)| &name[*start..*end];
    let path_end = |path: usize| path.checked_sub(1).map_or(0, |last| parts[last].1);
    if let [.., class, method] = &parts[..]
        && text(method).starts_with("operator()")
        && is_lambda(text(class))
    {
        return Some((path_end(parts.len() - 2), "{lambda}"));
    }
    // Closures may be nested, and have generic arguments.
    let mut path = parts.len();
    while let Some(last) = path.checked_sub(1) {
        let is_arguments = text(&parts[last]).starts_with('<') && last > 0 && is_closure(text(&parts[last - 1]));
        if !is_closure(text(&parts[last])) && !is_arguments {
            break;
        }
        path = last;
    }
    (path < parts.len()).then(|| (path_end(path), "{closure}"))
}

/// Whether a part of a path is a closure or the like.
fn is_closure(part: &str) -> bool {
    matches!(unnamed(part), "{closure}" | "{async fn}" | "{async block}" | "{async closure}") && part != unnamed(part)
}

/// Whether a part of a path is the type of a lambda.
pub(super) fn is_lambda(part: &str) -> bool {
    ["{lambda", "{unnamed type", "<lambda", "'lambda", "$_"].iter().any(|start| part.starts_with(start))
}

/// Returns the function and the instruction set of a variant that libc chooses by CPU:
/// `memmove (avx512)` of `__memmove_avx512_unaligned_erms`.
fn cpu_variant(name: &str) -> Option<String> {
    const SETS: [&str; 15] = [
        "sse2", "ssse3", "sse4", "sse42", "avx", "avx2", "avx512", "evex", "evex256", "evex512", "fma", "fma4", "erms",
        "x86", "sse41",
    ];
    const DETAILS: [&str; 12] =
        ["unaligned", "erms", "rtm", "movbe", "no", "bsf", "back", "vex", "chk", "1", "2", "64"];
    let words: Vec<&str> = name.strip_prefix("__")?.split('_').collect();
    let set = words.iter().position(|word| SETS.contains(word)).filter(|&set| set > 0)?;
    let is_detail = |word: &&str| SETS.contains(word) || DETAILS.contains(word);
    let function = words[..set].join("_");
    (words[set + 1..].iter().all(is_detail) && !function.is_empty()).then(|| format!("{function} ({})", words[set]))
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, foreign_name};

    #[test]
    fn lambdas_and_closures_are_named_by_their_place() {
        for (name, declared, placed) in [
            ("main::{lambda(int)#1}::operator()(int) const", "operator()", "main::{lambda} a.cc:12"),
            ("f(A<B>)::{lambda(auto:1)#2}::operator()<int>(int) const", "operator()<int>", "f(A<B>)::{lambda} a.cc:12"),
            ("work::{unnamed type}::operator()", "operator()", "work::{lambda} a.cc:12"),
            ("work::<lambda(int)>::operator()", "operator()", "work::{lambda} a.cc:12"),
            ("app::main::{{closure}}", "{closure#0}", "app::main::{closure} a.cc:12"),
            ("app::main::{{closure}}::{{closure}}", "{closure#1}", "app::main::{closure} a.cc:12"),
            ("app::main::{closure#0}::<u8>", "{closure#0}<u8>", "app::main::{closure} a.cc:12"),
            ("{closure#0}", "{closure#0}", "{closure} a.cc:12"),
            ("app::fetch::{{closure}}", "{async_fn#0}", "async fn app::fetch"),
            ("app::fetch::{{closure}}", "{async_block#0}", "app::fetch::{async block} a.cc:12"),
            ("Foo::operator()(int)", "operator()", "Foo::operator()(int)"),
            ("app::main", "main", "app::main"),
        ] {
            assert_eq!(place_unnamed(name, declared, "a.cc:12"), placed, "{name}");
        }
        assert_eq!(place_unnamed("app::main::{{closure}}", "{closure#0}", ""), "app::main::{{closure}}");
    }

    #[test]
    fn parts_that_tell_nothing_are_removed() {
        for (short, tidied) in [
            ("main", "main"),
            ("a::(anonymous namespace)::Foo::f", "a::Foo::f"),
            ("(anonymous namespace)::f", "f"),
            ("std::__cxx11::basic_string::append", "std::basic_string::append"),
            ("app::run::{{closure}}::{{closure}}", "app::run::{closure}"),
            ("app::run::{closure#0}::{closure#1}::deep", "app::run::{closure}::deep"),
            ("app::run::{closure#0}::call_once::{shim:vtable#0}", "app::run::{closure}"),
            ("core::ops::function::FnOnce::call_once{{vtable.shim}}", "core::ops::function::FnOnce::call_once"),
            ("app::parser::{impl#3}::parse", "app::parser::parse"),
            ("main::{lambda#1}::operator()", "main::{lambda#1}"),
            ("main::{unnamed type}::operator()", "main::{lambda}"),
            ("main::$_0::operator()", "main::{lambda}"),
            ("main::{unnamed type}::operator()::{lambda} a.cc:3", "main::{lambda} a.cc:3"),
            ("Foo::operator()", "Foo::operator()"),
            ("Foo::operator<<", "Foo::operator<<"),
            ("{lambda} app.cc:3", "{lambda} app.cc:3"),
            ("(anonymous namespace)", "(anonymous namespace)"),
            ("__memmove_avx512_unaligned_erms", "memmove (avx512)"),
            ("__memset_evex_unaligned_erms", "memset (evex)"),
            ("__strcasecmp_l_avx2", "strcasecmp_l (avx2)"),
            ("__memcmp_evex_movbe", "memcmp (evex)"),
            ("__strchr_sse2_no_bsf", "strchr (sse2)"),
            ("__ieee754_exp_fma", "ieee754_exp (fma)"),
            ("__decode_avx2_block", "__decode_avx2_block"),
            ("decode_avx2", "decode_avx2"),
            ("__avx2", "__avx2"),
        ] {
            assert_eq!(tidy(short), tidied, "{short}");
        }
    }

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
            (
                "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
                "core::ptr::drop_in_place<lang_start<()>::{closure}>",
            ),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<app::Item>>", "core::ptr::drop_in_place<Vec<Item>>"),
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

    /// Regression test: the length of a group was taken of a name without one.
    #[test]
    fn a_declaration_may_begin_with_any_letter() {
        assert_eq!(place_unnamed("f::{closure#0}", "ü", "a.rs:3"), "f::{closure} a.rs:3");
    }

    proptest! {
        #![proptest_config(property(CASES))]
        #[test]
        fn foreign_names_are_simplified(name in foreign_name(), declared in foreign_name(), place in foreign_name()) {
            for short in [cpp(&name), rust(&name), tidy(&name)] {
                ends_unnamed(&short);
                is_lambda(&short);
                tidy(&short);
            }
            place_unnamed(&name, &declared, &place);
        }
    }
}
