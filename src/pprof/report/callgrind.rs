//! `-callgrind`: the cost and the calls of every address, for KCachegrind.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use super::printer::ReportPrinter;
use crate::pprof::graph::{EdgeSelection, NodeInfo, NodeTable};
use crate::pprof::units::scale;
use crate::tally::text::Text;

impl ReportPrinter<'_> {
    pub(super) fn print_callgrind(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.build_drawn_nodes()?;
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::All);
        self.choose_unit(&trimmed);
        let graph = &trimmed.graph;
        let edges = graph.edges_by_node(&nodes);
        let shown: HashSet<u32> = graph.order.iter().copied().collect();
        let callees = distinct_names(&nodes, &graph.order);
        writeln!(out, "positions: instr line\nevents: {}({})", self.value_name(), self.unit)?;
        let own = self.profile_unit();
        let cost = |value: i64| scale(value, &own, &self.unit).0 as i64;
        let (mut objects, mut files, mut functions) =
            (NameTable::default(), NameTable::default(), NameTable::default());
        let mut last: Option<&NodeInfo> = None;
        for &node in &graph.order {
            let info = &nodes.infos[node as usize];
            let same = |last: &NodeInfo| last.object == info.object && last.file == info.file && last.name == info.name;
            if !last.is_some_and(same) {
                writeln!(out, "\nob={}", objects.reference(&info.object))?;
                writeln!(out, "fl={}\nfn={}", files.reference(&info.file), functions.reference(&info.name))?;
            }
            let flat = cost(graph.shown(node).0);
            writeln!(out, "{} {} {flat}", format_address(last, info.address), info.line)?;
            for edge in edges.callees(node) {
                let callee = &nodes.infos[edge.to as usize];
                // As in pprof, a callee whose values cancel out has no name.
                let name = callees.get(&edge.to).unwrap_or(&callee.name);
                let name = if shown.contains(&edge.to) { name.clone() } else { Text::default() };
                writeln!(out, "cfl={}\ncfn={}", files.reference(&callee.file), functions.reference(&name))?;
                // The number of calls is unknown. pprof writes 0, and callgrind_annotate then adds
                // the cost to the caller's own.
                writeln!(out, "calls=1 {} {}", format_address(last, callee.address), callee.line)?;
                writeln!(out, "* * {}", cost(edge.weight))?;
            }
            last = Some(info);
        }
        Ok(())
    }
}

/// Callgrind's name compression: a name is written out once and referred to by number afterwards.
#[derive(Default)]
struct NameTable(HashMap<Text, usize>);

impl NameTable {
    fn reference(&mut self, name: &Text) -> String {
        if name.is_empty() {
            return String::new();
        }
        let next = self.0.len() + 1;
        match self.0.entry(name.clone()) {
            std::collections::hash_map::Entry::Occupied(known) => format!("({})", known.get()),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(next);
                format!("({next}) {name}")
            }
        }
    }
}

/// Formats an address, relative to the last one if that is shorter.
fn format_address(last: Option<&NodeInfo>, address: u64) -> String {
    let whole = format!("{address:#x}");
    let Some(last) = last else { return whole };
    if last.address == address {
        return "*".to_owned();
    }
    let relative = format!("{:+}", address.wrapping_sub(last.address) as i64);
    if relative.len() < whole.len() { relative } else { whole }
}

/// Numbered names (`f [2/3]`) for functions that share file and name with others.
fn distinct_names(nodes: &NodeTable, order: &[u32]) -> HashMap<u32, Text> {
    // Such functions differ in the mapped file, in their first line, or in their callers in a tree.
    type FunctionKey<'a> = (&'a Text, i64, Option<u32>);
    let mut groups: HashMap<(&Text, &Text), Vec<FunctionKey>> = HashMap::new();
    for &node in order {
        let info = &nodes.infos[node as usize];
        let group = groups.entry((&info.file, &info.name)).or_default();
        let function = (&info.object, info.start_line, nodes.function(node));
        if !group.contains(&function) {
            group.push(function);
        }
    }
    let named = |&node: &u32| {
        let info = &nodes.infos[node as usize];
        let group = &groups[&(&info.file, &info.name)];
        let index =
            group.iter().position(|&function| function == (&info.object, info.start_line, nodes.function(node)))?;
        let text = Text::from(format!("{} [{}/{}]", info.name, index + 1, group.len()));
        (group.len() > 1).then_some((node, text))
    };
    order.iter().filter_map(named).collect()
}
