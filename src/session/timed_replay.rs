//! Plays the recording of a session once more, for the time of every sample. A session adds weights
//! up and keeps no times; file formats with a time axis need them.

use super::export;
use super::header_facts::Facts;
use super::model::Model;
use super::player::{PlaybackSource, Player};
use super::protocol::Question;
use super::recording_writer::{Piece, PieceReader};
use super::save::SavedPart;
use super::shown_samples::ShownSamples;
use crate::link::recording::{FileSymbols, RecordingError};
use crate::pprof::format::SaveFormat;
use crate::profile::interpreter_view::InterpreterView;

/// A recording, and what its session shows of it.
pub(super) struct TimedReplay {
    /// The whole recording.
    pub(super) pieces: Vec<Piece>,
    /// The names of the session's frames.
    pub(super) names: Vec<FileSymbols>,
    pub(super) shown: ShownSamples,
    pub(super) part: SavedPart,
    pub(super) facts: Facts,
    pub(super) memory_bytes: u64,
    pub(super) interpreter_view: InterpreterView,
    /// Whether stacks keep the functions of the kernel.
    pub(super) keeps_kernel: bool,
}

impl TimedReplay {
    /// Encodes the part in a file format, with the time of every sample.
    ///
    /// # Errors
    /// If there are no samples, or the recording cannot be played: one sentence.
    pub(super) fn encode(self, format: SaveFormat) -> Result<Vec<u8>, String> {
        let fault = |fault: RecordingError| format!("the recording {fault}");
        let source = PlaybackSource::open(Box::new(PieceReader::new(self.pieces))).map_err(fault)?;
        let (about, blocks) = source.read().map_err(|error| format!("cannot read the recording: {error}"))?;
        let mut model = Model::new(self.part.query.clock, Question::default());
        model.profile.set_memory_limit(self.memory_bytes);
        model.profile.interpreter_view = self.interpreter_view;
        model.profile.leaves_out_kernel = !self.keeps_kernel;
        model.profile.keep_sample_times();
        let mut player = Player::new(about, false);
        player.shown = self.shown;
        for block in blocks {
            player.play(&block.map_err(fault)?, &mut model, 0).map_err(fault)?;
        }
        model.request_symbols(|_| Ok(()));
        self.names.into_iter().for_each(|named| player.name(named, &mut model));
        model.convert(self.part, &self.facts, |input| export::encode(input, format))
    }
}
