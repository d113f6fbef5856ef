//! Labels of values that several panes show.

use std::time::Duration;

use super::context::PaneContext;
use crate::link::wire::Clock;
use crate::profile::totals::BUCKET_NS;
use crate::tally::measure;

/// Returns what a clock measures.
pub fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Prof => "CPU time",
        Clock::Real => "wall time",
        Clock::Virtual => "user time",
        Clock::Alloc => "ALLOC",
        Clock::Live => "LIVE",
    }
}

/// Returns the interval timer of a clock, as setitimer(2) names it. Clocks of memory have none.
pub fn interval_timer(clock: Clock) -> &'static str {
    match clock {
        Clock::Prof => "ITIMER_PROF",
        Clock::Real => "ITIMER_REAL",
        Clock::Virtual => "ITIMER_VIRTUAL",
        Clock::Alloc | Clock::Live => "no timer",
    }
}

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
        Some(past) => match context.timeline.has_span() {
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

/// Whether a function belongs to a system library or to the runtime of its language rather than to
/// the program: by its module (the last component of the path) or by its full name.
pub fn is_library(module: &str, full: &str) -> bool {
    const MODULES: [&str; 14] = [
        "ld-",
        "libc-",
        "libc.",
        "libc++",
        "libdl.",
        "libgcc",
        "libm-",
        "libm.",
        "libpthread",
        "libresolv",
        "librt.",
        "libstdc++",
        "linux-vdso",
        "[vdso]",
    ];
    const NAMES: [&str; 10] = [
        "std::",
        "core::",
        "alloc::",
        "__gnu_cxx::",
        "__libc_",
        "__rust_",
        "_start",
        "_dl_",
        "runtime.",
        "hashbrown::",
    ];
    let path = full.trim_start_matches(['<', '&', '*']);
    MODULES.iter().any(|start| module.starts_with(start)) || NAMES.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_runtimes_are_recognized() {
        for (module, full) in [
            ("libc.so.6", "read"),
            ("ld-linux-x86-64.so.2", "do_lookup_x"),
            ("libstdc++.so.6.0.30", "operator new(unsigned long)"),
            ("rg", "std::rt::lang_start_internal"),
            ("rg", "<alloc::boxed::Box<F> as core::ops::FnOnce<()>>::call_once"),
            ("server", "_start"),
        ] {
            assert!(is_library(module, full), "{module} {full}");
        }
        for (module, full) in [
            ("rg", "rg::main"),
            ("rg", "<rg::Printer as core::fmt::Display>::fmt"),
            ("libcrypto.so.3", "sha256_block_data_order"),
            ("server", "standard"),
        ] {
            assert!(!is_library(module, full), "{module} {full}");
        }
    }
}
