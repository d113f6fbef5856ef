//! `-disasm`: the machine code of functions with the flat and cum of every instruction.
//!
//! ```text
//! ROUTINE ======================== app::fib(int)
//!      190ms      200ms (flat, cum) 18.69% of Total
//!       20ms       20ms     401136: push   %rbp                            ;app::fib demo.cc:12
//!          .          .     401137: mov    %rsp,%rbp
//! ```
//!
//! A sample with an address inside an instruction counts for that instruction. As in pprof, the
//! code comes from the mapped files on this machine and is disassembled by objdump. Without
//! objdump, it is disassembled here, and operands of calls and jumps look different. The functions
//! are those in the file's symbol table, selected by any spelling of their names; in a stripped
//! file they are those that the profile names.

use std::io::Write;
use std::ops::Range;
use std::rc::Rc;

use serde_json::{Value, json};

use super::options::ReportError;
use super::printer::ReportPrinter;
use crate::pprof::graph::{EdgeSelection, Graph, NodeInfo, NodeTable, mean};
use crate::pprof::json::members;
use crate::pprof::objdump::{self, SourceInstruction};
use crate::pprof::path::base;
use crate::pprof::symbolize::{Disassembler, MappedBinary};
use crate::pprof::units::percentage;
use crate::symbols::assembly::{Code, Instruction};
use crate::symbols::demangle::spellings;
use crate::symbols::listing::{ListedSymbol, list_symbols};
use crate::symbols::sanitize::sanitize;
use crate::tally::query::Pattern;

/// Maximum width of an instruction that is followed by its source line. A wider one has the source
/// line above it.
const TEXT_COLUMNS: usize = 40;

/// A function with samples.
struct Routine {
    /// Its names; the first is the title.
    names: Vec<String>,
    binary: Rc<MappedBinary>,
    /// Its addresses in the file.
    range: Range<u64>,
    /// Its nodes with their addresses in the file, sorted by address.
    nodes: Vec<(u64, u32)>,
}

/// A function with the values of its instructions.
struct ListedRoutine {
    names: Vec<String>,
    flat: i64,
    cum: i64,
    code: Vec<ListedInstruction>,
}

/// An instruction with its values.
struct ListedInstruction {
    address: u64,
    text: String,
    flat: i64,
    cum: i64,
    /// Its function, file and line.
    location: (String, String, i64),
}

/// Values by address, and the tools to disassemble.
struct CodeSource {
    nodes: NodeTable,
    graph: Graph,
    disassembler: Disassembler,
    objdump: Option<&'static str>,
}

