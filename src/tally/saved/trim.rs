//! The graph as a report shows it: without what is too little to matter. On each step it is added up anew from the samples, as
//! pprof does, so that what is left is exact.

use super::Saved;
use super::graph::{Edges, Graph, Nodes, Order, Sums};

/// What is left out.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// Least part of the total for a node's cum.
    pub node_fraction: f64,
    /// Least part of the total for an edge.
    pub edge_fraction: f64,
    /// Most nodes; 0 for all.
    pub node_count: usize,
    /// In which order.
    pub order: Order,
}

/// What is shown, and what was left out.
pub struct Trimmed {
    /// What is left.
    pub graph: Graph,
    /// Nodes before the most were chosen.
    pub enough: usize,
    /// Nodes that were too little.
    pub dropped_nodes: usize,
    /// Edges that were too little.
    pub dropped_edges: usize,
}

/// Labels shown beside a node, at most.
pub const MAX_TAGS: usize = 4;

impl Trim {
    /// Nothing is left out.
    pub const NOTHING: Trim = Trim { node_fraction: 0.0, edge_fraction: 0.0, node_count: 0, order: Order::Flat };
}

/// Adds up, and leaves out.
pub fn trimmed(saved: &Saved, nodes: &Nodes, sums: Sums, trim: Trim) -> Trimmed {
    // For a mark alone the edges of the last step are enough.
    let first = Sums { edges: if trim.order == Order::Entropy { Edges::All } else { sums.edges }, ..sums };
    let mut graph = Graph::of(saved, nodes, None, first);
    let total = graph.total();
    let cutoff = |fraction: f64| ((total as f64 * fraction) as i64).unsigned_abs();
    let (node_cutoff, edge_cutoff) = (cutoff(trim.node_fraction), cutoff(trim.edge_fraction));
    let mut dropped_nodes = 0;
    if node_cutoff > 0 {
        let enough = |graph: &Graph, node: u32| graph.cum[node as usize].unsigned_abs() >= node_cutoff;
        let kept: Vec<u32> = graph.order.iter().copied().filter(|&node| enough(&graph, node)).collect();
        dropped_nodes = graph.order.len() - kept.len();
        if dropped_nodes > 0 {
            graph = Graph::of(saved, nodes, Some(&marked(nodes, &kept)), sums);
        }
    }
    let enough = graph.order.len();
    graph.sort(nodes, trim.order);
    if trim.node_count > 0 {
        drop_tags(&mut graph, node_cutoff);
        drop_edges(&mut graph, edge_cutoff);
        let most = if trim.order == Order::Entropy { room(&graph, trim.node_count) } else { trim.node_count };
        if most < graph.order.len() {
            let kept = marked(nodes, &graph.order[..most]);
            graph = Graph::of(saved, nodes, Some(&kept), sums);
            graph.sort(nodes, trim.order);
        }
    }
    drop_tags(&mut graph, node_cutoff);
    let dropped_edges = drop_edges(&mut graph, edge_cutoff);
    if trim.order == Order::Entropy {
        drop_redundant(&mut graph, nodes);
    }
    Trimmed { graph, enough, dropped_nodes, dropped_edges }
}

fn marked(nodes: &Nodes, kept: &[u32]) -> Vec<bool> {
    let mut marks = vec![false; nodes.infos.len()];
    kept.iter().for_each(|&node| marks[node as usize] = true);
    marks
}

/// How many nodes fit, where each takes the room of its tags too.
fn room(graph: &Graph, most: usize) -> usize {
    let mut taken = 0;
    for (place, &node) in graph.order.iter().enumerate() {
        let tags = graph.tags.get(node as usize);
        let all = tags.map(|tags| tags.texts.values().chain(tags.numbers.values().flat_map(|under| under.values())));
        let shown = all.map_or(0, |all| all.filter(|tag| tag.flat != 0).count());
        taken += shown.min(MAX_TAGS) + 1;
        if taken >= most {
            return place + 1;
        }
    }
    most
}

fn drop_tags(graph: &mut Graph, cutoff: u64) {
    for tags in &mut graph.tags {
        let enough = |tag: &super::graph::Tag| tag.flat.unsigned_abs() >= cutoff || tag.cum.unsigned_abs() >= cutoff;
        tags.texts.retain(|_, tag| enough(tag));
        tags.numbers.values_mut().for_each(|under| under.retain(|_, tag| enough(tag)));
    }
}

fn drop_edges(graph: &mut Graph, cutoff: u64) -> usize {
    let mut shown = vec![false; graph.cum.len()];
    graph.order.iter().for_each(|&node| shown[node as usize] = true);
    let mut dropped = 0;
    for edge in graph.edges.iter_mut().filter(|edge| !edge.dropped) {
        if shown[edge.to as usize] && edge.weight.unsigned_abs() < cutoff {
            edge.dropped = true;
            dropped += 1;
        }
    }
    dropped
}

/// Drops residual edges whose ends are joined by other edges as well, the lightest first.
fn drop_redundant(graph: &mut Graph, nodes: &Nodes) {
    let by_node = graph.edges_of(nodes);
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); graph.cum.len()];
    for &id in by_node.all() {
        into[graph.edges[id as usize].to as usize].push(id);
    }
    for &node in graph.order.iter().rev() {
        let ids = into[node as usize].clone();
        for &id in ids.iter().rev() {
            if !graph.edges[id as usize].residual {
                break;
            }
            if is_redundant(graph, &into, id) {
                graph.edges[id as usize].dropped = true;
                into[node as usize].retain(|&other| other != id);
            }
        }
    }
}

fn is_redundant(graph: &Graph, into: &[Vec<u32>], edge: u32) -> bool {
    let (from, to) = (graph.edges[edge as usize].from, graph.edges[edge as usize].to);
    let mut seen = vec![false; into.len()];
    seen[to as usize] = true;
    let mut waiting = vec![to];
    while let Some(node) = waiting.pop() {
        for &other in &into[node as usize] {
            let caller = graph.edges[other as usize].from;
            if other == edge || seen[caller as usize] {
                continue;
            }
            if caller == from {
                return true;
            }
            seen[caller as usize] = true;
            waiting.push(caller);
        }
    }
    false
}
