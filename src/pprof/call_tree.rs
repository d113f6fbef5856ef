//! `-call_tree`: a graph in which each call path has nodes of its own (google/pprof: `newTree` in
//! `graph.go`). Every location is split by the path that leads to it, so the graph of the split
//! profile is a tree.

use std::collections::HashMap;

use super::graph::{NodeInfo, NodeTable};
use super::profile::SavedProfile;

/// Maximum number of nodes, some 300 bytes each.
const MAX_NODES: usize = 1 << 21;

/// Splits the locations of a profile. Returns the nodes of the tree.
///
/// # Errors
/// If the tree is too large: a sentence.
pub(super) fn split(profile: &mut SavedProfile, nodes: &NodeTable) -> Result<NodeTable, String> {
    let mut tree = NodeTable::default();
    // Node ids are numbered from 1; 0 is the parent of all roots.
    let mut children: HashMap<(u32, u32), u32> = HashMap::new();
    let mut split: HashMap<(u32, u32), u32> = HashMap::new();
    let mut functions: HashMap<(u32, NodeInfo), u32> = HashMap::new();
    let mut locations = Vec::new();
    let mut samples = std::mem::take(&mut profile.samples);
    samples.retain(|stack, _, _| {
        let mut parent = 0;
        for location in stack.iter_mut().rev() {
            if tree.infos.len() >= MAX_NODES {
                return false;
            }
            let key = (parent, *location);
            let own = *split.entry(key).or_insert_with(|| {
                let mut path: Vec<u32> = Vec::new();
                let mut caller = parent;
                for &node in nodes.at(*location).iter().rev() {
                    caller = *children.entry((caller, node)).or_insert_with(|| {
                        let info = &nodes.infos[node as usize];
                        let next = functions.len() as u32;
                        let function = *functions.entry((caller, info.function())).or_insert(next);
                        tree.push(info.clone(), function);
                        tree.infos.len() as u32
                    });
                    path.push(caller - 1);
                }
                path.reverse();
                tree.push_location(&path);
                locations.push(profile.locations[*location as usize].clone());
                locations.len() as u32 - 1
            });
            parent = tree.at(own).first().map_or(parent, |&innermost| innermost + 1);
            *location = own;
        }
        true
    });
    if tree.infos.len() >= MAX_NODES {
        return Err(format!("--call-tree: the tree has more than {MAX_NODES} nodes; select a part with --focus"));
    }
    (profile.samples, profile.locations) = (samples, locations);
    Ok(tree)
}
