//! Demangles names of D, Haskell (GHC) and OCaml, as far as they name a module and a function. What
//! tells functions of one name apart, types and numbers, is in the full name as in the symbol.
//!
//! | symbol | full name | short name |
//! | --- | --- | --- |
//! | `_D3std4json9parseJSONFAyaZv` | `std.json.parseJSON(FAyaZv)` | `std.json.parseJSON` |
//! | `base_GHCziBase_map_info` | `GHC.Base.map` | `GHC.Base.map` |
//! | `camlStdlib__List__map_487` | `Stdlib.List.map_487` | `Stdlib.List.map` |

/// Suffixes of the code of closures, which GHC appends to their names.
const GHC_CODE: [&str; 6] = ["_con_info", "_info", "_slow", "_fast", "_entry", "_ret"];

/// Characters that GHC encodes by `z` and a letter.
const GHC_LOWER: [(char, char); 19] = [
    ('a', '&'),
    ('b', '|'),
    ('c', '^'),
    ('d', '$'),
    ('e', '='),
    ('g', '>'),
    ('h', '#'),
    ('i', '.'),
    ('l', '<'),
    ('m', '-'),
    ('n', '!'),
    ('p', '+'),
    ('q', '\''),
    ('r', '\\'),
    ('s', '/'),
    ('t', '*'),
    ('u', '_'),
    ('v', '%'),
    ('z', 'z'),
];

/// Returns the full and the short name of a symbol of one of these languages.
pub(super) fn demangle(symbol: &str) -> Option<(String, String)> {
    dlang(symbol).or_else(|| ocaml(symbol)).or_else(|| haskell(symbol).map(|name| (name.clone(), name)))
}

/// Parts with their lengths before them: `_D3std4json9parseJSON`. What follows is the type.
fn dlang(symbol: &str) -> Option<(String, String)> {
    let mut rest = symbol.strip_prefix("_D")?;
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    while let Some((part, after)) = split_counted(rest) {
        whole.push(part);
        // A template instance: `__T3mapS…`, whose name has a length of its own.
        let name = part.strip_prefix("__T").and_then(split_counted).map_or(part, |(name, _)| name);
        parts.push(name);
        rest = after;
    }
    // A function that has a type, which begins with a letter, or nothing.
    let has_type = rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_alphabetic());
    let full = || if rest.is_empty() { whole.join(".") } else { format!("{}({rest})", whole.join(".")) };
    (parts.len() >= 2 && has_type).then(|| (full(), parts.join(".")))
}

/// Splits off a name that follows its length.
fn split_counted(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = text.get(..digits)?.parse::<usize>().ok().filter(|&length| length > 0)?;
    let (name, rest) = (text.get(digits..digits.checked_add(length)?)?, text.get(digits + length..)?);
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some((name, rest))
}

/// A module in upper case after `caml`, and a number behind the function: `camlStdlib__List__map_487`.
fn ocaml(symbol: &str) -> Option<(String, String)> {
    let path = symbol.strip_prefix("caml").filter(|path| path.starts_with(|first: char| first.is_ascii_uppercase()))?;
    // From OCaml 5.1 on, a dot or a dollar separates the function.
    let path = path.replace(['.', '$'], "__");
    let (short, number) = path.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && short.contains("__")).then(|| (path.replace("__", "."), short.replace("__", ".")))
}

/// A package, a module and a function, with other characters encoded by `z` and `Z`:
/// `base_GHCziBase_map_info`. Without a dot in the module, it may as well be a name of C.
fn haskell(symbol: &str) -> Option<String> {
    let closure = GHC_CODE.iter().find_map(|suffix| symbol.strip_suffix(suffix))?;
    let (first, rest) = closure.split_once('_')?;
    let is_module = |part: &str| {
        part.contains('.') && part.split('.').all(|word| word.starts_with(|letter: char| letter.is_ascii_uppercase()))
    };
    // The main package has no name before its modules.
    let (module, function) = match unescape_ghc(first).filter(|first| is_module(first)) {
        Some(module) => (module, rest),
        None => {
            let (module, function) = rest.split_once('_')?;
            (unescape_ghc(module).filter(|module| is_module(module))?, function)
        }
    };
    let function = unescape_ghc(function).filter(|function| !function.is_empty())?;
    Some(format!("{module}.{function}"))
}

fn unescape_ghc(part: &str) -> Option<String> {
    let mut text = String::with_capacity(part.len());
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            'z' => {
                let code = letters.next()?;
                GHC_LOWER.iter().find(|(from, _)| *from == code)?.1
            }
            'Z' => match letters.next()? {
                'L' => '(',
                'R' => ')',
                'M' => '[',
                'N' => ']',
                'C' => ':',
                'Z' => 'Z',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_languages_are_read() {
        for (symbol, name) in [
            ("_D3std4json9parseJSONFAyaZSQBb9JSONValue", Some("std.json.parseJSON")),
            ("_D3app4mainFZv", Some("app.main")),
            ("_D3std9algorithm__T3mapVAyaZQjFZv", None),
            ("_D3std9algorithm7__T3mapVFZv", Some("std.algorithm.map")),
            ("_Dmain", None),
            ("_D99app", None),
            ("_DYNAMIC", None),
            ("camlStdlib__List__map_487", Some("Stdlib.List.map")),
            ("camlMain.run_12", Some("Main.run")),
            ("camlDune__exe__Main__entry", None),
            ("caml_alloc_1", None),
            ("base_GHCziBase_map_info", Some("GHC.Base.map")),
            ("AppziServer_run1_info", Some("App.Server.run1")),
            ("containerszm0zi6zi7_DataziMapziInternal_insertzuzdsgo_info", Some("Data.Map.Internal.insert_$sgo")),
            ("ghczmprim_GHCziTypes_ZMZN_con_info", Some("GHC.Types.[]")),
            ("get_info", None),
            ("my_struct_info", None),
            ("SSL_SESSION_get_info", None),
            ("Resizing_do_info", None),
            ("Foo_zy_info", None),
        ] {
            assert_eq!(demangle(symbol).map(|(_, short)| short).as_deref(), name, "{symbol}");
        }
    }

    /// Functions of one name are different rows.
    #[test]
    fn full_names_tell_functions_apart() {
        let full = |symbol| demangle(symbol).map(|(full, _)| full);
        for (one, other) in [
            ("camlMain__fun_12", "camlMain__fun_13"),
            ("_D3app3addFiZi", "_D3app3addFdZd"),
            ("_D3std9algorithm7__T3mapVFZv", "_D3std9algorithm7__T3mapWFZv"),
        ] {
            assert!(full(one).is_some() && full(one) != full(other), "{one} {other}");
        }
        assert_eq!(full("camlMain__fun_12").as_deref(), Some("Main.fun_12"));
    }
}
