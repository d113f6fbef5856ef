//! `--method`: stackprof's page for a function with its values, callers, callees and source lines.
//!
//! ```text
//! json::parse (src/json.cc:12)
//!   samples:     2.09s self (37.1%)  /      2.86s total (50.8%)
//!   callers:
//!          2.09s  (   73.1%)  json::array
//!   callees (0.77s total):
//!          0.77s  (  100.0%)  json::peek
//!   code:
//!                                                |     12  | Value parse() {
//!          2.86s   (50.8%) /      2.09s   (37.1%)  |     13  |   return peek() + …
//! ```

use std::collections::BTreeMap;
use std::io::Write;

use super::options::ReportError;
use super::printer::ReportPrinter;
use super::source_files::SourceFiles;
use crate::pprof::graph::{EdgeSelection, EdgesByNode, Graph, GraphOptions, NodeIdentity, NodeOrder, NodeTable};
use crate::tally::query::Pattern;

/// Number of lines shown after the last line with samples, and before the first one if the start of
/// the function is unknown.
const MARGIN: i64 = 1;

/// Flat and cum of a function's lines, by file.
type LinesByFile<'n> = BTreeMap<&'n str, BTreeMap<i64, (i64, i64)>>;

impl ReportPrinter<'_> {
    pub(super) fn print_method(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.profile.remove_base_labels();
        let options = self.graph_options(EdgeSelection::All);
        let identity =
            NodeIdentity { function: true, file: false, line: false, column: false, address: false, object: false };
        let nodes = NodeTable::build(&self.profile, identity, str::to_owned);
        let mut graph = Graph::build(&self.profile, &nodes, None, options);
        graph.sort(&nodes, NodeOrder::Flat);
        let matching: Vec<u32> = graph.order.iter().copied().filter(|&node| only.matches(nodes.name(node))).collect();
        if matching.is_empty() {
            return Err(ReportError::Unavailable(format!("no matches found for regexp: {}", only.text())));
        }
        let line_nodes = NodeTable::build(
            &self.profile,
            NodeIdentity { file: true, line: true, object: true, ..identity },
            str::to_owned,
        );
        let line_graph =
            Graph::build(&self.profile, &line_nodes, None, GraphOptions { edges: EdgeSelection::ToInlined, ..options });
        let edges = graph.edges_by_node(&nodes);
        let mut sources = SourceFiles::new(&self.options.source_path, &self.options.trim_path);
        for (index, &node) in matching.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let mut lines: LinesByFile = BTreeMap::new();
            let mut start = 0;
            for &line_node in &line_graph.order {
                let info = &line_nodes.infos[line_node as usize];
                if info.name == *nodes.infos[node as usize].name && !info.file.is_empty() {
                    let values = lines.entry(&info.file).or_default().entry(info.line).or_default();
                    values.0 = values.0.wrapping_add(line_graph.flat[line_node as usize]);
                    values.1 = values.1.wrapping_add(line_graph.cum[line_node as usize]);
                    start = info.start_line;
                }
            }
            self.print_function(out, &nodes, &graph, node, (&lines, start))?;
            self.print_neighbors(out, &nodes, &graph, node, &edges)?;
            self.print_source(out, &lines, start, &mut sources)?;
        }
        Ok(())
    }

    fn print_function(
        &self,
        out: &mut dyn Write,
        nodes: &NodeTable,
        graph: &Graph,
        node: u32,
        (lines, start): (&LinesByFile, i64),
    ) -> Result<(), ReportError> {
        let (flat, cum) = graph.shown(node);
        let source = lines.iter().next().map(|(file, lines)| {
            let line = if start > 0 { start } else { lines.keys().next().copied().unwrap_or(0) };
            format!(" ({file}:{line})")
        });
        writeln!(out, "{}{}", nodes.name(node), source.unwrap_or_default())?;
        let (flat_share, cum_share) = (percent(flat, self.total), percent(cum, self.total));
        let (flat, cum) = (self.format(flat), self.format(cum));
        Ok(writeln!(out, "  samples: {flat:>9} self ({flat_share})  / {cum:>10} total ({cum_share})")?)
    }

    fn print_neighbors(
        &self,
        out: &mut dyn Write,
        nodes: &NodeTable,
        graph: &Graph,
        node: u32,
        edges: &EdgesByNode,
    ) -> Result<(), ReportError> {
        let (flat, cum) = graph.shown(node);
        let below = cum.wrapping_sub(flat);
        let row = |out: &mut dyn Write, weight: i64, of: i64, other: u32| {
            writeln!(out, "     {:>10}  ({:>9})  {}", self.format(weight), percent(weight, of), nodes.name(other))
        };
        if !edges.callers(node).is_empty() {
            writeln!(out, "  callers:")?;
        }
        edges.callers(node).iter().try_for_each(|edge| row(out, edge.shown_weight(), cum, edge.from))?;
        if !edges.callees(node).is_empty() {
            writeln!(out, "  callees ({} total):", self.format(below))?;
        }
        Ok(edges.callees(node).iter().try_for_each(|edge| row(out, edge.shown_weight(), below, edge.to))?)
    }

    fn print_source(
        &self,
        out: &mut dyn Write,
        lines: &LinesByFile,
        start: i64,
        sources: &mut SourceFiles,
    ) -> Result<(), ReportError> {
        writeln!(out, "  code:")?;
        if lines.is_empty() {
            writeln!(out, "    no line information")?;
        }
        let has_several = lines.len() > 1;
        for (file, lines) in lines {
            if has_several {
                writeln!(out, "    {file}")?;
            }
            let text = match sources.lines(file) {
                Ok(text) => text,
                Err(why) => {
                    writeln!(out, "    {why}")?;
                    continue;
                }
            };
            let first = lines.keys().next().copied().unwrap_or(1);
            let last = lines.keys().next_back().copied().unwrap_or(first);
            let first = if (1..=first).contains(&start) { start } else { first - MARGIN };
            for number in first.max(1)..=last.saturating_add(MARGIN) {
                let Some(line) = text.get(number as usize - 1) else { break };
                let values = lines.get(&number).map_or_else(String::new, |&(flat, cum)| {
                    let all = format!("{:>10} {:>9}", self.format(cum), format!("({})", percent(cum, self.total)));
                    if flat == 0 {
                        return all;
                    }
                    format!("{all} / {:>10} {:>9}", self.format(flat), format!("({})", percent(flat, self.total)))
                });
                writeln!(out, "{values:<44} | {number:>6}  | {line}")?;
            }
        }
        Ok(())
    }
}

/// Formats a percentage as stackprof does.
fn percent(part: i64, total: i64) -> String {
    let percent = if total == 0 { 0.0 } else { 100.0 * part as f64 / total as f64 };
    format!("{percent:.1}%")
}
