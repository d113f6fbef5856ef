//! The local cache of debuginfod's clients (gdb, perf, `debuginfod-find`). Files in it are named by
//! build id. [`download`](super::download) adds files.

use std::env;
use std::path::PathBuf;

use super::error::hex;

/// Maximum length of the part of a file's name that stands for a path, with its hash.
const MAX_NAME_BYTES: usize = 126;

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

/// Returns the name of a source file in the cache, as clients since 2024 make it: a hash of the
/// path, and its end, where only letters, digits and `.-_` are kept.
pub(super) fn source_name(path: &str) -> String {
    let hash = path.bytes().fold(5381u32, |hash, byte| {
        // The clients' characters have a sign.
        hash.wrapping_mul(33).wrapping_add(i32::from(byte.cast_signed()).cast_unsigned())
    });
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let kept: String = path.bytes().map(|byte| if is_kept(byte) { char::from(byte) } else { '#' }).collect();
    format!("source-{hash:08x}-{}", &kept[kept.len().saturating_sub(MAX_NAME_BYTES - 9)..])
}

/// Returns the paths of a source file in the cache, by the names of new and old clients.
pub(super) fn cached_sources(build_id: &[u8], path: &str) -> impl Iterator<Item = PathBuf> {
    let id = hex(build_id);
    let old = format!("source{}", path.replace('#', "#_").replace('/', "##"));
    let names = [source_name(path), old];
    directories().into_iter().flat_map(move |directory| names.clone().map(|name| directory.join(&id).join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_are_those_of_the_clients() {
        assert_eq!(source_name("/src/a b.c"), format!("source-{:08x}-#src#a#b.c", djb2(b"/src/a b.c")));
        let long = format!("/{}/x.c", "d/".repeat(300));
        let name = source_name(&long);
        assert!(name.len() == "source-".len() + MAX_NAME_BYTES && name.ends_with("#d##x.c"), "{name}");
        let hostile = source_name("/../../etc/passwd\0\u{e9}\n");
        assert!(!hostile.contains('/') && hostile.is_ascii(), "{hostile}");
        assert_eq!(source_name(""), "source-00001505-");
    }

    fn djb2(bytes: &[u8]) -> u32 {
        bytes.iter().fold(5381, |hash: u32, &byte| (hash << 5).wrapping_add(hash).wrapping_add(byte.into()))
    }
}
