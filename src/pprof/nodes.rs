//! The nodes of a call graph: which functions and lines are one node, and how a node is named.
//! (google/pprof: `NodeInfo` in `graph.go`.)

use std::cmp::Ordering;
use std::collections::HashMap;

use super::path::{base, clean};
use super::profile::{Line, Location, SavedProfile};
use crate::tally::text::Text;

/// The identity of a node. Fields that the granularity ignores are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeInfo {
    /// The function's name.
    pub name: Text,
    /// The address.
    pub address: u64,
    /// The source file.
    pub file: Text,
    /// The line that the function starts in.
    pub start_line: i64,
    /// The source line.
    pub line: i64,
    /// The source column.
    pub column: i64,
    /// The mapped file with the code.
    pub object: Text,
}

impl NodeInfo {
    /// The same without address, line and column: the function.
    pub(super) fn function(&self) -> NodeInfo {
        NodeInfo { address: 0, line: 0, column: 0, ..self.clone() }
    }

    /// The parts of the printable name.
    pub fn name_components(&self) -> Vec<String> {
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

    /// The name in reports.
    pub fn printable_name(&self) -> String {
        self.name_components().join(" ")
    }

    /// All fields as Go's `%v` prints them: the last criterion of pprof's order.
    fn go_format(&self) -> String {
        let NodeInfo { name, address, file, start_line, line, column, object } = self;
        format!("{{{name}  {address} {file} {start_line} {line} {column} {object}}}")
    }
}

/// The properties that distinguish nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
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
    /// The mapped file, also for functions with a name.
    pub object: bool,
}

/// The nodes of all locations of a profile.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// The identity of each node.
    pub infos: Vec<NodeInfo>,
    names: Vec<String>,
    /// The end of each location's nodes in `nodes`. They start where those of the location before
    /// it end.
    ends: Vec<u32>,
    /// The nodes of all locations, innermost first.
    nodes: Vec<u32>,
    /// The nodes that are inlined somewhere, by node.
    inlined: Vec<bool>,
    /// The function of each node in a call tree: nodes of one parent that differ in their address
    /// or line alone have the same. It is empty for a graph.
    functions: Vec<u32>,
}

impl NodeTable {
    /// Creates the nodes of all locations. `path` shortens source paths.
    pub fn build(profile: &SavedProfile, identity: NodeIdentity, path: impl Fn(&str) -> String) -> NodeTable {
        let mut files: HashMap<Text, Text> = HashMap::new();
        let mut ids: HashMap<NodeInfo, u32> = HashMap::new();
        let mut table = NodeTable::default();
        for location in &profile.locations {
            let mut add = |line: Option<&Line>, depth: usize| {
                let info = node_info(profile, location, line, identity, |file| {
                    files.entry(file.clone()).or_insert_with(|| clean(&path(file)).into()).clone()
                });
                let infos = &mut table.infos;
                let id = *ids.entry(info).or_insert_with_key(|info| {
                    infos.push(info.clone());
                    infos.len() as u32 - 1
                });
                table.inlined.resize(table.infos.len(), false);
                table.inlined[id as usize] |= depth + 1 < location.lines.len();
                table.nodes.push(id);
            };
            match location.lines.as_slice() {
                [] => add(None, 0),
                lines => lines.iter().enumerate().for_each(|(depth, line)| add(Some(line), depth)),
            }
            table.ends.push(table.nodes.len() as u32);
        }
        table.names = table.infos.iter().map(NodeInfo::printable_name).collect();
        table
    }

    /// Appends a node, whether or not there is one like it.
    pub(super) fn push(&mut self, info: NodeInfo, function: u32) {
        self.functions.push(function);
        self.names.push(info.printable_name());
        self.infos.push(info);
        self.inlined.push(false);
    }

    /// Appends a location with these nodes, innermost first.
    pub(super) fn push_location(&mut self, nodes: &[u32]) {
        let inlined = nodes.split_last().map_or(&[][..], |(_, inlined)| inlined);
        inlined.iter().for_each(|&node| self.inlined[node as usize] = true);
        self.nodes.extend_from_slice(nodes);
        self.ends.push(self.nodes.len() as u32);
    }

    /// The function of a node in a call tree.
    pub(super) fn function(&self, node: u32) -> Option<u32> {
        self.functions.get(node as usize).copied()
    }

    /// The nodes of a location, innermost first.
    pub fn at(&self, location: u32) -> &[u32] {
        let start = if location == 0 { 0 } else { self.ends[location as usize - 1] as usize };
        &self.nodes[start..self.ends[location as usize] as usize]
    }

    /// The name of a node in reports.
    pub fn name(&self, node: u32) -> &str {
        &self.names[node as usize]
    }

    /// Whether a node is inlined anywhere.
    pub(super) fn is_inlined(&self, node: u32) -> bool {
        self.inlined[node as usize]
    }

    /// Compares nodes by address if both have one, else by name.
    pub(super) fn compare_names(&self, a: u32, b: u32) -> Ordering {
        let (one, other) = (&self.infos[a as usize], &self.infos[b as usize]);
        if one.address != 0 && other.address != 0 && one.address != other.address {
            return one.address.cmp(&other.address);
        }
        self.name(a).cmp(self.name(b))
    }

    /// Compares all properties of nodes.
    pub(super) fn compare_all(&self, a: u32, b: u32) -> Ordering {
        self.infos[a as usize].go_format().cmp(&self.infos[b as usize].go_format())
    }
}

/// The identity of the node for a line of a location.
fn node_info(
    profile: &SavedProfile,
    location: &Location,
    line: Option<&Line>,
    identity: NodeIdentity,
    path: impl FnOnce(&Text) -> Text,
) -> NodeInfo {
    let address = if identity.address { location.address } else { 0 };
    let object = || profile.object(location).clone();
    let Some(line) = line else { return NodeInfo { address, object: object(), ..NodeInfo::default() } };
    let function = &profile.functions[line.function as usize];
    let mut info = NodeInfo {
        address,
        line: if identity.line { line.line } else { 0 },
        column: if identity.column { line.column } else { 0 },
        name: if identity.function { function.name.clone() } else { Text::default() },
        ..NodeInfo::default()
    };
    if identity.file && !function.file.is_empty() {
        info.file = path(&function.file);
    }
    if identity.object || info.name.is_empty() {
        (info.object, info.start_line) = (object(), function.start_line);
    }
    info
}
