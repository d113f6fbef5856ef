//! Messages between the symbol threads and their users.

use std::sync::Arc;
use std::time::SystemTime;

use super::assembly::Code;
pub use super::resolved::ResolvedLine;
use crate::profile::module::{ModuleFile, ModuleId};
use crate::profile::stack::FrameId;

/// A request for the names of addresses in one file.
#[derive(Clone, Debug)]
pub struct SymbolRequest {
    /// The file.
    pub module: ModuleId,
    /// Its path and identity.
    pub file: ModuleFile,
    /// A process that maps it. The file is looked up in the namespace of this process first.
    pub pid: u32,
    /// The addresses in the file.
    pub addresses: Vec<(FrameId, u64)>,
    /// A time at which the recording knew the file; `None` for a process that runs.
    pub recorded_at: Option<SystemTime>,
}

/// The state of the symbols of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolState {
    /// Symbols are read. There are line tables, and a second answer follows for the same frames.
    Reading,
    /// Symbols and line tables.
    Lines,
    /// Symbols without line tables.
    Symbols,
    /// Exported symbols only.
    Exports,
    /// The file cannot be used. The sentence says why.
    Missing(String),
}

impl SymbolState {
    /// Whether it is final and there are symbols.
    pub fn is_usable(&self) -> bool {
        matches!(self, SymbolState::Lines | SymbolState::Symbols | SymbolState::Exports)
    }
}

/// An answer to a [`SymbolRequest`], or a part of one.
#[derive(Clone, Debug)]
pub struct SymbolReply {
    /// The file.
    pub module: ModuleId,
    /// The state of its symbols. Unless it is [`SymbolState::Reading`], the answer is the last for
    /// its frames.
    pub state: SymbolState,
    /// The resolved frames; an empty vector if there is no symbol. Every requested frame is in
    /// exactly one last answer.
    pub frames: Vec<(FrameId, Vec<ResolvedLine>)>,
}

/// A request for the code of the function that contains an address.
#[derive(Clone, Debug)]
pub struct CodeRequest {
    /// The file.
    pub module: ModuleId,
    /// Its path and identity.
    pub file: ModuleFile,
    /// A process that maps it.
    pub pid: u32,
    /// The address in the file.
    pub address: u64,
}

/// An answer to a [`CodeRequest`]. If its lines are
/// [`LineState::Reading`](super::assembly::LineState::Reading), a second one follows.
#[derive(Clone, Debug)]
pub struct CodeReply {
    /// The file.
    pub module: ModuleId,
    /// The requested address.
    pub address: u64,
    /// The code, or a sentence that says why there is none.
    pub code: Result<Arc<Code>, String>,
}
