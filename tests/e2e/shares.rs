//! The numbers are correct: shares, totals and threads agree with the targets' own measurements.

use crate::harness::outside::engines_outside;
use crate::harness::raw::Raw;
use crate::harness::run::{Batch, Watched, text, tool};
use crate::harness::statistics::deviations;
use crate::harness::targets;

/// Asserts that every tick is accounted for, and that everything sent has arrived.
pub(crate) fn accounts(raw: &Raw) {
    let clocks = ["prof", "real", "virtual"].map(|clock| raw.samples(clock));
    assert_eq!(raw.number("sent"), clocks.iter().sum::<u64>(), "sent and received: {raw:?}");
    assert_eq!(raw.number("ticks"), raw.number("sent") + raw.lost_all().0, "ticks, sent, lost: {:?}", raw.lost);
}

/// Asserts that the total weight, including losses, is the CPU time that the process reports.
fn total(watched: &Watched) {
    let used = watched.ran.number("process");
    let weight = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
    let ratio = weight as f64 / used as f64;
    assert!((ratio - 1.0).abs() <= 0.03, "weight {weight} ns, used {used} ns: {ratio:.4}; lost {:?}", watched.raw.lost);
}

/// The weights are the CPU time at any sampling frequency, and the functions have their shares. The
/// kernel's own tick occurs 250 times a second on many machines, and a tick reports for how many
/// periods it stands.
#[test]
fn sixty_thirty_ten_and_the_total_at_every_rate() {
    const NAMES: [&str; 3] = ["burn_a", "burn_b", "burn_c"];
    let binary = targets::c("shares");
    let (mut hits, mut all, mut wrong) = ([0; 3], 0, 0);
    let rates = [(50, "2"), (100, "1.4"), (250, "1.2"), (2000, "1.2"), (1000, "1.2")];
    for (at, (hz, seconds)) in rates.into_iter().chain(std::iter::repeat((1000, "2"))).enumerate() {
        if at >= rates.len() && all >= 4_000 {
            break;
        }
        let watched = Batch::new(&format!("--hz {hz}")).run(&[text(&binary), "60", "30", "10", seconds, "2"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        accounts(&watched.raw);
        total(&watched);
        let used = watched.ran.number("process") as f64;
        let ratio = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64 / used;
        // Each of the two threads may have an unreported period.
        let owed = 2.0 * 1e9 / hz as f64 / used;
        assert!((ratio - 1.0).abs() <= 0.02 + owed, "{hz} Hz: {ratio:.4}; lost {:?}", watched.raw.lost);
        // Counting ticks instead of adding up their weights would fail.
        let counted = (watched.raw.samples("prof") * 1_000_000_000 / hz) as f64 / used;
        wrong += usize::from((counted - 1.0).abs() > 0.02);
        // The printed table has the same totals as the dump: its cum equals the dump's, up to the
        // table's rounding.
        let (row, weight) = (watched.last().row("burn_a").cloned(), watched.raw.weight_ns("prof") as f64 / 1e9);
        let cum = watched.raw.cum_ns("prof", |name| name == "burn_a") as f64 / 1e9;
        let row = row.unwrap_or_else(|| panic!("no row burn_a in\n{}", watched.tables));
        assert!(
            (row.cum - cum).abs() <= 0.006 && (row.cum_percent - 100.0 * cum / weight).abs() <= 0.01,
            "{row:?}, dump {cum} of {weight}"
        );
        all += watched.raw.samples("prof");
        for (hits, name) in hits.iter_mut().zip(NAMES) {
            *hits += watched.raw.cum_samples("prof", |frame| frame == name);
        }
    }
    assert!(wrong > 0, "no rate was beyond the kernel's tick: the check cannot fail here");
    let distances = |expected: [f64; 3]| [0, 1, 2].map(|i| deviations(hits[i], all, expected[i]).abs());
    let right = distances([0.6, 0.3, 0.1]);
    assert!(right.iter().all(|distance| *distance <= 4.0), "{right:?} standard deviations of {all} samples");
    // The check can fail: it detects shares that are a tenth too large and too small.
    let wrong = distances([0.5, 0.4, 0.1]);
    assert!(wrong.iter().any(|distance| *distance > 4.0), "{wrong:?} standard deviations of {all} samples");
}

/// A block that is slowed down by a known factor has the share that follows from it, with the agent
/// by both clocks and by events. Stops find blocks of microseconds too rarely.
#[test]
fn a_block_that_is_slowed_down_has_a_share_that_follows() {
    let binary = targets::c("divine");
    let by_agent = ["--hz 999", "--hz 999 --clock real"].map(str::to_owned);
    let events = engines_outside().contains(&"events").then(|| "--hz 999 --engine events".to_owned());
    for options in by_agent.into_iter().chain(events) {
        for factor in [1_u64, 2, 4] {
            let watched = Batch::new(&options).run(&[text(&binary), &factor.to_string(), "3"]);
            let clock = if options.contains("real") { "real" } else { "prof" };
            let [steady, slowed] =
                ["steady", "slowed"].map(|name| watched.raw.cum_samples(clock, |frame| frame == name));
            let all = steady + slowed;
            assert!(all > 500, "{options}: {all} samples");
            let distance = |factor: u64| deviations(slowed, all, factor as f64 / (factor + 1) as f64).abs();
            assert!(distance(factor) <= 4.0, "{options}, {factor}: {slowed} of {all}");
            // The check can fail: a block that takes three times as long has another share.
            assert!(distance(3 * factor) > 4.0, "{options}, {factor}: {slowed} of {all}");
        }
    }
}

/// Regression test: CPU time whose ticks came late was counted as lost, and once more in the sample
/// of the tick, which stands for all of it. In 3 s, 212 to 606 ms were.
#[test]
fn ticks_that_come_late_are_not_lost() {
    for options in ["--hz 1000 --no-follow", "--hz 99 --no-follow"] {
        let watched = Batch::new(options).run(&[text(&targets::c("late_ticks")), "2"]);
        accounts(&watched.raw);
        let (_, lost_ns) = watched.raw.lost_all();
        assert!(lost_ns < 60_000_000, "{options}: {:?}", watched.raw.lost);
        let (weight_ns, used_ns) = (watched.raw.weight_ns("prof"), watched.ran.number("process"));
        assert!(weight_ns < used_ns + 60_000_000, "{options}: {weight_ns} of {used_ns} ns");
    }
}

#[test]
fn eight_threads_have_the_shares_of_their_clocks() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("duty")), "2.5"]);
    accounts(&watched.raw);
    let out = watched.ran.out();
    let clocks: Vec<(u32, f64)> = out
        .lines()
        .filter_map(|line| line.split_once(' ').and_then(|(tid, ns)| Some((tid.parse().ok()?, ns.parse().ok()?))))
        .collect();
    assert_eq!(clocks.len(), 8, "{out}");
    let used: f64 = clocks.iter().map(|(_, ns)| ns).sum();
    let all = watched.raw.weight_ns("prof") as f64;
    for (tid, ns) in &clocks {
        let mine: u64 = watched.raw.of("prof").filter(|entry| entry.tid == *tid).map(|entry| entry.weight_ns).sum();
        let (seen, true_share) = (100.0 * mine as f64 / all, 100.0 * ns / used);
        assert!(
            (seen - true_share).abs() <= 2.0,
            "thread {tid}: {seen:.2} % seen, {true_share:.2} % by its clock; all: {clocks:?}"
        );
    }
}

