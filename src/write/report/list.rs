//! `-list`: the source lines of functions, each with its flat and cum.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::Path;

use super::{Print, ReportError, trim_path_of};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::{Edges, Graph, Nodes};
use crate::tally::units::percentage;

/// Lines before the first and after the last that has a sample.
const MARGIN: i64 = 5;

impl Print<'_> {
    pub(super) fn list(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.saved.unmark_base();
        let nodes = self.nodes();
        let sums = self.sums(Edges::ToInlined);
        let graph = Graph::of(&self.saved, &nodes, None, sums);
        let mut functions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for &node in &graph.order {
            let name = nodes.infos[node as usize].name.as_str();
            if only.matches(name) {
                functions.entry(name).or_default().push(node);
            }
        }
        if functions.is_empty() {
            return Err(ReportError::Asked(format!("no matches found for regexp: {}", only.text())));
        }
        let mut sources = Sources::of(&self.options.source_path, &self.options.trim_path);
        writeln!(out, "Total: {}", self.shown(self.total))?;
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
                self.list_file(out, &nodes, &graph, name, file, &own, &mut sources)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn list_file(
        &self,
        out: &mut dyn Write,
        nodes: &Nodes,
        graph: &Graph,
        name: &str,
        file: &str,
        own: &[u32],
        sources: &mut Sources,
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
        let (flat, cum) = (self.shown(flat_sum), self.shown(cum_sum));
        writeln!(out, "{flat:>10} {cum:>10} (flat, cum) {} of Total", percentage(cum_sum, self.total))?;
        let text = match sources.lines(file) {
            Ok(text) => text,
            Err(why) => {
                writeln!(out, " Error: {why}")?;
                return Ok(());
            }
        };
        let dotted = |value: i64| if value == 0 { ".".to_owned() } else { self.shown(value) };
        for number in start.max(1)..=end {
            let Some(line) = text.get(number as usize - 1) else { break };
            let (flat, cum) = lines.get(&number).copied().unwrap_or_default();
            writeln!(out, "{:>10} {:>10} {number:>6}:{line}", dotted(flat), dotted(cum))?;
        }
        Ok(())
    }
}

/// Source files, looked for once each.
pub(super) struct Sources {
    search_path: String,
    trim_path: String,
    files: HashMap<String, Result<Vec<String>, String>>,
}

impl Sources {
    pub(super) fn of(source_path: &str, trim_path: &str) -> Sources {
        let here = || std::env::current_dir().map_or(".".to_owned(), |here| here.to_string_lossy().into_owned());
        let search_path = if source_path.is_empty() { here() } else { source_path.to_owned() };
        Sources { search_path, trim_path: trim_path.to_owned(), files: HashMap::new() }
    }

    pub(super) fn lines(&mut self, file: &str) -> &Result<Vec<String>, String> {
        if !self.files.contains_key(file) {
            let read = self.read(file);
            self.files.insert(file.to_owned(), read);
        }
        &self.files[file]
    }

    fn read(&self, file: &str) -> Result<Vec<String>, String> {
        /// A larger one is no source.
        const MAX_BYTES: u64 = 64 << 20;
        let path = trim_path_of(file, &self.trim_path, &self.search_path);
        let text = |path: &Path| -> Option<Vec<String>> {
            let known = fs::metadata(path).ok()?;
            let bytes = fs::read(path).ok().filter(|_| known.is_file() && known.len() <= MAX_BYTES)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Some(text.lines().map(str::to_owned).collect())
        };
        if path.starts_with('/') {
            return text(Path::new(path)).ok_or_else(|| format!("open {path}: no such file or directory"));
        }
        for directory in self.search_path.split(':') {
            for above in Path::new(directory).ancestors() {
                if let Some(text) = text(&above.join(path)) {
                    return Ok(text);
                }
            }
        }
        Err(format!("could not find file {path} on path {}", self.search_path))
    }
}
