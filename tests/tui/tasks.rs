//! Tasks that users have, done by keys alone. The keys of each are counted: a task that needs more
//! keys than here has become harder. Before its last key, a task is not done.

use sigtop::session::Command;
use sigtop::wire::Clock;

use crate::goldens::{listing, threads_at, waits_at};
use crate::recorded::play;
use crate::stage::Stage;

/// A screen of this size.
type Start = fn((u16, u16)) -> Stage;

/// A task.
struct Task {
    /// The question of the user.
    question: &'static str,
    start: Start,
    /// The keys, with spaces between them. A word of several letters is typed letter by letter.
    keys: &'static str,
    /// What is on the screen at the end, and not before the last key.
    answer: &'static [&'static str],
}

const fn task(question: &'static str, start: Start, keys: &'static str, answer: &'static [&'static str]) -> Task {
    Task { question, start, keys, answer }
}

/// The bytes of each key.
fn bytes(keys: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "Enter" => vec!["\r".to_owned()],
        "Space" => vec![" ".to_owned()],
        "Tab" => vec!["\t".to_owned()],
        "Left" => vec!["\x1b[D".to_owned()],
        "Right" => vec!["\x1b[C".to_owned()],
        "Alt-PgUp" => vec!["\x1b[5;3~".to_owned()],
        letters => letters.chars().map(String::from).collect(),
    };
    keys.split_whitespace().flat_map(word).collect()
}

const WIDE: (u16, u16) = (140, 45);

const SERVER: Start = Stage::usual;
const THREADS: Start = |size| threads_at(size, "0");
const WAITS: Start = |size| waits_at(size, "");
const SOURCE: Start = |size| listing(size, "");

/// The tasks that end with something on the screen.
const TASKS: &[Task] = &[
    task("Which function uses most time itself?", SERVER, "", &["▸   6.03s 55.12%", "sha256_block_data_order_avx2"]),
    task("Which function uses most time with its callees?", SERVER, "c", &["▼cum", "100%  ▇▇▇▇▇▇▇▇    main"]),
    task("Who calls the second one?", SERVER, "j", &["called by    100%  … › handle_request › parse_object"]),
    task("Who calls it, as a tree?", SERVER, "j Enter Enter", &["callers", "▸ json::Parser::parse_object"]),
    task("What does a caller do besides?", SERVER, "j 2 k c", &["json::Parser::parse_object"]),
    task("Which line of it is the hottest?", SOURCE, "", &["hottest lines", "self.at += 1;"]),
    task("What is around that line?", SOURCE, "4", &["▸   4.64s   4.64s  115", "while is_space(byte)"]),
    task("Which instructions are that?", SOURCE, "4 a", &["incq 0x18(%rbx)"]),
    task("Which instruction is of which line?", SOURCE, "4 a a", &["4.64s  115", "incq 0x18(%rbx)"]),
    task("What is my own code, with its libraries?", SERVER, "o", &["▼self+lib", "heaviest library call"]),
    task("Where is a function?", SERVER, "/ mark Enter", &["1/1 match"]),
    task("What is in stacks with a function alone?", SERVER, "j F", &["focus=json::Parser::parse_value ✕"]),
    task("What is there without a library?", SERVER, "M", &["hide="]),
    task("And with it again?", SERVER, "M u", &["libcrypto.so.3"]),
    task("Which boxes are in a box of the flame graph?", SERVER, "3 /hash Enter Enter", &["zoom"]),
    task("Which leaves are hot, whoever calls them?", SERVER, "3 O", &["bottom-up"]),
    task("Which thread uses most time?", THREADS, "5", &["by cpu%", "worker-0         running     95.7%"]),
    task("What does one thread do?", THREADS, "5 j Enter", &["tid=41280"]),
    task("Where is it now?", THREADS, "5 j Right", &["parse_value"]),
    task("How deep is its stack?", THREADS, "5 j K", &["23.2 KiB"]),
    task("What do threads wait for?", WAITS, "r", &["waiting: 40% lock in Cache::find", "20% disk"]),
    task("Which lock is that, and who holds it?", WAITS, "r B B", &["[lock 0x7f1000] held by compactor 41280"]),
    task("Where does its holder hang?", WAITS, "r 5 j H", &["Who holds the lock", "Store::compact"]),
    task("Which module uses most time?", SERVER, "b b b b", &["modules", "libcrypto.so.3"]),
    task("Which thread uses a function?", THREADS, "b b b b b", &["by thread", "worker-0 41280"]),
    task("How was it before?", SERVER, "Space [", &["paused", "1 s ago"]),
    task("What is different now from before?", SERVER, "d", &["Δ points", "baseline"]),
    task("What was it in the last minute?", SERVER, "w", &["60 s"]),
    task("What was between two moments?", SERVER, "Space m [ m", &["span of"]),
    task("Which samples are lost, and why?", SERVER, "L", &["Ticks", "received"]),
    task("What does it do in wall time?", SERVER, "r", &["epoll_wait", "futex_wait"]),
    task("Which keys are there?", SERVER, "?", &["Keys", "Terms"]),
    task("What has the program written?", SERVER, "6", &["6 Output"]),
    task("Where does a script spend its time?", |size| play("python", size), "", &["1 Top", "%"]),
    task("Where does a library's caller wait?", |size| play("redis", size), "j", &["called by"]),
];

#[test]
fn tasks_of_users_take_these_keys() {
    let mut failures = Vec::new();
    for Task { question, start, keys, answer } in TASKS {
        let mut stage = start(WIDE);
        let mut keys = bytes(keys);
        let last = keys.pop();
        keys.iter().for_each(|key| stage.press(key));
        let is_done = |stage: &Stage| answer.iter().all(|words| stage.text().contains(words));
        if last.is_some() && is_done(&stage) {
            failures.push(format!("{question} It is answered before the last key.\n{}", stage.text()));
        }
        last.iter().for_each(|key| stage.press(key));
        if !is_done(&stage) {
            let missing = answer.iter().filter(|words| !stage.text().contains(**words));
            failures.push(format!("{question} Missing: {:?}\n{}", missing.collect::<Vec<_>>(), stage.text()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The commands that the session has received after these keys.
fn commands(keys: &str) -> Vec<Command> {
    let mut stage = Stage::usual(WIDE);
    bytes(keys).iter().for_each(|key| stage.press(key));
    std::mem::take(&mut stage.session.heard)
}

#[test]
fn what_leaks_takes_two_keys_and_a_flame_graph_on_disk_three() {
    assert!(commands("A A").contains(&Command::Clock(Clock::Live)));
    let saved = commands("e Tab Enter");
    assert!(saved.iter().any(|command| matches!(command, Command::Save(_))), "{saved:?}");
}
