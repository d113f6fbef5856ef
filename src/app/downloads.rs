//! Downloads of debug information for subcommands that print and end: whether the user allows them,
//! a time limit, and the progress of the subcommand on a terminal.

use std::time::Duration;

use super::args::{ConfigArgs, SymbolArgs, WatchArgs};
use super::failure::{Failure, print_message};
use super::progress::{ProgressLine, ProgressState};
use super::settings::apply_config;
use crate::symbols::download::DebuginfodClient;

/// Maximum time for all downloads of one run.
pub(super) const MAX_TIME: Duration = Duration::from_secs(300);

/// The downloads of one run.
pub(super) struct Downloads {
    client: Option<DebuginfodClient>,
    progress: ProgressLine,
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
                return Ok(Downloads { client: None, progress: ProgressLine::start(false, None) });
            }
            None => {}
        }
        let progress = ProgressLine::start(false, client.clone().map(|client| (client, MAX_TIME)));
        Ok(Downloads { client, progress })
    }

    /// The client, if downloads are allowed.
    pub(super) fn client(&self) -> Option<&DebuginfodClient> {
        self.client.as_ref()
    }

    /// The stage that the subcommand is in.
    pub(super) fn progress(&self) -> &ProgressState {
        self.progress.state()
    }

    /// Ends them, and says in one sentence what was not downloaded.
    pub(super) fn finish(mut self) {
        self.progress.clear();
        let failures = self.client.as_ref().and_then(DebuginfodClient::failures);
        failures.into_iter().for_each(|failures| print_message(&failures));
    }
}
