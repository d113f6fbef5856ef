//! `-list`: the source lines of functions with the flat and cum of each line.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use serde_json::{Value, json};

use super::options::ReportError;
use super::printer::ReportPrinter;
use super::source_files::SourceFiles;
use crate::pprof::graph::{EdgeSelection, Graph, NodeTable};
use crate::pprof::json::members;
use crate::pprof::units::percentage;
use crate::symbols::sanitize::sanitize_all;
use crate::tally::query::Pattern;

/// Number of lines shown before the first and after the last line with samples.
const MARGIN: i64 = 5;

/// A function with its lines in each file.
struct ListedFunction<'n> {
    name: &'n str,
    files: Vec<ListedFile>,
}

/// The lines of a function in one file, or the reason why there are none.
struct ListedFile {
    file: String,
    flat: i64,
    cum: i64,
    lines: Result<Vec<ListedLine>, String>,
}

/// A source line with its values.
struct ListedLine {
    number: i64,
    flat: i64,
    cum: i64,
    text: String,
}

impl ReportPrinter<'_> {
    pub(super) fn print_list(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.profile.remove_base_labels();
        let nodes = self.build_nodes();
        let options = self.graph_options(EdgeSelection::ToInlined);
        let graph = Graph::build(&self.profile, &nodes, None, options);
        let mut functions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for &node in &graph.order {
            let name = nodes.infos[node as usize].name.as_str();
            if only.matches(name) {
                functions.entry(name).or_default().push(node);
            }
        }
        if functions.is_empty() {
            return Err(ReportError::Unavailable(format!("no matches found for regexp: {}", only.text())));
        }
        let mut sources = SourceFiles::new(&self.options.source_path, &self.options.trim_path);
        let mut listed = Vec::new();
        for (name, all) in functions {
            let mut files: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
            for &node in &all {
                let file = nodes.infos[node as usize].file.as_str();
                if !file.is_empty() {
                    files.entry(file).or_default().push(node);
                }
            }
            let files = files.into_iter().map(|(file, own)| list_file(&nodes, &graph, file, &own, &mut sources));
            listed.push(ListedFunction { name, files: files.collect() });
        }
        if self.options.json {
            let functions = listed.iter().map(|function| self.json_function(function)).collect();
            return Ok(self.write_json(out, None, "functions", functions)?);
        }
        writeln!(out, "Total: {}", self.format(self.total))?;
        for ListedFunction { name, files } in &listed {
            if files.is_empty() {
                writeln!(out, "No source information for {name}")?;
            }
            files.iter().try_for_each(|file| self.print_file(out, name, file))?;
        }
        Ok(())
    }

    fn print_file(&self, out: &mut dyn Write, name: &str, listed: &ListedFile) -> Result<(), ReportError> {
        let ListedFile { file, flat, cum, lines } = listed;
        writeln!(out, "ROUTINE ======================== {name} in {file}")?;
        let share = percentage(*cum, self.total);
        writeln!(out, "{:>10} {:>10} (flat, cum) {share} of Total", self.format(*flat), self.format(*cum))?;
        match lines {
            Err(why) => writeln!(out, " Error: {why}")?,
            Ok(lines) => {
                for ListedLine { number, flat, cum, text } in lines {
                    let (flat, cum) = (self.format_or_dot(*flat), self.format_or_dot(*cum));
                    writeln!(out, "{flat:>10} {cum:>10} {number:>6}:{text}")?;
                }
            }
        }
        Ok(())
    }

    fn json_function(&self, function: &ListedFunction) -> Value {
        let line = |line: &ListedLine| {
            json!({
                "line": line.number, "flat": self.divide(line.flat), "cum": self.divide(line.cum),
                "text": sanitize_all(&line.text, &['\t']),
            })
        };
        let file = |file: &ListedFile| {
            let mut object = members(json!({"file": file.file}));
            object.extend(self.json_value("flat", file.flat, self.total));
            object.extend(self.json_value("cum", file.cum, self.total));
            match &file.lines {
                Ok(lines) => object.insert("lines".to_owned(), lines.iter().map(line).collect()),
                Err(why) => object.insert("error".to_owned(), why.as_str().into()),
            };
            Value::from(object)
        };
        json!({"name": function.name, "files": function.files.iter().map(file).collect::<Vec<Value>>()})
    }
}

/// Lists the lines of one file with the values of a function's nodes.
fn list_file(nodes: &NodeTable, graph: &Graph, file: &str, own: &[u32], sources: &mut SourceFiles) -> ListedFile {
    let mut values: HashMap<i64, (i64, i64)> = HashMap::new();
    let mut listed = ListedFile { file: file.to_owned(), flat: 0, cum: 0, lines: Ok(Vec::new()) };
    let (mut start, mut end) = (i64::MAX, i64::MIN);
    for &node in own {
        let info = &nodes.infos[node as usize];
        let (flat, cum) = (graph.flat[node as usize], graph.cum[node as usize]);
        let line = values.entry(info.line).or_default();
        *line = (line.0.wrapping_add(flat), line.1.wrapping_add(cum));
        listed.flat = listed.flat.wrapping_add(flat);
        listed.cum = listed.cum.wrapping_add(cum);
        start = start.min(if info.start_line == 0 { info.line - MARGIN } else { info.start_line });
        end = end.max(info.line + MARGIN);
    }
    listed.lines = sources.lines(file).as_ref().map_err(String::clone).map(|text| {
        let lines = (start.max(1)..=end).zip(text.iter().skip(start.max(1) as usize - 1));
        let line = |(number, text): (i64, &String)| {
            let (flat, cum) = values.get(&number).copied().unwrap_or_default();
            ListedLine { number, flat, cum, text: text.clone() }
        };
        lines.map(line).collect()
    });
    listed
}
