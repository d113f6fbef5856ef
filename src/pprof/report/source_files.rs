//! The source files of `-list` and `--method`, each read once.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::pprof::path::trim_prefix;

/// Maximum size of a source file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A cache of source files.
pub(super) struct SourceFiles {
    search_path: String,
    trim_path: String,
    files: HashMap<String, Result<Vec<String>, String>>,
}

impl SourceFiles {
    /// `source_path` and `trim_path` are as in [`ReportOptions`](super::ReportOptions).
    pub(super) fn new(source_path: &str, trim_path: &str) -> SourceFiles {
        let working_directory =
            || std::env::current_dir().map_or(".".to_owned(), |path| path.to_string_lossy().into_owned());
        let search_path = if source_path.is_empty() { working_directory() } else { source_path.to_owned() };
        SourceFiles { search_path, trim_path: trim_path.to_owned(), files: HashMap::new() }
    }

    /// The lines of a file, or pprof's message if it was not found.
    pub(super) fn lines(&mut self, file: &str) -> &Result<Vec<String>, String> {
        if !self.files.contains_key(file) {
            let lines = self.read(file);
            self.files.insert(file.to_owned(), lines);
        }
        &self.files[file]
    }

    fn read(&self, file: &str) -> Result<Vec<String>, String> {
        let path = trim_prefix(file, &self.trim_path, &self.search_path);
        if path.starts_with('/') {
            return read_lines(Path::new(path)).ok_or_else(|| format!("open {path}: no such file or directory"));
        }
        for directory in self.search_path.split(':') {
            for ancestor in Path::new(directory).ancestors() {
                if let Some(lines) = read_lines(&ancestor.join(path)) {
                    return Ok(lines);
                }
            }
        }
        Err(format!("could not find file {path} on path {}", self.search_path))
    }
}

fn read_lines(path: &Path) -> Option<Vec<String>> {
    let metadata = fs::metadata(path).ok()?;
    let bytes = fs::read(path).ok().filter(|_| metadata.is_file() && metadata.len() <= MAX_BYTES)?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
