//! The directives of a scenario for source files and machine code:
//!
//! ```text
//! source src/json/parser.rs 118           a file: each | is a line, and the first is line 118
//! | fn parse_value(&mut self) -> Result<Value> {
//! code parse_value                        its instructions, four bytes each
//! | parse_value@src/json/parser.rs:118 push %rbp
//! |*parse_value@src/json/parser.rs:120;peek@src/json/parser.rs:61 movzbl (%rdi),%eax
//! | - jne -> 1                            no source line; a jump to the first instruction
//! ```
//!
//! A frame of a stack lies at the first instruction with its functions and lines, or at the one
//! with the star. Code must therefore precede the samples.

use std::collections::HashMap;
use std::sync::Arc;

use super::line_text::{FullNames, LineText, line_text};
use crate::profile::module::ModuleId;
use crate::symbols::assembly::{Code, Instruction, LineState, Places};
use crate::symbols::messages::{CodeReply, CodeRequest};
use crate::symbols::source::{self, SourceFile};

/// Address of the code of the first function, and distance to that of the next.
const FIRST_ADDRESS: u64 = 1 << 28;
const STEP: u64 = 1 << 20;
/// Length of every instruction.
const LENGTH: u64 = 4;
/// Maximum number of lines of a source file in a scenario, and of instructions of a function.
const MAX_LINES: usize = 10_000;

/// A function's code as the scenario has it.
#[derive(Debug)]
struct CodeText {
    path: String,
    function: String,
    start: u64,
    instructions: Vec<(Vec<LineText>, String, Option<u64>)>,
}

/// A frame that lies at an instruction.
pub(super) struct FrameText {
    pub(super) path: String,
    /// Its functions, the outermost first.
    pub(super) lines: Vec<LineText>,
    pub(super) address: u64,
    /// Whether the instruction has a star, so that the frame lies there and not at the first
    /// instruction with the same functions and lines.
    pub(super) starred: bool,
}

/// The block that the next lines with a bar continue.
#[derive(Debug, Default)]
enum OpenBlock {
    #[default]
    Nothing,
    Source(String),
    Code,
}

/// Source files and code as the scenario has them.
#[derive(Debug, Default)]
pub(super) struct Texts {
    sources: HashMap<String, Vec<String>>,
    codes: Vec<CodeText>,
    open: OpenBlock,
}

impl Texts {
    pub(super) fn source(&mut self, text: &str) -> Result<(), String> {
        let usage = "a source file is ‘source FILE [FIRST-LINE]’, and its lines follow behind |";
        let mut words = text.split_whitespace();
        let file = words.next().ok_or(usage)?;
        let first: usize = words.next().map_or(Ok(1), str::parse).map_err(|_| usage)?;
        if first == 0 || first > MAX_LINES {
            return Err(format!("a source file has the lines 1 to {MAX_LINES}"));
        }
        self.sources.insert(file.to_owned(), vec![String::new(); first - 1]);
        self.open = OpenBlock::Source(file.to_owned());
        Ok(())
    }

    pub(super) fn code(&mut self, path: &str, function: &str) {
        let start = FIRST_ADDRESS + STEP * self.codes.len() as u64;
        let (path, function) = (path.to_owned(), function.to_owned());
        self.codes.push(CodeText { path, function, start, instructions: Vec::new() });
        self.open = OpenBlock::Code;
    }

    /// Adds a line to the open block. Returns the frame that lies there if the line is an
    /// instruction.
    pub(super) fn add_line(&mut self, text: &str) -> Result<Option<FrameText>, String> {
        match &self.open {
            OpenBlock::Nothing => Err("‘|’ goes on with ‘source’ or ‘code’, and there is none before it".to_owned()),
            OpenBlock::Source(file) => {
                let lines = self.sources.entry(file.clone()).or_default();
                if lines.len() == MAX_LINES {
                    return Err(format!("a source file has the lines 1 to {MAX_LINES}"));
                }
                lines.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
                Ok(None)
            }
            OpenBlock::Code => {
                let code = self.codes.last_mut().ok_or("no code before this line")?;
                code.instruction(text)
            }
        }
    }

    /// Returns all source files and code in the form in which a worker answers.
    pub(super) fn finish(self, names: &FullNames) -> Listings {
        let source = |(file, lines): (String, Vec<String>)| {
            let source = SourceFile::new(&file, lines.join("\n").as_bytes(), None);
            (file, Arc::new(source))
        };
        Listings {
            codes: self.codes.into_iter().map(|code| code.finish(names)).collect(),
            sources: self.sources.into_iter().map(source).collect(),
        }
    }
}