/// Samples in the ring of a killed process are read after its death: all of its CPU time except its
/// last, unreported ticks is there, and the counters add up.
#[test]
fn what_a_killed_process_had_not_sent_arrives() {
    for (way, number) in [("signal", "9"), ("_exit", "4")] {
        // The length is no multiple of the interval at which the agent checks, ten times a second.
        let watched = Batch::new("--hz 250").run(&[text(&targets::c("ends")), "450", way, number]);
        accounts(&watched.raw);
        let weight_ms = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) / 1_000_000;
        assert!((430..=460).contains(&weight_ms), "{way}: {weight_ms} ms of 450; lost {:?}", watched.raw.lost);
    }
}

/// All wall-clock time of threads is sampled or counted as lost, also of threads that sleep from
/// the start, before the agent's first check. Most of it is sampled, also of threads that take the
/// places of others.
#[test]
fn wall_time_of_many_sleepers_is_complete() {
    for (count, ms, rounds) in [("20", "300", "4"), ("50", "1000", "1")] {
        let watched = Batch::new("--clock real --hz 99").run(&[text(&targets::c("sleepers")), count, ms, rounds]);
        accounts(&watched.raw);
        let slept = watched.ran.number("process") as f64;
        let (sampled, lost) = (watched.raw.weight_ns("real") as f64, watched.raw.lost_all().1 as f64);
        // Each thread may lose a period at its end, and its start is known to half a hundredth of a
        // second.
        let unsure = 0.01 + 15.0 / ms.parse::<f64>().expect("a number");
        let (ratio, seen) = ((sampled + lost) / slept, sampled / slept);
        println!("{count} threads for {ms} ms: {ratio:.4} of their time, {seen:.4} sampled");
        assert!((ratio - 1.0).abs() <= unsure && seen >= 0.75, "{ratio:.4}, {seen:.4}; lost {:?}", watched.raw.lost);
    }
}

