//! The memory map at the end of a profile: which file was mapped where, and which mapping a
//! location belongs to, by pprof's rules.

use crate::pprof::profile::{Mapping, SavedProfile};

/// Maximum number of mappings. A large process has some thousand.
const MAX_MAPPINGS: usize = 65_536;
/// Maximum number of bytes of a line whose variables are replaced. A path has half as many.
const MAX_LINE: usize = 8_192;

/// Parses a memory map and returns its executable mappings. A line `NAME=VALUE` defines the text
/// that `$NAME` is replaced by in later lines; other unknown lines are skipped.
pub(super) fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings = Vec::new();
    let mut variables: Vec<(String, String)> = Vec::new();
    for line in text.lines().take(4 * MAX_MAPPINGS) {
        let Some(line) = expand(line, &variables) else { continue };
        match parse_line(&line) {
            Some(Some(mapping)) if mappings.len() < MAX_MAPPINGS => mappings.push(mapping),
            Some(_) => {}
            None => {
                if let Some((name, value)) = line.split_once('=')
                    && variables.len() < 16
                    && value.len() < 4096
                {
                    variables.push((format!("${}", name.trim()), value.trim().to_owned()));
                }
            }
        }
    }
    mappings
}

/// Replaces variables, whose values may have further ones. Returns `None` if the line gets too long.
fn expand(line: &str, variables: &[(String, String)]) -> Option<String> {
    variables.iter().try_fold(line.to_owned(), |line, (name, value)| {
        let bytes = line.len() + line.matches(name).count() * value.len();
        (bytes <= MAX_LINE).then(|| line.replace(name, value))
    })
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Parses one line; `Some(None)` for a mapping that is not executable.
fn parse_line(line: &str) -> Option<Option<Mapping>> {
    let mut words = line.split_whitespace();
    let (start, limit) = words.next()?.trim_end_matches(':').split_once('-')?;
    let (start, limit) = (parse_hex(start)?, parse_hex(limit)?);
    let mut words: Vec<&str> = words.collect();
    let mut mapping = Mapping { start, limit, ..Mapping::default() };
    if words.first().is_some_and(|word| word.chars().all(|c| "-rwxp".contains(c))) && !words.remove(0).contains('x') {
        return Some(None);
    }
    match words.as_slice() {
        // /proc/self/maps: offset, device, inode, path.
        [offset, device, inode, rest @ ..]
            if device.contains(':') && inode.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            mapping.offset = parse_hex(offset)?;
            mapping.file = rest.first().copied().unwrap_or_default().into();
        }
        // Path, (@offset), build id.
        [path, rest @ ..] => {
            mapping.file = (*path).into();
            let mut rest = rest.iter();
            let mut next = rest.next();
            if let Some(offset) = next.and_then(|word| word.strip_prefix("(@")?.strip_suffix(')')) {
                mapping.offset = parse_hex(offset)?;
                next = rest.next();
            }
            mapping.build_id = next.copied().unwrap_or_default().into();
        }
        [] => {}
    }
    Some(Some(mapping))
}

/// Whether two consecutive lines describe parts of one mapping.
fn are_adjacent(one: &Mapping, next: &Mapping) -> bool {
    let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    let next_offset = one.offset.wrapping_add(one.limit.wrapping_sub(one.start));
    !differ(&one.file, &next.file)
        && !differ(&one.build_id, &next.build_id)
        && one.limit == next.start
        && (one.offset == 0 || next.offset == 0 || next_offset == next.offset)
}

/// Whether a file has the name of a shared library.
fn is_library(file: &str) -> bool {
    file.ends_with(".so")
        || file.match_indices(".so").any(|(at, _)| {
            let mut rest = file[at + 3..].chars();
            rest.next().is_some_and(|c| c == '.' || c == '_') && rest.next().is_some_and(|c| c.is_ascii_digit())
        })
}

