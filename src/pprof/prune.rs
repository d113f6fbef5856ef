//! Removes the frames that the profile declares uninteresting with `drop_frames`, usually those of
//! the profiler that wrote it (google/pprof: `prune.go`).

use regex::Regex;

use super::profile::SavedProfile;
use crate::tally::query::Pattern;

/// A function name without its parameters, which is what `drop_frames` is matched with.
fn without_parameters(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut start = 0;
    while let Some(at) = name[start..].find(['(', 'o']).map(|at| start + at) {
        let rest = &name[at..];
        let reserved = ["(anonymous namespace)", "operator()"].into_iter().find(|word| rest.starts_with(word));
        match reserved {
            Some(word) => start = at + word.len(),
            None if rest.starts_with('(') => return &name[..at],
            None => start = at + 1,
        }
    }
    name
}

impl SavedProfile {
    /// Removes the callees of every matching frame (`prune_from`). Of several matches in a stack,
    /// the one next to the leaf counts.
    pub fn prune_from(&mut self, pattern: &Pattern) {
        let is_match: Vec<bool> = self
            .functions
            .iter()
            .map(|function| !function.name.is_empty() && pattern.matches(without_parameters(&function.name)))
            .collect();
        let mut has_match = vec![false; self.locations.len()];
        for (location, has_match) in self.locations.iter_mut().zip(&mut has_match) {
            if let Some(index) = location.lines.iter().position(|line| is_match[line.function as usize]) {
                location.lines.drain(..index);
                *has_match = true;
            }
        }
        self.samples.retain(|stack, _, _| {
            let index = stack.iter().position(|&location| has_match[location as usize]).unwrap_or(0);
            stack.drain(..index);
            true
        });
    }

    /// Removes matching frames and their callees from every stack. Matches that have no other frame
    /// above them stay.
    pub fn remove_uninteresting(&mut self) {
        if self.drop_frames.is_empty() {
            return;
        }
        let compile = |pattern: &str| Regex::new(&format!("^({pattern})$")).ok();
        let Some(drop) = compile(&self.drop_frames) else { return };
        let keep = if self.keep_frames.is_empty() { None } else { compile(&self.keep_frames) };
        let is_dropped = |name: &str| {
            let name = without_parameters(name);
            !name.is_empty() && drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
        };
        let dropped: Vec<bool> = self.functions.iter().map(|of| !of.name.is_empty() && is_dropped(&of.name)).collect();
        // For each location, whether it is removed itself, and whether its callees are.
        let mut actions = vec![(false, false); self.locations.len()];
        for (location, action) in self.locations.iter_mut().zip(&mut actions) {
            if let Some(at) = location.lines.iter().rposition(|line| dropped[line.function as usize]) {
                *action = (at + 1 == location.lines.len(), true);
                if !action.0 {
                    location.lines.drain(..=at);
                }
            }
        }
        if !actions.iter().any(|action| action.1) {
            return;
        }
        self.samples.retain(|stack, _, _| {
            let mut below_user = false;
            for at in (0..stack.len()).rev() {
                match actions[stack[at] as usize] {
                    (false, false) => below_user = true,
                    _ if !below_user => {}
                    (removes_itself, _) => {
                        stack.drain(..if removes_itself { at + 1 } else { at });
                        break;
                    }
                }
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_removed_from_names() {
        assert_eq!(without_parameters("foo(int)"), "foo");
        assert_eq!(without_parameters("A::operator()(int)"), "A::operator()");
        assert_eq!(without_parameters("(anonymous namespace)::f(x)"), "(anonymous namespace)::f");
        assert_eq!(without_parameters(".foo"), "foo");
    }
}
