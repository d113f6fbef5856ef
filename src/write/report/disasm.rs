//! `-disasm`: the machine code of functions, with the flat and cum of every instruction.
//!
//! ```text
//! ROUTINE ======================== app::fib(int)
//!      190ms      200ms (flat, cum) 18.69% of Total
//!       20ms       20ms     401136: push   %rbp                            ;app::fib demo.cc:12
//!          .          .     401137: mov    %rsp,%rbp
//! ```
//!
//! Samples inside of an instruction are its own. The code is that of the files as they lie here, and in objdump's words where that
//! is installed, as pprof's is; else in ours, which say operands of calls and jumps otherwise. Which functions there are is also
//! asked as pprof does: all that the file's own table names, by any spelling of their names. A stripped file's are those that the
//! profile names.

use std::io::Write;
use std::ops::Range;
use std::rc::Rc;

use super::{Print, ReportError};
use crate::symbols::assembly::{Code, Instruction};
use crate::symbols::clean::clean;
use crate::symbols::demangle::spellings;
use crate::symbols::listing::{Listed, listed};
use crate::tally::query::Pattern;
use crate::tally::saved::graph::{Edges, Graph, Info, Nodes, base, mean};
use crate::tally::units::percentage;
use crate::write::binaries::{Binary, Coder};
use crate::write::objdump::{self, Told};

/// Columns of an instruction with its line behind it; a longer one has it on the line before.
const TEXT_COLUMNS: usize = 40;

/// A function with samples.
struct Routine {
    /// The first is its title.
    names: Vec<String>,
    binary: Rc<Binary>,
    /// The file's own addresses.
    range: Range<u64>,
    /// Nodes, by the file's own address.
    nodes: Vec<(u64, u32)>,
}

/// Sums by address, and who takes code apart.
struct Machine {
    nodes: Nodes,
    graph: Graph,
    coder: Coder,
    objdump: Option<&'static str>,
}

