//! `-top`: a line for each node.
//!
//! ```text
//!       flat  flat%   sum%        cum   cum%
//!      2.09s 38.28% 38.28%      2.09s 38.28%  memmove
//!      0.77s 14.10% 52.38%      0.77s 14.10%  parse_value (inline)
//! ```

use std::io::{self, Write};

use super::Print;
use crate::tally::saved::graph::{Edges, Graph};
use crate::tally::units::percentage;

impl Print<'_> {
    pub(super) fn top(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.nodes();
        let trimmed = self.trimmed(&nodes, Edges::ToInlined);
        self.choose_unit(&trimmed);
        writeln!(out, "{}", self.labels(&trimmed).join("\n"))?;
        writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum")?;
        let graph = &trimmed.graph;
        let marks = marks(graph, nodes.infos.len());
        let mut sum = 0i64;
        for &node in &graph.order {
            let (flat, cum) = graph.shown(node);
            sum = sum.wrapping_add(flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}  {}{}",
                self.shown(flat),
                percentage(flat, self.total),
                percentage(sum, self.total),
                self.shown(cum),
                percentage(cum, self.total),
                nodes.name(node),
                marks[node as usize]
            )?;
        }
        Ok(())
    }
}

/// By node: whether all calls of it that are left are inlined, or some.
fn marks(graph: &Graph, count: usize) -> Vec<&'static str> {
    let mut calls = vec![(false, false); count];
    for edge in graph.edges.iter().filter(|edge| !edge.dropped) {
        let (inline, called) = &mut calls[edge.to as usize];
        *inline |= edge.inline;
        *called |= !edge.inline;
    }
    let mark = |(inline, called)| match (inline, called) {
        (false, _) => "",
        (true, false) => " (inline)",
        (true, true) => " (partial-inline)",
    };
    calls.into_iter().map(mark).collect()
}
