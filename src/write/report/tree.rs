//! `-tree` and `-peek`: every node between its callers and its callees.
//!
//! ```text
//!                                              1.59s 53.72% |   app::middle
//!      0.08s  1.47%  1.47%      2.96s 54.21%                | app::leaf_sin
//!                                              2.83s 95.61% |   __sin_fma
//! ```

use std::io::Write;

use super::{Print, ReportError};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::{Edge, Edges};
use crate::tally::units::percentage;

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
const LEGEND: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

impl Print<'_> {
    pub(super) fn tree(&mut self, out: &mut dyn Write, only: Option<&Pattern>) -> Result<(), ReportError> {
        let nodes = self.nodes();
        let trimmed = self.trimmed(&nodes, Edges::All);
        self.choose_unit(&trimmed);
        let graph = &trimmed.graph;
        if let Some(only) = only
            && !graph.order.iter().any(|&node| only.matches(nodes.name(node)))
        {
            return Err(ReportError::Asked(format!("no matches found for regexp: {}", only.text())));
        }
        writeln!(out, "{}\n{SEPARATOR}\n{LEGEND}", self.labels(&trimmed).join("\n"))?;
        let edges = graph.edges_of(&nodes);
        let mut sum = 0i64;
        for &node in &graph.order {
            let name = nodes.name(node);
            if only.is_some_and(|only| !only.matches(name)) {
                continue;
            }
            let (flat, cum) = graph.shown(node);
            // pprof has no means of edges here.
            let told = |edge: &Edge, other: u32| {
                let mark = if edge.inline { " (inline)" } else { "" };
                let (weight, share) = (self.shown(edge.weight), percentage(edge.weight, cum));
                format!("{weight:>50} {share} |   {}{mark}", nodes.name(other))
            };
            writeln!(out, "{SEPARATOR}")?;
            for edge in edges.callers(node) {
                writeln!(out, "{}", told(edge, edge.from))?;
            }
            sum = sum.wrapping_add(flat);
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}                | {name}",
                self.shown(flat),
                percentage(flat, self.total),
                percentage(sum, self.total),
                self.shown(cum),
                percentage(cum, self.total)
            )?;
            for edge in edges.callees(node) {
                writeln!(out, "{}", told(edge, edge.to))?;
            }
        }
        if !graph.order.is_empty() {
            writeln!(out, "{SEPARATOR}")?;
        }
        Ok(())
    }
}
