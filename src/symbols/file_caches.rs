//! Caches of whole files by build id: that of perf, `~/.debug`, and that of debuginfod's clients.

use std::path::{Path, PathBuf};

use super::debuginfod;
use super::error::hex;

/// Returns a path in perf's cache of files by build id, if there is a home directory.
pub(super) fn perf_cache(path: &str) -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(".debug").join(path))
}

/// The paths where caches of perf and of debuginfod's clients have a file by its build id.
pub(super) fn cached_files(build_id: &[u8]) -> impl Iterator<Item = PathBuf> {
    let parts = build_id.split_first().filter(|(_, rest)| !rest.is_empty());
    let of_perf = parts.and_then(|(first, rest)| perf_cache(&format!(".build-id/{first:02x}/{}/elf", hex(rest))));
    let id = parts.map(|_| hex(build_id));
    let of_clients = move |directory: PathBuf| id.as_ref().map(|id| directory.join(id).join("executable"));
    of_perf.into_iter().chain(debuginfod::directories().into_iter().filter_map(of_clients))
}
