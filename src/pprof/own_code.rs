//! Folds foreign code of a saved profile into own code, as the live view does.

use super::profile::{Function, Line, SavedProfile};
use crate::symbols::own_code::CodeOrigin;
use crate::tally::query::OwnCode;

impl SavedProfile {
    /// Removes foreign frames, so that their values belong to the own frames that called them. A
    /// stack without an own frame is reduced to its leaf. Locations from `code_locations` on are
    /// frames for labels, which are never folded. Returns whether any frame is own.
    pub fn fold_foreign(&mut self, own: &OwnCode, code_locations: usize) -> bool {
        let program = self.mappings.first().map(|mapping| mapping.file.clone()).unwrap_or_default();
        let mut is_own = Vec::with_capacity(self.locations.len());
        let unnamed = Function::default();
        for location in self.locations.iter_mut().take(code_locations) {
            let module = location.mapping.map_or("", |mapping| self.mappings[mapping as usize].file.as_str());
            let is_own_line = |line: Option<&Line>| {
                let function = line.map_or(&unnamed, |line| &self.functions[line.function as usize]);
                let (name, file) = (function.name.as_str(), function.file.as_str());
                match &own.pattern {
                    Some(pattern) => [name, file, module].into_iter().any(|text| pattern.matches(text)),
                    None => CodeOrigin { name, file, module, is_program: *module == *program }.is_own(),
                }
            };
            let lines = &location.lines;
            let any_own = match lines.is_empty() {
                true => is_own_line(None),
                false => lines.iter().any(|line| is_own_line(Some(line))),
            };
            is_own.push(any_own);
            if any_own {
                location.lines.retain(|line| is_own_line(Some(line)));
            } else {
                // It remains only as the leaf of a stack.
                location.lines.truncate(1);
            }
        }
        let is_code = |location: u32| (location as usize) < code_locations;
        let is_own_code = |location: u32| is_code(location) && is_own[location as usize];
        let mut any_own = false;
        self.samples.retain(|stack, _, _| {
            let has_own = stack.iter().any(|&location| is_own_code(location));
            let leaf = stack.iter().copied().find(|&location| is_code(location));
            let mut is_leaf_kept = false;
            stack.retain(|&location| match has_own {
                _ if !is_code(location) => true,
                true => is_own_code(location),
                // The leaf may be on the stack again as its own caller.
                false => Some(location) == leaf && !std::mem::replace(&mut is_leaf_kept, true),
            });
            any_own |= has_own;
            true
        });
        any_own
    }
}
