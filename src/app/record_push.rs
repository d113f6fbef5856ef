//! `sigtop record --push`: what is new is converted again and again and pushed in the background.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use super::args::RecordArgs;
use super::failure::{Failure, print_message};
use super::push::{open_store, summarize};
use crate::push::Store;
use crate::push::sender::Sender;
use crate::session::{Answer, Command, FinishedSession, Notice, Session, WatchTarget};
use crate::tally::measure;
use crate::wire::MAX_COMM;

/// Maximum time for which a push waits for names.
const MAX_NAME_WAIT: Duration = Duration::from_secs(5);
/// Time between two looks whether the names have come.
const NAME_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time for the last samples, after the end.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// The store of a recording, opened before anything is started, so that mistakes come first.
pub(super) struct PendingPush {
    store: Store,
    url: String,
    every: Duration,
    quiet: bool,
}

impl PendingPush {
    /// Opens the store of `--push`, if there is one.
    pub(super) fn open(record: &RecordArgs) -> Result<Option<PendingPush>, Failure> {
        let Some(url) = &record.push.push else { return Ok(None) };
        let store = open_store(url, &record.push.store)?;
        Ok(Some(PendingPush { store, url: url.clone(), every: record.push.push_every, quiet: record.quiet }))
    }

    /// Starts to push. `command` are the words of the command that is started.
    pub(super) fn start(mut self, target: &WatchTarget, command: &[OsString]) -> Result<RecordPush, Failure> {
        let program = match target {
            WatchTarget::Launched(_) => program_name(command, None),
            WatchTarget::Attached(all) => {
                all.first().and_then(|first| program_name(&first.command_line, Some(&first.comm)))
            }
        };
        self.store.name_program(&program.unwrap_or_else(|| "unknown".to_owned()));
        let sender = Sender::start(self.store).map_err(|error| Failure::internal("cannot start a thread", error))?;
        Ok(RecordPush {
            sender,
            url: self.url,
            every: self.every,
            quiet: self.quiet,
            due: Instant::now() + self.every,
            names_until: None,
            lacks_names: false,
            asked: 0,
        })
    }
}

/// The length at which the kernel cuts the name of a process.
const COMM_LENGTH: usize = MAX_COMM - 1;

/// The name of a program, from its arguments and, of a running process, its name in the kernel.
/// Servers write over their arguments, and then the kernel's name is the program's.
fn program_name(arguments: &[OsString], comm: Option<&str>) -> Option<String> {
    let name = arguments.first().and_then(|first| Path::new(first).file_name());
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let is_own = |name: &String| comm.is_none_or(|comm| name.as_bytes().iter().take(COMM_LENGTH).eq(comm.as_bytes()));
    name.filter(is_own).or_else(|| comm.map(str::to_owned))
}

/// The pushes of a running recording.
pub(super) struct RecordPush {
    sender: Sender,
    url: String,
    every: Duration,
    quiet: bool,
    /// The time of the next look.
    due: Instant,
    /// The time until which a push waits for names, if one does.
    names_until: Option<Instant>,
    /// Whether the last answer had frames whose names are being looked for.
    lacks_names: bool,
    /// The number of increments that were asked for and have not come.
    asked: u32,
}

impl RecordPush {
    /// The time at which [`ask`](Self::ask) is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn note_answer(&mut self, answer: &Answer) {
        self.lacks_names = answer.facts.symbolizing.0 > 0;
    }

    /// Asks the session for what is new, unless names are about to come.
    pub(super) fn ask(&mut self, session: &Session) {
        let now = Instant::now();
        let until = *self.names_until.get_or_insert(now + MAX_NAME_WAIT);
        if self.lacks_names && now < until {
            self.due = now + NAME_INTERVAL;
            return;
        }
        (self.names_until, self.due) = (None, now + self.every);
        if session.commands.send(Command::TakeIncrement).is_ok() {
            self.asked += 1;
        }
    }

    /// Pushes what is new.
    pub(super) fn note(&mut self, notice: Notice) {
        if let Notice::Increment(profile) = notice {
            self.asked = self.asked.saturating_sub(1);
            self.sender.add(*profile);
        }
    }

    /// Takes what was asked for, when the session ends.
    pub(super) fn note_last(&mut self, session: &Session) {
        while self.asked > 0
            && let Ok(notice) = session.notices.recv()
        {
            self.note(notice);
        }
    }

    /// Pushes what is new at the end.
    pub(super) fn add_last(&self, finished: &mut FinishedSession) {
        self.sender.add(finished.increment());
    }

    /// The words for the line of progress.
    pub(super) fn progress(&self) -> String {
        let counts = self.sender.counts();
        let mut words = format!(" · {} pushed", measure::count(counts.delivered));
        for (number, word) in [(counts.waiting, "waiting"), (counts.lost(), "not delivered")] {
            if number > 0 {
                words += &format!(", {} {word}", measure::count(number));
            }
        }
        words
    }

    /// Waits for the last requests. Returns whether nothing was lost.
    pub(super) fn finish(self) -> bool {
        let counts = self.sender.finish(LAST_PATIENCE);
        if !self.quiet || counts.lost() > 0 {
            print_message(&summarize(&counts, &self.url));
        }
        counts.lost() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_name_of_its_file_unless_it_wrote_over_its_arguments() {
        for (first, comm, expected) in [
            ("/opt/my app/server", None, "server"),
            (
                "/usr/bin/a-name-that-is-longer-than-fifteen",
                Some("a-name-that-is-"),
                "a-name-that-is-longer-than-fifteen",
            ),
            ("postgres: app shop [local] idle", Some("postgres"), "postgres"),
            ("-bash", Some("bash"), "bash"),
        ] {
            let found = program_name(&[first.into(), "argument".into()], comm);
            assert_eq!(found.as_deref(), Some(expected), "{first}");
        }
        assert_eq!((program_name(&[], None), program_name(&[], Some("kernel")).as_deref()), (None, Some("kernel")));
    }
}
