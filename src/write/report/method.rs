//! `--method`: stackprof's page on a function: what it took, who calls it and whom it calls, and its source with what each line took.
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

use super::list::Sources;
use super::{Print, ReportError};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::{Edges, EdgesByNode, Grain, Graph, Nodes, Sums};

/// Lines behind the last that has a sample, and before the first where nobody knows where the function begins.
const MARGIN: i64 = 1;

/// Flat and cum of a function's lines, by file.
type Lines<'n> = BTreeMap<&'n str, BTreeMap<i64, (i64, i64)>>;

impl Print<'_> {
    pub(super) fn method(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.saved.unmark_base();
        let sums = self.sums(Edges::All);
        let grain = Grain { function: true, file: false, line: false, column: false, address: false, object: false };
        let nodes = Nodes::of(&self.saved, grain, str::to_owned);
        let mut graph = Graph::of(&self.saved, &nodes, None, sums);
        graph.sort(&nodes, super::Order::Flat);
        let found: Vec<u32> = graph.order.iter().copied().filter(|&node| only.matches(nodes.name(node))).collect();
        if found.is_empty() {
            return Err(ReportError::Asked(format!("no matches found for regexp: {}", only.text())));
        }
        let by_line = Nodes::of(&self.saved, Grain { file: true, line: true, object: true, ..grain }, str::to_owned);
        let of_lines = Graph::of(&self.saved, &by_line, None, Sums { edges: Edges::ToInlined, ..sums });
        let edges = graph.edges_of(&nodes);
        let mut sources = Sources::of(&self.options.source_path, &self.options.trim_path);
        for (index, &node) in found.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let mut lines: Lines = BTreeMap::new();
            let mut start = 0;
            for &place in &of_lines.order {
                let info = &by_line.infos[place as usize];
                if info.name == *nodes.infos[node as usize].name && !info.file.is_empty() {
                    let much = lines.entry(&info.file).or_default().entry(info.line).or_default();
                    much.0 = much.0.wrapping_add(of_lines.flat[place as usize]);
                    much.1 = much.1.wrapping_add(of_lines.cum[place as usize]);
                    start = info.start_line;
                }
            }
            self.head(out, &nodes, &graph, node, (&lines, start))?;
            self.neighbours(out, &nodes, &graph, node, &edges)?;
            self.code(out, &lines, start, &mut sources)?;
        }
        Ok(())
    }

    fn head(
        &self,
        out: &mut dyn Write,
        nodes: &Nodes,
        graph: &Graph,
        node: u32,
        (lines, start): (&Lines, i64),
    ) -> Result<(), ReportError> {
        let (flat, cum) = graph.shown(node);
        let place = lines.iter().next().map(|(file, lines)| {
            let line = if start > 0 { start } else { lines.keys().next().copied().unwrap_or(0) };
            format!(" ({file}:{line})")
        });
        writeln!(out, "{}{}", nodes.name(node), place.unwrap_or_default())?;
        let (own, all) = (share(flat, self.total), share(cum, self.total));
        let (flat, cum) = (self.shown(flat), self.shown(cum));
        Ok(writeln!(out, "  samples: {flat:>9} self ({own})  / {cum:>10} total ({all})")?)
    }

    fn neighbours(
        &self,
        out: &mut dyn Write,
        nodes: &Nodes,
        graph: &Graph,
        node: u32,
        edges: &EdgesByNode,
    ) -> Result<(), ReportError> {
        let (flat, cum) = graph.shown(node);
        let below = cum.wrapping_sub(flat);
        let row = |out: &mut dyn Write, weight: i64, of: i64, other: u32| {
            writeln!(out, "     {:>10}  ({:>9})  {}", self.shown(weight), share(weight, of), nodes.name(other))
        };
        if !edges.callers(node).is_empty() {
            writeln!(out, "  callers:")?;
        }
        edges.callers(node).iter().try_for_each(|edge| row(out, edge.shown(), cum, edge.from))?;
        if !edges.callees(node).is_empty() {
            writeln!(out, "  callees ({} total):", self.shown(below))?;
        }
        Ok(edges.callees(node).iter().try_for_each(|edge| row(out, edge.shown(), below, edge.to))?)
    }

    fn code(&self, out: &mut dyn Write, lines: &Lines, start: i64, sources: &mut Sources) -> Result<(), ReportError> {
        writeln!(out, "  code:")?;
        if lines.is_empty() {
            writeln!(out, "    it has no line tables")?;
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
                let told = lines.get(&number).map_or_else(String::new, |&(flat, cum)| {
                    let all = format!("{:>10} {:>9}", self.shown(cum), format!("({})", share(cum, self.total)));
                    if flat == 0 {
                        return all;
                    }
                    format!("{all} / {:>10} {:>9}", self.shown(flat), format!("({})", share(flat, self.total)))
                });
                writeln!(out, "{told:<44} | {number:>6}  | {line}")?;
            }
        }
        Ok(())
    }
}

/// Percent, as stackprof has them.
fn share(part: i64, total: i64) -> String {
    let percent = if total == 0 { 0.0 } else { 100.0 * part as f64 / total as f64 };
    format!("{percent:.1}%")
}
