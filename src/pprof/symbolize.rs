//! Symbolizes saved profiles and disassembles functions, using the mapped files on this machine. A
//! file whose build id differs from the profile's is not used. If the profile has no build id, the
//! file may have changed since, and the caller has to say so.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::pprof::path::base;
use crate::pprof::profile::{Function, Line, Location, Mapping, SavedProfile};
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;
use crate::symbols::assembly::{Code, LineState};
use crate::symbols::download::DebuginfodClient;
use crate::symbols::offsets::{Offsets, read_build_id};
use crate::symbols::worker::{self, CodeReply, CodeRequest, ResolvedLine, SymbolOptions, SymbolState};
use crate::tally::text::Text;

/// Maximum number of files in a directory that is named after a build id.
const MAX_OTHER_NAMES: usize = 64;

/// The file of a mapping, with the conversion of addresses.
pub(super) struct MappedBinary {
    file: ModuleFile,
    offsets: Option<Offsets>,
    start: u64,
    limit: u64,
    offset: u64,
}

impl MappedBinary {
    /// Finds the file of a mapping; `None` if it does not exist on this machine.
    pub(super) fn open(mapping: &Mapping) -> Option<MappedBinary> {
        if mapping.file.is_empty() || mapping.file.starts_with('[') {
            return None;
        }
        let path = std::path::absolute(&*mapping.file).ok().filter(|path| path.is_file())?;
        let digits = mapping.build_id.as_str();
        let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let build_id = pairs.collect::<Option<Box<[u8]>>>().unwrap_or_default();
        let Mapping { start, limit, offset, .. } = *mapping;
        // Addresses of a mapping at 0 are those in the file already.
        let offsets = if start == 0 { None } else { Some(Offsets::read(&path)?) };
        Some(MappedBinary { file: ModuleFile { path, build_id, device: 0, inode: 0 }, offsets, start, limit, offset })
    }

    /// The file.
    pub(super) fn file(&self) -> &ModuleFile {
        &self.file
    }

    /// Converts an address of the profile to one in the file.
    pub(super) fn file_address(&self, address: u64) -> Option<u64> {
        let offset_in_mapping = address.checked_sub(self.start).filter(|_| address < self.limit)?;
        match &self.offsets {
            None => Some(address),
            Some(offsets) => offsets.address(offset_in_mapping.checked_add(self.offset)?),
        }
    }
}

/// Replaces the files of mappings by those in the directories of `search_path`, separated by `:`,
/// as pprof does with `PPROF_BINARY_PATH`: `DIR/BUILDID/NAME`, `DIR/NAME`, `DIR/PATH`, and the
/// places of separate debug information. Returns warnings about files with another build id.
pub fn locate_binaries(profile: &mut SavedProfile, search_path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for mapping in &mut profile.mappings {
        let directories = search_path.split(':').filter(|directory| !directory.is_empty());
        for candidate in directories.flat_map(|directory| candidates(Path::new(directory), mapping)) {
            let Some(build_id) = read_build_id(&candidate) else { continue };
            if mapping.build_id.is_empty() || *mapping.build_id == *build_id {
                mapping.file = candidate.to_string_lossy().into_owned().into();
                break;
            }
            let (name, wanted) = (candidate.display(), &mapping.build_id);
            warnings.push(format!("{name} is not used: its build id is {build_id}, not {wanted}"));
        }
    }
    warnings
}

/// The files that may be the binary of a mapping, best first.
fn candidates(directory: &Path, mapping: &Mapping) -> Vec<PathBuf> {
    let file = mapping.file.as_str();
    let (path, name) = (file.trim_start_matches('/'), base(file));
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let mut all = Vec::new();
    // A build id is data of the profile: it must not lead to another directory.
    let build_id = mapping.build_id.as_str();
    if build_id.len() > 2 && build_id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        all.push(directory.join(build_id).join(name));
        let others = fs::read_dir(directory.join(build_id)).into_iter().flatten().flatten();
        let mut others: Vec<PathBuf> = others.take(MAX_OTHER_NAMES).map(|entry| entry.path()).collect();
        others.sort();
        all.append(&mut others);
        all.push(directory.join(path).join(build_id));
        all.push(directory.join(&build_id[..2]).join(format!("{}.debug", &build_id[2..])));
    }
    if !file.is_empty() {
        all.push(directory.join(name));
        all.push(directory.join(path));
        all.push(directory.join(format!("{path}.debug")));
        all.push(directory.join(parent).join(".debug").join(format!("{name}.debug")));
        all.push(directory.join("usr/lib/debug").join(parent).join(format!("{name}.debug")));
    }
    all
}

