//! The times at which triggers lead to files: each file covers the time around the first trigger,
//! triggers until it is written are in it too, and later ones have to wait.

use crate::app::trigger::Firing;

/// The lengths that the user sets, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleTimes {
    /// Time in a file before the onset of its trigger.
    pub(super) before_ns: u64,
    /// Time in a file after its trigger.
    pub(super) after_ns: u64,
    /// Minimum time between the end of a file and the trigger of the next one.
    pub(super) cooldown_ns: u64,
}

/// A file that is written when its time is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PendingFile {
    /// The triggers, without repetitions.
    pub(super) causes: Vec<String>,
    /// The time at which the file begins, ns.
    pub(super) since_ns: u64,
    /// The time of the first trigger, ns.
    pub(super) fired_ns: u64,
    /// The time at which it is written, ns.
    pub(super) due_ns: u64,
}

/// The schedule of files.
#[derive(Debug)]
pub(super) struct FileSchedule {
    times: ScheduleTimes,
    pending: Option<PendingFile>,
    /// The time until which triggers are only counted, ns.
    rests_until_ns: u64,
    /// Number of triggers that were only counted.
    pub(super) skipped: u64,
}

impl FileSchedule {
    pub(super) fn new(times: ScheduleTimes) -> FileSchedule {
        FileSchedule { times, pending: None, rests_until_ns: 0, skipped: 0 }
    }

    /// Notes a trigger. One that the user sends (`is_request`) does not have to wait.
    pub(super) fn note(&mut self, firing: Firing, is_request: bool, now_ns: u64) {
        let Firing { cause, onset_ns } = firing;
        if let Some(pending) = &mut self.pending {
            if !pending.causes.contains(&cause) {
                pending.causes.push(cause);
            }
        } else if now_ns < self.rests_until_ns && !is_request {
            self.skipped += 1;
        } else {
            self.pending = Some(PendingFile {
                causes: vec![cause],
                since_ns: onset_ns.saturating_sub(self.times.before_ns),
                fired_ns: now_ns,
                due_ns: now_ns.saturating_add(self.times.after_ns),
            });
        }
    }

    /// The time at which the pending file is written, ns.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.due_ns)
    }

    /// Takes the file that is due, or, at the end of the recording, the pending one.
    pub(super) fn take(&mut self, now_ns: u64, is_end: bool) -> Option<PendingFile> {
        let file = self.pending.take_if(|pending| is_end || now_ns >= pending.due_ns)?;
        self.rests_until_ns = now_ns.saturating_add(self.times.cooldown_ns);
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn firing(cause: &str, onset_s: u64) -> Firing {
        Firing { cause: cause.to_owned(), onset_ns: onset_s * SECOND }
    }

    #[test]
    fn triggers_close_to_one_another_share_a_file_and_later_ones_wait() {
        let times = ScheduleTimes { before_ns: 60 * SECOND, after_ns: 10 * SECOND, cooldown_ns: 60 * SECOND };
        let mut schedule = FileSchedule::new(times);
        schedule.note(firing("a", 99), false, 100 * SECOND);
        schedule.note(firing("b", 103), false, 104 * SECOND);
        schedule.note(firing("a", 104), false, 105 * SECOND);
        assert_eq!((schedule.take(109 * SECOND, false), schedule.due_ns()), (None, Some(110 * SECOND)));
        let file = schedule.take(110 * SECOND, false).expect("a file");
        assert_eq!(file.causes, ["a", "b"]);
        assert_eq!((file.since_ns, file.fired_ns), (39 * SECOND, 100 * SECOND));
        schedule.note(firing("a", 168), false, 169 * SECOND);
        assert_eq!((schedule.due_ns(), schedule.skipped), (None, 1));
        schedule.note(firing("signal", 169), true, 169 * SECOND);
        assert!(schedule.take(170 * SECOND, true).is_some(), "a request does not wait, and the end takes it");
        schedule.note(firing("a", 229), false, 230 * SECOND);
        assert!(schedule.due_ns().is_some());
    }
}
