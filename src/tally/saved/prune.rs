//! Frames that a profile itself asks to leave out: those of the profiler that made it.

use regex::Regex;

use super::Saved;

/// A name without its parameters, as the patterns of a profile expect it.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let mut from = 0;
    while let Some(at) = name[from..].find(['(', 'o']).map(|at| from + at) {
        let rest = &name[at..];
        let reserved = ["(anonymous namespace)", "operator()"].into_iter().find(|word| rest.starts_with(word));
        match reserved {
            Some(word) => from = at + word.len(),
            None if rest.starts_with('(') => return &name[..at],
            None => from = at + 1,
        }
    }
    name
}

impl Saved {
    /// Leaves out the frames that the profile says, and what they call; not before the first other frame from the root.
    pub fn drop_own_frames(&mut self) {
        if self.drop_frames.is_empty() {
            return;
        }
        let whole = |pattern: &str| Regex::new(&format!("^({pattern})$")).ok();
        let Some(drop) = whole(&self.drop_frames) else { return };
        let keep = if self.keep_frames.is_empty() { None } else { whole(&self.keep_frames) };
        let is_dropped = |name: &str| {
            let name = bare(name);
            !name.is_empty() && drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
        };
        let dropped: Vec<bool> = self.functions.iter().map(|of| !of.name.is_empty() && is_dropped(&of.name)).collect();
        // What becomes of a location: whether all goes, and whether what is beneath it goes.
        let mut fates = vec![(false, false); self.locations.len()];
        for (location, fate) in self.locations.iter_mut().zip(&mut fates) {
            if let Some(at) = location.lines.iter().rposition(|line| dropped[line.function as usize]) {
                *fate = (at + 1 == location.lines.len(), true);
                if !fate.0 {
                    location.lines.drain(..=at);
                }
            }
        }
        if !fates.iter().any(|fate| fate.1) {
            return;
        }
        self.samples.retain(|stack, _, _| {
            let mut below_user = false;
            for at in (0..stack.len()).rev() {
                match fates[stack[at] as usize] {
                    (false, false) => below_user = true,
                    _ if !below_user => {}
                    (all, _) => {
                        stack.drain(..if all { at + 1 } else { at });
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
    fn parameters_are_no_part_of_a_name() {
        assert_eq!(bare("foo(int)"), "foo");
        assert_eq!(bare("A::operator()(int)"), "A::operator()");
        assert_eq!(bare("(anonymous namespace)::f(x)"), "(anonymous namespace)::f");
        assert_eq!(bare(".foo"), "foo");
    }
}
