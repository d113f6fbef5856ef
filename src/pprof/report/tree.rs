//! `-tree` and `-peek`: every node with its callers above and its callees below.
//!
//! ```text
//!                                              1.59s 53.72% |   app::middle
//!      0.08s  1.47%  1.47%      2.96s 54.21%                | app::leaf_sin
//!                                              2.83s 95.61% |   __sin_fma
//! ```

use std::io::Write;

use serde_json::{Value, json};

use super::options::ReportError;
use super::printer::ReportPrinter;
use crate::pprof::graph::{Edge, EdgeSelection, Graph, NodeTable};
use crate::pprof::json::members;
use crate::pprof::units::percentage;
use crate::tally::query::Pattern;

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
const LEGEND: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

/// A function with its callers and callees.
struct TreeEntry<'n> {
    name: &'n str,
    flat: i64,
    /// The sum of the flats down to this function.
    sum: i64,
    cum: i64,
    callers: Vec<Edge>,
    callees: Vec<Edge>,
}

impl ReportPrinter<'_> {
    pub(super) fn print_tree(&mut self, out: &mut dyn Write, only: Option<&Pattern>) -> Result<(), ReportError> {
        let nodes = self.build_nodes();
        let trimmed = self.build_trimmed_graph(&nodes, EdgeSelection::All);
        let graph = &trimmed.graph;
        let entries = build_entries(&nodes, graph, only);
        if let Some(only) = only.filter(|_| entries.is_empty()) {
            return Err(ReportError::Unavailable(format!("no matches found for regexp: {}", only.text())));
        }
        if self.options.json {
            let entries: Vec<Value> = entries.iter().map(|entry| self.json_entry(entry, &nodes)).collect();
            return Ok(self.write_json(out, Some(&trimmed), "functions", entries)?);
        }
        self.choose_unit(&trimmed);
        writeln!(out, "{}\n{SEPARATOR}\n{LEGEND}", self.header(&trimmed).join("\n"))?;
        for TreeEntry { name, flat, sum, cum, callers, callees } in &entries {
            // Like pprof, this ignores `mean` for edges.
            let format_edge = |edge: &Edge, other: u32| {
                let mark = if edge.inline { " (inline)" } else { "" };
                let (weight, share) = (self.format(edge.weight), percentage(edge.weight, *cum));
                format!("{weight:>50} {share} |   {}{mark}", nodes.name(other))
            };
            writeln!(out, "{SEPARATOR}")?;
            for edge in callers {
                writeln!(out, "{}", format_edge(edge, edge.from))?;
            }
            writeln!(
                out,
                "{:>10} {} {} {:>10} {}                | {name}",
                self.format(*flat),
                percentage(*flat, self.total),
                percentage(*sum, self.total),
                self.format(*cum),
                percentage(*cum, self.total)
            )?;
            for edge in callees {
                writeln!(out, "{}", format_edge(edge, edge.to))?;
            }
        }
        if !graph.order.is_empty() {
            writeln!(out, "{SEPARATOR}")?;
        }
        Ok(())
    }

    fn json_entry(&self, entry: &TreeEntry, nodes: &NodeTable) -> Value {
        let edge = |edge: &Edge, other: u32| {
            let mut object = members(json!({"name": nodes.name(other), "inline": edge.inline}));
            object.extend(self.json_value("value", edge.weight, entry.cum));
            Value::from(object)
        };
        let mut object = members(json!({"name": entry.name}));
        for (name, value) in [("flat", entry.flat), ("sum", entry.sum), ("cum", entry.cum)] {
            object.extend(self.json_value(name, value, self.total));
        }
        object.insert("callers".to_owned(), entry.callers.iter().map(|of| edge(of, of.from)).collect());
        object.insert("callees".to_owned(), entry.callees.iter().map(|of| edge(of, of.to)).collect());
        object.into()
    }
}

/// The entries in the order of the graph; `only` selects some.
fn build_entries<'n>(nodes: &'n NodeTable, graph: &Graph, only: Option<&Pattern>) -> Vec<TreeEntry<'n>> {
    let edges = graph.edges_by_node(nodes);
    let mut sum = 0i64;
    let selected = graph.order.iter().filter(|&&node| only.is_none_or(|only| only.matches(nodes.name(node))));
    let build = |&node: &u32| {
        let (flat, cum) = graph.shown(node);
        sum = sum.wrapping_add(flat);
        let (callers, callees) = (edges.callers(node).to_vec(), edges.callees(node).to_vec());
        TreeEntry { name: nodes.name(node), flat, sum, cum, callers, callees }
    };
    selected.map(build).collect()
}
