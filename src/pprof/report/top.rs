//! `-top`: a table with a row for each node.
//!
//! ```text
//!       flat  flat%   sum%        cum   cum%
//!      2.09s 38.28% 38.28%      2.09s 38.28%  memmove
//!      0.77s 14.10% 52.38%      0.77s 14.10%  parse_value (inline)
//! ```

use std::io::{self, Write};

use super::printer::ReportPrinter;
use crate::pprof::graph::{EdgeSelection, Graph};
use crate::pprof::units::percentage;

impl ReportPrinter<'_> {
    pub(super) fn print_top(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.build_nodes();
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::ToInlined);
        self.choose_unit(&trimmed);
        writeln!(out, "{}", self.header(&trimmed).join("\n"))?;
        writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum")?;
        let graph = &trimmed.graph;
        let marks = inline_marks(graph, nodes.infos.len());
        let mut sum = 0i64;
        for &node in &graph.order {
            let (flat, cum) = graph.shown(node);
            sum = sum.wrapping_add(flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}  {}{}",
                self.format(flat),
                percentage(flat, self.total),
                percentage(sum, self.total),
                self.format(cum),
                percentage(cum, self.total),
                nodes.name(node),
                marks[node as usize]
            )?;
        }
        Ok(())
    }
}

/// For each node the mark that says whether all or some of its shown calls are inlined.
fn inline_marks(graph: &Graph, count: usize) -> Vec<&'static str> {
    let mut calls = vec![(false, false); count];
    for edge in graph.edges.iter().filter(|edge| !edge.dropped) {
        let (is_inlined, is_called) = &mut calls[edge.to as usize];
        *is_inlined |= edge.inline;
        *is_called |= !edge.inline;
    }
    let mark = |calls| match calls {
        (false, _) => "",
        (true, false) => " (inline)",
        (true, true) => " (partial-inline)",
    };
    calls.into_iter().map(mark).collect()
}
