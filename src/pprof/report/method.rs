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

use serde_json::{Value, json};

use super::options::ReportError;
use super::printer::ReportPrinter;
use super::source_files::SourceFiles;
use crate::pprof::graph::{Edge, EdgeSelection, Graph, GraphOptions, NodeIdentity, NodeOrder, NodeTable};
use crate::pprof::json::members;
use crate::symbols::sanitize::sanitize_all;
use crate::tally::query::Pattern;

/// Number of lines shown after the last line with samples, and before the first one if the start of
/// the function is unknown.
const MARGIN: i64 = 1;

/// A function as the report shows it.
struct MethodPage {
    name: String,
    /// Its file and first line, if they are known.
    location: Option<(String, i64)>,
    flat: i64,
    cum: i64,
    /// Weights and names of the callers.
    callers: Vec<(i64, String)>,
    callees: Vec<(i64, String)>,
    files: Vec<MethodSource>,
}

/// The lines of a function in one file, or the reason why there are none.
struct MethodSource {
    file: String,
    lines: Result<Vec<MethodLine>, String>,
}

/// A source line with its flat and cum, if it has samples.
struct MethodLine {
    number: i64,
    values: Option<(i64, i64)>,
    text: String,
}

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
        let mut pages = Vec::new();
        for &node in &matching {
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
            let (flat, cum) = graph.shown(node);
            let location = lines.iter().next().map(|(file, lines)| {
                let line = if start > 0 { start } else { lines.keys().next().copied().unwrap_or(0) };
                ((*file).to_owned(), line)
            });
            let neighbor = |edge: &Edge, other: u32| (edge.shown_weight(), nodes.name(other).to_owned());
            pages.push(MethodPage {
                name: nodes.name(node).to_owned(),
                location,
                flat,
                cum,
                callers: edges.callers(node).iter().map(|edge| neighbor(edge, edge.from)).collect(),
                callees: edges.callees(node).iter().map(|edge| neighbor(edge, edge.to)).collect(),
                files: lines.iter().map(|(file, lines)| method_source(file, lines, start, &mut sources)).collect(),
            });
        }
        if self.options.json {
            let pages = pages.iter().map(|page| self.json_page(page)).collect();
            return Ok(self.write_json(out, None, "functions", pages)?);
        }
        for (index, page) in pages.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            self.print_page(out, page)?;
        }
        Ok(())
    }

    fn print_page(&self, out: &mut dyn Write, page: &MethodPage) -> Result<(), ReportError> {
        let MethodPage { name, location, flat, cum, callers, callees, files } = page;
        let source = location.as_ref().map(|(file, line)| format!(" ({file}:{line})"));
        writeln!(out, "{name}{}", source.unwrap_or_default())?;
        let (flat_share, cum_share) = (percent(*flat, self.total), percent(*cum, self.total));
        let (flat_value, cum_value) = (self.format(*flat), self.format(*cum));
        writeln!(out, "  samples: {flat_value:>9} self ({flat_share})  / {cum_value:>10} total ({cum_share})")?;
        let row = |out: &mut dyn Write, (weight, name): &(i64, String), of: i64| {
            writeln!(out, "     {:>10}  ({:>9})  {name}", self.format(*weight), percent(*weight, of))
        };
        if !callers.is_empty() {
            writeln!(out, "  callers:")?;
        }
        callers.iter().try_for_each(|caller| row(out, caller, *cum))?;
        let below = cum.wrapping_sub(*flat);
        if !callees.is_empty() {
            writeln!(out, "  callees ({} total):", self.format(below))?;
        }
        callees.iter().try_for_each(|callee| row(out, callee, below))?;
        writeln!(out, "  code:")?;
        if files.is_empty() {
            writeln!(out, "    no line information")?;
        }
        for MethodSource { file, lines } in files {
            if files.len() > 1 {
                writeln!(out, "    {file}")?;
            }
            match lines {
                Err(why) => writeln!(out, "    {why}")?,
                Ok(lines) => lines.iter().try_for_each(|line| self.print_line(out, line))?,
            }
        }
        Ok(())
    }

    fn print_line(&self, out: &mut dyn Write, line: &MethodLine) -> Result<(), ReportError> {
        let MethodLine { number, values, text } = line;
        let values = values.map_or_else(String::new, |(flat, cum)| {
            let all = format!("{:>10} {:>9}", self.format(cum), format!("({})", percent(cum, self.total)));
            if flat == 0 {
                return all;
            }
            format!("{all} / {:>10} {:>9}", self.format(flat), format!("({})", percent(flat, self.total)))
        });
        Ok(writeln!(out, "{values:<44} | {number:>6}  | {text}")?)
    }

    fn json_page(&self, page: &MethodPage) -> Value {
        let below = page.cum.wrapping_sub(page.flat);
        let neighbors = |all: &[(i64, String)], total: i64| -> Value {
            let one = |(weight, name): &(i64, String)| {
                let mut object = members(json!({"name": name}));
                object.extend(self.json_value("value", *weight, total));
                Value::from(object)
            };
            all.iter().map(one).collect()
        };
        let line = |line: &MethodLine| {
            let (flat, cum) = line.values.unwrap_or_default();
            let text = sanitize_all(&line.text, &['\t']);
            json!({"line": line.number, "flat": self.divide(flat), "cum": self.divide(cum), "text": text})
        };
        let file = |source: &MethodSource| match &source.lines {
            Ok(lines) => json!({"file": source.file, "lines": lines.iter().map(line).collect::<Vec<Value>>()}),
            Err(why) => json!({"file": source.file, "error": why}),
        };
        let mut object = members(json!({
            "name": page.name,
            "file": page.location.as_ref().map(|(file, _)| file),
            "line": page.location.as_ref().map(|(_, line)| line),
        }));
        object.extend(self.json_value("flat", page.flat, self.total));
        object.extend(self.json_value("cum", page.cum, self.total));
        object.insert("callers".to_owned(), neighbors(&page.callers, page.cum));
        object.insert("callees".to_owned(), neighbors(&page.callees, below));
        object.insert("files".to_owned(), page.files.iter().map(file).collect());
        object.into()
    }
}

/// The lines of a function in one file, from its start to its last line with samples.
fn method_source(file: &str, lines: &BTreeMap<i64, (i64, i64)>, start: i64, sources: &mut SourceFiles) -> MethodSource {
    let first = lines.keys().next().copied().unwrap_or(1);
    let last = lines.keys().next_back().copied().unwrap_or(first);
    let first = if (1..=first).contains(&start) { start } else { first - MARGIN }.max(1);
    let lines = sources.lines(file).as_ref().map_err(String::clone).map(|text| {
        let all = (first..=last.saturating_add(MARGIN)).zip(text.iter().skip(first as usize - 1));
        let line = |(number, text): (i64, &String)| MethodLine {
            number,
            values: lines.get(&number).copied(),
            text: text.clone(),
        };
        all.map(line).collect()
    });
    MethodSource { file: file.to_owned(), lines }
}

/// Formats a percentage as stackprof does.
fn percent(part: i64, total: i64) -> String {
    let percent = if total == 0 { 0.0 } else { 100.0 * part as f64 / total as f64 };
    format!("{percent:.1}%")
}
