//! The numbers are true: shares, totals, threads, against what the targets know of themselves.

use crate::harness::raw::Raw;
use crate::harness::run::{Batch, Watched, text};
use crate::harness::statistics::deviations;
use crate::harness::targets;

/// Runs the burner with these shares and gives each function's distance from `expected` in standard deviations, after at least so many samples:
/// how many a CPU second gives is the kernel's affair.
fn distances(shares: [&str; 3], expected: [f64; 3], samples: u64, options: &str, check: impl Fn(&Watched)) -> [f64; 3] {
    let shares_binary = targets::c("shares");
    let (mut hits, mut all) = ([0; 3], 0);
    while all < samples {
        // At 250 ticks a second, and a little more.
        let seconds = ((samples - all) as f64 / 250.0 * 1.05).max(1.0).to_string();
        let watched = Batch::new(options).run(&[text(&shares_binary), shares[0], shares[1], shares[2], &seconds, "2"]);
        assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
        check(&watched);
        all += watched.raw.samples("prof");
        for (hits, name) in hits.iter_mut().zip(["burn_a", "burn_b", "burn_c"]) {
            *hits += watched.raw.cum_samples("prof", |frame| frame == name);
        }
    }
    std::array::from_fn(|i| deviations(hits[i], all, expected[i]).abs())
}

/// Everything that ticked is accounted for, and everything sent arrived.
pub(crate) fn accounts(raw: &Raw) {
    let clocks = ["prof", "real", "virtual"].map(|clock| raw.samples(clock));
    assert_eq!(raw.number("sent"), clocks.iter().sum::<u64>(), "sent and received: {raw:?}");
    assert_eq!(raw.number("ticks"), raw.number("sent") + raw.lost_all().0, "ticks, sent, lost: {:?}", raw.lost);
}

/// The whole weight, losses included, is the CPU time that the process says it used.
fn total(watched: &Watched) {
    let used = watched.ran.number("process");
    let weight = watched.raw.weight_ns("prof") + watched.raw.lost_all().1;
    let ratio = weight as f64 / used as f64;
    assert!((ratio - 1.0).abs() <= 0.03, "weight {weight} ns, used {used} ns: {ratio:.4}; lost {:?}", watched.raw.lost);
}

#[test]
fn sixty_thirty_ten_at_1000_hz() {
    let distances = distances(["60", "30", "10"], [0.6, 0.3, 0.1], 4_000, "--hz 1000", |watched| {
        accounts(&watched.raw);
        total(watched);
        // The printed table is the same books: its cum against the dump's, to a rounding of the table.
        let (row, all) = (watched.last().row("burn_a").cloned(), watched.raw.weight_ns("prof") as f64 / 1e9);
        let cum = watched.raw.cum_ns("prof", |name| name == "burn_a") as f64 / 1e9;
        let row = row.unwrap_or_else(|| panic!("no row burn_a in\n{}", watched.tables));
        assert!(
            (row.cum - cum).abs() <= 0.006 && (row.cum_percent - 100.0 * cum / all).abs() <= 0.01,
            "{row:?}, dump {cum} of {all}"
        );
    });
    assert!(distances.iter().all(|distance| *distance <= 4.0), "{distances:?} standard deviations");
}

/// The check above can fail: a tenth more here and less there is seen.
#[test]
fn fifty_forty_ten_is_not_sixty_thirty_ten() {
    let distances = distances(["50", "40", "10"], [0.6, 0.3, 0.1], 1_500, "--hz 250", |_| {});
    assert!(distances.iter().any(|distance| *distance > 4.0), "{distances:?} standard deviations");
}

#[test]
fn the_total_at_100_hz_is_the_cpu_time() {
    let watched = Batch::new("--hz 100").run(&[text(&targets::c("shares")), "60", "30", "10", "6", "2"]);
    accounts(&watched.raw);
    total(&watched);
}

/// Whatever is asked for, the weights are the CPU time: the kernel's own tick comes 250 times a second on many machines, and a tick says how
/// many it stands for.
#[test]
fn the_total_is_the_cpu_time_at_every_rate() {
    let mut wrong = 0;
    for hz in [50, 250, 1000, 2000] {
        let watched = Batch::new(&format!("--hz {hz}")).run(&[text(&targets::c("shares")), "60", "30", "10", "4", "2"]);
        accounts(&watched.raw);
        let used = watched.ran.number("process") as f64;
        let ratio = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64 / used;
        // Each of the two threads may owe a period.
        let owed = 2.0 * 1e9 / hz as f64 / used;
        assert!((ratio - 1.0).abs() <= 0.02 + owed, "{hz} Hz: {ratio:.4}; lost {:?}", watched.raw.lost);
        // Counting ticks instead of weighing them is what fails.
        let counted = (watched.raw.samples("prof") * 1_000_000_000 / hz) as f64 / used;
        wrong += usize::from((counted - 1.0).abs() > 0.02);
    }
    assert!(wrong > 0, "no rate was beyond the kernel's tick: the check cannot fail here");
}

#[test]
fn eight_threads_have_the_shares_of_their_clocks() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("duty")), "6"]);
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

/// What lay in the ring of a process when it was killed is read after its death: nothing of its CPU time is missing but what its
/// last ticks had not said yet, and the books are even.
#[test]
fn what_a_killed_process_had_not_sent_arrives() {
    for (way, number) in [("signal", "9"), ("_exit", "4")] {
        // Of no length that the agent's looks, ten times a second, are a divisor of.
        let watched = Batch::new("--hz 250").run(&[text(&targets::c("ends")), "450", way, number]);
        accounts(&watched.raw);
        let weight_ms = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) / 1_000_000;
        assert!((430..=460).contains(&weight_ms), "{way}: {weight_ms} ms of 450; lost {:?}", watched.raw.lost);
    }
}

