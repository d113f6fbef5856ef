//! Plays the file that is the baseline before the one that is shown.

use crossbeam_channel::Receiver;

use super::{SampleSource, SessionThread, monotonic_ns};
use crate::link::recording::{Block, RecordingError, RecordingInfo};
use crate::session::player::Player;

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
}
