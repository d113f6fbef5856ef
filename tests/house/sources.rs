//! The files under `src/`, and the modules that they hold.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::paths::{Module, is_root, module_of_file};

/// Every file under `src/`: its path there, and its text.
pub(crate) fn sources() -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Path::new(""), &mut all);
    assert!(all.len() > 20, "only {} files", all.len());
    all
}

/// Every file of the tests and benches: its path, and its text.
pub(crate) fn test_sources() -> Vec<(String, String)> {
    let mut all = Vec::new();
    files(Path::new(env!("CARGO_MANIFEST_DIR")), Path::new("tests"), &mut all);
    all
}

/// The modules of these files.
pub(crate) fn modules_of(files: &[(String, String)]) -> BTreeSet<Module> {
    files.iter().map(|(path, _)| module_of_file(path)).filter(|module| !is_root(module)).collect()
}

/// Every file under a directory: its path there, and its text.
fn files(root: &Path, below: &Path, all: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(root.join(below)).unwrap().flatten() {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files(root, &path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push((path.to_str().unwrap().to_owned(), fs::read_to_string(root.join(&path)).unwrap()));
        }
    }
}
