//! Names of several files: a pattern with a time or a number.

use std::path::{Path, PathBuf};

/// Replaces a placeholder such as `%t` in a path; `%%` is `%`. A path that is not UTF-8 has none.
pub(super) fn expand(pattern: &Path, placeholder: &str, by: &str) -> PathBuf {
    let Some(text) = pattern.to_str() else { return pattern.to_owned() };
    let parts = text.split("%%").map(|part| part.replace(placeholder, by));
    PathBuf::from(parts.collect::<Vec<String>>().join("%"))
}
