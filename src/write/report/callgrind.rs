//! `-callgrind`: every address with its cost and its calls, for KCachegrind.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use super::Print;
use crate::tally::saved::graph::{Edges, Info, Nodes};
use crate::tally::text::Text;
use crate::tally::units::scale;

impl Print<'_> {
    pub(super) fn callgrind(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.nodes();
        let trimmed = self.trimmed(&nodes, Edges::All);
        self.choose_unit(&trimmed);
        let graph = &trimmed.graph;
        let edges = graph.edges_of(&nodes);
        let there: HashSet<u32> = graph.order.iter().copied().collect();
        let callees = distinct_names(&nodes, &graph.order);
        writeln!(out, "positions: instr line\nevents: {}({})", self.kind(), self.unit)?;
        let own = self.own_unit();
        let cost = |value: i64| scale(value, &own, &self.unit).0 as i64;
        let (mut objects, mut files, mut functions) = (Words::default(), Words::default(), Words::default());
        let mut last: Option<&Info> = None;
        for &node in &graph.order {
            let info = &nodes.infos[node as usize];
            let same = |last: &Info| last.object == info.object && last.file == info.file && last.name == info.name;
            if !last.is_some_and(same) {
                writeln!(out, "\nob={}", objects.word(&info.object))?;
                writeln!(out, "fl={}\nfn={}", files.word(&info.file), functions.word(&info.name))?;
            }
            let flat = cost(graph.shown(node).0);
            writeln!(out, "{} {} {flat}", address(last, info.address), info.line)?;
            for edge in edges.callees(node) {
                let callee = &nodes.infos[edge.to as usize];
                // One that is not there itself, as all of its values cancel out, has no name in pprof either.
                let name = callees.get(&edge.to).unwrap_or(&callee.name);
                let name = if there.contains(&edge.to) { name.clone() } else { Text::default() };
                writeln!(out, "cfl={}\ncfn={}", files.word(&callee.file), functions.word(&name))?;
                writeln!(out, "calls=0 {} {}", address(last, callee.address), callee.line)?;
                writeln!(out, "* * {}", cost(edge.weight))?;
            }
            last = Some(info);
        }
        Ok(())
    }
}

/// Words that are told in full once, and by number from then on.
#[derive(Default)]
struct Words(HashMap<Text, usize>);

impl Words {
    fn word(&mut self, word: &Text) -> String {
        if word.is_empty() {
            return String::new();
        }
        let next = self.0.len() + 1;
        match self.0.entry(word.clone()) {
            std::collections::hash_map::Entry::Occupied(known) => format!("({})", known.get()),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(next);
                format!("({next}) {word}")
            }
        }
    }
}

/// An address as it stands to the last, where that is shorter.
fn address(last: Option<&Info>, address: u64) -> String {
    let whole = format!("{address:#x}");
    let Some(last) = last else { return whole };
    if last.address == address {
        return "*".to_owned();
    }
    let relative = format!("{:+}", address.wrapping_sub(last.address) as i64);
    if relative.len() < whole.len() { relative } else { whole }
}

/// Names of functions that others share a file and a name with: `f [2/3]`.
fn distinct_names(nodes: &Nodes, order: &[u32]) -> HashMap<u32, Text> {
    // What is one function to us may be several: by the file with the code, and where they begin.
    type Function<'a> = (&'a Text, i64);
    let mut groups: HashMap<(&Text, &Text), Vec<Function>> = HashMap::new();
    for &node in order {
        let info = &nodes.infos[node as usize];
        let group = groups.entry((&info.file, &info.name)).or_default();
        let function = (&info.object, info.start_line);
        if !group.contains(&function) {
            group.push(function);
        }
    }
    let named = |&node: &u32| {
        let info = &nodes.infos[node as usize];
        let group = &groups[&(&info.file, &info.name)];
        let place = group.iter().position(|&function| function == (&info.object, info.start_line))?;
        let text = Text::from(format!("{} [{}/{}]", info.name, place + 1, group.len()));
        (group.len() > 1).then_some((node, text))
    };
    order.iter().filter_map(named).collect()
}
