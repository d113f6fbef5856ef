//! `-list`: the source lines of functions with the flat and cum of each line.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use super::options::ReportError;
use super::printer::ReportPrinter;
use super::source_files::SourceFiles;
use crate::pprof::graph::{EdgeSelection, Graph, NodeTable};
use crate::pprof::units::percentage;
use crate::tally::query::Pattern;

/// Number of lines shown before the first and after the last line with samples.
const MARGIN: i64 = 5;

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
        writeln!(out, "Total: {}", self.format(self.total))?;
        for (name, all) in functions {
            let mut files: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
            for &node in &all {
                let file = nodes.infos[node as usize].file.as_str();
                if !file.is_empty() {
                    files.entry(file).or_default().push(node);
                }
            }
            if files.is_empty() {
                writeln!(out, "No source information for {name}")?;
            }
            for (file, own) in files {
                self.print_file(out, &nodes, &graph, name, file, &own, &mut sources)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn print_file(
        &self,
        out: &mut dyn Write,
        nodes: &NodeTable,
        graph: &Graph,
        name: &str,
        file: &str,
        own: &[u32],
        sources: &mut SourceFiles,
    ) -> Result<(), ReportError> {
        let mut lines: HashMap<i64, (i64, i64)> = HashMap::new();
        let (mut flat_sum, mut cum_sum) = (0i64, 0i64);
        let (mut start, mut end) = (i64::MAX, i64::MIN);
        for &node in own {
            let info = &nodes.infos[node as usize];
            let (flat, cum) = (graph.flat[node as usize], graph.cum[node as usize]);
            let line = lines.entry(info.line).or_default();
            *line = (line.0.wrapping_add(flat), line.1.wrapping_add(cum));
            flat_sum = flat_sum.wrapping_add(flat);
            cum_sum = cum_sum.wrapping_add(cum);
            start = start.min(if info.start_line == 0 { info.line - MARGIN } else { info.start_line });
            end = end.max(info.line + MARGIN);
        }
        writeln!(out, "ROUTINE ======================== {name} in {file}")?;
        let (flat, cum) = (self.format(flat_sum), self.format(cum_sum));
        writeln!(out, "{flat:>10} {cum:>10} (flat, cum) {} of Total", percentage(cum_sum, self.total))?;
        let text = match sources.lines(file) {
            Ok(text) => text,
            Err(why) => {
                writeln!(out, " Error: {why}")?;
                return Ok(());
            }
        };
        for number in start.max(1)..=end {
            let Some(line) = text.get(number as usize - 1) else { break };
            let (flat, cum) = lines.get(&number).copied().unwrap_or_default();
            writeln!(out, "{:>10} {:>10} {number:>6}:{line}", self.format_or_dot(flat), self.format_or_dot(cum))?;
        }
        Ok(())
    }
}
