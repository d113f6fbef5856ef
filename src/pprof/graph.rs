//! The weighted call graph of a saved profile (google/pprof: `graph.go`). A sample counts once for
//! each node and edge that it contains. A node that is not kept leaves a residual edge from its
//! caller to its callee.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::node_tags::TagIndex;
pub use super::node_tags::{NodeTag, NodeTags, TagOptions, mean};
pub use super::nodes::{NodeIdentity, NodeInfo, NodeTable};
use super::profile::SavedProfile;
use crate::profile::hash::IdMap;

/// A call from one node to another.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The caller.
    pub from: u32,
    /// The callee.
    pub to: u32,
    /// The sum of the samples with this call.
    pub weight: i64,
    /// The divisor of `weight` for a mean; 0 for a plain sum.
    pub divisor: i64,
    /// Nodes between caller and callee are left out.
    pub residual: bool,
    /// The callee is inlined in every sample.
    pub inline: bool,
    /// The edge is not shown.
    pub dropped: bool,
}

/// The edges to add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeSelection {
    /// All edges.
    All,
    /// Edges to nodes that are inlined anywhere, which suffices for the `(inline)` mark.
    ToInlined,
}

/// The options for building a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions<'a> {
    /// The index of the sample type.
    pub value: usize,
    /// The edges to add up.
    pub edges: EdgeSelection,
    /// The options for tags; `None` builds none.
    pub tags: Option<TagOptions<'a>>,
    /// Whether to leave out nodes with negative values.
    pub drop_negative: bool,
    /// Whether to add up the first sample type too, as divisor for a mean.
    pub is_mean: bool,
    /// Whether the nodes are those of a call tree. A residual edge is inlined then only if what is
    /// left out is, too.
    pub is_tree: bool,
}

/// A call graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// The sum of samples whose leaf is the node, by node.
    pub flat: Vec<i64>,
    /// The sum of samples that contain the node, by node.
    pub cum: Vec<i64>,
    /// The divisors of flat and cum, by node; empty unless a mean is shown.
    divisors: Vec<(i64, i64)>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// The nodes with values, in the order of the report.
    pub order: Vec<u32>,
    /// The tags of each node; empty unless they were requested.
    pub tags: Vec<NodeTags>,
}

/// The order of nodes in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOrder {
    /// Descending flat.
    Flat,
    /// Descending cum.
    Cum,
    /// Descending entropy: how much a drawing would lose without the node.
    Entropy,
}

impl Edge {
    /// The weight, divided if a mean is shown.
    pub fn shown_weight(&self) -> i64 {
        mean(self.weight, self.divisor)
    }
}

