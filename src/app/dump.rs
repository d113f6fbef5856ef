//! `sigtop dump`: asks a running recorder for a file of what it has kept.

use std::io::Write;

use super::failure::Failure;
use crate::link::recorder_socket::{DumpAnswer, request_dump};
use crate::symbols::sanitize::sanitize;
use crate::tally::measure;

/// Runs `sigtop dump`. Prints the path of the file.
pub(super) fn run(pid: u32) -> Result<u8, Failure> {
    let answer = request_dump(pid).map_err(|error| Failure::internal("cannot read the list of sockets", error))?;
    match answer {
        Some(DumpAnswer::Saved { path, bytes }) => {
            let line = format!("{} ({})\n", sanitize(&path), measure::bytes(bytes));
            let _ = std::io::stdout().write_all(line.as_bytes());
            Ok(0)
        }
        Some(DumpAnswer::Failed(reason)) => Err(Failure::new(Failure::INTERNAL, reason)),
        Some(DumpAnswer::None) | None => {
            let sentence = format!(
                "no recorder of yours keeps samples of process {pid}: start one with \
                 sigtop record --keep 10m -o 'NAME-%t.sigtop' --pid {pid}"
            );
            Err(Failure::new(Failure::INTERNAL, sentence))
        }
    }
}
