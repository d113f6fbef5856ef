//! Flat, cum and calls of a saved profile, added up as pprof does: a sample counts once for a node and once for an edge, and a
//! node that is not kept leaves a residual edge over its place.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{LabelValue, Line, Location, Saved};
use crate::profile::hash::IdMap;
use crate::tally::text::Text;
use crate::tally::units::scaled_label;

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

    /// How two nodes stand by name: by address first, where both have one.
    fn by_name(&self, a: u32, b: u32) -> Ordering {
        let (one, other) = (&self.infos[a as usize], &self.infos[b as usize]);
        if one.address != 0 && other.address != 0 && one.address != other.address {
            return one.address.cmp(&other.address);
        }
        self.name(a).cmp(self.name(b))
    }

    fn by_all(&self, a: u32, b: u32) -> Ordering {
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

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Caller.
    pub from: u32,
    /// Callee.
    pub to: u32,
    /// Of the samples with this call.
    pub weight: i64,
    /// Nodes between the two are not shown.
    pub residual: bool,
    /// The callee was inlined in every one of them.
    pub inline: bool,
    /// It has gone from the graph.
    pub dropped: bool,
}

/// What is said of samples, as a graph shows it beside a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tag {
    /// As it is shown.
    pub name: String,
    /// Of a number.
    pub unit: String,
    /// Of a number.
    pub value: i64,
    /// Of samples that end in the node.
    pub flat: i64,
    /// Of samples that the node is in.
    pub cum: i64,
}

/// Tags of one node: texts, and numbers by the text that they stand under.
#[derive(Clone, Debug, Default)]
pub struct NodeTags {
    /// By name.
    pub texts: HashMap<String, Tag>,
    /// By text, then by name.
    pub numbers: HashMap<String, HashMap<String, Tag>>,
}

/// Which edges are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// All.
    All,
    /// Those to nodes that are inlined somewhere: enough to mark them.
    ToInlined,
}

/// How to add up.
#[derive(Clone, Copy, Debug)]
pub struct Sums<'a> {
    /// Which value.
    pub value: usize,
    /// Which edges.
    pub edges: Edges,
    /// With tags, and the unit for their numbers.
    pub tags: Option<&'a str>,
    /// Without nodes below zero.
    pub drop_negative: bool,
}

/// The sums.
#[derive(Debug, Default)]
pub struct Graph {
    /// By node.
    pub flat: Vec<i64>,
    /// By node.
    pub cum: Vec<i64>,
    /// All calls.
    pub edges: Vec<Edge>,
    /// The nodes that there are, in the order of the report.
    pub order: Vec<u32>,
    /// By node; empty where they were not asked for.
    pub tags: Vec<NodeTags>,
}

/// How nodes are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By flat.
    Flat,
    /// By cum.
    Cum,
    /// By what makes a graph worth looking at.
    Entropy,
}