impl Graph {
    /// Adds up all samples. `kept` selects nodes; `None` keeps all.
    pub fn build(profile: &SavedProfile, nodes: &NodeTable, kept: Option<&[bool]>, options: GraphOptions) -> Graph {
        let count = nodes.infos.len();
        let mut graph = Graph { flat: vec![0; count], cum: vec![0; count], ..Graph::default() };
        let tag_index = options.tags.map(|tags| TagIndex::build(profile, tags));
        if tag_index.is_some() {
            graph.tags = vec![NodeTags::default(); count];
        }
        if options.is_mean {
            graph.divisors = vec![(0, 0); count];
        }
        let is_kept = |node: u32| kept.is_none_or(|kept| kept[node as usize]);
        let wants = |node: u32| options.edges == EdgeSelection::All || nodes.is_inlined(node);
        let mut edge_ids: IdMap<(u32, u32), u32> = IdMap::default();
        // The last sample that was counted for each node and edge.
        let mut last_sample = vec![u32::MAX; count];
        let mut last_sample_of_edge: Vec<u32> = Vec::new();
        profile.samples.for_each(|sample| {
            let weight = sample.values[options.value];
            let divisor = if options.is_mean { sample.values[0] } else { 0 };
            if weight == 0 && divisor == 0 {
                return;
            }
            let index = sample.index as u32;
            let (mut caller, mut residual, mut skipped_call) = (None, false, false);
            for &location in sample.stack.iter().rev() {
                let functions = nodes.at(location);
                for (depth, &node) in functions.iter().enumerate().rev() {
                    let inline = depth + 1 != functions.len();
                    if !is_kept(node) {
                        (residual, skipped_call) = (true, skipped_call || !inline);
                        continue;
                    }
                    if std::mem::replace(&mut last_sample[node as usize], index) != index {
                        let cum = &mut graph.cum[node as usize];
                        *cum = cum.wrapping_add(weight);
                        if let Some((_, of_cum)) = graph.divisors.get_mut(node as usize) {
                            *of_cum = of_cum.wrapping_add(divisor);
                        }
                        if let Some(tag_index) = &tag_index {
                            tag_index.add(&mut graph.tags[node as usize], sample.labels, (weight, divisor), false);
                        }
                    }
                    if let Some(caller) = caller
                        && caller != node
                        && wants(node)
                    {
                        let edges = &mut graph.edges;
                        let inline = inline && !(options.is_tree && skipped_call);
                        let id = *edge_ids.entry((caller, node)).or_insert_with(|| {
                            let (from, to, dropped) = (caller, node, false);
                            edges.push(Edge { from, to, weight: 0, divisor: 0, residual, inline, dropped });
                            last_sample_of_edge.push(u32::MAX);
                            edges.len() as u32 - 1
                        }) as usize;
                        if std::mem::replace(&mut last_sample_of_edge[id], index) != index {
                            let edge = &mut graph.edges[id];
                            edge.weight = edge.weight.wrapping_add(weight);
                            edge.divisor = edge.divisor.wrapping_add(divisor);
                            edge.residual |= residual;
                            edge.inline &= inline;
                        }
                    }
                    (caller, residual, skipped_call) = (Some(node), false, false);
                }
            }
            if let Some(leaf) = caller.filter(|_| !residual) {
                let flat = &mut graph.flat[leaf as usize];
                *flat = flat.wrapping_add(weight);
                if let Some((of_flat, _)) = graph.divisors.get_mut(leaf as usize) {
                    *of_flat = of_flat.wrapping_add(divisor);
                }
                if let Some(tag_index) = &tag_index {
                    tag_index.add(&mut graph.tags[leaf as usize], sample.labels, (weight, divisor), true);
                }
            }
        });
        let has_value = |node: &u32| {
            let (flat, cum) = (graph.flat[*node as usize], graph.cum[*node as usize]);
            let negative = flat < 0 || flat == 0 && cum < 0;
            is_kept(*node) && (flat != 0 || cum != 0) && !(options.drop_negative && negative)
        };
        graph.order = (0..count as u32).filter(has_value).collect();
        graph
    }

    /// The sum of all flat values.
    pub fn total(&self) -> i64 {
        self.order.iter().fold(0, |sum: i64, &node| sum.wrapping_add(self.flat[node as usize]))
    }

    /// Flat and cum of a node, divided if a mean is shown.
    pub fn shown(&self, node: u32) -> (i64, i64) {
        let (of_flat, of_cum) = self.divisors(node);
        (mean(self.flat[node as usize], of_flat), mean(self.cum[node as usize], of_cum))
    }

    /// The sum of all flat values as they are shown.
    pub fn shown_total(&self) -> i64 {
        self.order.iter().fold(0, |sum: i64, &node| sum.wrapping_add(self.shown(node).0))
    }

    /// The divisors of flat and cum of a node.
    pub fn divisors(&self, node: u32) -> (i64, i64) {
        self.divisors.get(node as usize).copied().unwrap_or_default()
    }

