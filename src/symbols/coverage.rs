//! This module measures how much of a profile has names. It adds up, for each file, the weight of
//! samples whose leaf has a source line, only a name, or neither.

use std::collections::HashMap;

use super::names::{INTERPRETED_CODE, Names, UNNAMED_CODE};
use super::sanitize::sanitize;
use crate::profile::stack::{Frame, FrameId};
use crate::profile::totals::Span;
use crate::profile::{Clock, Profile};

/// The weights of the samples in one file, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameCoverage {
    /// The name of the file; `[JIT]` for generated code.
    pub module: String,
    /// Samples with a function and a source line.
    pub line_ns: u64,
    /// Samples with a function, but no line.
    pub name_ns: u64,
    /// Samples with neither.
    pub nameless_ns: u64,
}

impl NameCoverage {
    /// The weight of all its samples.
    pub fn total_ns(&self) -> u64 {
        self.line_ns.saturating_add(self.name_ns).saturating_add(self.nameless_ns)
    }
}

/// Returns the weights of all files by the clock, since the start; the heaviest file first.
pub fn coverage(profile: &Profile, names: &Names, clock: Clock) -> Vec<NameCoverage> {
    let mut leaves_ns = vec![0u64; profile.stacks.frames().len()];
    profile.visit(clock, Span::Total, |(_, stack), weight| {
        if let Some(leaf) = profile.stacks.leaf_first(profile.stacks.code(stack)).next() {
            let ns = &mut leaves_ns[leaf.0 as usize];
            *ns = ns.saturating_add(weight.ns);
        }
    });
    let mut files: HashMap<String, NameCoverage> = HashMap::new();
    for (frame, ns) in (0..).map(FrameId).zip(leaves_ns).filter(|&(_, ns)| ns > 0) {
        let module = match profile.frame(frame) {
            Frame::Code { module, .. } => sanitize(&profile.modules.file(module).name()),
            Frame::Unmapped { .. } => UNNAMED_CODE.to_owned(),
            Frame::Script { .. } => INTERPRETED_CODE.to_owned(),
            _ => continue,
        };
        let line = names.lines(frame).first();
        let has_name = line.is_some_and(|line| names.function(line.function).has_name());
        let file = files.entry(module.clone()).or_insert_with(|| NameCoverage { module, ..NameCoverage::default() });
        let sum = match line {
            Some(line) if has_name && line.line > 0 => &mut file.line_ns,
            _ if has_name => &mut file.name_ns,
            _ => &mut file.nameless_ns,
        };
        *sum = sum.saturating_add(ns);
    }
    let mut files: Vec<NameCoverage> = files.into_values().collect();
    files.sort_by(|a, b| b.total_ns().cmp(&a.total_ns()).then_with(|| a.module.cmp(&b.module)));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::scenario::scenario;

    #[test]
    fn samples_are_counted_by_what_is_known_of_their_leaf() {
        let text = "process 7 ./app\nat 1s prof 10ms main;work@app.c:7 x 3\nat 2s prof 10ms main;named\n\
                    at 3s prof 20ms main;libz.so.1+0x4410\nat 4s prof 50ms main;0x7f001234\n";
        let played = scenario(text).unwrap_or_else(|error| panic!("{error}"));
        let files = coverage(&played.profile, &played.names, Clock::Prof);
        let sums: Vec<_> = files
            .iter()
            .map(|file| (file.module.as_str(), [file.line_ns, file.name_ns, file.nameless_ns].map(|ns| ns / 1_000_000)))
            .collect();
        assert_eq!(sums[..2], [("[JIT]", [0, 0, 50]), (files[1].module.as_str(), [30, 10, 0])]);
        assert_eq!(sums[2], ("libz.so.1", [0, 0, 20]));
        assert_eq!((files.len(), files[1].total_ns()), (3, 40_000_000));
    }
}
