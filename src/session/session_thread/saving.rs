//! Saving a file while the session continues.

use std::path::PathBuf;

use super::{SampleSource, SessionThread};
use crate::pprof::format::SaveFormat;
use crate::session::export;
use crate::session::protocol::Notice;
use crate::session::recorder;
use crate::session::recording_writer::Piece;
use crate::session::save::{SaveRequest, SavedPart};
use crate::session::timed_replay::TimedReplay;

impl SessionThread {
    /// Saves a file, of a recording once it is played. A separate thread writes it and does what
    /// takes long.
    pub(super) fn save(&mut self, save: SaveRequest) {
        if matches!(&self.feed, SampleSource::Recording(player) if player.has_more()) {
            self.saves.push(save);
            return;
        }
        let now_ns = self.now_ns();
        let part = self.model.part(save.is_shown, (now_ns, self.unix_ns(now_ns)));
        let make: Box<dyn FnOnce() -> Result<Vec<Piece>, String> + Send> = match save.format {
            SaveFormat::Recording => {
                let recording = self.recorder.snapshot(now_ns, &self.model.profile, &self.model.names);
                Box::new(|| recorder::compress(recording?))
            }
            // Those that were freed have no time at which they are not there.
            format if format.has_time_axis() && !part.query.clock.is_memory() => {
                let replay = self.timed_replay(now_ns, part);
                Box::new(move || Ok(vec![replay?.encode(format)?.into()]))
            }
            format => {
                let made = self.model.save(format, part, &self.facts(now_ns));
                Box::new(|| Ok(vec![made?.into()]))
            }
        };
        self.write(save, make);
    }

    /// Saves what the black box has kept since a time, ns.
    pub(super) fn save_kept(&mut self, path: PathBuf, since_ns: u64) {
        let span = (since_ns, self.now_ns());
        let kept = self.recorder.kept_span(span, &self.model.profile, &self.model.names);
        let save = SaveRequest { path, format: SaveFormat::Recording, is_shown: false };
        self.write(save, Box::new(|| Ok(vec![kept?.encode()?.into()])));
    }

    /// Converts what is new since the last call.
    pub(super) fn take_increment(&mut self) {
        let now_ns = self.now_ns();
        let now = (now_ns, self.measured_until_unix_ns(now_ns));
        let part = SavedPart { may_be_empty: true, ..self.model.part(false, now) };
        let (facts, converted) = (self.facts(now_ns), &mut self.converted);
        let increment = self.model.convert(part, &facts, |input| Ok(export::to_increment(input, converted)));
        increment.into_iter().for_each(|increment| self.notify(Notice::Increment(Box::new(increment))));
    }

    /// Makes a file and writes it, on a thread of its own.
    fn write(&mut self, save: SaveRequest, make: Box<dyn FnOnce() -> Result<Vec<Piece>, String> + Send>) {
        let notices = self.notices.clone();
        let work = move || {
            let saved = make().and_then(|pieces| save.write(&pieces));
            // This fails if the screen is gone.
            let _ = notices.send(Notice::Saved(saved));
        };
        if std::thread::Builder::new().name("save".to_owned()).spawn(work).is_err() {
            self.notify(Notice::Saved(Err("cannot start a thread to write the file".to_owned())));
        }
    }

    fn timed_replay(&mut self, now_ns: u64, part: SavedPart) -> Result<TimedReplay, String> {
        let facts = self.facts(now_ns);
        let (profile, names) = (&self.model.profile, &self.model.names);
        Ok(TimedReplay {
            pieces: self.recorder.snapshot(now_ns, profile, names)?,
            names: recorder::all_names(profile, names, |_| true),
            shown: self.model.shown_samples(),
            part,
            facts,
            memory_bytes: self.settings.memory_bytes,
            interpreter_view: self.settings.interpreter_view,
            keeps_kernel: self.settings.keeps_kernel,
        })
    }
}