/// By wall clock, the time of threads that end before they are searched for is counted as lost.
#[test]
fn wall_time_of_short_threads_is_complete() {
    let watched = Batch::new("--clock real --hz 99").run(&[text(&targets::c("sleepers")), "4", "3", "1200"]);
    accounts(&watched.raw);
    let slept = watched.ran.number("process") as f64;
    let (sampled, lost) = (watched.raw.weight_ns("real") as f64, watched.raw.lost_all().1 as f64);
    let (ratio, seen) = ((sampled + lost) / slept, sampled / slept);
    println!("{ratio:.4} of their time, {seen:.4} sampled");
    // What comes before the first tick, after a tenth of a second or more, is not counted.
    assert!((0.8..=1.1).contains(&ratio), "{ratio:.4}, {seen:.4}; lost {:?}", watched.raw.lost);
}

/// By wall clock, threads are sampled soon though they take the places of others, so that their
/// number stays the same. Python starts them slowly enough for that.
#[test]
fn threads_that_replace_others_are_sampled_by_wall_clock() {
    const ROUNDS: &str = "import threading, time\n\
        for _ in range(6):\n    \
            threads = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(20)]\n    \
            for thread in threads: thread.start()\n    \
            for thread in threads: thread.join()\n";
    let Some(python) = tool("python3") else { return };
    let watched = Batch::new("--clock real --hz 99").run(&[text(&python), "-c", ROUNDS]);
    accounts(&watched.raw);
    let (sampled, slept) = (watched.raw.weight_ns("real") as f64 / 1e9, 6.0 * 20.0 * 0.3);
    assert!(sampled >= 0.55 * slept, "{sampled:.1} s of {slept} s; lost {:?}", watched.raw.lost);
}

/// Processes that use at most one period of CPU time are sampled in proportion to it. The kernel's
/// work for their exit is part of their CPU time, and no timer measures it; on a busy machine there
/// is more of it.
#[test]
fn short_processes_are_sampled() {
    for (count, ms, least) in [("150", "10", 0.75), ("20", "50", 0.80), ("6", "200", 0.95)] {
        let watched = Batch::new("--hz 99").run(&[text(&targets::c("children")), count, ms]);
        let used = watched.ran.number("process") as f64;
        let ratio = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64 / used;
        // The last period of each process is sampled by chance. The bound is three standard
        // deviations, which 3 of 1 000 tests exceed.
        let chance = 3.0 * 0.005 * count.parse::<f64>().expect("a number").sqrt() / (used / 1e9);
        assert!((least - chance..=1.05 + chance).contains(&ratio), "{count} of {ms} ms: {ratio:.3}, {chance:.3}");
    }
}

