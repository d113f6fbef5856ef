//! `sigtop record --delay`: a program or a process runs for a while before it is sampled.

use std::time::Duration;

use crossbeam_channel::{Receiver, after, bounded, never, select};
use signal_hook::consts::SIGTERM;

use super::args::{ProcessSelector, WatchArgs};
use super::failure::Failure;
use super::start::launch_unwatched;
use crate::attach::launch::{ExitReason, LaunchedTarget, TargetEvent};
use crate::tally::measure;
use crate::tui::OnQuit;

/// Maximum time to wait for a program that was asked to terminate.
const MAX_EXIT_WAIT: Duration = Duration::from_secs(2);

/// A program that was launched and is sampled later.
pub(super) struct DelayedTarget {
    launched: LaunchedTarget,
    /// Receives its end.
    events: Receiver<TargetEvent>,
}

/// Waits before a recording. A command of `args` is launched first, and `args` select its process
/// afterwards.
///
/// # Errors
/// If the program ended meanwhile, or the user did not want to wait.
pub(super) fn wait(
    args: &mut WatchArgs,
    delay: Duration,
    interrupt: &Receiver<i32>,
) -> Result<Option<DelayedTarget>, Failure> {
    let target = if args.command.is_empty() { None } else { Some(DelayedTarget::launch(args)?) };
    let ended = target.as_ref().map_or_else(never, |target| target.events.clone());
    let delay_words = measure::duration(delay);
    select! {
        recv(ended) -> event => {
            let status = exit_status(event.ok());
            let sentence = format!("the program ended with status {status} before the delay of {delay_words} was over");
            let status = if status == 0 { Failure::INTERNAL } else { status };
            return Err(Failure::new(status, format!("{sentence}: nothing was written")));
        }
        recv(interrupt) -> signal => {
            let status = 128u8.saturating_add(signal.unwrap_or_default() as u8);
            let sentence = format!("interrupted in the delay of {delay_words}: nothing was written");
            let fate = target.as_ref().filter(|target| target.wait(MAX_EXIT_WAIT).is_none());
            let fate = fate.map_or(String::new(), |target| format!("; the program still runs as process {}", target.pid()));
            return Err(Failure::new(status, sentence + &fate));
        }
        recv(after(delay)) -> _ => {}
    }
    if let Some(target) = &target {
        args.pid = vec![ProcessSelector::Pid(target.pid())];
        args.command = Vec::new();
    }
    Ok(target)
}

impl DelayedTarget {
    fn launch(args: &WatchArgs) -> Result<DelayedTarget, Failure> {
        let launched = launch_unwatched(args)?;
        let ((tell, events), (output, _)) = (bounded(1), bounded(1));
        launched.follow(tell, output)?;
        Ok(DelayedTarget { launched, events })
    }

    pub(super) fn pid(&self) -> u32 {
        self.launched.pid
    }

    /// Waits for the end. Returns the exit status, or `None` if it runs on.
    fn wait(&self, patience: Duration) -> Option<u8> {
        self.events.recv_timeout(patience).ok().map(|event| exit_status(Some(event)))
    }

    /// Returns the exit status, or a sentence that the program still runs. It is asked to terminate
    /// first if `on_quit` says so.
    pub(super) fn leave(&self, has_ended: bool, on_quit: OnQuit) -> Result<u8, String> {
        let patience = if has_ended { MAX_EXIT_WAIT } else { Duration::ZERO };
        let ended = self.wait(patience).or_else(|| {
            let is_asked = on_quit == OnQuit::End && self.launched.signal(SIGTERM).is_ok();
            is_asked.then(|| self.wait(MAX_EXIT_WAIT)).flatten()
        });
        ended.ok_or_else(|| format!("the program still runs as process {}", self.pid()))
    }
}

/// The exit status as a shell reports it.
fn exit_status(event: Option<TargetEvent>) -> u8 {
    match event {
        Some(TargetEvent::Ended(end)) => end.how.exit_status(),
        _ => ExitReason::Unknown.exit_status(),
    }
}
