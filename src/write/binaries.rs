//! The files that a saved profile names, looked into as they lie here: names for places that have none, and code. A file with
//! another build id than the profile says is another file; where the profile says none, nobody can know, and that is to be said.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;
use crate::symbols::assembly::{Code, LineState};
use crate::symbols::offsets::Offsets;
use crate::symbols::worker::{self, CodeReply, CodeRequest, ResolvedLine};
use crate::tally::saved::{Function, Line, Mapping, Saved};
use crate::tally::text::Text;

/// A file of a mapping.
pub(super) struct Binary {
    file: ModuleFile,
    offsets: Option<Offsets>,
    start: u64,
    limit: u64,
    offset: u64,
}

impl Binary {
    /// The file of a mapping, if it is here.
    pub(super) fn of(mapping: &Mapping) -> Option<Binary> {
        if mapping.file.is_empty() || mapping.file.starts_with('[') {
            return None;
        }
        let path = std::path::absolute(&*mapping.file).ok().filter(|path| path.is_file())?;
        let digits = mapping.build_id.as_str();
        let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let build_id = pairs.collect::<Option<Box<[u8]>>>().unwrap_or_default();
        let Mapping { start, limit, offset, .. } = *mapping;
        // What lies at 0 is told by the file's own addresses already.
        let offsets = if start == 0 { None } else { Some(Offsets::of(&path)?) };
        Some(Binary { file: ModuleFile { path, build_id, device: 0, inode: 0 }, offsets, start, limit, offset })
    }

    /// Which file it is.
    pub(super) fn file(&self) -> &ModuleFile {
        &self.file
    }

    /// The file's own address behind one of the profile.
    pub(super) fn own_address(&self, address: u64) -> Option<u64> {
        let into = address.checked_sub(self.start).filter(|_| address < self.limit)?;
        match &self.offsets {
            None => Some(address),
            Some(offsets) => offsets.address(into.checked_add(self.offset)?),
        }
    }
}

/// Gives places without names those that the files here have for them. Returns the files without a build id whose names were taken:
/// they may have changed since.
pub fn symbolize(saved: &mut Saved) -> Vec<String> {
    let mut requests = Vec::new();
    for (index, mapping) in saved.mappings.iter().enumerate() {
        let number = Some(index as u32);
        let is_nameless = |of: &crate::tally::saved::Location| of.mapping == number && of.lines.is_empty();
        if !saved.locations.iter().any(is_nameless) {
            continue;
        }
        let Some(binary) = Binary::of(mapping) else { continue };
        let places = saved.locations.iter().enumerate().filter(|(_, location)| is_nameless(location));
        let addresses =
            places.filter_map(|(place, location)| Some((FrameId(place as u32), binary.own_address(location.address)?)));
        let addresses: Vec<(FrameId, u64)> = addresses.collect();
        requests.push(worker::Request { module: ModuleId(index as u32), file: binary.file, pid: 0, addresses });
    }
    if requests.is_empty() {
        return Vec::new();
    }
    let (ask, asked) = bounded(requests.len());
    let (tell, told) = bounded(1);
    worker::spawn(asked, tell);
    // There is room for all of them.
    requests.into_iter().for_each(|request| drop(ask.send(request)));
    drop(ask);
    let mut functions: HashMap<(Text, Text), u32> = HashMap::new();
    let mut unsure = Vec::new();
    for reply in told {
        let mapping = reply.module.0 as usize;
        for (FrameId(place), lines) in reply.frames.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let lines = lines.into_iter().map(|line| of_line(saved, &mut functions, line)).collect();
            saved.locations[place as usize].lines = lines;
            let mapping = &mut saved.mappings[mapping];
            mapping.has_functions = true;
            if mapping.build_id.is_empty() && !unsure.contains(&mapping.file.to_string()) {
                unsure.push(mapping.file.to_string());
            }
        }
    }
    unsure
}

fn of_line(saved: &mut Saved, functions: &mut HashMap<(Text, Text), u32>, line: ResolvedLine) -> Line {
    let ResolvedLine { full, short, file, line, .. } = line;
    // As pprof has them: C++ without parameters and arguments, Rust whole.
    let name = Text::from(if full.ends_with(')') { short } else { full });
    let file = Text::from(file);
    let all = &mut saved.functions;
    let function = *functions.entry((name.clone(), file.clone())).or_insert_with(|| {
        all.push(Function { name, file, ..Function::default() });
        all.len() as u32 - 1
    });
    Line { function, line: line.into(), column: 0 }
}

/// Who reads code.
pub(super) struct Coder {
    ask: Sender<CodeRequest>,
    coded: Receiver<CodeReply>,
    /// Names that nobody asks for; the worker ends when this is gone too.
    _names: Sender<worker::Request>,
}

impl Coder {
    pub(super) fn start() -> Coder {
        let (names, requests) = bounded(0);
        let (replies, _) = bounded(0);
        let (ask, asked) = bounded(1);
        let (tell, coded) = bounded(1);
        worker::spawn_for_code(requests, replies, asked, tell);
        Coder { ask, coded, _names: names }
    }

    /// The code of the function around one of the file's own addresses, with its lines.
    ///
    /// # Errors
    /// Why there is none: one sentence.
    pub(super) fn code(&self, binary: &Binary, address: u64) -> Result<Arc<Code>, String> {
        let gone = |_| "what reads code is gone".to_owned();
        let request = CodeRequest { module: ModuleId(0), file: binary.file.clone(), pid: 0, address };
        self.ask.send(request).map_err(|_| gone(()))?;
        loop {
            let reply = self.coded.recv().map_err(|_| gone(()))?;
            match &reply.code {
                // The second answer has the lines.
                Ok(code) if code.lines == LineState::Reading => {}
                _ => return reply.code,
            }
        }
    }
}
