//! `sigtop demo`: watches a small program with known hot functions.

use super::args::WatchArgs;
use super::failure::Failure;
use super::screen::uses_screen;
use super::settings::apply_config;
use super::{demo_target, watch};

/// Seconds for which the demo runs without a screen, unless tables are asked for at times.
const SECONDS_WITHOUT_SCREEN: &str = "5s";

/// Runs `sigtop demo`.
pub(super) fn run(args: WatchArgs) -> Result<u8, Failure> {
    let executable = std::env::current_exe().map_err(|error| Failure::internal("cannot find the executable", error))?;
    let viewer = format!("--viewer={}", std::process::id());
    let args = apply_config(args)?;
    let mut command = vec![executable.into(), "demo-target".into(), viewer.into()];
    if !uses_screen(&args) && args.interval.is_none() {
        command.push(SECONDS_WITHOUT_SCREEN.into());
    }
    let args = WatchArgs { command, ..args };
    watch::launch_and_watch(&args, |settings| {
        settings.command = "demo".to_owned();
        settings.name = "demo".to_owned();
        settings.sources.embedded = demo_target::SOURCES;
    })
}
