//! Names of functions as pprof shows them: those that are still mangled are taken apart and simplified, and so are those that
//! look as if they had been C++ before.

use super::Saved;
use crate::symbols::demangle::demangle;
use crate::tally::text::Text;

impl Saved {
    /// Gives every function that has no name of its own the one that its system name stands for.
    pub fn demangle(&mut self) {
        for function in &mut self.functions {
            if function.name.is_empty() || function.system_name == function.name {
                let name = readable(&function.system_name);
                if function.name != name {
                    function.name = Text::from(name);
                }
            }
        }
    }
}

fn readable(system: &str) -> String {
    if let Some(name) = demangled(system).or_else(|| system.strip_prefix('_').and_then(demangled)) {
        return name;
    }
    let looks_demangled = !system.contains(".<") && !system.contains("]).");
    if looks_demangled && (system.contains(['<', '>', '[', ']']) || system.contains("::")) {
        return without(&without(system, b'(', b')'), b'<', b'>');
    }
    system.to_owned()
}

fn demangled(system: &str) -> Option<String> {
    if !system.starts_with("_Z") && !system.starts_with("_R") {
        return None;
    }
    let name = demangle(system.as_bytes());
    // A Rust path is told whole, a C++ name without parameters and arguments.
    let hash = system.strip_suffix('E').and_then(|start| start.rsplit_once("17h"));
    let is_rust = system.starts_with("_R") || hash.is_some_and(|(_, hash)| hash.len() == 16);
    name.is_mangled.then_some(if is_rust { name.full } else { name.short })
}

/// Takes out everything from each outermost `start` to its `end`; where they do not match, nothing more.
fn without(name: &str, start: u8, end: u8) -> String {
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
    fn names_lose_what_pprof_takes_away() {
        assert_eq!(readable("_ZNSt3mapIiiE3fooEi"), "std::map::foo");
        assert_eq!(readable("json::Parser<R>::parse(&mut self)"), "json::Parser::parse");
        assert_eq!(readable("main"), "main");
        assert_eq!(readable("java.lang.Object.<init>"), "java.lang.Object.<init>");
        assert_eq!(readable("main.(*T[...]).M"), "main.(*T[...]).M");
        assert_eq!(readable("a::b>::c"), "a::b>::c");
    }
}
