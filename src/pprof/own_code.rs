//! Folds foreign code of a saved profile into own code, as the live view does.

use std::collections::HashMap;

use super::profile::{Function, Line, SavedProfile};
use crate::symbols::own_code::CodeOrigin;
use crate::tally::query::OwnCode;

/// The values that own functions have spent in libraries, by the name of the function.
#[derive(Default)]
pub struct LibraryValues(HashMap<String, CalledLibraries>);

/// The values that one own function has spent in libraries.
#[derive(Default)]
struct CalledLibraries {
    total: i64,
    /// By the library function that was called.
    calls: HashMap<String, i64>,
}

impl LibraryValues {
    fn add(&mut self, own: &str, callee: &str, value: i64) {
        let called = self.0.entry(own.to_owned()).or_default();
        called.total = called.total.wrapping_add(value);
        let call = called.calls.entry(callee.to_owned()).or_default();
        *call = call.wrapping_add(value);
    }

    /// Returns the part of a function's flat value that is of libraries, and its heaviest library
    /// call, if it has one.
    pub fn of(&self, own: &str) -> (i64, Option<&str>) {
        let Some(called) = self.0.get(own) else { return (0, None) };
        // Ties by name, so that the report is always the same.
        let named = called.calls.iter().filter(|(name, _)| !name.is_empty());
        let heaviest = named.max_by(|one, other| one.1.cmp(other.1).then_with(|| other.0.cmp(one.0)));
        (called.total, heaviest.map(|(name, _)| name.as_str()))
    }
}

impl SavedProfile {
    /// Returns what own functions have spent in foreign ones: the samples whose innermost frame is
    /// foreign, of the value with this index. The result has the innermost own function of each,
    /// with the foreign one that it called, or the innermost function of a stack that has no own
    /// one. `is_own` decides about a frame.
    fn sum_libraries(&self, value: usize, is_own: impl Fn(u32, Option<&Line>) -> bool, codes: usize) -> LibraryValues {
        let mut sums = LibraryValues::default();
        self.samples.for_each(|sample| {
            let (mut leaf, mut callee) = (None, None);
            for &location in sample.stack.iter().filter(|&&location| (location as usize) < codes) {
                let lines = &self.locations[location as usize].lines;
                let unknown = lines.is_empty().then_some(None);
                for line in lines.iter().map(Some).chain(unknown) {
                    let name = line.map_or("", |line| self.functions[line.function as usize].name.as_str());
                    match (is_own(location, line), callee) {
                        (true, Some(callee)) => return sums.add(name, callee, sample.values[value]),
                        (true, None) => return,
                        (false, _) => {
                            leaf = leaf.or(Some(name));
                            callee = Some(name);
                        }
                    }
                }
            }
            if let Some(leaf) = leaf {
                sums.add(leaf, "", sample.values[value]);
            }
        });
        sums
    }

    /// Removes foreign frames, so that their values belong to the own frames that called them. A
    /// stack without an own frame is reduced to its leaf. Locations from `code_locations` on are
    /// frames for labels, which are never folded. Returns whether any frame is own, and what of the
    /// value with the index `value` is of libraries.
    pub fn fold_foreign(&mut self, own: &OwnCode, code_locations: usize, value: usize) -> (bool, LibraryValues) {
        let program = self.mappings.first().map(|mapping| mapping.file.clone()).unwrap_or_default();
        let mut is_own = Vec::with_capacity(self.locations.len());
        let unnamed = Function::default();
        let (mappings, functions) = (&self.mappings, &self.functions);
        let is_own_line = |mapping: Option<u32>, line: Option<&Line>| {
            let module = mapping.map_or("", |mapping| mappings[mapping as usize].file.as_str());
            let function = line.map_or(&unnamed, |line| &functions[line.function as usize]);
            let (name, file) = (function.name.as_str(), function.file.as_str());
            match &own.pattern {
                Some(pattern) => [name, file, module].into_iter().any(|text| pattern.matches(text)),
                None => CodeOrigin { name, file, module, is_program: *module == *program }.is_own(),
            }
        };
        let is_own_frame =
            |location: u32, line: Option<&Line>| is_own_line(self.locations[location as usize].mapping, line);
        let libraries = self.sum_libraries(value, is_own_frame, code_locations);
        for location in self.locations.iter_mut().take(code_locations) {
            let is_own_line = |line: Option<&Line>| is_own_line(location.mapping, line);
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
        (any_own, libraries)
    }
}
