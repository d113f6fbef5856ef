//! Gathers samples for questions: of a running process for a while, or of a file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{after, never, select};

use super::args::{ProcessSelector, WatchArgs};
use super::failure::{Failure, print_message};
use super::replay::{ReplayOptions, open, play_to_end};
use super::start::{PendingSession, attach_target, check_process, start_session};
use crate::attach::survey::{Survey, find_by_name};
use crate::profile::kernel_frames::KernelFrames;
use crate::session::{Command, FinishedSession, Notice, RecordingOptions};

/// Maximum time to wait for symbols.
const MAX_SYMBOL_WAIT: Duration = Duration::from_secs(20);

/// Samples a process for a while.
pub(super) fn sample_process(
    selector: &ProcessSelector,
    args: &WatchArgs,
    duration: Duration,
) -> Result<FinishedSession, Failure> {
    let pid = match selector {
        ProcessSelector::Pid(pid) => *pid,
        ProcessSelector::Name(name) => find_by_name(name, &Survey::default().look())?,
    };
    let carrier = check_process(args, pid)?;
    sample(attach_target(args, vec![carrier])?, duration)
}

/// Samples a target until the time is over or it ends, and waits for symbols.
pub(super) fn sample(mut pending: PendingSession, duration: Duration) -> Result<FinishedSession, Failure> {
    pending.settings.keeps_kernel = true;
    let session = start_session(pending, RecordingOptions::default())?;
    let (mut deadline, mut patience) = (after(duration), never());
    let (mut is_over, mut is_symbolized) = (false, false);
    while !is_over || !is_symbolized {
        select! {
            recv(session.notices) -> notice => match notice {
                Ok(Notice::Answer(answer)) => is_symbolized = answer.facts.symbolizing.0 == 0,
                Ok(Notice::Banner(warning)) => print_message(&warning),
                Ok(Notice::Ended(_) | Notice::Concluded) => (is_over, patience) = (true, after(MAX_SYMBOL_WAIT)),
                Ok(_) => {}
                Err(_) => break,
            },
            recv(deadline) -> _ => {
                deadline = never();
                let _ = session.commands.send(Command::Conclude);
            }
            recv(patience) -> _ => break,
        }
    }
    let _ = session.commands.send(Command::Leave);
    session.finish().ok_or_else(|| Failure::new(Failure::INTERNAL, "the session stopped early"))
}

/// Reads a recording or a saved profile to its end.
pub(super) fn read_file(path: &Path) -> Result<FinishedSession, Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::internal(&format!("cannot read {name}"), error))?;
    let failure = |predicate: String| Failure::new(Failure::INTERNAL, format!("{name} {predicate}"));
    let opened = open(Box::new(BufReader::new(file)), &name, 0).map_err(failure)?;
    let how = ReplayOptions { kernel: Some(KernelFrames::On), ..ReplayOptions::default() };
    play_to_end(opened.source, &name, &how).map_err(failure)
}
