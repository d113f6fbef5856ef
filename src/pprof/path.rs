//! Paths as text, with the rules of Go's `path` package: reports must print what pprof prints.

/// The last element of a path, as Go's `path.Base` returns it: `.` for an empty path.
pub fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match (path, trimmed) {
        ("", _) => ".",
        (_, "") => "/",
        _ => trimmed.rsplit('/').next().unwrap_or(trimmed),
    }
}

/// The shortest path that is lexically equal, as Go's `path.Clean` returns it.
pub(super) fn clean(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut elements: Vec<&str> = Vec::new();
    for element in path.split('/') {
        match element {
            "" | "." => {}
            ".." if elements.last().is_some_and(|last| *last != "..") => drop(elements.pop()),
            ".." if is_rooted => {}
            element => elements.push(element),
        }
    }
    match (is_rooted, elements.join("/")) {
        (true, rest) => format!("/{rest}"),
        (false, rest) if rest.is_empty() => ".".to_owned(),
        (false, rest) => rest,
    }
}

/// A source path without the prefix of the machine that built the file.
///
/// `trim_path` and `search_path` are lists of directories separated by `:`. Without a `trim_path`,
/// everything up to the last element of a search directory is removed.
pub(super) fn trim_prefix<'p>(path: &'p str, trim_path: &str, search_path: &str) -> &'p str {
    let directories = |list: &str| -> Vec<String> {
        list.split(':').filter(|directory| !directory.is_empty()).map(str::to_owned).collect()
    };
    if trim_path.is_empty() {
        for directory in directories(search_path) {
            let infix = format!("/{}/", base(&directory));
            if let Some(at) = path.find(&infix) {
                return &path[at + infix.len()..];
            }
        }
    }
    // Bazel's sandbox.
    let defaults = ["/proc/self/cwd/./".to_owned(), "/proc/self/cwd/".to_owned()];
    for mut prefix in directories(trim_path).into_iter().chain(defaults) {
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        if let Some(rest) = path.strip_prefix(&prefix) {
            return rest;
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_like_gos() {
        for (path, cleaned) in [("a//b/./c", "a/b/c"), ("/../a/", "/a"), ("a/../..", ".."), ("a/..", "."), ("/", "/")] {
            assert_eq!(clean(path), cleaned);
        }
        assert_eq!([base(""), base("/"), base("/a/b/"), base("c")], [".", "/", "b", "c"]);
    }
}
