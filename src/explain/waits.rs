//! Sentences about threads: whether they compute or wait, who holds a lock, how deep they recurse.

use super::evidence::{Evidence, Sentence};
use crate::tally::measure;
use crate::tally::threads::{ThreadRow, WaitShare};
use crate::wire::Clock;

/// Waits are mentioned from this percentage of the threads' time on.
const LEAST_PERCENT: f64 = 1.0;
/// Maximum number of reasons in a sentence.
const REASONS: usize = 3;
/// A thread is stuck if it waits for locks for this percentage of its time.
const STUCK_PERCENT: f64 = 50.0;
/// A stack is mentioned if it takes more than this percentage of its limit.
const STACK_PERCENT: f64 = 70.0;

/// Says whether threads compute or wait, and for what.
pub(super) fn computing_or_waiting(evidence: &Evidence<'_>) -> Option<Sentence> {
    let answer = evidence.answer;
    if answer.facts.clock != Clock::Real {
        let text = "These samples do not tell what threads wait for: sample with --clock wall.".to_owned();
        let is_cpu = !answer.facts.clock.is_memory() && answer.window.samples > 0;
        return is_cpu.then(|| Sentence::new(20, ("header", "clock"), text));
    }
    let total_ns = answer.window.total_ns;
    let threads = answer.threads.as_ref()?.processes.iter().flat_map(|process| &process.threads);
    let running_ns: u64 = threads.map(|thread| thread.load.running_ns).sum();
    let running = measure::percent_of(running_ns, total_ns);
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for wait in answer.threads.iter().flat_map(|table| &table.processes).flat_map(|process| &process.threads) {
        for share in &wait.waits {
            match reasons.iter_mut().find(|(word, _)| *word == share.reason.word()) {
                Some((_, ns)) => *ns = ns.saturating_add(share.weight_ns),
                None => reasons.push((share.reason.word(), share.weight_ns)),
            }
        }
    }
    reasons.sort_by_key(|&(word, ns)| (std::cmp::Reverse(ns), word));
    reasons.retain(|&(_, ns)| measure::percent_of(ns, total_ns) >= LEAST_PERCENT);
    let verb = if running >= 50.0 { "mostly compute" } else { "mostly wait" };
    let words: Vec<String> = reasons
        .iter()
        .take(REASONS)
        .map(|&(word, ns)| format!("{word} {}", measure::percentage(ns, total_ns).trim()))
        .collect();
    let waits = if words.is_empty() { String::new() } else { format!("; they wait for {}", words.join(", ")) };
    let text = format!("Threads {verb}: they run for {} of the time{waits}.", measure::percent(running).trim());
    let row = reasons.first().map_or("running", |(word, _)| word);
    Some(Sentence::new(95, ("Threads, waits", row), text))
}

/// The lock that threads wait for longest, and who holds it.
pub(super) fn lock(evidence: &Evidence<'_>) -> Option<Sentence> {
    let answer = evidence.answer;
    let locks = || answer.waits.iter().filter(|share| share.reason.is_lock());
    let within = &locks().max_by_key(|share| share.weight_ns)?.within;
    let sum = |shares: &mut dyn Iterator<Item = &WaitShare>| {
        shares.fold(0u64, |sum, share| sum.saturating_add(share.weight_ns))
    };
    let waited_ns = sum(&mut locks().filter(|share| share.within == *within));
    let held = locks().filter(|share| share.within == *within && !share.holder.is_empty());
    let holder = held.max_by_key(|share| share.weight_ns);
    let held_by = match holder {
        Some(holder) => {
            let held_ns = sum(&mut locks().filter(|share| share.within == *within && share.holder == holder.holder));
            format!("thread {} holds it for {} of that", holder.holder, measure::percentage(held_ns, waited_ns).trim())
        }
        None => "the holder is not known".to_owned(),
    };
    let share = measure::percentage(waited_ns, answer.window.total_ns);
    let text = format!("Threads wait for a lock in {within} for {} of their time; {held_by}.", share.trim());
    let is_notable = measure::percent_of(waited_ns, answer.window.total_ns) >= LEAST_PERCENT;
    is_notable.then(|| Sentence::new(97, ("waits", within), text))
}

/// The threads that wait for each other, each for most of its time.
pub(super) fn deadlock(evidence: &Evidence<'_>) -> Option<Sentence> {
    let threads: Vec<&ThreadRow> =
        evidence.answer.threads.as_ref()?.processes.iter().flat_map(|process| &process.threads).collect();
    let holder = |thread: &ThreadRow| {
        let locks = thread.waits.iter().filter(|share| share.reason.is_lock() && !share.holder.is_empty());
        let longest = locks.max_by_key(|share| share.weight_ns)?;
        let is_stuck = measure::percent_of(longest.weight_ns, thread.load.weight.ns) >= STUCK_PERCENT;
        let mut named = threads.iter().copied().filter(|other| is_stuck && *longest.holder == *other.name);
        // Of several threads with the name, it is not known which one holds it.
        named.next().filter(|_| named.next().is_none())
    };
    // Whoever waits at the end of a chain may only wait for a cycle.
    let is_in_cycle = |thread: &&&ThreadRow| {
        let chain = std::iter::successors(holder(thread), |&next| holder(next)).take(threads.len());
        chain.into_iter().any(|next| next.id == thread.id)
    };
    let stuck: Vec<&str> = threads.iter().filter(is_in_cycle).map(|thread| thread.name.as_str()).collect();
    let text = format!("Deadlock: threads {} wait for each other's locks.", stuck.join(", "));
    (!stuck.is_empty()).then(|| Sentence::new(110, ("Threads", stuck[0]), text))
}

/// The thread whose stack is nearest to its limit.
pub(super) fn deepest_stack(evidence: &Evidence<'_>) -> Option<Sentence> {
    let threads = evidence.answer.threads.as_ref()?.processes.iter().flat_map(|process| &process.threads);
    let deepest = threads.filter_map(|thread| Some((thread, thread.deepest.as_ref()?))).filter(|(_, it)| it.size > 0);
    let (thread, stack) = deepest.max_by(|(_, one), (_, other)| {
        let share = |used: u64, size: u64| measure::percent_of(used, size);
        share(one.used, one.size).total_cmp(&share(other.used, other.size))
    })?;
    let text = format!("The stack of thread {} has grown to {}.", thread.name, stack.size_words());
    let is_deep = measure::percent_of(stack.used, stack.size) >= STACK_PERCENT;
    is_deep.then(|| Sentence::new(60, ("Threads", &thread.name), text))
}
