//! Labels of values that several panes show.

use std::time::Duration;

use super::context::PaneContext;
use crate::profile::totals::BUCKET_NS;
use crate::tally::measure;

/// Formats a number of ticks of 0.1 s as a duration.
pub fn length(ticks: u64) -> String {
    measure::duration(Duration::from_nanos(ticks.saturating_mul(BUCKET_NS)))
}

/// The target's name in a message.
pub(super) fn program<'a>(context: &PaneContext<'a>) -> &'a str {
    context.options.command.split_whitespace().next().unwrap_or("the target")
}

/// Describes the time of the shown values, and whether they are differences.
pub fn shown_time(context: &PaneContext<'_>) -> String {
    let Some(answer) = context.answer else { return String::new() };
    let diff = if answer.baseline_ns.is_some() { "diff, " } else { "" };
    let window = format_window(answer.facts.window_ns);
    match answer.question.past {
        None => format!("{diff}last {window}"),
        Some(past) => match context.panes.timeline.has_span() {
            true => format!("{diff}span of {}", length(past.buckets)),
            false => format!("{diff}{window}, {} ago", length(past.back)),
        },
    }
}

/// Formats the length of a window.
pub fn format_window(window_ns: Option<u64>) -> String {
    match window_ns {
        Some(ns) if ns.is_multiple_of(1_000_000_000) => format!("{} s", ns / 1_000_000_000),
        Some(ns) => measure::duration(Duration::from_nanos(ns)),
        None => "all".to_owned(),
    }
}

/// Names a number of idle threads.
pub fn idle_threads(count: usize) -> String {
    format!("{} idle thread{}", measure::count(count as u64), if count == 1 { "" } else { "s" })
}

/// A command line without the folder of its program, which wrappers such as those of pyenv put
/// before it: `python3 app.py`.
pub fn without_folder(command: &str) -> &str {
    let end = command.find(' ').unwrap_or(command.len());
    let is_path = command.starts_with('/') && !command[..end].ends_with('/');
    let start = command[..end].rfind('/').filter(|_| is_path).map_or(0, |slash| slash + 1);
    &command[start..]
}