impl Print<'_> {
    pub(super) fn disasm(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.saved.without_inlines();
        self.saved.unmark_base();
        let nodes = self.nodes();
        let graph = Graph::of(&self.saved, &nodes, None, self.sums(Edges::ToInlined));
        let machine = Machine { nodes, graph, coder: Coder::start(), objdump: objdump::found() };
        // pprof looks for a match before it looks into a file, and in names with their addresses before them: `^main$` is in none
        // of those. What is not found by that is looked for by the name alone.
        let (mut routines, mut refusal) = self.routines(only, &machine, |node| only.matches(machine.nodes.name(node)));
        if routines.is_empty() {
            let by_name = |node: u32| only.matches(&machine.nodes.infos[node as usize].name);
            (routines, refusal) = self.routines(only, &machine, by_name);
        }
        if routines.is_empty() {
            let why = refusal.map_or_else(String::new, |why| format!(": {why}"));
            let what = address(only).map_or(format!("regexp {}", only.text()), |of| format!("address {of:#x}"));
            return Err(ReportError::Asked(format!("no matches found for {what}{why}")));
        }
        writeln!(out, "Total: {}", self.shown(self.total))?;
        routines.sort_by(|a, b| (&a.names[0], a.range.start).cmp(&(&b.names[0], b.range.start)));
        routines.iter().try_for_each(|routine| self.routine(out, routine, &machine))
    }

    /// The functions that match, of mappings with a node that does; and why there may be more.
    fn routines(
        &self,
        only: &Pattern,
        machine: &Machine,
        matches: impl Fn(u32) -> bool,
    ) -> (Vec<Routine>, Option<String>) {
        let (mut routines, mut refusal) = (Vec::new(), None);
        for mapping in &self.saved.mappings {
            let Machine { nodes, graph, .. } = machine;
            let is_in = |node: u32| nodes.infos[node as usize].object == mapping.file;
            if !graph.order.iter().any(|&node| is_in(node) && matches(node)) && address(only).is_none() {
                continue;
            }
            let Some(binary) = Binary::of(mapping).map(Rc::new) else { continue };
            let mut places: Vec<(u64, u32)> = Vec::new();
            for &node in graph.order.iter().filter(|&&node| nodes.infos[node as usize].address != 0) {
                let own = binary.own_address(nodes.infos[node as usize].address);
                places.extend(own.map(|own| (own, node)));
            }
            places.sort_unstable();
            let found = match listed(binary.file()) {
                Ok(known) if known.is_empty() => machine.stripped(&binary, &places, only, &mut routines),
                Ok(known) => {
                    machine.named(&binary, &places, (&known, only), &mut routines);
                    Ok(())
                }
                Err(why) => Err(why),
            };
            refusal = refusal.or(found.err());
        }
        (routines, refusal)
    }

    fn routine(&self, out: &mut dyn Write, routine: &Routine, machine: &Machine) -> Result<(), ReportError> {
        let Routine { names, nodes, .. } = routine;
        let code = machine.code(routine).map_err(ReportError::Asked)?;
        let graph = &machine.graph;
        let sum = nodes.iter().fold((0i64, 0i64), |sum, &(_, node)| {
            (sum.0.wrapping_add(graph.flat[node as usize]), sum.1.wrapping_add(graph.cum[node as usize]))
        });
        writeln!(out, "ROUTINE ======================== {}", names[0])?;
        names[1..].iter().try_for_each(|name| writeln!(out, "    AKA ======================== {name}"))?;
        let (flat, cum) = (self.shown(sum.0), self.shown(sum.1));
        writeln!(out, "{flat:>10} {cum:>10} (flat, cum) {} of Total", percentage(sum.1, self.total))?;
        let dotted = |value: i64| if value == 0 { ".".to_owned() } else { self.shown(value) };
        let (mut rest, mut before) = (&nodes[..], (String::new(), String::new(), 0));
        for (at, told) in code.iter().enumerate() {
            let next = code.get(at + 1).map_or(u64::MAX, |next| next.address);
            let (own, others) = rest.split_at(rest.iter().take_while(|(address, _)| *address < next).count());
            rest = others;
            let (flat, cum) = machine.sums(own);
            let (flat, cum) = (dotted(flat), dotted(cum));
            let (start, text) = (format!("{flat:>10} {cum:>10} {:>10x}: ", told.address), cleaned(&told.text));
            let place = place(told, own.iter().map(|&(_, node)| &machine.nodes.infos[node as usize]));
            let shown = if place == before { String::new() } else { words(&place) };
            before = place;
            match shown.as_str() {
                "" => writeln!(out, "{start}{text}")?,
                shown if text.len() < TEXT_COLUMNS => writeln!(out, "{start}{text:<TEXT_COLUMNS$};{shown}")?,
                shown => writeln!(out, "{:>74};{shown}\n{start}{text}", "")?,
            }
        }
        Ok(())
    }
}

impl Machine {
    /// Functions of a file's own table.
    fn named(
        &self,
        binary: &Rc<Binary>,
        places: &[(u64, u32)],
        (known, only): (&[Listed], &Pattern),
        routines: &mut Vec<Routine>,
    ) {
        for symbol in known {
            let range = symbol.start..symbol.last;
            let nodes = within(places, &range);
            let wanted = address(only).map(|address| binary.own_address(address).unwrap_or(address));
            if let Some(names) = (!nodes.is_empty()).then(|| asked(symbol, only, wanted)).flatten() {
                routines.push(Routine { names, binary: binary.clone(), range, nodes: nodes.to_vec() });
            }
        }
    }

    /// Functions that the profile names. The error says why there may be more.
    fn stripped(
        &self,
        binary: &Rc<Binary>,
        places: &[(u64, u32)],
        only: &Pattern,
        routines: &mut Vec<Routine>,
    ) -> Result<(), String> {
        let (mut end, mut refusal) = (0, Ok(()));
        for &(own, node) in places {
            if own < end || !only.matches(&self.nodes.infos[node as usize].name) {
                continue;
            }
            match self.coder.code(binary, own) {
                Ok(code) => {
                    end = code.end;
                    let (range, names) = (code.start..code.end, vec![code.full.to_string()]);
                    let nodes = within(places, &range).to_vec();
                    routines.push(Routine { names, binary: binary.clone(), range, nodes });
                }
                Err(why) => refusal = Err(why),
            }
        }
        refusal
    }

