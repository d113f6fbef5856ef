//! `-disasm`: the machine code of functions, with the flat and cum of every instruction.
//!
//! ```text
//! ROUTINE ======================== app::fib(int)
//!      190ms      200ms (flat, cum) 18.69% of Total
//!       20ms       20ms     401136: push   %rbp                            ;app::fib demo.cc:12
//!          .          .     401137: mov    %rsp,%rbp
//! ```
//!
//! Samples inside of an instruction are its own. The code is that of the files as they lie here.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use super::{Print, ReportError};
use crate::symbols::assembly::{Code, Instruction};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::{Edges, Graph, Sums, base};
use crate::tally::units::percentage;
use crate::write::binaries::{Binary, Coder};

/// Columns of an instruction with its line behind it; a longer one has it on the line before.
const TEXT_COLUMNS: usize = 40;

/// A function, and what was sampled in it.
struct Routine {
    code: Arc<Code>,
    /// Flat and cum, by the file's own address.
    samples: BTreeMap<u64, (i64, i64)>,
}

impl Print<'_> {
    pub(super) fn disasm(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.saved.without_inlines();
        self.saved.unmark_base();
        let (routines, refusal) = self.routines(only);
        if routines.is_empty() {
            let why = refusal.map_or_else(String::new, |why| format!(": {why}"));
            return Err(ReportError::Asked(format!("no matches found for regexp {}{why}", only.text())));
        }
        writeln!(out, "Total: {}", self.shown(self.total))?;
        routines.values().try_for_each(|routine| self.routine(out, routine))
    }

    /// Functions that match, by name and address; and why one of them has no code.
    fn routines(&self, only: &Pattern) -> (BTreeMap<(String, u64), Routine>, Option<String>) {
        let nodes = self.nodes();
        let drop_negative = self.options.drop_negative;
        let sums = Sums { value: self.value, edges: Edges::ToInlined, tags: None, drop_negative };
        let graph = Graph::of(&self.saved, &nodes, None, sums);
        let coder = Coder::start();
        let (mut routines, mut refusal) = (BTreeMap::new(), None);
        for (index, mapping) in self.saved.mappings.iter().enumerate() {
            // By the file's own address: the node, and whether its name matches.
            let mut places: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
            let mut binary = None;
            for (place, location) in self.saved.locations.iter().enumerate() {
                let &[node, ..] = nodes.at(place as u32) else { continue };
                let is_sampled = graph.cum[node as usize] != 0 || graph.flat[node as usize] != 0;
                if location.mapping != Some(index as u32) || !is_sampled {
                    continue;
                }
                let Some(binary) = binary.get_or_insert_with(|| Binary::of(mapping)) else { break };
                let function = location.lines.first().map(|line| &self.saved.functions[line.function as usize]);
                let matches = function.is_some_and(|of| only.matches(&of.name) || only.matches(&of.system_name));
                if let Some(address) = binary.own_address(location.address) {
                    places.insert(address, (node, matches));
                }
            }
            let Some(Some(binary)) = binary else { continue };
            let mut end = 0;
            for (&address, _) in places.iter().filter(|(_, (_, matches))| *matches) {
                if address < end {
                    continue;
                }
                match coder.code(&binary, address) {
                    Ok(code) => {
                        end = code.end;
                        let inside = places.range(code.start..code.end.max(code.start));
                        let much = |node: u32| (graph.flat[node as usize], graph.cum[node as usize]);
                        let samples = inside.map(|(&address, &(node, _))| (address, much(node))).collect();
                        routines.insert((code.full.to_string(), code.start), Routine { code, samples });
                    }
                    Err(why) => refusal = refusal.or(Some(why)),
                }
            }
        }
        (routines, refusal)
    }

    fn routine(&self, out: &mut dyn Write, routine: &Routine) -> Result<(), ReportError> {
        let Routine { code, samples } = routine;
        let add = |sums: (i64, i64), (flat, cum): &(i64, i64)| (sums.0.wrapping_add(*flat), sums.1.wrapping_add(*cum));
        let (flat, cum) = samples.values().fold((0, 0), add);
        writeln!(out, "ROUTINE ======================== {}", code.full)?;
        let (shown_flat, shown_cum) = (self.shown(flat), self.shown(cum));
        writeln!(out, "{shown_flat:>10} {shown_cum:>10} (flat, cum) {} of Total", percentage(cum, self.total))?;
        let dotted = |value: i64| if value == 0 { ".".to_owned() } else { self.shown(value) };
        let mut before = String::new();
        for instruction in &code.instructions {
            let end = instruction.address + u64::from(instruction.length);
            let (flat, cum) = samples.range(instruction.address..end).map(|(_, much)| much).fold((0, 0), add);
            let place = place(code, instruction);
            let text = told(code, instruction);
            let start = format!("{:>10} {:>10} {:>10x}: ", dotted(flat), dotted(cum), instruction.address);
            if place == before || place.is_empty() {
                writeln!(out, "{start}{text}")?;
                continue;
            }
            if text.len() < TEXT_COLUMNS {
                writeln!(out, "{start}{text:<TEXT_COLUMNS$};{place}")?;
            } else {
                writeln!(out, "{:>74};{place}\n{start}{text}", "")?;
            }
            before = place;
        }
        Ok(())
    }
}

/// Where an instruction comes from: `function file.c:12`.
fn place(code: &Code, instruction: &Instruction) -> String {
    let Some(innermost) = code.place(instruction).first() else { return String::new() };
    match (&*innermost.file, innermost.line) {
        ("", _) => innermost.short.to_string(),
        (file, 0) => format!("{} {}", innermost.short, base(file)),
        (file, line) => format!("{} {}:{line}", innermost.short, base(file)),
    }
}

/// As objdump sets it: operands in a column, and jumps with the place in the function that they go to.
fn told(code: &Code, instruction: &Instruction) -> String {
    let text = match instruction.text.split_once(' ') {
        Some((mnemonic, operands)) => format!("{mnemonic:<6} {operands}"),
        None => instruction.text.to_string(),
    };
    match instruction.jump {
        Some(to) if to == code.start => format!("{text} <{}>", code.full),
        Some(to) if (code.start..code.end).contains(&to) => format!("{text} <{}+{:#x}>", code.full, to - code.start),
        _ => text,
    }
}