/// Symbolizes the locations without names; `servers` downloads debug files that are missing here.
/// `on_progress` receives how many names are missing, and of how many. Returns the files without a
/// build id that were used.
///
/// # Errors
/// If the system cannot start a thread.
pub fn symbolize_locations(
    profile: &mut SavedProfile,
    servers: Option<DebuginfodClient>,
    on_progress: &dyn Fn((usize, usize)),
) -> io::Result<Vec<String>> {
    let mut requests = Vec::new();
    for (index, mapping) in profile.mappings.iter().enumerate() {
        let mapping_index = Some(index as u32);
        let is_unsymbolized = |location: &Location| location.mapping == mapping_index && location.lines.is_empty();
        if !profile.locations.iter().any(is_unsymbolized) {
            continue;
        }
        let Some(binary) = MappedBinary::open(mapping) else { continue };
        let locations = profile.locations.iter().enumerate().filter(|(_, location)| is_unsymbolized(location));
        let addresses = locations
            .filter_map(|(index, location)| Some((FrameId(index as u32), binary.file_address(location.address)?)));
        let addresses: Vec<(FrameId, u64)> = addresses.collect();
        requests.push(worker::SymbolRequest {
            module: ModuleId(index as u32),
            file: binary.file,
            pid: 0,
            addresses,
            recorded_at: None,
        });
    }
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let (request_sender, request_receiver) = bounded(requests.len());
    let (reply_sender, replies) = bounded(1);
    let ((_, no_code), (codes, _)) = (bounded(0), bounded(0));
    let options = SymbolOptions { servers, ..SymbolOptions::default() };
    worker::spawn_for_code(request_receiver, reply_sender, no_code, codes, options)?;
    let all: usize = requests.iter().map(|request| request.addresses.len()).sum();
    let mut waiting = all;
    on_progress((waiting, all));
    // The channel holds all requests, so this does not block. While it is open, downloads go on.
    requests.into_iter().for_each(|request| drop(request_sender.send(request)));
    let mut request_sender = Some(request_sender);
    let mut functions: HashMap<(Text, Text), u32> = HashMap::new();
    let mut unverified = Vec::new();
    for reply in replies {
        if reply.state != SymbolState::Reading {
            waiting = waiting.saturating_sub(reply.frames.len());
            on_progress((waiting, all));
        }
        request_sender = request_sender.filter(|_| waiting > 0);
        let mapping = reply.module.0 as usize;
        for (FrameId(location), lines) in reply.frames.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let lines = lines.into_iter().map(|line| convert_line(profile, &mut functions, line)).collect();
            profile.locations[location as usize].lines = lines;
            let mapping = &mut profile.mappings[mapping];
            mapping.has_functions = true;
            if mapping.build_id.is_empty() && !unverified.contains(&mapping.file.to_string()) {
                unverified.push(mapping.file.to_string());
            }
        }
    }
    Ok(unverified)
}

fn convert_line(profile: &mut SavedProfile, functions: &mut HashMap<(Text, Text), u32>, line: ResolvedLine) -> Line {
    let ResolvedLine { full, short, file, line, .. } = line;
    // As in pprof, C++ names without parameters and template arguments, Rust paths in full.
    let name = Text::from(if full.ends_with(')') { short } else { full });
    let file = Text::from(file);
    let all = &mut profile.functions;
    let function = *functions.entry((name.clone(), file.clone())).or_insert_with(|| {
        all.push(Function { name, file, ..Function::default() });
        all.len() as u32 - 1
    });
    Line { function, line: line.into(), column: 0 }
}

/// Disassembles functions on the symbolizer thread.
pub(super) struct Disassembler {
    requests: Sender<CodeRequest>,
    replies: Receiver<CodeReply>,
    /// Keeps the thread running; no names are requested.
    _name_requests: Sender<worker::SymbolRequest>,
}

impl Disassembler {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot start it.
    pub(super) fn start() -> io::Result<Disassembler> {
        let (name_requests, name_receiver) = bounded(0);
        let (name_replies, _) = bounded(0);
        let (requests, code_receiver) = bounded(1);
        let (code_replies, replies) = bounded(1);
        worker::spawn_for_code(name_receiver, name_replies, code_receiver, code_replies, SymbolOptions::default())?;
        Ok(Disassembler { requests, replies, _name_requests: name_requests })
    }

    /// Disassembles the function around an address in the file, with its source lines.
    ///
    /// # Errors
    /// If there is no code at the address; a message for the user.
    pub(super) fn disassemble(&self, binary: &MappedBinary, address: u64) -> Result<Arc<Code>, String> {
        let ended = || "the symbolizer thread has ended".to_owned();
        let request = CodeRequest { module: ModuleId(0), file: binary.file.clone(), pid: 0, address };
        self.requests.send(request).map_err(|_| ended())?;
        loop {
            let reply = self.replies.recv().map_err(|_| ended())?;
            match &reply.code {
                // A second reply follows with the lines.
                Ok(code) if code.lines == LineState::Reading => {}
                _ => return reply.code,
            }
        }
    }
}
