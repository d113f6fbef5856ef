//! Function names as pprof shows them: mangled names are demangled and simplified, and demangled
//! C++ names lose their parameters and template arguments.

use super::profile::SavedProfile;
use crate::symbols::demangle::demangle;
use crate::tally::text::Text;

impl SavedProfile {
    /// Demangles the names of functions whose name is empty or equals the system name.
    pub fn demangle(&mut self) {
        for function in &mut self.functions {
            if function.name.is_empty() || function.system_name == function.name {
                let name = simplify_name(&function.system_name);
                if function.name != name {
                    function.name = Text::from(name);
                }
            }
        }
    }
}

fn simplify_name(system: &str) -> String {
    if let Some(name) = demangle_system_name(system).or_else(|| system.strip_prefix('_').and_then(demangle_system_name))
    {
        return name;
    }
    let looks_demangled = !system.contains(".<") && !system.contains("]).");
    if looks_demangled && (system.contains(['<', '>', '[', ']']) || system.contains("::")) {
        return remove_groups(&remove_groups(system, b'(', b')'), b'<', b'>');
    }
    system.to_owned()
}

fn demangle_system_name(system: &str) -> Option<String> {
    if !system.starts_with("_Z") && !system.starts_with("_R") {
        return None;
    }
    let name = demangle(system.as_bytes());
    // Rust paths are shown in full, C++ names without parameters and template arguments.
    let hash = system.strip_suffix('E').and_then(|start| start.rsplit_once("17h"));
    let is_rust = system.starts_with("_R") || hash.is_some_and(|(_, hash)| hash.len() == 16);
    name.is_mangled.then_some(if is_rust { name.full } else { name.short })
}

/// Removes each outermost group from `start` to `end`. It stops at the first unmatched `end`.
fn remove_groups(name: &str, start: u8, end: u8) -> String {
    let mut bytes = name.as_bytes().to_vec();
    let (mut depth, mut first, mut at) = (0usize, 0, 0);
    while at < bytes.len() {
        if bytes[at] == start {
            depth += 1;
            if depth == 1 {
                first = at;
            }
        } else if bytes[at] == end {
            if depth == 0 {
                break;
            }
            depth -= 1;
            if depth == 0 {
                bytes.drain(first..=at);
                at = first;
                continue;
            }
        }
        at += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_simplified_like_pprofs() {
        assert_eq!(simplify_name("_ZNSt3mapIiiE3fooEi"), "std::map::foo");
        assert_eq!(simplify_name("json::Parser<R>::parse(&mut self)"), "json::Parser::parse");
        assert_eq!(simplify_name("main"), "main");
        assert_eq!(simplify_name("java.lang.Object.<init>"), "java.lang.Object.<init>");
        assert_eq!(simplify_name("main.(*T[...]).M"), "main.(*T[...]).M");
        assert_eq!(simplify_name("a::b>::c"), "a::b>::c");
    }
}
