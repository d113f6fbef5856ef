//! Adds the values of labels as frames, for `tagroot` and `tagleaf` (google/pprof: `tagroot.go`).

use std::collections::HashMap;

use super::profile::{Function, Label, LabelValue, Line, Location, SavedProfile};
use super::units::scaled_label;

impl SavedProfile {
    /// Adds a frame for each of the label keys to every sample: `root_keys` at the root, the first
    /// one outermost, and `leaf_keys` at the leaf. The frame's function is named after the values
    /// of the label and its file after the key. Returns whether any sample has a label of
    /// `root_keys` and of `leaf_keys`.
    pub fn add_tag_frames(&mut self, root_keys: &[String], leaf_keys: &[String], unit: &str) -> (bool, bool) {
        if root_keys.is_empty() && leaf_keys.is_empty() {
            return (false, false);
        }
        if self.labels.is_empty() {
            self.labels.push([].into());
        }
        let mut builder = TagFrames {
            next_id: self.locations.iter().map(|location| location.id).max().unwrap_or(0) + 1,
            ..TagFrames::default()
        };
        // pprof numbers the frames in the order of the samples that need them first.
        let mut frames: Vec<Option<TagStacks>> = vec![None; self.labels.len()];
        let (mut any_root, mut any_leaf) = (false, false);
        let mut samples = std::mem::take(&mut self.samples);
        samples.retain(|stack, _, labels| {
            let set = *labels as usize;
            let frames = frames[set].get_or_insert_with(|| {
                let labels = self.labels[set].clone();
                let root = builder.locations(self, &labels, root_keys, unit, &mut any_root);
                let leaf = builder.locations(self, &labels, leaf_keys, unit, &mut any_leaf);
                TagStacks { root, leaf }
            });
            // Stacks are leaf first.
            stack.splice(0..0, frames.leaf.iter().copied());
            stack.extend(&frames.root);
            true
        });
        self.samples = samples;
        (any_root, any_leaf)
    }
}

/// The locations that the labels of a set add to stacks, leaf first.
#[derive(Clone)]
struct TagStacks {
    root: Vec<u32>,
    leaf: Vec<u32>,
}

/// The locations created so far, by function name and file.
#[derive(Default)]
struct TagFrames {
    ids: HashMap<(String, String), u32>,
    next_id: u64,
}

impl TagFrames {
    fn locations(
        &mut self,
        profile: &mut SavedProfile,
        labels: &[Label],
        keys: &[String],
        unit: &str,
        has_any: &mut bool,
    ) -> Vec<u32> {
        let location = |key: &String| {
            let values = format_values(labels, key, unit);
            *has_any |= !values.is_empty();
            *self.ids.entry((values.join(","), key.clone())).or_insert_with_key(|(name, file)| {
                let function = profile.functions.len() as u32;
                let (name, file) = (name.as_str().into(), file.as_str().into());
                profile.functions.push(Function { name, file, ..Function::default() });
                let lines = vec![Line { function, line: 0, column: 0 }];
                profile.locations.push(Location { id: self.next_id, lines, ..Location::default() });
                self.next_id += 1;
                profile.locations.len() as u32 - 1
            })
        };
        keys.iter().rev().map(location).collect()
    }
}

/// The values of a label: texts first, then numbers. Numbers are scaled if any of them has a unit.
fn format_values(labels: &[Label], key: &str, unit: &str) -> Vec<String> {
    let own = || labels.iter().filter(|label| *label.key == *key).map(|label| &label.value);
    let texts = own().filter_map(|value| match value {
        LabelValue::Text(text) => Some(text.as_str().to_owned()),
        LabelValue::Number(..) => None,
    });
    let has_units = own().any(|value| matches!(value, LabelValue::Number(_, unit) if !unit.is_empty()));
    let numbers = own().filter_map(|value| match value {
        LabelValue::Number(number, own_unit) if has_units => Some(scaled_label(*number, own_unit, unit)),
        LabelValue::Number(number, _) => Some(scaled_label(*number, "", "")),
        LabelValue::Text(_) => None,
    });
    texts.chain(numbers).collect()
}
