//! Sentences about where time, or memory, goes.

use super::evidence::{Evidence, Sentence};
use crate::tally::flame::Flame;
use crate::tally::measure;
use crate::tally::threads::ThreadRow;
use crate::tally::trend::Direction;

/// A box of the hottest path has at least this share of its caller's weight.
const PATH_PERCENT: u64 = 50;
/// Maximum number of functions in a path.
const PATH_STEPS: usize = 6;
/// A thread is said to do the work alone from this percentage on.
const ALONE_PERCENT: f64 = 80.0;
/// Time in the kernel is mentioned from this share of the CPU time on.
const KERNEL_SHARE: f32 = 0.4;

fn share(part: u64, total: u64) -> String {
    measure::percentage(part, total).trim().to_owned()
}

/// The amount of samples and their target.
pub(super) fn summary(evidence: &Evidence<'_>) -> Option<Sentence> {
    let (answer, facts) = (evidence.answer, &evidence.answer.facts);
    let samples = measure::count(answer.window.samples);
    let seconds = measure::duration(facts.up);
    let used = match facts.clock.is_memory() {
        true => measure::bytes(answer.window.total_ns),
        false => measure::duration(std::time::Duration::from_nanos(answer.window.total_ns)),
    };
    let text = format!(
        "{} was sampled for {seconds}: {samples} samples of {used} of {}.",
        facts.command,
        facts.clock.names().measured
    );
    Some(Sentence::new(90, ("header", ""), text))
}

/// The function with the greatest flat.
pub(super) fn hottest_function(evidence: &Evidence<'_>) -> Option<Sentence> {
    let table = &evidence.answer.window;
    let row = table.rows.iter().max_by_key(|row| row.flat_ns).filter(|row| row.flat_ns > 0)?;
    let share = share(row.flat_ns, table.total_ns);
    let what = evidence.answer.facts.clock.names().measured;
    let verb = if evidence.answer.facts.clock.is_memory() { "allocates" } else { "itself has" };
    let text = format!("{} ({}) {verb} {share} of the {what}, more than any other function.", row.short, row.module);
    Some(Sentence::new(100, ("Top", &row.short), text))
}

/// The heaviest way from the root.
pub(super) fn hottest_path(evidence: &Evidence<'_>) -> Option<Sentence> {
    let flame = evidence.answer.flame.as_ref().filter(|flame| !flame.boxes.is_empty())?;
    let path = heaviest_path(flame);
    let last = *path.last()?;
    let names: Vec<&str> = path.iter().map(|&index| flame.boxes[index].short.as_str()).collect();
    let (cut, shown) = names.split_at(names.len().saturating_sub(PATH_STEPS));
    let cut = if cut.is_empty() { "" } else { "… › " };
    let share = share(flame.boxes[last].weight_ns, flame.boxes[0].weight_ns);
    let text = format!(
        "The hottest path is {cut}{}, with {share} of the {}.",
        shown.join(" › "),
        evidence.answer.facts.clock.names().measured
    );
    Some(Sentence::new(80, ("Flame", &flame.boxes[last].short), text))
}

/// The boxes from the root to where the weight divides.
fn heaviest_path(flame: &Flame) -> Vec<usize> {
    let (mut path, mut at) = (Vec::new(), 0);
    loop {
        let heaviest = flame.children_of(at).max_by_key(|&child| flame.boxes[child].weight_ns);
        let least = u128::from(flame.boxes[at].weight_ns) * u128::from(PATH_PERCENT) / 100;
        match heaviest.filter(|&child| u128::from(flame.boxes[child].weight_ns) >= least) {
            Some(child) => {
                path.push(child);
                at = child;
            }
            None => return path,
        }
    }
}

/// The hottest line of the hottest function, or the reason why it has no lines.
pub(super) fn hottest_line(evidence: &Evidence<'_>) -> Option<Sentence> {
    let lines = &evidence.answer.listing.as_ref()?.lines;
    let line = lines.lines.iter().filter(|line| line.line > 0).max_by_key(|line| line.flat_ns);
    let Some(line) = line.filter(|line| line.flat_ns > 0) else {
        let is_function = lines.flat_ns > 0 && !lines.short.starts_with('[');
        let text = format!(
            "The lines of {} are unknown: {} has no line tables; build it with -g (Rust: debug = 1), or allow \
             --debuginfod.",
            lines.short, lines.module
        );
        return is_function.then(|| Sentence::new(75, ("Source", &lines.short), text));
    };
    let file = line.file.rsplit('/').next().unwrap_or(&line.file);
    let share = share(line.flat_ns, lines.flat_ns);
    let text = format!("The hottest line of {} is {file}:{}, with {share} of its own samples.", lines.short, line.line);
    Some(Sentence::new(85, ("Source", &format!("{file}:{}", line.line)), text))
}

/// The function whose share rises or falls beyond chance.
pub(super) fn changing(evidence: &Evidence<'_>) -> Option<Sentence> {
    let recent = evidence.recent?;
    let rows = recent.window.rows.iter().enumerate();
    let changing = rows.filter_map(|(index, row)| Some((row, recent.trends.get(index)?)));
    let changing = changing.filter(|(_, trend)| trend.direction != Direction::Steady);
    // What grows comes first.
    let (row, trend) = changing.max_by_key(|(row, trend)| (trend.direction == Direction::Rising, row.flat_ns))?;
    let all = &evidence.answer.window;
    let before_ns = all.rows.iter().find(|other| other.full == row.full).map_or(0, |other| other.flat_ns);
    let [now, before] = [share(row.flat_ns, recent.window.total_ns), share(before_ns, all.total_ns)];
    let seconds = measure::duration(std::time::Duration::from_nanos(recent.question.window_ns?));
    let verb = if trend.direction == Direction::Rising { "grows" } else { "shrinks" };
    let text = format!("{} {verb}: it has {now} of the samples of the last {seconds}, and {before} of all.", row.short);
    Some(Sentence::new(88, ("Top, trend", &row.short), text))
}

/// The one of several threads that does most of the work.
pub(super) fn one_thread(evidence: &Evidence<'_>) -> Option<Sentence> {
    let table = evidence.answer.threads.as_ref()?;
    let threads: Vec<&ThreadRow> = table.processes.iter().flat_map(|process| &process.threads).collect();
    let total: u64 = threads.iter().map(|thread| thread.load.running_ns).sum();
    let busiest = threads.iter().max_by_key(|thread| thread.load.running_ns)?;
    let percent = measure::percent_of(busiest.load.running_ns, total);
    if threads.len() < 2 || percent < ALONE_PERCENT || evidence.answer.facts.clock.is_memory() {
        return None;
    }
    let share = measure::percent(percent).trim().to_owned();
    let text =
        format!("One thread of {}, {} (tid {}), does {share} of the work.", threads.len(), busiest.name, busiest.tid);
    Some(Sentence::new(70, ("Threads", &busiest.name), text))
}

/// The part of the CPU time that is spent in the kernel.
pub(super) fn kernel(evidence: &Evidence<'_>) -> Option<Sentence> {
    let (user, system) = evidence.answer.facts.cpu_now?;
    let share = if user + system >= 1.0 { system / (user + system) } else { 0.0 };
    let text = format!(
        "The kernel takes {} of the CPU time of the last second: look for many small system calls.",
        measure::percent(f64::from(share) * 100.0).trim()
    );
    (share >= KERNEL_SHARE).then(|| Sentence::new(65, ("header", "cpu"), text))
}
