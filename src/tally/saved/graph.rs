//! Flat, cum and calls of a saved profile, added up as pprof does: a sample counts once for a node and once for an edge, and a
//! node that is not kept leaves a residual edge over its place.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::Saved;
pub use super::nodes::{Grain, Info, Nodes, base};
use super::tagging::Tagging;
pub use super::tagging::{NodeTags, Tag};
use crate::profile::hash::IdMap;

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Caller.
    pub from: u32,
    /// Callee.
    pub to: u32,
    /// Of the samples with this call.
    pub weight: i64,
    /// What that is divided by for a mean; 0 for nothing.
    pub divisor: i64,
    /// Nodes between the two are not shown.
    pub residual: bool,
    /// The callee was inlined in every one of them.
    pub inline: bool,
    /// It has gone from the graph.
    pub dropped: bool,
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
    /// Sums of the first value are kept too, as divisors.
    pub is_mean: bool,
}

/// The sums.
#[derive(Debug, Default)]
pub struct Graph {
    /// By node.
    pub flat: Vec<i64>,
    /// By node.
    pub cum: Vec<i64>,
    /// By node, what flat and cum are divided by for a mean; empty where none is wanted.
    divisors: Vec<(i64, i64)>,
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

impl Edge {
    /// As it is shown.
    pub fn shown(&self) -> i64 {
        mean(self.weight, self.divisor)
    }
}

/// A sum over its divisor; 0 divides nothing.
pub fn mean(sum: i64, divisor: i64) -> i64 {
    if divisor == 0 { sum } else { sum.wrapping_div(divisor) }
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
        if sums.is_mean {
            graph.divisors = vec![(0, 0); count];
        }
        let is_kept = |node: u32| kept.is_none_or(|kept| kept[node as usize]);
        let wants = |node: u32| sums.edges == Edges::All || nodes.is_inlined(node);
        let mut edge_ids: IdMap<(u32, u32), u32> = IdMap::default();
        // The last sample that was counted for a node or an edge.
        let mut seen = vec![u32::MAX; count];
        let mut seen_edges: Vec<u32> = Vec::new();
        saved.samples.each(|sample| {
            let weight = sample.values[sums.value];
            let divisor = if sums.is_mean { sample.values[0] } else { 0 };
            if weight == 0 && divisor == 0 {
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
                        if let Some((_, of_cum)) = graph.divisors.get_mut(node as usize) {
                            *of_cum = of_cum.wrapping_add(divisor);
                        }
                        if let Some(tagging) = &tagging {
                            tagging.add(&mut graph.tags[node as usize], sample.labels, (weight, divisor), false);
                        }
                    }
                    if let Some(caller) = caller
                        && caller != node
                        && wants(node)
                    {
                        let edges = &mut graph.edges;
                        let inline = place + 1 != places.len();
                        let id = *edge_ids.entry((caller, node)).or_insert_with(|| {
                            let (from, to, dropped) = (caller, node, false);
                            edges.push(Edge { from, to, weight: 0, divisor: 0, residual, inline, dropped });
                            seen_edges.push(u32::MAX);
                            edges.len() as u32 - 1
                        }) as usize;
                        if std::mem::replace(&mut seen_edges[id], stamp) != stamp {
                            let edge = &mut graph.edges[id];
                            edge.weight = edge.weight.wrapping_add(weight);
                            edge.divisor = edge.divisor.wrapping_add(divisor);
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
                if let Some((of_flat, _)) = graph.divisors.get_mut(leaf as usize) {
                    *of_flat = of_flat.wrapping_add(divisor);
                }
                if let Some(tagging) = &tagging {
                    tagging.add(&mut graph.tags[leaf as usize], sample.labels, (weight, divisor), true);
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

    /// Flat and cum of a node, as they are shown.
    pub fn shown(&self, node: u32) -> (i64, i64) {
        let (of_flat, of_cum) = self.divisors(node);
        (mean(self.flat[node as usize], of_flat), mean(self.cum[node as usize], of_cum))
    }

    /// Sum of all flat as they are shown.
    pub fn shown_total(&self) -> i64 {
        self.order.iter().fold(0, |sum: i64, &node| sum.wrapping_add(self.shown(node).0))
    }

    /// What flat and cum of a node are divided by for a mean.
    pub fn divisors(&self, node: u32) -> (i64, i64) {
        self.divisors.get(node as usize).copied().unwrap_or_default()
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