impl ReportPrinter<'_> {
    pub(super) fn print_disasm(&mut self, out: &mut dyn Write, only: &Pattern) -> Result<(), ReportError> {
        self.profile.remove_inlined_frames();
        self.profile.remove_base_labels();
        let nodes = self.build_nodes();
        let graph = Graph::build(&self.profile, &nodes, None, self.graph_options(EdgeSelection::ToInlined));
        let failure = |error| ReportError::Unavailable(format!("cannot start a thread: {error}"));
        let disassembler = Disassembler::start().map_err(failure)?;
        let source = CodeSource { nodes, graph, disassembler, objdump: objdump::find_tool() };
        // Before it opens a file, pprof requires a match in a printable name, which starts with the
        // address, so `^main$` never matches. If nothing matches, the name alone is tried.
        let (mut routines, mut failure) =
            self.find_routines(only, &source, |node| only.matches(source.nodes.name(node)));
        if routines.is_empty() {
            let by_name = |node: u32| only.matches(&source.nodes.infos[node as usize].name);
            (routines, failure) = self.find_routines(only, &source, by_name);
        }
        if routines.is_empty() {
            let why = failure.map_or_else(String::new, |why| format!(": {why}"));
            let what = parse_address(only).map_or(format!("regexp {}", only.text()), |of| format!("address {of:#x}"));
            return Err(ReportError::Unavailable(format!("no matches found for {what}{why}")));
        }
        routines.sort_by(|a, b| (&a.names[0], a.range.start).cmp(&(&b.names[0], b.range.start)));
        let listed = routines.iter().map(|routine| source.list(routine));
        if self.options.json {
            let listed: Result<Vec<Value>, String> = listed.map(|all| Ok(self.json_routine(&all?))).collect();
            return Ok(self.write_json(out, None, "routines", listed.map_err(ReportError::Unavailable)?)?);
        }
        writeln!(out, "Total: {}", self.format(self.total))?;
        listed.into_iter().try_for_each(|all| self.print_routine(out, &all.map_err(ReportError::Unavailable)?))
    }

    /// The matching functions of all mappings that have a matching node. The text says why some may
    /// be missing.
    fn find_routines(
        &self,
        only: &Pattern,
        source: &CodeSource,
        matches: impl Fn(u32) -> bool,
    ) -> (Vec<Routine>, Option<String>) {
        let (mut routines, mut failure) = (Vec::new(), None);
        for mapping in &self.profile.mappings {
            let CodeSource { nodes, graph, .. } = source;
            let is_in = |node: u32| nodes.infos[node as usize].object == mapping.file;
            if !graph.order.iter().any(|&node| is_in(node) && matches(node)) && parse_address(only).is_none() {
                continue;
            }
            let Some(binary) = MappedBinary::open(mapping).map(Rc::new) else { continue };
            let mut addresses: Vec<(u64, u32)> = Vec::new();
            for &node in graph.order.iter().filter(|&&node| nodes.infos[node as usize].address != 0) {
                let address = binary.file_address(nodes.infos[node as usize].address);
                addresses.extend(address.map(|address| (address, node)));
            }
            addresses.sort_unstable();
            let found = match list_symbols(binary.file()) {
                Ok(known) if known.is_empty() => source.add_profile_functions(&binary, &addresses, only, &mut routines),
                Ok(known) => {
                    source.add_symbols(&binary, &addresses, (&known, only), &mut routines);
                    Ok(())
                }
                Err(why) => Err(why),
            };
            failure = failure.or(found.err());
        }
        (routines, failure)
    }

    fn print_routine(&self, out: &mut dyn Write, routine: &ListedRoutine) -> Result<(), ReportError> {
        let ListedRoutine { names, flat, cum, code } = routine;
        writeln!(out, "ROUTINE ======================== {}", names[0])?;
        names[1..].iter().try_for_each(|name| writeln!(out, "    AKA ======================== {name}"))?;
        let share = percentage(*cum, self.total);
        writeln!(out, "{:>10} {:>10} (flat, cum) {share} of Total", self.format(*flat), self.format(*cum))?;
        let mut last_location = &(String::new(), String::new(), 0);
        for ListedInstruction { address, text, flat, cum, location } in code {
            let (flat, cum) = (self.format_or_dot(*flat), self.format_or_dot(*cum));
            let start = format!("{flat:>10} {cum:>10} {address:>10x}: ");
            let shown = if location == last_location { String::new() } else { format_location(location) };
            last_location = location;
            match shown.as_str() {
                "" => writeln!(out, "{start}{text}")?,
                shown if text.len() < TEXT_COLUMNS => writeln!(out, "{start}{text:<TEXT_COLUMNS$};{shown}")?,
                shown => writeln!(out, "{:>74};{shown}\n{start}{text}", "")?,
            }
        }
        Ok(())
    }

    fn json_routine(&self, routine: &ListedRoutine) -> Value {
        let instruction = |of: &ListedInstruction| {
            let (function, file, line) = &of.location;
            json!({
                "address": of.address, "flat": self.divide(of.flat), "cum": self.divide(of.cum), "text": of.text,
                "function": sanitize(function), "file": sanitize(file), "line": line,
            })
        };
        let mut object = members(json!({"names": routine.names}));
        object.extend(self.json_value("flat", routine.flat, self.total));
        object.extend(self.json_value("cum", routine.cum, self.total));
        object.insert("instructions".to_owned(), routine.code.iter().map(instruction).collect());
        object.into()
    }
}

impl CodeSource {
    /// Adds the matching functions in a file's symbol table.
    fn add_symbols(
        &self,
        binary: &Rc<MappedBinary>,
        addresses: &[(u64, u32)],
        (known, only): (&[ListedSymbol], &Pattern),
        routines: &mut Vec<Routine>,
    ) {
        for symbol in known {
            let range = symbol.start..symbol.last;
            let nodes = within(addresses, &range);
            let wanted = parse_address(only).map(|address| binary.file_address(address).unwrap_or(address));
            if let Some(names) = (!nodes.is_empty()).then(|| matching_names(symbol, only, wanted)).flatten() {
                routines.push(Routine { names, binary: binary.clone(), range, nodes: nodes.to_vec() });
            }
        }
    }

    /// Adds the matching functions that the profile names. The error says why some may be missing.
    fn add_profile_functions(
        &self,
        binary: &Rc<MappedBinary>,
        addresses: &[(u64, u32)],
        only: &Pattern,
        routines: &mut Vec<Routine>,
    ) -> Result<(), String> {
        let (mut end, mut failure) = (0, Ok(()));
        for &(address, node) in addresses {
            if address < end || !only.matches(&self.nodes.infos[node as usize].name) {
                continue;
            }
            match self.disassembler.disassemble(binary, address) {
                Ok(code) => {
                    end = code.end;
                    let (range, names) = (code.start..code.end, vec![code.full.to_string()]);
                    let nodes = within(addresses, &range).to_vec();
                    routines.push(Routine { names, binary: binary.clone(), range, nodes });
                }
                Err(why) => failure = Err(why),
            }
        }
        failure
    }

