//! Decides which functions are own code, once for each.

use std::collections::HashSet;

use crate::profile::Profile;
use crate::symbols::own_code::CodeOrigin;
use crate::symbols::sanitize::sanitize;
use crate::symbols::{Function, FunctionId, Names};
use crate::tally::query::{OwnCode, Pattern};

/// The functions that are own code.
#[derive(Default)]
pub(crate) struct OwnFunctions {
    pattern: Option<Pattern>,
    /// The executables of all processes, and the number of processes that were considered.
    programs: HashSet<String>,
    processes: usize,
    /// Whether each function is own, by function.
    own: Vec<bool>,
}

impl OwnFunctions {
    /// Decides about new functions, or about all if the pattern has changed or another program
    /// runs. Returns whether a decision may have changed.
    pub(crate) fn update(&mut self, own: &OwnCode, profile: &Profile, names: &Names) -> bool {
        let mut changed = self.pattern != own.pattern;
        self.pattern.clone_from(&own.pattern);
        let processes = profile.processes();
        for process in &processes[self.processes.min(processes.len())..] {
            changed |= self.programs.insert(sanitize(&process.executable));
        }
        self.processes = processes.len();
        if changed {
            self.own.clear();
        }
        for function in &names.functions()[self.own.len()..] {
            let is_own = self.decide(function);
            self.own.push(is_own);
        }
        changed
    }

    fn decide(&self, function: &Function) -> bool {
        let Function { full: name, file, module, .. } = function;
        match &self.pattern {
            Some(pattern) => [name, file, module].into_iter().any(|text| pattern.matches(text)),
            None => CodeOrigin { name, file, module, is_program: self.programs.contains(module) }.is_own(),
        }
    }

    /// Whether a function is own.
    pub(crate) fn is_own(&self, function: FunctionId) -> bool {
        self.own[function.0 as usize]
    }
}