    /// Sorts the nodes as pprof does, with all of its tie breakers.
    pub fn sort(&mut self, nodes: &NodeTable, by: NodeOrder) {
        let scores: Vec<i64> = match by {
            NodeOrder::Flat => self.flat.clone(),
            NodeOrder::Cum => self.cum.clone(),
            NodeOrder::Entropy => self.entropies(),
        };
        let (flat, cum) = (&self.flat, &self.cum);
        // As in Go, the absolute value of the lowest number is negative, so it comes last.
        let magnitude = |values: &[i64], node: u32| std::cmp::Reverse(values[node as usize].wrapping_abs());
        self.order.sort_unstable_by(|&a, &b| {
            let second = if by == NodeOrder::Flat { cum } else { flat };
            let by_score = magnitude(&scores, a).cmp(&magnitude(&scores, b));
            by_score
                .then_with(|| nodes.compare_names(a, b))
                .then_with(|| magnitude(second, a).cmp(&magnitude(second, b)))
                .then_with(|| nodes.compare_all(a, b))
        });
    }

    /// The entropy score of each node: how much a drawing would lose without it. A node with one
    /// caller and one callee has a low score.
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
            let term = |weight: i64| {
                let share = weight.unsigned_abs() as f64 / total as f64;
                -share * share.log2()
            };
            weights.iter().map(|&weight| term(weight)).sum::<f64>() + if own > 0 { term(own) } else { 0.0 }
        };
        let score = |node: usize| {
            let (flat, cum) = (self.flat[node], self.cum[node]);
            let edge_entropy = |weights: &[i64], own| if weights.is_empty() { 1.0 } else { entropy(weights, own) };
            let score = edge_entropy(&into[node], 0) + edge_entropy(&out[node], flat);
            go_integer(score * cum as f64).wrapping_add(flat)
        };
        (0..count).map(score).collect()
    }

    /// Groups the edges that are shown by their nodes, sorted by weight, then by names.
    pub fn edges_by_node(&self, nodes: &NodeTable) -> EdgesByNode {
        let mut all: Vec<u32> = (0..self.edges.len() as u32).filter(|&id| !self.edges[id as usize].dropped).collect();
        all.sort_by(|&a, &b| self.compare_edges(nodes, a, b));
        let mut by_node = EdgesByNode { into: HashMap::new(), out: HashMap::new(), all };
        for &id in &by_node.all {
            let edge = self.edges[id as usize];
            by_node.into.entry(edge.to).or_default().push(edge);
            by_node.out.entry(edge.from).or_default().push(edge);
        }
        by_node
    }

    fn compare_edges(&self, nodes: &NodeTable, a: u32, b: u32) -> Ordering {
        let (one, other) = (&self.edges[a as usize], &self.edges[b as usize]);
        let by_weight = other.weight.unsigned_abs().cmp(&one.weight.unsigned_abs());
        by_weight
            .then_with(|| nodes.name(one.from).cmp(nodes.name(other.from)))
            .then_with(|| nodes.name(one.to).cmp(nodes.name(other.to)))
    }
}

/// Converts a number as Go does on x86-64: what is no number, or does not fit, is the lowest. In a
/// difference, entropies are no numbers where values cancel out.
fn go_integer(number: f64) -> i64 {
    let fits = number >= i64::MIN as f64 && number < i64::MAX as f64;
    if fits { number as i64 } else { i64::MIN }
}

/// The edges of a graph, grouped by node and sorted.
pub struct EdgesByNode {
    into: HashMap<u32, Vec<Edge>>,
    out: HashMap<u32, Vec<Edge>>,
    all: Vec<u32>,
}

impl EdgesByNode {
    /// The edges from the callers of a node.
    pub fn callers(&self, node: u32) -> &[Edge] {
        self.into.get(&node).map_or(&[], |edges| edges)
    }

    /// The edges to the callees of a node.
    pub fn callees(&self, node: u32) -> &[Edge] {
        self.out.get(&node).map_or(&[], |edges| edges)
    }

    /// The indices of all edges that are shown.
    pub fn all(&self) -> &[u32] {
        &self.all
    }
}
