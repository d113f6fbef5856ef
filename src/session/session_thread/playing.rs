//! Plays a recording, and before it the file that is its baseline.

use crossbeam_channel::Receiver;

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::link::recording::{Block, RecordingError, RecordingInfo};
use crate::session::player::Player;
use crate::session::protocol::Notice;
use crate::session::scheduler::AnswerScope;

impl SessionThread {
    /// Plays a whole recording as the baseline of the one that follows.
    pub(in crate::session) fn play_base(
        &mut self,
        about: RecordingInfo,
        blocks: &Receiver<Result<Block, RecordingError>>,
    ) {
        let name = self.settings.base.clone().unwrap_or_default();
        let SampleSource::Recording(player) = &mut self.feed else { return };
        let mut base = Player::of_base(about);
        let mut fault = None;
        let mut warnings = Vec::new();
        while let (None, Ok(block)) = (&fault, blocks.recv()) {
            let played = block.and_then(|block| base.play(&block, &mut self.model, monotonic_ns()));
            match played {
                Ok(new) => warnings.extend(new),
                Err(found) => fault = Some(found),
            }
        }
        let fault = fault.or(base.end());
        self.model.set_file_as_baseline(base.last_ns());
        self.model.request_symbols(|request| {
            base.add_request(request);
            Ok(())
        });
        base.pass_requests(player);
        warnings.extend(fault.map(|fault| format!("{name} {fault}")));
        warnings.into_iter().for_each(|sentence| self.warn(sentence));
    }

    /// Plays a block of a recording. `None` stands for the end.
    pub(super) fn play(&mut self, block: Option<Result<Block, RecordingError>>) {
        let SampleSource::Recording(player) = &mut self.feed else { return };
        if player.is_over {
            return;
        }
        let is_end = block.is_none();
        let mut warnings = Vec::new();
        let fault = match block {
            Some(Ok(block)) => {
                let played = player.play(&block, &mut self.model, monotonic_ns());
                self.recorder.keep(block.raw.into());
                played.map(|new| warnings = new).err()
            }
            Some(Err(fault)) => Some(fault),
            None => None,
        };
        // Nothing after a malformed entry can be decoded.
        let is_last = fault.is_some() || is_end;
        let fault = if is_last { fault.or(player.end()) } else { None };
        let (clock, engine, period_ns) = player.sampling();
        if clock.sampled() != self.model.clock.sampled() && !self.turned {
            self.model.select_recorded_clock(clock);
        }
        self.settings.engine = engine;
        if clock.is_memory() {
            self.settings.interval_bytes = period_ns;
        } else {
            self.settings.period_ns = period_ns;
        }
        self.ended = player.ended;
        warnings.into_iter().for_each(|sentence| self.warn(sentence));
        if let Some(fault) = fault {
            self.warn(format!("{} {fault}", self.settings.name));
        }
        if is_last {
            // The final answer precedes the notice.
            self.answer(AnswerScope::Latest, monotonic_ns());
            self.notify(Notice::Played);
            std::mem::take(&mut self.saves).into_iter().for_each(|save| self.save(save));
        }
        self.scheduler.note_news();
    }
}