    /// Lists the instructions of a function with their values.
    fn list(&self, routine: &Routine) -> Result<ListedRoutine, String> {
        let Routine { names, nodes, .. } = routine;
        let code = self.disassemble(routine)?;
        let (flat, cum) = nodes.iter().fold((0i64, 0i64), |sum, &(_, node)| {
            let (flat, cum) = (self.graph.flat[node as usize], self.graph.cum[node as usize]);
            (sum.0.wrapping_add(flat), sum.1.wrapping_add(cum))
        });
        let mut rest = &nodes[..];
        let mut list = |(at, instruction): (usize, &SourceInstruction)| {
            let next = code.get(at + 1).map_or(u64::MAX, |next| next.address);
            let (own, others) = rest.split_at(rest.iter().take_while(|(address, _)| *address < next).count());
            rest = others;
            let (flat, cum) = self.sums(own);
            let infos = own.iter().map(|&(_, node)| &self.nodes.infos[node as usize]);
            let (address, text) = (instruction.address, sanitize_text(&instruction.text));
            ListedInstruction { address, text, flat, cum, location: source_location(instruction, infos) }
        };
        let code = code.iter().enumerate().map(&mut list).collect();
        Ok(ListedRoutine { names: names.clone(), flat, cum, code })
    }

    fn disassemble(&self, routine: &Routine) -> Result<Vec<SourceInstruction>, String> {
        let Routine { binary, range, nodes, .. } = routine;
        match self.objdump {
            Some(tool) => objdump::disassemble(tool, &binary.file().path, range.start, range.end),
            None => self.disassembler.disassemble(binary, nodes[0].0).map(|code| convert_code(&code)),
        }
    }

    /// The flat and cum of several nodes.
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

/// The part of a sorted list that is in a range of addresses.
fn within<'p>(addresses: &'p [(u64, u32)], range: &Range<u64>) -> &'p [(u64, u32)] {
    let first = |address| addresses.partition_point(|&(own, _)| own < address);
    &addresses[first(range.start)..first(range.end.max(range.start))]
}

/// The address that a pattern stands for, if it is one.
fn parse_address(only: &Pattern) -> Option<u64> {
    let text = only.text();
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// The names of a symbol that match: all of them if the wanted address is in it, else the first
/// spelling that the pattern matches.
fn matching_names(symbol: &ListedSymbol, only: &Pattern, wanted: Option<u64>) -> Option<Vec<String>> {
    if wanted.is_some_and(|address| (symbol.start..=symbol.last).contains(&address)) {
        return Some(symbol.names.iter().map(|name| sanitize(name)).collect());
    }
    let all = symbol.names.iter().flat_map(|name| spellings(name));
    all.into_iter().find(|spelling| only.matches(spelling)).map(|spelling| vec![spelling])
}

/// Function, file and line of an instruction. What objdump does not know is taken from the samples.
fn source_location<'i>(
    instruction: &SourceInstruction,
    samples: impl Iterator<Item = &'i NodeInfo>,
) -> (String, String, i64) {
    let base_name = |file: &str| if file.is_empty() { String::new() } else { base(file).to_owned() };
    let (mut function, mut file, mut line) =
        (instruction.function.clone(), base_name(&instruction.file), instruction.line);
    for info in samples {
        if file.is_empty() {
            file = base_name(&info.file);
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

/// Formats `function file.c:12`, without the parts that are unknown.
fn format_location((function, file, line): &(String, String, i64)) -> String {
    let mut text = if function.is_empty() { String::new() } else { format!("{function} ") };
    text += file;
    if !file.is_empty() && *line != 0 {
        text += &format!(":{line}");
    }
    sanitize(&text)
}

/// Removes control characters except tabs, which LLVM's objdump puts before operands.
fn sanitize_text(text: &str) -> String {
    text.split('\t').map(sanitize).collect::<Vec<String>>().join("\t")
}

/// Converts the disassembly of the symbolizer to objdump's form: operands in a column, and jumps
/// with their target in the function.
fn convert_code(code: &Code) -> Vec<SourceInstruction> {
    let convert = |instruction: &Instruction| {
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
        SourceInstruction {
            address: instruction.address,
            text,
            function: innermost.map_or_else(String::new, |line| line.short.to_string()),
            file: innermost.map_or_else(String::new, |line| line.file.to_string()),
            line: innermost.map_or(0, |line| line.line.into()),
        }
    };
    code.instructions.iter().map(convert).collect()
}