/// Work that repeats at the sampling frequency, or at half or twice that, is sampled at every
/// point.
#[test]
fn work_that_keeps_step_with_the_ticks_has_its_true_share() {
    let ways = [
        ("--hz 99", "prof", "5050"),
        ("--hz 99", "prof", "10101"),
        ("--hz 99", "prof", "20202"),
        ("--hz 99 --clock real", "real", "10101"),
        ("--hz 99 --engine itimer", "prof", "10101"),
        ("--hz 99 --engine external", "prof", "10101"),
    ];
    for (options, clock, cycle_us) in ways {
        let watched = Batch::new(options).run(&[text(&targets::c("periodic")), cycle_us, "30", "4"]);
        if options == "--hz 99" {
            total(&watched);
        }
        let all = watched.raw.samples(clock);
        assert!(all > 200, "{options}: {all} samples");
        let first = watched.raw.cum_samples(clock, |name| name == "first_part");
        // Some ticks between two changes of their phase hit the same point: half of them count.
        let distance = deviations(first / 2, all / 2, 0.3).abs();
        assert!(distance <= 4.0, "{options}, {cycle_us} us: {first} of {all}, {distance:.1} standard deviations");
    }
}

/// The process timer finds new threads at their first tick. The bound is a tenth, since each thread
/// may lose its time before that tick.
#[test]
fn short_threads_are_found() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("threads")), "24", "80"]);
    let used = watched.ran.number("process") as f64;
    let weight = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
    assert!(
        (weight as f64 / used - 1.0).abs() <= 0.1,
        "weight {weight} ns, used {used} ns, lost {:?}",
        watched.raw.lost
    );
    let short = watched.raw.cum_ns("prof", |name| name == "short_life") as f64;
    assert!(short >= 0.9 * watched.raw.weight_ns("prof") as f64, "in short_life: {short} of {weight}");
}

/// Threads that end before the agent can find them are sampled by their own timers. The kernel
/// checks those at scheduler ticks; the time that it misses is counted as unsampled.
#[test]
fn threads_of_a_few_milliseconds_are_sampled() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("threads")), "600", "3"]);
    let lives_ns = 600.0 * 3e6;
    let seen = watched.raw.cum_ns("prof", |name| name == "short_life") as f64;
    // On a busy machine, fewer of the kernel's ticks meet such a thread. Without timers of their
    // own, none does.
    assert!((0.3..=1.1).contains(&(seen / lives_ns)), "{seen} ns of {lives_ns}; lost {:?}", watched.raw.lost);
    let used = watched.ran.number("process") as f64;
    let shown = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64;
    assert!((shown / used - 1.0).abs() <= 0.1, "{shown} of {used}; lost {:?}", watched.raw.lost);
}

/// New threads get timers soon, and are sampled until then.
fn threads_have_timers(how: &str, count: u32, life_ms: u32) {
    let words = [count.to_string(), life_ms.to_string()];
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("threads")), &words[0], &words[1], how]);
    let timed = watched.ran.number("timed");
    assert!(timed * 6 >= u64::from(count) * 5, "{timed} of {count}");
    let lives_ns = f64::from(count) * f64::from(life_ms) * 1e6;
    let short = watched.raw.cum_ns("prof", |name| name == "short_life") as f64 / lives_ns;
    assert!((0.75..1.1).contains(&short), "{short} of what they used");
    let (used, weight) =
        (watched.ran.number("process") as f64, watched.raw.weight_ns("prof") + watched.raw.lost_all().1);
    assert!((weight as f64 / used - 1.0).abs() <= 0.1, "weight {weight} ns, used {used} ns");
}

