//! The labels by which a profile says which process and thread a sample belongs to.

use crate::pprof::profile::{Label, LabelValue};

/// The value of the first label with a key.
pub(super) fn find<'l>(labels: &'l [Label], key: &str) -> Option<&'l LabelValue> {
    labels.iter().find(|label| label.key == key).map(|label| &label.value)
}

/// The text of the first label with a key, if it is one.
pub(super) fn text<'l>(labels: &'l [Label], key: &str) -> Option<&'l str> {
    match find(labels, key)? {
        LabelValue::Text(text) => Some(text.as_str()),
        LabelValue::Number(..) => None,
    }
}

/// The number of the first label with a key, if it is one.
pub(super) fn number(labels: &[Label], key: &str) -> Option<i64> {
    match find(labels, key)? {
        LabelValue::Number(number, _) => Some(*number),
        LabelValue::Text(_) => None,
    }
}
