//! The memory map behind a profile's words: which file lay where, and which file an address belongs to, as pprof sees it.

use crate::tally::saved::{Mapping, Saved};

/// Lines that are kept, at most; a large process has some thousand.
const MAX_MAPPINGS: usize = 65_536;

/// Reads the lines of a memory map. Those of memory that cannot be run do not count, and what is no such line defines, if it is
/// `NAME=VALUE`, what `$NAME` stands for from then on.
pub(super) fn read(text: &str) -> Vec<Mapping> {
    let mut mappings = Vec::new();
    let mut words: Vec<(String, String)> = Vec::new();
    for line in text.lines().take(4 * MAX_MAPPINGS) {
        let mut line = line.to_owned();
        for (name, value) in &words {
            line = line.replace(name, value);
        }
        match mapping(&line) {
            Some(Some(mapping)) if mappings.len() < MAX_MAPPINGS => mappings.push(mapping),
            Some(_) => {}
            None => {
                if let Some((name, value)) = line.split_once('=')
                    && words.len() < 16
                    && value.len() < 4096
                {
                    words.push((format!("${}", name.trim()), value.trim().to_owned()));
                }
            }
        }
    }
    mappings
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// A line; `Some(None)` for one of memory that holds no code.
fn mapping(line: &str) -> Option<Option<Mapping>> {
    let mut words = line.split_whitespace();
    let (start, limit) = words.next()?.trim_end_matches(':').split_once('-')?;
    let (start, limit) = (hexadecimal(start)?, hexadecimal(limit)?);
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
            mapping.offset = hexadecimal(offset)?;
            mapping.file = rest.first().copied().unwrap_or_default().into();
        }
        // Path, (@offset), build id.
        [path, rest @ ..] => {
            mapping.file = (*path).into();
            let mut rest = rest.iter();
            let mut next = rest.next();
            if let Some(offset) = next.and_then(|word| word.strip_prefix("(@")?.strip_suffix(')')) {
                mapping.offset = hexadecimal(offset)?;
                next = rest.next();
            }
            mapping.build_id = next.copied().unwrap_or_default().into();
        }
        [] => {}
    }
    Some(Some(mapping))
}

/// Whether two lines are one mapping that was split.
fn are_adjacent(one: &Mapping, next: &Mapping) -> bool {
    let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    let behind = one.offset.wrapping_add(one.limit.wrapping_sub(one.start));
    !differ(&one.file, &next.file)
        && !differ(&one.build_id, &next.build_id)
        && one.limit == next.start
        && (one.offset == 0 || next.offset == 0 || behind == next.offset)
}

/// Whether a file is a library by its name.
fn is_library(file: &str) -> bool {
    file.ends_with(".so")
        || file.match_indices(".so").any(|(at, _)| {
            let mut rest = file[at + 3..].chars();
            rest.next().is_some_and(|c| c == '.' || c == '_') && rest.next().is_some_and(|c| c.is_ascii_digit())
        })
}

/// Puts the mappings into the profile, the program's own first, and its locations into the mappings.
pub(super) fn place(saved: &mut Saved, all: Vec<Mapping>) {
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
        /// Where programs lie that cannot lie anywhere.
        const FIXED: u64 = 0x40_0000;
        if first.start.wrapping_sub(first.offset) == FIXED {
            (first.start, first.offset) = (FIXED, 0);
        }
    }
    let mut order: Vec<usize> = (0..mappings.len()).collect();
    order.sort_by_key(|&index| mappings[index].start);
    let mut unknown = None;
    for location in saved.locations.iter_mut().filter(|location| location.address != 0) {
        let address = location.address;
        let after = order.partition_point(|&index| mappings[index].start <= address);
        let found = after.checked_sub(1).map(|at| order[at]).filter(|&index| address < mappings[index].limit);
        // The first part of a mapping may be missing.
        let near = || {
            let below = |mapping: &Mapping| {
                mapping.offset != 0 && mapping.start.wrapping_sub(mapping.offset) <= address && address < mapping.start
            };
            order.get(after).copied().filter(|&index| below(&mappings[index]))
        };
        let index = found.or_else(near).unwrap_or_else(|| {
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
    saved.mappings = mappings;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_kinds() {
        let text = "build=/srv\n\
                    55f250153000-55f250155000 r-xp 00002000 00:00 10021755    $build/demo\n\
                    55f250155000-55f250156000 r--p 00004000 00:00 10021755    $build/demo\n\
                    0x40000-0x80000 /bin/x (@FF00) abc123\nrubbish\n";
        let all = read(text);
        let told: Vec<_> = all.iter().map(|of| (of.start, of.offset, of.file.as_str(), of.build_id.as_str())).collect();
        assert_eq!(told, [(0x55f2_5015_3000, 0x2000, "/srv/demo", ""), (0x40000, 0xff00, "/bin/x", "abc123")]);
    }

    #[test]
    fn libraries_by_their_names() {
        assert!(is_library("/lib/libc.so.6") && is_library("libx.so") && !is_library("/bin/app"));
    }
}
