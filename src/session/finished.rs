//! The results of a session that has ended.

use super::export;
use super::header_facts::Facts;
use super::model::Model;
use super::protocol::{Answer, Question};
use super::recording_writer::SavedFile;
use super::save::SaveInput;
use crate::link::atomic_file::AtomicFileError;
use crate::pprof::format::SaveFormat;
use crate::pprof::live::ConvertedTotals;
use crate::pprof::profile::SavedProfile;
use crate::profile::loss::Losses;
use crate::profile::process::ProcessId;
use crate::tally::threads::{FrameRequest, ThreadTable, ThreadsQuery};

/// The results of a session that has ended.
pub struct FinishedSession {
    /// The model.
    pub model: Model,
    /// The result of writing the recording, if one was requested.
    pub recording: Option<Result<SavedFile, AtomicFileError>>,
    /// The last facts.
    pub(super) facts: Facts,
    /// The time of the end on the session's clock, ns.
    pub(super) now_ns: u64,
    /// The end of the measured time in UTC, ns since 1970.
    pub(super) unix_ns: u64,
    /// The totals that were converted by [`Command::TakeIncrement`](super::Command).
    pub(super) converted: ConvertedTotals,
}

impl FinishedSession {
    /// Losses and costs, with those that the viewer found.
    pub fn losses(&self) -> &Losses {
        &self.facts.losses
    }

    /// Encodes the unfiltered total in a file format.
    ///
    /// # Errors
    /// If there is nothing to save: one sentence.
    pub fn save_all(&mut self, format: SaveFormat) -> Result<Vec<u8>, String> {
        self.model.save_all(format, (self.now_ns, self.unix_ns), &self.facts)
    }

    /// The unfiltered total of functions since the start or the last reset.
    pub fn summarize(&mut self) -> Answer {
        self.model.set_baseline(false, self.now_ns);
        self.answer(Question::default())
    }

    /// Answers a question about the session at its end.
    pub fn answer(&mut self, question: Question) -> Answer {
        self.model.thaw();
        self.model.set_question(question);
        self.model.answer(self.now_ns, self.facts.clone())
    }

    /// All threads with their deepest stacks and the sizes of the frames.
    pub fn deepest_stacks(&mut self) -> ThreadTable {
        let processes = 0..self.model.profile.processes().len() as u32;
        let threads = ThreadsQuery {
            deepest_of: FrameRequest::All,
            ended_processes: true,
            ended_threads_of: processes.map(ProcessId).collect(),
            ..ThreadsQuery::default()
        };
        self.answer(Question { threads: Some(threads), ..Question::default() }).threads.unwrap_or_default()
    }

    /// Converts what is new since the last [`Command::TakeIncrement`](super::Command).
    pub fn increment(&mut self) -> SavedProfile {
        let converted = &mut self.converted;
        let increment = |input: &SaveInput<'_>| Ok(export::to_increment(input, converted));
        self.model.export_all((self.now_ns, self.unix_ns), &self.facts, increment).unwrap_or_default()
    }

    /// Converts the unfiltered total with `make`.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn export<T>(&mut self, make: impl FnOnce(&SaveInput<'_>) -> Result<T, String>) -> Result<T, String> {
        self.model.export_all((self.now_ns, self.unix_ns), &self.facts, make)
    }
}