/// The wall time of threads is all there, or counted as lost: also of those that sleep from the
/// start, before anybody looks.
#[test]
fn wall_time_of_many_sleepers_is_complete() {
    for (count, ms) in [("20", "300"), ("50", "2000")] {
        let watched = Batch::new("--clock real --hz 99").run(&[text(&targets::c("sleepers")), count, ms]);
        accounts(&watched.raw);
        let slept = watched.ran.number("process") as f64;
        let ratio = (watched.raw.weight_ns("real") + watched.raw.lost_all().1) as f64 / slept;
        // Each may lose a period at its end, and its start is known to half a hundredth of a
        // second.
        let unsure = 15.0 / ms.parse::<f64>().expect("a number");
        assert!((ratio - 1.0).abs() <= 0.01 + unsure, "{ratio:.4}; lost {:?}", watched.raw.lost);
    }
}

/// Processes that use no more CPU time than a period are sampled as often as their time says. The
/// kernel's work for their end is part of what they use, and no timer sees it.
#[test]
fn short_processes_are_sampled() {
    for (count, ms, least) in [("150", "10", 0.5), ("40", "50", 0.85), ("10", "200", 0.95)] {
        let watched = Batch::new("--hz 99").run(&[text(&targets::c("children")), count, ms]);
        let used = watched.ran.number("process") as f64;
        let ratio = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64 / used;
        // Of each the last period is a matter of chance: half of it, give or take, for 3 of 1,000
        // such tests.
        let chance = 3.0 * 0.005 * count.parse::<f64>().expect("a number").sqrt() / (used / 1e9);
        assert!((least - chance..=1.05 + chance).contains(&ratio), "{count} of {ms} ms: {ratio:.3}, {chance:.3}");
    }
}

/// Work that repeats as often as the ticks come, or half or twice as often, is met at every point.
#[test]
fn work_that_keeps_step_with_the_ticks_has_its_true_share() {
    for cycle_us in ["5050", "10101", "20202"] {
        let watched = Batch::new("--hz 99").run(&[text(&targets::c("periodic")), cycle_us, "30", "8"]);
        total(&watched);
        let all = watched.raw.samples("prof");
        let first = watched.raw.cum_samples("prof", |name| name == "first_part");
        // Of the ticks between two changes of their phase some meet the same point: half count.
        let distance = deviations(first / 2, all / 2, 0.3).abs();
        assert!(distance <= 4.0, "{cycle_us} us: {first} of {all}, {distance:.1} standard deviations");
    }
}

/// Threads that nobody has seen before are found by the process timer at their first tick. A tenth: each may lose the part of its life before.
#[test]
fn short_threads_are_found() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("threads")), "40", "80"]);
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

/// Threads that end before anybody could find them are sampled by timers of their own. The kernel
/// looks at those when the scheduler ticks: what it misses is counted as unsampled.
#[test]
fn threads_of_a_few_milliseconds_are_sampled() {
    let watched = Batch::new("--hz 250").run(&[text(&targets::c("threads")), "600", "3"]);
    let lives_ns = 600.0 * 3e6;
    let seen = watched.raw.cum_ns("prof", |name| name == "short_life") as f64;
    assert!((0.5..=1.1).contains(&(seen / lives_ns)), "{seen} ns of {lives_ns}; lost {:?}", watched.raw.lost);
    let used = watched.ran.number("process") as f64;
    let shown = (watched.raw.weight_ns("prof") + watched.raw.lost_all().1) as f64;
    assert!((shown / used - 1.0).abs() <= 0.1, "{shown} of {used}; lost {:?}", watched.raw.lost);
}

/// New threads are soon given timers, and are sampled until then.
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

/// A thread that ended and stays, as the first one does, keeps nobody from a timer.
#[test]
fn threads_have_timers_though_the_first_has_ended() {
    threads_have_timers("orphaned", 24, 300);
}

/// The number of threads is the same at every look, and nothing has changed for a while when one comes in another's place.
#[test]
fn threads_have_timers_that_took_the_places_of_others() {
    threads_have_timers("beside", 8, 900);
}

/// The classic engine works too. How many ticks the kernel gives of it depends on what else runs; what they weigh does not.
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

/// User time alone: what the kernel does for the target does not count. Half of this one's time is system time.
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

/// Where stacks are dear, the rate is halved until they are not; nothing is halved by the usual budget.
#[test]
fn the_governor_halves_the_rate() {
    let deep = targets::c("deep");
    let command = [text(&deep), "2000", "5"];
    let strict = Batch::new("--hz 999 --budget 0.05% --interval 1").run(&command);
    let rates: Vec<&str> = strict.tables.lines().filter(|line| line.contains("the rate is halved")).collect();
    assert!(!rates.is_empty(), "{}", strict.tables);
    let usual = Batch::new("--hz 99 --interval 1").run(&command);
    assert!(!usual.tables.contains("halved"), "{}", usual.tables);
    // Fewer samples, the same time.
    let weight = strict.raw.weight_ns("prof") as f64 / 1e9;
    assert!((weight / 5.0 - 1.0).abs() <= 0.03, "{weight} s of 5");
}

/// On the wall clock a thread that sleeps weighs as much as one that works.
#[test]
fn the_wall_clock_weighs_sleepers() {
    let watched = Batch::new("--clock real --hz 100").run(&[text(&targets::c("longsleep")), "2"]);
    let weight = watched.raw.weight_ns("real") as f64 / 1e9;
    assert!((1.7..=2.2).contains(&weight), "{weight} s of 2 s");
    let asleep = watched.raw.cum_ns("real", |name| name.contains("nanosleep")) as f64 / 1e9;
    assert!(asleep >= 0.9 * weight, "{asleep} s of {weight} s in nanosleep");
}
