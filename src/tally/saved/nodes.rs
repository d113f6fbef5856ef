//! The places of a saved profile as the nodes of a graph: what tells one from another, and what each is called.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Line, Location, Saved};
use crate::tally::text::Text;

/// What is one node, apart from its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Info {
    /// Function.
    pub name: Text,
    /// Address; 0 where it does not matter.
    pub address: u64,
    /// Source file.
    pub file: Text,
    /// Line that the function begins in.
    pub start_line: i64,
    /// Source line; 0 where it does not matter.
    pub line: i64,
    /// Source column; 0 where it does not matter.
    pub column: i64,
    /// File with the code.
    pub object: Text,
}

impl Info {
    /// The parts of its name.
    pub fn components(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.address != 0 {
            parts.push(format!("{:016x}", self.address));
        }
        if !self.name.is_empty() {
            parts.push(self.name.as_str().to_owned());
        }
        if self.line != 0 {
            let column = if self.column == 0 { String::new() } else { format!(":{}", self.column) };
            parts.push(format!("{}:{}{column}", self.file, self.line));
        } else if !self.file.is_empty() {
            parts.push(self.file.as_str().to_owned());
        } else if self.name.is_empty() && !self.object.is_empty() {
            parts.push(format!("[{}]", base(&self.object)));
        } else if self.name.is_empty() {
            parts.push("<unknown>".to_owned());
        }
        parts
    }

    /// As reports call it.
    pub fn printable(&self) -> String {
        self.components().join(" ")
    }

    /// The last word on an order: no two nodes have all of it.
    fn told(&self) -> String {
        let Info { name, address, file, start_line, line, column, object } = self;
        format!("{{{name}  {address} {file} {start_line} {line} {column} {object}}}")
    }
}

/// The last part of a path; `.` of an empty one.
pub fn base(path: &str) -> &str {
    let bare = path.trim_end_matches('/');
    match (path, bare) {
        ("", _) => ".",
        (_, "") => "/",
        _ => bare.rsplit('/').next().unwrap_or(bare),
    }
}

/// A path without what does nothing in it.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.join("/")) {
        (true, rest) => format!("/{rest}"),
        (false, rest) if rest.is_empty() => ".".to_owned(),
        (false, rest) => rest,
    }
}

/// Which parts of a place tell one node from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// The function.
    pub function: bool,
    /// The source file.
    pub file: bool,
    /// The source line.
    pub line: bool,
    /// The source column.
    pub column: bool,
    /// The address.
    pub address: bool,
    /// The file with the code, also where there is a name.
    pub object: bool,
}

/// The places of a profile as nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Of each node.
    pub infos: Vec<Info>,
    names: Vec<String>,
    /// Where a location's nodes end; they begin where the last one's end.
    ends: Vec<u32>,
    /// Innermost first.
    nodes: Vec<u32>,
    /// By node: whether anything of it is inlined.
    inlined: Vec<bool>,
}

impl Nodes {
    /// Makes the nodes of all locations.
    pub fn of(saved: &Saved, grain: Grain, path: impl Fn(&str) -> String) -> Nodes {
        let mut files: HashMap<Text, Text> = HashMap::new();
        let mut ids: HashMap<Info, u32> = HashMap::new();
        let mut made = Nodes::default();
        for location in &saved.locations {
            let mut add = |line: Option<&Line>, place: usize| {
                let info = info(saved, location, line, grain, |file| {
                    files.entry(file.clone()).or_insert_with(|| clean(&path(file)).into()).clone()
                });
                let infos = &mut made.infos;
                let id = *ids.entry(info).or_insert_with_key(|info| {
                    infos.push(info.clone());
                    infos.len() as u32 - 1
                });
                made.inlined.resize(made.infos.len(), false);
                made.inlined[id as usize] |= place + 1 < location.lines.len();
                made.nodes.push(id);
            };
            match location.lines.as_slice() {
                [] => add(None, 0),
                lines => lines.iter().enumerate().for_each(|(place, line)| add(Some(line), place)),
            }
            made.ends.push(made.nodes.len() as u32);
        }
        made.names = made.infos.iter().map(Info::printable).collect();
        made
    }

    /// The nodes of a location, innermost first.
    pub fn at(&self, location: u32) -> &[u32] {
        let start = if location == 0 { 0 } else { self.ends[location as usize - 1] as usize };
        &self.nodes[start..self.ends[location as usize] as usize]
    }

    /// A node as reports call it.
    pub fn name(&self, node: u32) -> &str {
        &self.names[node as usize]
    }

    /// Whether anything of it is inlined.
    pub(super) fn is_inlined(&self, node: u32) -> bool {
        self.inlined[node as usize]
    }

    /// How two nodes stand by name: by address first, where both have one.
    pub(super) fn by_name(&self, a: u32, b: u32) -> Ordering {
        let (one, other) = (&self.infos[a as usize], &self.infos[b as usize]);
        if one.address != 0 && other.address != 0 && one.address != other.address {
            return one.address.cmp(&other.address);
        }
        self.name(a).cmp(self.name(b))
    }

    pub(super) fn by_all(&self, a: u32, b: u32) -> Ordering {
        self.infos[a as usize].told().cmp(&self.infos[b as usize].told())
    }
}

fn info(
    saved: &Saved,
    location: &Location,
    line: Option<&Line>,
    grain: Grain,
    path: impl FnOnce(&Text) -> Text,
) -> Info {
    let address = if grain.address { location.address } else { 0 };
    let object = || saved.object(location).clone();
    let Some(line) = line else { return Info { address, object: object(), ..Info::default() } };
    let function = &saved.functions[line.function as usize];
    let mut info = Info {
        address,
        line: if grain.line { line.line } else { 0 },
        column: if grain.column { line.column } else { 0 },
        name: if grain.function { function.name.clone() } else { Text::default() },
        ..Info::default()
    };
    if grain.file && !function.file.is_empty() {
        info.file = path(&function.file);
    }
    if grain.object || info.name.is_empty() {
        (info.object, info.start_line) = (object(), function.start_line);
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (path, cleaned) in [("a//b/./c", "a/b/c"), ("/../a/", "/a"), ("a/../..", ".."), ("a/..", "."), ("/", "/")] {
            assert_eq!(clean(path), cleaned);
        }
        assert_eq!([base(""), base("/"), base("/a/b/"), base("c")], [".", "/", "b", "c"]);
    }
}