impl Graph {
    /// Adds up all samples, over the nodes that are `kept`.
    pub fn of(saved: &Saved, nodes: &Nodes, kept: Option<&[bool]>, sums: Sums) -> Graph {
        let count = nodes.infos.len();
        let mut graph = Graph { flat: vec![0; count], cum: vec![0; count], ..Graph::default() };
        let tagging = sums.tags.map(|unit| Tagging::of(saved, unit));
        if tagging.is_some() {
            graph.tags = vec![NodeTags::default(); count];
        }
        let is_kept = |node: u32| kept.is_none_or(|kept| kept[node as usize]);
        let wants = |node: u32| sums.edges == Edges::All || nodes.inlined[node as usize];
        let mut edge_ids: IdMap<(u32, u32), u32> = IdMap::default();
        // The last sample that was counted for a node or an edge.
        let mut seen = vec![u32::MAX; count];
        let mut seen_edges: Vec<u32> = Vec::new();
        saved.samples.each(|sample| {
            let weight = sample.values[sums.value];
            if weight == 0 {
                return;
            }
            let stamp = sample.index as u32;
            let (mut caller, mut residual) = (None, false);
            for &location in sample.stack.iter().rev() {
                let places = nodes.at(location);
                for (place, &node) in places.iter().enumerate().rev() {
                    if !is_kept(node) {
                        residual = true;
                        continue;
                    }
                    if std::mem::replace(&mut seen[node as usize], stamp) != stamp {
                        let cum = &mut graph.cum[node as usize];
                        *cum = cum.wrapping_add(weight);
                        if let Some(tagging) = &tagging {
                            tagging.add(&mut graph.tags[node as usize], sample.labels, weight, false);
                        }
                    }
                    if let Some(caller) = caller
                        && caller != node
                        && wants(node)
                    {
                        let edges = &mut graph.edges;
                        let inline = place + 1 != places.len();
                        let id = *edge_ids.entry((caller, node)).or_insert_with(|| {
                            let edge = Edge { from: caller, to: node, weight: 0, residual, inline, dropped: false };
                            edges.push(edge);
                            seen_edges.push(u32::MAX);
                            edges.len() as u32 - 1
                        }) as usize;
                        if std::mem::replace(&mut seen_edges[id], stamp) != stamp {
                            let edge = &mut graph.edges[id];
                            edge.weight = edge.weight.wrapping_add(weight);
                            edge.residual |= residual;
                            edge.inline &= inline;
                        }
                    }
                    (caller, residual) = (Some(node), false);
                }
            }
            if let Some(leaf) = caller.filter(|_| !residual) {
                let flat = &mut graph.flat[leaf as usize];
                *flat = flat.wrapping_add(weight);
                if let Some(tagging) = &tagging {
                    tagging.add(&mut graph.tags[leaf as usize], sample.labels, weight, true);
                }
            }
        });
        let is_there = |node: &u32| {
            let (flat, cum) = (graph.flat[*node as usize], graph.cum[*node as usize]);
            let negative = flat < 0 || flat == 0 && cum < 0;
            is_kept(*node) && (flat != 0 || cum != 0) && !(sums.drop_negative && negative)
        };
        graph.order = (0..count as u32).filter(is_there).collect();
        graph
    }

    /// Sum of all flat.
    pub fn total(&self) -> i64 {
        self.order.iter().fold(0, |sum: i64, &node| sum.wrapping_add(self.flat[node as usize]))
    }

    /// Orders the nodes.
    pub fn sort(&mut self, nodes: &Nodes, by: Order) {
        let scores: Vec<i64> = match by {
            Order::Flat => self.flat.clone(),
            Order::Cum => self.cum.clone(),
            Order::Entropy => self.entropies(),
        };
        let (flat, cum) = (&self.flat, &self.cum);
        let much = |values: &[i64], node: u32| std::cmp::Reverse(values[node as usize].unsigned_abs());
        self.order.sort_unstable_by(|&a, &b| {
            let second = if by == Order::Flat { cum } else { flat };
            let by_score = much(&scores, a).cmp(&much(&scores, b));
            by_score
                .then_with(|| nodes.by_name(a, b))
                .then_with(|| much(second, a).cmp(&much(second, b)))
                .then_with(|| nodes.by_all(a, b))
        });
    }

    /// By node: how much a picture would lose without it. A node that only passes on what it gets is worth little.
    fn entropies(&self) -> Vec<i64> {
        let count = self.flat.len();
        let (mut into, mut out) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for edge in self.edges.iter().filter(|edge| !edge.dropped) {
            into[edge.to as usize].push(edge.weight);
            out[edge.from as usize].push(edge.weight);
        }
        let entropy = |weights: &[i64], own: i64| -> f64 {
            let total = weights.iter().filter(|&&weight| weight > 0).fold(own, |sum, &weight| sum.wrapping_add(weight));
            if total == 0 {
                return 0.0;
            }
            let part = |weight: i64| {
                let part = weight.unsigned_abs() as f64 / total as f64;
                -part * part.log2()
            };
            weights.iter().map(|&weight| part(weight)).sum::<f64>() + if own > 0 { part(own) } else { 0.0 }
        };
        let score = |node: usize| {
            let (flat, cum) = (self.flat[node], self.cum[node]);
            let side = |weights: &[i64], own| if weights.is_empty() { 1.0 } else { entropy(weights, own) };
            let score = side(&into[node], 0) + side(&out[node], flat);
            ((score * cum as f64) as i64).wrapping_add(flat)
        };
        (0..count).map(score).collect()
    }

