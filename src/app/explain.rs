//! `sigtop explain`: sentences about a recording, a saved profile or a running process.

use std::io::Write;
use std::path::Path;

use super::args::{ExplainArgs, WatchArgs, parse_selector};
use super::failure::{Failure, print_message};
use super::gather::{read_file, sample_process};
use super::settings::apply_config;
use crate::explain::{Evidence, Sentence, explain, question, recent_ns};
use crate::session::FinishedSession;
use crate::wire::Clock;

/// Runs `sigtop explain`.
pub(super) fn run(args: &ExplainArgs) -> Result<u8, Failure> {
    let path = Path::new(&args.target);
    let selector = args.target.to_str().map(parse_selector);
    let mut finished = match selector {
        _ if path.is_file() => read_file(path)?,
        Some(Ok(selector)) => {
            let mut sampling = args.sampling.clone();
            // Samples of wall-clock time tell of computing and of waiting.
            sampling.clock = sampling.clock.or(Some(Clock::Real));
            let config = args.config.clone();
            let watch = apply_config(WatchArgs { batch: true, sampling, config, ..WatchArgs::default() })?;
            sample_process(&selector, &watch, args.duration)?
        }
        _ => {
            let sentence = format!("{} is neither a file nor a process", path.display());
            return Err(Failure::new(Failure::USAGE, sentence));
        }
    };
    let (sentences, omitted) = explain_session(&mut finished);
    let lines =
        (1..).zip(&sentences).map(|(number, Sentence { text, row, .. })| format!("{number:2}. {text}  [{row}]\n"));
    let _ = std::io::stdout().write_all(lines.collect::<String>().as_bytes());
    if omitted > 0 {
        print_message(&format!("{omitted} less important sentences are left out"));
    }
    Ok(0)
}

/// Makes the sentences about a session that has ended. Returns them with the number of those that
/// were left out.
pub(super) fn explain_session(finished: &mut FinishedSession) -> (Vec<Sentence>, usize) {
    let table = finished.answer(question(None, None)).window;
    let hot = table.rows.iter().max_by_key(|row| row.flat_ns).map(|row| row.full.to_string());
    let answer = finished.answer(question(None, hot.as_deref()));
    let window_ns = recent_ns(answer.facts.up.as_nanos() as u64);
    let recent = finished.answer(question(Some(window_ns), None));
    explain(&Evidence { answer: &answer, recent: Some(&recent) })
}
