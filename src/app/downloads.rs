//! Downloads of debug information for subcommands that print and end: whether the user allows them,
//! their progress on a terminal, and a time limit.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::args::{ConfigArgs, SymbolArgs, WatchArgs};
use super::failure::{Failure, print_message};
use super::settings::apply_config;
use crate::symbols::download::DebuginfodClient;

/// Maximum time for all downloads of one run.
pub(super) const MAX_TIME: Duration = Duration::from_secs(300);
/// Interval at which progress is shown.
const INTERVAL: Duration = Duration::from_millis(200);

/// The downloads of one run.
pub(super) struct Downloads {
    client: Option<DebuginfodClient>,
    progress: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Downloads {
    /// Downloads if the arguments or the config file say so.
    ///
    /// # Errors
    /// The config file is invalid, or the user asks for downloads and there is no server.
    pub(super) fn new(symbols: &SymbolArgs, config: &ConfigArgs) -> Result<Downloads, Failure> {
        let args = WatchArgs { debug_information: symbols.clone(), config: config.clone(), ..WatchArgs::default() };
        let allowed = apply_config(args)?.uses_debuginfod();
        let client = allowed.then(DebuginfodClient::from_environment);
        match client.as_ref().and_then(|client| client.problem()) {
            Some(problem) if symbols.debuginfod => return Err(Failure::new(Failure::INTERNAL, problem)),
            Some(problem) => {
                print_message(problem);
                return Ok(Downloads { client: None, progress: None });
            }
            None => {}
        }
        let progress = client.clone().and_then(|client| {
            let (end, ended) = channel();
            let show =
                move || show_progress(&client, &|| ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout));
            Some((end, Builder::new().name("progress".to_owned()).spawn(show).ok()?))
        });
        Ok(Downloads { client, progress })
    }

    /// The client, if downloads are allowed.
    pub(super) fn client(&self) -> Option<&DebuginfodClient> {
        self.client.as_ref()
    }

    /// Ends them, and says in one sentence what was not downloaded.
    pub(super) fn finish(mut self) {
        self.clear_progress();
        let failures = self.client.as_ref().and_then(DebuginfodClient::failures);
        failures.into_iter().for_each(|failures| print_message(&failures));
    }

    /// Ends the line of the progress, so that other text can follow.
    fn clear_progress(&mut self) {
        if let Some((end, thread)) = self.progress.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        self.clear_progress();
    }
}

/// Shows the progress in one line while `goes_on`, and stops downloads after the time limit.
fn show_progress(client: &DebuginfodClient, goes_on: &dyn Fn() -> bool) {
    let (started, mut shown) = (Instant::now(), false);
    while goes_on() {
        if started.elapsed() > MAX_TIME {
            client.stop();
        }
        if let Some(progress) = client.progress().filter(|_| stderr().is_terminal()) {
            shown = true;
            let _ = write!(stderr(), "\r\x1b[Ksigtop: {progress}");
        }
    }
    if shown {
        let _ = write!(stderr(), "\r\x1b[K");
    }
}