/// A thread that has ended but remains, as the main thread does, does not keep others from getting
/// timers.
#[test]
fn threads_have_timers_though_the_first_has_ended() {
    threads_have_timers("orphaned", 16, 300);
}

/// If a thread replaces another, the number of threads is the same at every check, and appears
/// unchanged.
#[test]
fn threads_have_timers_that_took_the_places_of_others() {
    threads_have_timers("beside", 6, 500);
}

/// The `itimer` engine works too. The number of its ticks depends on the load of the machine; their
/// total weight does not.
#[test]
fn the_classic_engine_has_the_shares_of_one_thread() {
    let (mut hits, mut all) = (0, 0);
    while all < 300 {
        let watched = Batch::new("--engine itimer --hz 100").run(&[text(&targets::c("shares")), "60", "30", "10", "4"]);
        let fresh = watched.raw.samples("prof");
        assert!(fresh >= 40, "{fresh} samples of 400");
        hits += watched.raw.cum_samples("prof", |name| name == "burn_a");
        all += fresh;
        let weight = watched.raw.weight_ns("prof") as f64 / 1e9;
        assert!((weight / 4.0 - 1.0).abs() <= 0.03, "{weight} s of 4 s");
    }
    assert!(deviations(hits, all, 0.6).abs() <= 4.0, "{hits} of {all}");
}

/// The `VIRTUAL` clock measures user time only: the kernel's work for the target does not count.
/// Half of this target's time is system time.
#[test]
fn the_user_clock_counts_user_time_alone() {
    let watched = Batch::new("--clock virtual --hz 250").run(&[text(&targets::c("user_half")), "1500"]);
    let (user, system) = (watched.ran.number("user") as f64, watched.ran.number("system") as f64);
    assert!(system > 0.3 * user, "the target's own figures: {user} user, {system} system");
    let weight = watched.raw.weight_ns("virtual") as f64;
    assert!((weight / user - 1.0).abs() <= 0.05, "{weight} ns, used {user} user and {system} system");
    let computing = watched.raw.cum_ns("virtual", |name| name == "compute") as f64;
    assert!(computing >= 0.7 * weight, "{computing} of {weight} in compute");
}

/// The frequency is halved while stack walks are expensive; with the default budget, it is not
/// halved.
#[test]
fn the_governor_halves_the_rate() {
    // The cost is compared with the budget every two seconds, after the first one.
    let deep = targets::c("deep");
    let strict = Batch::new("--hz 999 --budget 0.05% --interval 1").run(&[text(&deep), "2000", "5"]);
    let rates: Vec<&str> = strict.tables.lines().filter(|line| line.contains("halved to stay under 0.05 %")).collect();
    assert!(!rates.is_empty(), "{}", strict.tables);
    let usual = Batch::new("--hz 99 --interval 1").run(&[text(&deep), "2000", "2.5"]);
    assert!(!usual.tables.contains("halved"), "{}", usual.tables);
    // There are fewer samples for the same time.
    let weight = strict.raw.weight_ns("prof") as f64 / 1e9;
    assert!((weight / 5.0 - 1.0).abs() <= 0.03, "{weight} s of 5");
}

/// A sleeping thread has the same weight as a running one with the wall clock.
#[test]
fn the_wall_clock_weighs_sleepers() {
    let watched = Batch::new("--clock real --hz 100").run(&[text(&targets::c("longsleep")), "2"]);
    let (weight, lost) = (watched.raw.weight_ns("real") as f64 / 1e9, watched.raw.lost_all().1 as f64 / 1e9);
    assert!(weight >= 1.7 && (1.9..=2.2).contains(&(weight + lost)), "{weight} s of 2 s, {lost} s lost");
    let asleep = watched.raw.cum_ns("real", |name| name.contains("nanosleep")) as f64 / 1e9;
    assert!(asleep >= 0.9 * weight, "{asleep} s of {weight} s in nanosleep");
}
