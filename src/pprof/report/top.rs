//! `-top`: a table with a row for each node.
//!
//! ```text
//!       flat  flat%   sum%        cum   cum%
//!      2.09s 38.28% 38.28%      2.09s 38.28%  memmove
//!      0.77s 14.10% 52.38%      0.77s 14.10%  parse_value (inline)
//! ```
//!
//! With `--own`, which pprof does not have, a column says what part of flat is of libraries, and
//! the heaviest library call follows the name.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::options::Granularity;
use super::printer::ReportPrinter;
use crate::pprof::graph::{EdgeSelection, Graph, NodeTable};
use crate::pprof::json::members;
use crate::pprof::own_code::LibraryValues;
use crate::pprof::units::percentage;

/// A row of the table.
struct ReportRow<'n> {
    flat: i64,
    /// The sum of the flats down to this row.
    sum: i64,
    cum: i64,
    name: &'n str,
    mark: &'static str,
}

impl ReportPrinter<'_> {
    pub(super) fn print_top(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let nodes = self.build_nodes();
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::ToInlined);
        let rows = build_rows(&nodes, &trimmed.graph);
        if self.options.json {
            let rows = rows.map(|row| self.json_row(&row)).collect();
            return self.write_json(out, Some(&trimmed), "rows", rows);
        }
        self.choose_unit(&trimmed);
        writeln!(out, "{}", self.header(&trimmed).join("\n"))?;
        let libraries = self.shown_libraries();
        let head = if libraries.is_some() { "    library" } else { "" };
        writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%{head}", "flat", "flat", "sum", "cum", "cum")?;
        for ReportRow { flat, sum, cum, name, mark } in rows {
            let (library, call) = libraries.map_or((String::new(), String::new()), |libraries| {
                let (value, call) = libraries.of(name);
                (format!(" {:>10}", self.format(value)), call.map_or(String::new(), |call| format!(" -> {call}")))
            });
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}{library}  {name}{mark}{call}",
                self.format(flat),
                percentage(flat, self.total),
                percentage(sum, self.total),
                self.format(cum),
                percentage(cum, self.total),
            )?;
        }
        Ok(())
    }

    /// The values that functions have spent in libraries, if rows are functions and values sums.
    fn shown_libraries(&self) -> Option<&LibraryValues> {
        let has_sums = self.granularity() == Granularity::Functions && !self.options.mean;
        self.libraries.as_ref().filter(|_| has_sums)
    }

    fn json_row(&self, row: &ReportRow) -> Value {
        let inline = match row.mark {
            "" => "no",
            PARTIAL_INLINE => "partial",
            _ => "yes",
        };
        let mut object = members(json!({"name": row.name, "inline": inline}));
        for (name, value) in [("flat", row.flat), ("sum", row.sum), ("cum", row.cum)] {
            object.extend(self.json_value(name, value, self.total));
        }
        if let Some((library, call)) = self.shown_libraries().map(|libraries| libraries.of(row.name)) {
            object.insert("library".to_owned(), self.divide(library).into());
            object.insert("library_call".to_owned(), call.unwrap_or_default().into());
        }
        object.into()
    }
}

/// The mark of a function of which some calls are inlined.
const PARTIAL_INLINE: &str = " (partial-inline)";

/// The rows in the order of the graph.
fn build_rows<'n>(nodes: &'n NodeTable, graph: &'n Graph) -> impl Iterator<Item = ReportRow<'n>> {
    let marks = inline_marks(graph, nodes.infos.len());
    let mut sum = 0i64;
    graph.order.iter().map(move |&node| {
        let (flat, cum) = graph.shown(node);
        sum = sum.wrapping_add(flat);
        ReportRow { flat, sum, cum, name: nodes.name(node), mark: marks[node as usize] }
    })
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
        (true, true) => PARTIAL_INLINE,
    };
    calls.into_iter().map(mark).collect()
}
