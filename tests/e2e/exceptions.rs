//! Stacks while exceptions are thrown: functions of the unwinder replace return addresses and saved
//! registers, in their own frame and in another, on the way to a landing pad.

use crate::harness::raw::{Entry, Frame};
use crate::harness::run::{Batch, text, tool};
use crate::harness::statistics::lower_bound;
use crate::harness::targets;

/// The verdict on a stack of `tests/targets/storm.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is whole, and every function is called by the one before.
    Exact,
    /// It is marked as truncated, and what it has is right.
    Cut,
    /// It is from before or after `main`.
    Outside,
    /// It shows a call that the program does not make.
    Impossible,
}

/// Levels that neither throw nor catch nor clean up: they call the next level and nothing else.
const PASSING: [usize; 2] = [3, 7];
const LEVELS: usize = 9;

/// Returns the level of a function whose name begins so.
fn number(frame: &Frame, start: &str) -> Option<usize> {
    let digits = frame.name().strip_prefix(start)?;
    digits.get(..1)?.parse().ok()
}

fn judge(entry: &Entry) -> Verdict {
    let level = |frame: &Frame| number(frame, "level_");
    let first = entry.frames.iter().position(|frame| level(frame).is_some());
    let has_main = entry.frames.iter().any(|frame| frame.name() == "main");
    let Some(first) = first else {
        return match (entry.truncated, has_main) {
            (true, _) => Verdict::Cut,
            (false, true) => Verdict::Exact,
            (false, false) => Verdict::Outside,
        };
    };
    let levels: Vec<usize> = entry.frames[first..].iter().map_while(level).collect();
    let (lowest, highest) = (levels[0], levels[levels.len() - 1]);
    let rest = &entry.frames[first + levels.len()..];
    let is_rooted = lowest == 0 && first > 0 && entry.frames[first - 1].name() == "main";
    let is_called = |frame: &Frame| {
        let cleaned = number(frame, "cleanup_").or_else(|| number(frame, "Guard"));
        level(frame).is_none() && frame.name() != "main" && cleaned.is_none_or(|number| number == highest)
    };
    let is_right = levels.iter().copied().eq(lowest..=highest)
        && highest < LEVELS
        && (rest.is_empty() || !PASSING.contains(&highest))
        && rest.iter().all(is_called);
    match (is_right, entry.truncated) {
        (true, true) => Verdict::Cut,
        (true, false) if is_rooted => Verdict::Exact,
        _ => Verdict::Impossible,
    }
}

/// Runs the storm, and asserts that no stack is impossible and that few are truncated: about 17 of
/// 10 000 are, where the unwinder changes its own frame. The clock ticks at any frequency, while a
/// CPU clock ticks at most as often as the kernel's own tick.
fn check(flags: &[&str]) {
    let Some(_) = tool("c++") else { return };
    let source = include_str!("../targets/storm.cpp");
    let program = targets::generated("storm", source, "cpp", "c++", flags);
    let is_long = std::env::var_os("SIGTOP_LONG").is_some();
    let (seconds, least_samples) = if is_long { (15, 20_000) } else { (4, 10_000) };
    let watched = Batch::new("--clock real --engine itimer --hz 8000").run(&[text(&program), &seconds.to_string()]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let count = |verdict| -> u64 {
        watched.raw.entries.iter().filter(|entry| judge(entry) == verdict).map(|entry| entry.samples).sum()
    };
    let [exact, cut, impossible] = [Verdict::Exact, Verdict::Cut, Verdict::Impossible].map(count);
    let all = exact + cut + impossible;
    println!("{flags:?}: {exact} exact, {cut} truncated, {impossible} impossible");
    let example = watched.raw.entries.iter().find(|entry| judge(entry) == Verdict::Impossible);
    assert_eq!(impossible, 0, "of {all} with {flags:?}: {example:#?}");
    assert!(all >= least_samples, "{all} samples");
    assert!(lower_bound(exact, all, 0.001) >= 0.995, "{exact} of {all} with {flags:?}");
}

#[test]
fn exceptions_through_frames_without_frame_pointers() {
    check(&["-O2", "-fomit-frame-pointer"]);
}

#[test]
fn exceptions_through_frames_with_frame_pointers() {
    check(&["-O2", "-fno-omit-frame-pointer"]);
}

#[test]
fn exceptions_through_frames_of_code_that_is_not_optimized() {
    check(&["-O0"]);
}

/// libgcc's code is a part of the program.
#[test]
fn exceptions_in_a_program_with_libgcc_inside() {
    check(&["-O2", "-static-libgcc", "-static-libstdc++"]);
}
