//! The local cache of debuginfod's clients (gdb, perf, `debuginfod-find`). Files in it are named by
//! build id. [`download`](super::download) adds files.

use std::env;
use std::path::PathBuf;

use super::error::hex;

/// Returns the directories of the cache, that in use first.
pub(super) fn directories() -> Vec<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable("DEBUGINFOD_CACHE_PATH") {
        return vec![path];
    }
    let home = variable("HOME");
    let cache = variable("XDG_CACHE_HOME").or_else(|| home.as_ref().map(|home| home.join(".cache")));
    // Clients used the second until 2020, and still do where it exists.
    let old = home.map(|home| home.join(".debuginfod_client_cache"));
    cache.map(|cache| cache.join("debuginfod_client")).into_iter().chain(old).collect()
}

/// Returns the directory into which downloads go: the one that debuginfod's clients use.
pub(super) fn directory() -> Option<PathBuf> {
    let mut all = directories();
    let last = all.pop()?;
    // The old directory is used where it exists.
    if all.is_empty() || last.is_dir() { Some(last) } else { all.into_iter().next() }
}

/// Returns the paths of a file's debug file in the cache.
pub(super) fn cached(build_id: &[u8]) -> impl Iterator<Item = PathBuf> {
    let id = hex(build_id);
    directories().into_iter().map(move |directory| directory.join(&id).join("debuginfo"))
}