/// Adds the mappings to the profile, with the program's own first, and assigns each location to its
/// mapping.
pub(super) fn assign(profile: &mut SavedProfile, all: Vec<Mapping>) {
    let mut mappings: Vec<Mapping> = Vec::new();
    for next in all {
        match mappings.last_mut().filter(|last| are_adjacent(last, &next)) {
            Some(last) => {
                last.limit = next.limit;
                if !next.file.is_empty() {
                    last.file = next.file;
                }
                if !next.build_id.is_empty() {
                    last.build_id = next.build_id;
                }
            }
            None => mappings.push(next),
        }
    }
    let is_program = |mapping: &Mapping| {
        let file = mapping.file.replace("(deleted)", "");
        let file = file.trim();
        !file.is_empty() && !is_library(file) && !file.starts_with('[')
    };
    if let Some(program) = mappings.iter().position(is_program) {
        mappings.swap(0, program);
    }
    if let [first, second, ..] = mappings.as_slice()
        && first.file.starts_with("/anon_hugepage")
        && first.limit == second.start
    {
        mappings.remove(0);
    }
    if let Some(first) = mappings.first_mut() {
        /// Load address of programs that are not position-independent.
        const FIXED: u64 = 0x40_0000;
        if first.start.wrapping_sub(first.offset) == FIXED {
            (first.start, first.offset) = (FIXED, 0);
        }
    }
    let mut order: Vec<usize> = (0..mappings.len()).collect();
    order.sort_by_key(|&index| mappings[index].start);
    let mut unknown = None;
    for location in profile.locations.iter_mut().filter(|location| location.address != 0) {
        let address = location.address;
        let after = order.partition_point(|&index| mappings[index].start <= address);
        let found = after.checked_sub(1).map(|at| order[at]).filter(|&index| address < mappings[index].limit);
        // The mapping's first part may be missing from the map.
        let extended = || {
            let below = |mapping: &Mapping| {
                mapping.offset != 0 && mapping.start.wrapping_sub(mapping.offset) <= address && address < mapping.start
            };
            order.get(after).copied().filter(|&index| below(&mappings[index]))
        };
        let index = found.or_else(extended).unwrap_or_else(|| {
            *unknown.get_or_insert_with(|| {
                mappings.push(Mapping { limit: u64::MAX, ..Mapping::default() });
                mappings.len() - 1
            })
        });
        if found.is_none() && Some(index) != unknown {
            mappings[index].start -= mappings[index].offset;
            mappings[index].offset = 0;
        }
        location.mapping = Some(index as u32);
    }
    mappings.iter_mut().enumerate().for_each(|(index, mapping)| mapping.id = index as u64 + 1);
    profile.mappings = mappings;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: each variable in the value of another one multiplied the length of a line.
    #[test]
    fn variables_in_variables_make_no_long_lines() {
        let text = format!("a={}\nb={}\n1000-2000: $a\n3000-4000: /bin/$c\n", "$b".repeat(1_000), "x".repeat(1_000));
        let files: Vec<String> = parse(&text).iter().map(|mapping| mapping.file.to_string()).collect();
        assert_eq!(files, ["/bin/$c"]);
    }

    #[test]
    fn lines_of_proc_maps_and_of_pprofs_own_format_are_parsed() {
        let text = "build=/srv\n\
                    55f250153000-55f250155000 r-xp 00002000 00:00 10021755    $build/demo\n\
                    55f250155000-55f250156000 r--p 00004000 00:00 10021755    $build/demo\n\
                    0x40000-0x80000 /bin/x (@FF00) abc123\nrubbish\n";
        let all = parse(text);
        let fields: Vec<_> =
            all.iter().map(|of| (of.start, of.offset, of.file.as_str(), of.build_id.as_str())).collect();
        assert_eq!(fields, [(0x55f2_5015_3000, 0x2000, "/srv/demo", ""), (0x40000, 0xff00, "/bin/x", "abc123")]);
    }

    #[test]
    fn libraries_are_recognised_by_name() {
        assert!(is_library("/lib/libc.so.6") && is_library("libx.so") && !is_library("/bin/app"));
    }
}
