//! Reduces a graph to the nodes and edges that matter. As in pprof, the graph is built again from
//! the samples after each step, so the remaining values are exact.

use super::graph::{EdgeSelection, Graph, GraphOptions, NodeOrder, NodeTable};
use super::profile::SavedProfile;

/// The limits of a report.
#[derive(Clone, Copy, Debug)]
pub struct TrimOptions {
    /// The minimum cum of a node, as a fraction of the total.
    pub node_fraction: f64,
    /// The minimum weight of an edge, as a fraction of the total.
    pub edge_fraction: f64,
    /// The maximum number of nodes; 0 for all.
    pub node_count: usize,
    /// The order in which nodes are kept.
    pub order: NodeOrder,
}

/// A graph without its small nodes and edges.
pub struct TrimmedGraph {
    /// The rest of the graph.
    pub graph: Graph,
    /// The number of nodes before `node_count` was applied.
    pub candidate_nodes: usize,
    /// The number of nodes below `node_fraction`.
    pub dropped_nodes: usize,
    /// The number of edges below `edge_fraction`.
    pub dropped_edges: usize,
}

/// Maximum number of tags drawn beside a node.
pub const MAX_NODE_TAGS: usize = 4;

impl TrimOptions {
    /// Keeps all nodes and edges.
    pub const NONE: TrimOptions =
        TrimOptions { node_fraction: 0.0, edge_fraction: 0.0, node_count: 0, order: NodeOrder::Flat };
}

/// Builds a graph and removes its small nodes and edges.
pub fn build_trimmed(
    profile: &SavedProfile,
    nodes: &NodeTable,
    options: GraphOptions,
    trim: TrimOptions,
) -> TrimmedGraph {
    // Marks need the edges of the final graph only.
    let first = GraphOptions {
        edges: if trim.order == NodeOrder::Entropy { EdgeSelection::All } else { options.edges },
        ..options
    };
    let mut graph = Graph::build(profile, nodes, None, first);
    let total = graph.total();
    let cutoff = |fraction: f64| ((total as f64 * fraction) as i64).unsigned_abs();
    let (node_cutoff, edge_cutoff) = (cutoff(trim.node_fraction), cutoff(trim.edge_fraction));
    let mut dropped_nodes = 0;
    if node_cutoff > 0 {
        let is_large = |graph: &Graph, node: u32| graph.cum[node as usize].unsigned_abs() >= node_cutoff;
        let kept: Vec<u32> = graph.order.iter().copied().filter(|&node| is_large(&graph, node)).collect();
        dropped_nodes = graph.order.len() - kept.len();
        if dropped_nodes > 0 {
            graph = Graph::build(profile, nodes, Some(&node_mask(nodes, &kept)), options);
        }
    }
    let candidate_nodes = graph.order.len();
    graph.sort(nodes, trim.order);
    if trim.node_count > 0 {
        drop_tags(&mut graph, node_cutoff);
        drop_edges(&mut graph, edge_cutoff);
        let count =
            if trim.order == NodeOrder::Entropy { nodes_with_tags(&graph, trim.node_count) } else { trim.node_count };
        if count < graph.order.len() {
            let kept = node_mask(nodes, &graph.order[..count]);
            graph = Graph::build(profile, nodes, Some(&kept), options);
            graph.sort(nodes, trim.order);
        }
    }
    drop_tags(&mut graph, node_cutoff);
    let dropped_edges = drop_edges(&mut graph, edge_cutoff);
    if trim.order == NodeOrder::Entropy {
        drop_redundant(&mut graph, nodes);
    }
    TrimmedGraph { graph, candidate_nodes, dropped_nodes, dropped_edges }
}

fn node_mask(nodes: &NodeTable, kept: &[u32]) -> Vec<bool> {
    let mut mask = vec![false; nodes.infos.len()];
    kept.iter().for_each(|&node| mask[node as usize] = true);
    mask
}

/// The number of nodes to keep if each tag counts as a node.
fn nodes_with_tags(graph: &Graph, limit: usize) -> usize {
    let mut total = 0;
    for (index, &node) in graph.order.iter().enumerate() {
        let tags = graph.tags.get(node as usize);
        let all = tags.map(|tags| tags.texts.values().chain(tags.numbers.values().flat_map(|under| under.values())));
        let shown = all.map_or(0, |all| all.filter(|tag| tag.flat != 0).count());
        total += shown.min(MAX_NODE_TAGS) + 1;
        if total >= limit {
            return index + 1;
        }
    }
    limit
}

fn drop_tags(graph: &mut Graph, cutoff: u64) {
    for tags in &mut graph.tags {
        let is_large =
            |tag: &super::node_tags::NodeTag| tag.flat.unsigned_abs() >= cutoff || tag.cum.unsigned_abs() >= cutoff;
        tags.texts.retain(|_, tag| is_large(tag));
        tags.numbers.values_mut().for_each(|under| under.retain(|_, tag| is_large(tag)));
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

/// Drops residual edges between nodes that other edges connect as well, the lightest first.
fn drop_redundant(graph: &mut Graph, nodes: &NodeTable) {
    let by_node = graph.edges_by_node(nodes);
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

/// Whether another path leads from the caller to the callee of an edge.
fn is_redundant(graph: &Graph, into: &[Vec<u32>], edge: u32) -> bool {
    let (from, to) = (graph.edges[edge as usize].from, graph.edges[edge as usize].to);
    let mut visited = vec![false; into.len()];
    visited[to as usize] = true;
    let mut queue = vec![to];
    while let Some(node) = queue.pop() {
        for &other in &into[node as usize] {
            let caller = graph.edges[other as usize].from;
            if other == edge || visited[caller as usize] {
                continue;
            }
            if caller == from {
                return true;
            }
            visited[caller as usize] = true;
            queue.push(caller);
        }
    }
    false
}