impl CodeText {
    fn instruction(&mut self, text: &str) -> Result<Option<FrameText>, String> {
        let usage =
            "an instruction is ‘| FUNCTION@FILE:LINE[;INLINED@FILE:LINE] TEXT [-> NUMBER]’, or has ‘-’ for its place";
        if self.instructions.len() == MAX_LINES {
            return Err(format!("a function has at most {MAX_LINES} instructions"));
        }
        let (starred, text) = text.strip_prefix('*').map_or((false, text), |text| (true, text));
        let (place, text) = text.trim_start().split_once(char::is_whitespace).ok_or(usage)?;
        let lines = match place {
            "-" => Vec::new(),
            place => place.split(';').map(line_text).collect::<Result<Vec<_>, _>>()?,
        };
        let (text, jump) = match text.trim().split_once(" -> ") {
            Some((text, number)) => {
                let number: u64 = number.trim().parse().ok().filter(|&number| number > 0).ok_or(usage)?;
                let to = self.start.saturating_add(LENGTH.saturating_mul(number - 1));
                (format!("{text} {to:x}"), Some(to))
            }
            None => (text.trim().to_owned(), None),
        };
        let address = self.start + LENGTH * self.instructions.len() as u64;
        self.instructions.push((lines.clone(), text, jump));
        Ok((!lines.is_empty()).then(|| FrameText { path: self.path.clone(), lines, address, starred }))
    }

    fn finish(self, names: &FullNames) -> Code {
        let mut places = Places::default();
        let addresses = (self.start..).step_by(LENGTH as usize);
        let instruction = |(address, (lines, text, jump)): (u64, (Vec<LineText>, String, Option<u64>))| {
            let innermost_first = lines.into_iter().enumerate().rev();
            let lines = innermost_first.map(|(outer, line)| names.resolve(line, outer > 0)).collect::<Vec<_>>();
            let place = if lines.is_empty() { None } else { places.id(lines) };
            Instruction { address, length: LENGTH as u8, text: text.into(), jump, place }
        };
        let instructions: Box<[Instruction]> = addresses.zip(self.instructions).map(instruction).collect();
        let places = places.finish();
        Code {
            module: ModuleId(0),
            path: self.path.into(),
            full: names.full(&self.function).into(),
            short: self.function.into(),
            start: self.start,
            end: self.start + LENGTH * instructions.len() as u64,
            lines: if places.is_empty() { LineState::Absent } else { LineState::Known },
            instructions,
            places,
            is_cut: false,
            modified: None,
        }
    }
}

/// Code and source files in the form in which a worker answers.
#[derive(Debug, Default)]
pub(super) struct Listings {
    codes: Vec<Code>,
    sources: HashMap<String, Arc<SourceFile>>,
}

impl Listings {
    /// Returns the answer of a symbol worker to a request for code.
    pub(super) fn code(&self, request: &CodeRequest) -> CodeReply {
        let CodeRequest { module, file, address, .. } = request;
        let path = file.path.to_string_lossy();
        let holds = |code: &&Code| *code.path == *path && (code.start..code.end).contains(address);
        let code = self.codes.iter().find(holds).map(|code| Arc::new(Code { module: *module, ..code.clone() }));
        let code =
            code.ok_or_else(|| format!("no symbol of {path} covers {address:#x}: the scenario has no code there"));
        CodeReply { module: *module, address: *address, code }
    }

    /// Returns the answer of the reader of source files.
    pub(super) fn source(&self, request: &source::SourceRequest) -> source::SourceReply {
        let source = self.sources.get(&request.file).cloned();
        let missing = || format!("{} is not here: name the directory it is in with --source-path DIR", request.file);
        source::SourceReply { file: request.file.clone(), source: source.ok_or_else(missing) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;
    use crate::profile::module::ModuleFile;

    const TEXT: &str = "process 7 ./a
source f.c 3
| int f(void) {
|   return g();
code f
| f@f.c:3 push %rbp
|*f@f.c:4;g@g.h:1 call h
| - jmp -> 1
at 1s prof 10ms f@f.c:4;g@g.h:1 (inline)";

    #[test]
    fn code_and_sources_are_answered() {
        let script = Script::read(TEXT).expect("a scenario");
        let file = ModuleFile { path: "./a".into(), build_id: Box::default(), device: 1, inode: 1 };
        let request = CodeRequest { module: ModuleId(5), file, pid: 7, address: FIRST_ADDRESS + 5 };
        let code = script.code(&request).code.expect("code");
        assert_eq!((code.module, code.at(FIRST_ADDRESS + 5)), (ModuleId(5), Some(1)));
        assert_eq!(code.instructions[2].jump, Some(FIRST_ADDRESS));
        let lines: Vec<u32> = code.place(&code.instructions[1]).iter().map(|line| line.line).collect();
        assert_eq!(lines, [1, 4], "the innermost first");
        let found = script
            .source(&source::SourceRequest { file: "f.c".to_owned(), pid: 7, module: None })
            .source
            .expect("a file");
        assert_eq!((found.line(2), found.line(4)), (Some(""), Some("  return g();")));
        assert!(script.source(&source::SourceRequest { file: "g.h".to_owned(), pid: 7, module: None }).source.is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("| x", "goes on with"),
            ("process 7 ./a\ncode f\n| push", "an instruction is"),
            ("process 7 ./a\ncode f\n| - jmp -> 0", "an instruction is"),
            ("source f.c 0", "lines 1 to"),
            ("source", "a source file is"),
            ("code f", "no process"),
        ] {
            let error = Script::read(text).expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