    /// Edges at a node, by weight, then name; into it or out of it.
    pub fn edges_of(&self, nodes: &Nodes) -> EdgesByNode {
        let mut all: Vec<u32> = (0..self.edges.len() as u32).filter(|&id| !self.edges[id as usize].dropped).collect();
        all.sort_by(|&a, &b| self.by_weight(nodes, a, b));
        let mut by_node = EdgesByNode { into: HashMap::new(), out: HashMap::new(), all };
        for &id in &by_node.all {
            let edge = self.edges[id as usize];
            by_node.into.entry(edge.to).or_default().push(edge);
            by_node.out.entry(edge.from).or_default().push(edge);
        }
        by_node
    }

    fn by_weight(&self, nodes: &Nodes, a: u32, b: u32) -> Ordering {
        let (one, other) = (&self.edges[a as usize], &self.edges[b as usize]);
        let by_weight = other.weight.unsigned_abs().cmp(&one.weight.unsigned_abs());
        by_weight
            .then_with(|| nodes.name(one.from).cmp(nodes.name(other.from)))
            .then_with(|| nodes.name(one.to).cmp(nodes.name(other.to)))
    }
}

/// The edges of a graph, sorted.
pub struct EdgesByNode {
    into: HashMap<u32, Vec<Edge>>,
    out: HashMap<u32, Vec<Edge>>,
    all: Vec<u32>,
}

impl EdgesByNode {
    /// From its callers.
    pub fn callers(&self, node: u32) -> &[Edge] {
        self.into.get(&node).map_or(&[], |edges| edges)
    }

    /// To its callees.
    pub fn callees(&self, node: u32) -> &[Edge] {
        self.out.get(&node).map_or(&[], |edges| edges)
    }

    /// Indices of all.
    pub fn all(&self) -> &[u32] {
        &self.all
    }
}

/// What the label sets of a profile mean as tags.
struct Tagging {
    /// By set: its texts, joined, and its numbers.
    sets: Vec<(String, Vec<Numbered>)>,
}

/// A number as a tag: its name, unit and value.
type Numbered = (String, String, i64);

impl Tagging {
    fn of(saved: &Saved, unit: &str) -> Tagging {
        let units = saved.number_units();
        let set = |labels: &[super::Label]| {
            let texts = labels.iter().filter_map(|label| match &label.value {
                LabelValue::Text(text) => Some(format!("{}:{text}", label.key)),
                LabelValue::Number(..) => None,
            });
            let mut texts: Vec<String> = texts.collect();
            texts.sort();
            let numbers = labels.iter().filter(|label| label.key == "bytes").filter_map(|label| match &label.value {
                LabelValue::Number(number, _) => {
                    let own = units.get(&label.key).map_or("", Text::as_str);
                    Some((scaled_label(*number, own, unit), own.to_owned(), *number))
                }
                LabelValue::Text(_) => None,
            });
            (texts.join("\\n"), numbers.collect())
        };
        Tagging { sets: saved.labels.iter().map(|labels| set(labels)).collect() }
    }

    fn add(&self, tags: &mut NodeTags, set: u32, weight: i64, is_flat: bool) {
        let Some((text, numbers)) = self.sets.get(set as usize) else { return };
        let count = |tag: &mut Tag| {
            let sum = if is_flat { &mut tag.flat } else { &mut tag.cum };
            *sum = sum.wrapping_add(weight);
        };
        if !text.is_empty() {
            let new = || Tag { name: text.clone(), ..Tag::default() };
            count(tags.texts.entry(text.clone()).or_insert_with(new));
        }
        for (name, unit, value) in numbers {
            let under = tags.numbers.entry(text.clone()).or_default();
            let new = || Tag { name: name.clone(), unit: unit.clone(), value: *value, ..Tag::default() };
            count(under.entry(name.clone()).or_insert_with(new));
        }
    }
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
