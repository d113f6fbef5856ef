//! Tests that what users want to know takes few keys, and is on the screen then.

use std::fmt::Write as _;

use crate::goldens::waits_at;
use crate::stage::Stage;

/// A wish of a user.
struct Task {
    /// The question that the screen answers.
    wish: &'static str,
    /// Keys that were pressed before.
    before: &'static str,
    /// The keys for it.
    keys: &'static str,
    /// Words that the screen has then, and not before the keys.
    shown: &'static [&'static str],
}

const fn task(wish: &'static str, keys: &'static str, shown: &'static [&'static str]) -> Task {
    Task { wish, before: "", keys, shown }
}

/// Tasks with a server that computes, by CPU time.
const COMPUTES: [Task; 35] = [
    task(
        "what takes the most time",
        "",
        &["▸   6.03s 55.12%   6.03s 55.12%  ▇▇▇▇▇▇▇▇ ▲  sha256_block_data_order_avx2"],
    ),
    task("who calls it", "", &["called by    100%  main › worker_loop › handle_request"]),
    task("which thread runs it", "", &["threads      100%  worker-1"]),
    task("since when", "", &["last minute                         ▇▇▇▇▇  up to 55.71%"]),
    task("how exact its share is", "", &["flat 55.12% ±2.9"]),
    task("how busy the process is", "", &["187% (171 user 16 sys)"]),
    task("what the numbers lack and cost", "", &["lost 0     overhead 0.12 % of the target"]),
    task("what is mine", "o", &["▼self+lib", "6.93s 63.35%       0    6.93s 91.13%  server::handle_request"]),
    task("what takes time with all that it calls", "c", &["▼cum"]),
    task("what parses JSON", "fjson\r", &["320 of 1 094 samples", "focus=json ✕"]),
    task("what does not", "ijson\r", &["774 of 1 094 samples", "ignore=json ✕"]),
    Task { before: "fjson\r", ..task("everything again", "u", &["● CPU time   1 094 samples"]) },
    task("where the collector is", "/sweep\r", &["─ 2 gc::sweep ─", "calls        100%  gc::mark"]),
    task("the stacks of the hottest function alone", "F", &["603 of 1 094 samples", "focus=^sha256_b"]),
    task("what is left without its library", "M", &["hide=(^|/)libcrypto", "6.03s 55.12%   9.97s 91.13%"]),
    task("which library takes the time", "bbbb", &["4 modules · modules"]),
    task("the last minute", "w", &["3 971 samples in 60 s", "15.87s 39.96%  21.55s 54.27%"]),
    task("what was a second ago", "[", &["1 s ago", "1 063 samples in 10 s"]),
    task("what was in one span", "m[m", &["111 samples in a span of 1.1 s"]),
    task("a picture that holds still", " ", &["‖ CPU time", "paused · 312 new samples"]),
    task("what changes from now on", "d", &["▼Δ points", "baseline 0 s ago"]),
    task("the whole flame", "3", &["| flip"]),
    task("where it is hot", "3C", &["by heat"]),
    task(
        "which leaves take the time, and for whom",
        "3O",
        &["bottom-up", "sha256_block_data_order_avx2 › … › main (4)"],
    ),
    task("how busy each thread is", "5", &["41281  worker-1         –           96.0%"]),
    task("what one thread does", "5\r1", &["tid=41281 worker-1 ✕"]),
    task("which thread every stack is of", "T", &["stack roots: the thread"]),
    task("a name in full", "jt", &["full names"]),
    task("why it has no better name", "Y", &["─ Name resolution ─"]),
    task("the name, to paste it", "y", &["asked the terminal to copy the name"]),
    task("a recording to keep", "e", &["save: server-2m14s.sigtop", "a recording of everything"]),
    task("a profile for pprof", "e\t", &[".pb.gz"]),
    task("which samples are lost", "L", &["─ Losses and overhead ─", "ring buffer full"]),
    task("the time in which threads wait, too", "r", &["● wall time"]),
    task("to leave, and the server goes on", "q", &["[l] leave it running"]),
];

/// Tasks with a server whose threads wait, by wall-clock time.
const WAITS: [Task; 6] = [
    task("for what threads wait most", "", &["waiting: 40% lock, 100% held by compactor"]),
    task("for what threads wait", "B", &["[lock]", "[disk]"]),
    task("for which lock, and who has it", "BB", &["[lock 0x7f1000] held by compactor 41280"]),
    task("how long each thread waits", "5", &["[lock] held by compactor for"]),
    task("what the holder does instead", "5H", &["─ Who holds the lock ─", "[disk] /var/lib/server/data.log for"]),
    task("threads that do nothing, too", "Z", &["600 samples in 10 s", "idle threads are shown"]),
];

/// Performs tasks, each on a screen of its own. Returns the wishes that are not met, and the
/// number of keys.
fn perform(tasks: &[Task], stage: impl Fn() -> Stage) -> (String, usize) {
    let (mut unmet, mut keys) = (String::new(), 0);
    for Task { wish, before, keys: of_task, shown } in tasks {
        let mut stage = stage();
        stage.press(before);
        let was = stage.text();
        stage.press(of_task);
        let is = stage.text();
        for words in *shown {
            if !is.contains(words) || (!of_task.is_empty() && was.contains(words)) {
                writeln!(unmet, "{wish}: {of_task:?} does not show {words:?}\n{is}").expect("memory");
            }
        }
        keys += of_task.chars().count();
    }
    (unmet, keys)
}

#[test]
fn wishes_take_few_keys() {
    let (mut unmet, mut keys) = perform(&COMPUTES, || Stage::usual((140, 45)));
    let (of_waits, more) = perform(&WAITS, || waits_at((140, 45), ""));
    unmet.push_str(&of_waits);
    keys += more;
    assert!(unmet.is_empty(), "{unmet}");
    let wishes = COMPUTES.len() + WAITS.len();
    assert!(keys <= 2 * wishes, "{keys} keys for {wishes} wishes");
    let nowhere = [task("what is nowhere", "c", &["▲cum"]), task("what is there already", "c", &["1 Top"])];
    assert_eq!(perform(&nowhere, || Stage::usual((140, 45))).0.matches("does not show").count(), 2);
}
