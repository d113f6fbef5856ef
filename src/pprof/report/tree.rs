//! `-tree` and `-peek`: every node with its callers above and its callees below.
//!
//! ```text
//!                                              1.59s 53.72% |   app::middle
//!      0.08s  1.47%  1.47%      2.96s 54.21%                | app::leaf_sin
//!                                              2.83s 95.61% |   __sin_fma
//! ```

use std::io::Write;

use super::options::ReportError;
use super::printer::ReportPrinter;
use crate::pprof::graph::{Edge, EdgeSelection};
use crate::pprof::units::percentage;
use crate::tally::query::Pattern;

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
const LEGEND: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

impl ReportPrinter<'_> {
    pub(super) fn print_tree(&mut self, out: &mut dyn Write, only: Option<&Pattern>) -> Result<(), ReportError> {
        let nodes = self.build_nodes();
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::All);
        self.choose_unit(&trimmed);
        let graph = &trimmed.graph;
        if let Some(only) = only
            && !graph.order.iter().any(|&node| only.matches(nodes.name(node)))
        {
            return Err(ReportError::Unavailable(format!("no matches found for regexp: {}", only.text())));
        }
        writeln!(out, "{}\n{SEPARATOR}\n{LEGEND}", self.header(&trimmed).join("\n"))?;
        let edges = graph.edges_by_node(&nodes);
        let mut sum = 0i64;
        for &node in &graph.order {
            let name = nodes.name(node);
            if only.is_some_and(|only| !only.matches(name)) {
                continue;
            }
            let (flat, cum) = graph.shown(node);
            // Like pprof, this ignores `mean` for edges.
            let format_edge = |edge: &Edge, other: u32| {
                let mark = if edge.inline { " (inline)" } else { "" };
                let (weight, share) = (self.format(edge.weight), percentage(edge.weight, cum));
                format!("{weight:>50} {share} |   {}{mark}", nodes.name(other))
            };
            writeln!(out, "{SEPARATOR}")?;
            for edge in edges.callers(node) {
                writeln!(out, "{}", format_edge(edge, edge.from))?;
            }
            sum = sum.wrapping_add(flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}                | {name}",
                self.format(flat),
                percentage(flat, self.total),
                percentage(sum, self.total),
                self.format(cum),
                percentage(cum, self.total)
            )?;
            for edge in edges.callees(node) {
                writeln!(out, "{}", format_edge(edge, edge.to))?;
            }
        }
        if !graph.order.is_empty() {
            writeln!(out, "{SEPARATOR}")?;
        }
        Ok(())
    }
}
