//! Makes the texts of a profile safe to print. They come from a foreign file or from the target,
//! and reports print them to a terminal.

use std::borrow::Cow;

use super::profile::{LabelValue, RecordingFacts, SavedProfile, ValueType};
use crate::symbols::sanitize::sanitize_all;
use crate::tally::text::Text;

impl SavedProfile {
    /// Replaces characters that could control a terminal or hide text, in every text of the
    /// profile. Comments keep their line breaks and tabs.
    pub fn sanitize(&mut self) {
        for mapping in &mut self.mappings {
            name(&mut mapping.file);
            name(&mut mapping.build_id);
        }
        for function in &mut self.functions {
            name(&mut function.name);
            name(&mut function.system_name);
            name(&mut function.file);
        }
        for label in self.labels.iter_mut().flatten() {
            name(&mut label.key);
            match &mut label.value {
                LabelValue::Text(text) | LabelValue::Number(_, text) => name(text),
            }
        }
        for ValueType { kind, unit } in self.sample_types.iter_mut().chain([&mut self.period_type]) {
            name(kind);
            name(unit);
        }
        self.comments.iter_mut().for_each(|comment| replace(comment, &['\n', '\t']));
        for RecordingFacts { command, host, kernel, .. } in &mut self.recordings {
            [command, host, kernel].into_iter().for_each(name);
        }
        name(&mut self.default_sample_type);
        name(&mut self.doc_url);
    }
}

fn name(text: &mut Text) {
    replace(text, &[]);
}

fn replace(text: &mut Text, kept: &[char]) {
    if let Cow::Owned(sanitized) = sanitize_all(text, kept)
        && *text != sanitized
    {
        *text = sanitized.into();
    }
}
