//! `sigtop record`, once, or with `--repeat` several times, each with its file.

use std::path::{Path, PathBuf};

use super::args::RecordArgs;
use super::black_box;
use super::command_word::check_is_program;
use super::failure::{Failure, print_message};
use super::file_pattern;
use super::record::{USER_SIGNALS, record};
use super::start::interrupt_channel;

/// Runs `sigtop record`.
pub(super) fn run(args: &RecordArgs) -> Result<u8, Failure> {
    if let Some(word) = args.command.first() {
        check_is_program(word)?;
    }
    if args.is_black_box() {
        return black_box::run(args);
    }
    match (args.repeat, &args.output) {
        (Some(times), Some(pattern)) => repeat(args, times, pattern),
        _ => record(args, None).map(|recorded| recorded.status),
    }
}

/// Records several times, until one fails or the user ends it.
fn repeat(args: &RecordArgs, times: u32, pattern: &Path) -> Result<u8, Failure> {
    if numbered(pattern, 1, times) == numbered(pattern, 2, times) {
        let message = "the files of --repeat need a number: use -o 'NAME-%n.sigtop'";
        return Err(Failure::new(Failure::USAGE, message));
    }
    if args.command.is_empty() && args.duration.is_none() {
        let message = "--repeat with --pid needs the length of a recording: --duration 10s";
        return Err(Failure::new(Failure::USAGE, message));
    }
    let interrupt = interrupt_channel(&USER_SIGNALS)?;
    let record_one = |number: u32| {
        let output = Some(numbered(pattern, number, times));
        record(&RecordArgs { output, ..args.clone() }, Some(interrupt.clone()))
    };
    for number in 1..times {
        let recorded = record_one(number)?;
        if recorded.status != 0 || recorded.is_interrupted {
            if !args.quiet {
                print_message(&format!("stopped after recording {number} of {times}"));
            }
            return Ok(recorded.status);
        }
    }
    record_one(times).map(|recorded| recorded.status)
}

/// The path of a recording. Numbers have the same number of digits, so that files are in order.
fn numbered(pattern: &Path, number: u32, times: u32) -> PathBuf {
    let digits = times.to_string().len();
    file_pattern::expand(pattern, "%n", &format!("{number:0digits$}"))
}