    fn code(&self, routine: &Routine) -> Result<Vec<Told>, String> {
        let Routine { binary, range, nodes, .. } = routine;
        match self.objdump {
            Some(tool) => objdump::code(tool, &binary.file().path, range.start, range.end),
            None => self.coder.code(binary, nodes[0].0).map(|code| ours(&code)),
        }
    }

    /// Flat and cum of several nodes.
    fn sums(&self, nodes: &[(u64, u32)]) -> (i64, i64) {
        let (mut flat, mut cum) = ((0i64, 0i64), (0i64, 0i64));
        for &(_, node) in nodes {
            let (of_flat, of_cum) = self.graph.divisors(node);
            flat = (flat.0.wrapping_add(self.graph.flat[node as usize]), flat.1.wrapping_add(of_flat));
            cum = (cum.0.wrapping_add(self.graph.cum[node as usize]), cum.1.wrapping_add(of_cum));
        }
        (mean(flat.0, flat.1), mean(cum.0, cum.1))
    }
}

/// What lies in a range of addresses.
fn within<'p>(places: &'p [(u64, u32)], range: &Range<u64>) -> &'p [(u64, u32)] {
    let first = |address| places.partition_point(|&(place, _)| place < address);
    &places[first(range.start)..first(range.end.max(range.start))]
}

/// The address that is asked about, if it is one.
fn address(only: &Pattern) -> Option<u64> {
    let text = only.text();
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// The names under which a symbol is asked for: all where the question is an address, else the first spelling that matches.
fn asked(symbol: &Listed, only: &Pattern, wanted: Option<u64>) -> Option<Vec<String>> {
    if wanted.is_some_and(|address| (symbol.start..=symbol.last).contains(&address)) {
        return Some(symbol.names.iter().map(|name| clean(name)).collect());
    }
    let all = symbol.names.iter().flat_map(|name| spellings(name));
    all.into_iter().find(|spelling| only.matches(spelling)).map(|spelling| vec![spelling])
}

/// Function, file and line: where the code does not say, as its samples do.
fn place<'i>(told: &Told, samples: impl Iterator<Item = &'i Info>) -> (String, String, i64) {
    let file_of = |file: &str| if file.is_empty() { String::new() } else { base(file).to_owned() };
    let (mut function, mut file, mut line) = (told.function.clone(), file_of(&told.file), told.line);
    for info in samples {
        if file.is_empty() {
            file = file_of(&info.file);
        }
        if line == 0 {
            line = info.line;
        }
        if function.is_empty() {
            function = info.name.to_string();
        }
    }
    (function, file, line)
}

/// `function file.c:12`, as far as it is known.
fn words((function, file, line): &(String, String, i64)) -> String {
    let mut words = if function.is_empty() { String::new() } else { format!("{function} ") };
    words += file;
    if !file.is_empty() && *line != 0 {
        words += &format!(":{line}");
    }
    clean(&words)
}

/// LLVM's sets operands behind a tabulator.
fn cleaned(text: &str) -> String {
    text.split('\t').map(clean).collect::<Vec<String>>().join("\t")
}

/// Code as we take it apart: operands in a column, and jumps with the place in the function that they go to.
fn ours(code: &Code) -> Vec<Told> {
    let told = |instruction: &Instruction| {
        let text = match instruction.text.split_once(' ') {
            Some((mnemonic, operands)) => format!("{mnemonic:<6} {operands}"),
            None => instruction.text.to_string(),
        };
        let text = match instruction.jump {
            Some(to) if to == code.start => format!("{text} <{}>", code.full),
            Some(to) if (code.start..code.end).contains(&to) => {
                format!("{text} <{}+{:#x}>", code.full, to - code.start)
            }
            _ => text,
        };
        let innermost = code.place(instruction).first();
        Told {
            address: instruction.address,
            text,
            function: innermost.map_or_else(String::new, |line| line.short.to_string()),
            file: innermost.map_or_else(String::new, |line| line.file.to_string()),
            line: innermost.map_or(0, |line| line.line.into()),
        }
    };
    code.instructions.iter().map(told).collect()
}
