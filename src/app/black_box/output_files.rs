//! The files that a black box writes: their names, and their number.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use jiff::Zoned;

use crate::app::file_pattern;

/// Maximum number of files of one name.
const MAX_OF_A_NAME: u32 = 9999;

/// The files of one run.
#[derive(Debug)]
pub(super) struct OutputFiles {
    pattern: PathBuf,
    most: usize,
    written: VecDeque<PathBuf>,
    /// The last name without a number, and its number.
    last: Option<(PathBuf, u32)>,
}

impl OutputFiles {
    /// `most` is the number of files of this run that are kept.
    pub(super) fn new(pattern: &Path, most: usize) -> OutputFiles {
        OutputFiles { pattern: pattern.to_owned(), most, written: VecDeque::new(), last: None }
    }

    /// A path for the next file, at which no file is or was. `%t` in the pattern is the time, `%%` is
    /// `%`.
    pub(super) fn next_path(&mut self, at: &Zoned) -> PathBuf {
        let expanded = file_pattern::expand(&self.pattern, "%t", &at.strftime("%Y%m%d-%H%M%S").to_string());
        let extension = expanded.extension().map(|extension| format!(".{}", extension.display())).unwrap_or_default();
        let stem = expanded.file_stem().unwrap_or_default().display().to_string();
        let first = match &self.last {
            Some((last, number)) if *last == expanded => number + 1,
            _ => 1,
        };
        for number in first..=MAX_OF_A_NAME {
            let path = match number {
                1 => expanded.clone(),
                _ => expanded.with_file_name(format!("{stem}-{number}{extension}")),
            };
            if path.symlink_metadata().is_err() {
                self.last = Some((expanded, number));
                return path;
            }
        }
        expanded
    }

    /// Notes that a file was written. Returns the oldest one if it is one too many.
    pub(super) fn note_written(&mut self, path: PathBuf) -> Option<PathBuf> {
        self.written.retain(|written| *written != path);
        self.written.push_back(path);
        (self.written.len() > self.most).then(|| self.written.pop_front()).flatten()
    }

    /// Number of files of this run that are there.
    pub(super) fn count(&self) -> usize {
        self.written.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_time_and_are_never_used_twice() {
        let directory = std::env::temp_dir().join(format!("sigtop-names-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let at: Zoned = "2026-11-28T15:04:05[UTC]".parse().expect("a time");
        let mut files = OutputFiles::new(&directory.join("a%%-%t.sigtop"), 2);
        let mut dropped = Vec::new();
        for number in ["", "-2", "-3", "-4"] {
            let path = files.next_path(&at);
            assert_eq!(path, directory.join(format!("a%-20261128-150405{number}.sigtop")));
            std::fs::write(&path, "").expect("written");
            dropped.extend(files.note_written(path));
            dropped.iter().for_each(|path| drop(std::fs::remove_file(path)));
        }
        let expected = ["", "-2"].map(|number| directory.join(format!("a%-20261128-150405{number}.sigtop")));
        assert_eq!(dropped, expected);
        assert_eq!(files.count(), 2);
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
