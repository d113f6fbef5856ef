//! The tables of tools as short lines of text.

use std::collections::BTreeMap;

use super::reply::{ReplyText, quote};
use crate::keyword::Keyword;
use crate::session::Answer;
use crate::tally::callers::CallEdge;
use crate::tally::measure;

/// Deviations within which chance explains a difference, at 95 %.
const DEVIATIONS: f64 = 1.96;

fn share(part: u64, total: u64) -> String {
    measure::percentage(part, total).trim().to_owned()
}

/// The totals that the shares refer to, and what is lost.
fn head(answer: &Answer, columns: &str) -> String {
    let table = &answer.window;
    let clock = answer.facts.clock.word().name;
    let lost = match &answer.facts.unsampled {
        Some(unsampled) => format!("; {unsampled}"),
        None if answer.facts.losses.lost() > 0 => format!("; {} samples lost", answer.facts.losses.lost()),
        None => String::new(),
    };
    let kept = match table.kept_samples == table.samples {
        true => String::new(),
        false => format!(", filters keep {} ({})", table.kept_samples, share(table.kept_ns, table.total_ns)),
    };
    format!("clock {clock}: {} samples{kept}{lost}. Percentages are of all samples.\n{columns}", table.samples)
}

pub(super) fn top(answer: &Answer, limit: usize) -> String {
    let table = &answer.window;
    let mut reply = ReplyText::new(head(answer, "flat% cum% function module"), limit);
    for row in &table.rows {
        let [flat, cum] = [row.flat_ns, row.cum_ns].map(|ns| share(ns, table.total_ns));
        reply.push(&format!("{flat} {cum} {} {}", quote(&row.short), quote(&row.module)));
    }
    reply.finish()
}

pub(super) fn callers(answer: &Answer, limit: usize) -> String {
    let Some(callers) = &answer.callers else { return head(answer, "no such function") };
    let total_ns = answer.window.total_ns;
    let mut reply = ReplyText::new(head(answer, "role % function module"), limit.saturating_add(1));
    let edge = |role: &str, edge: &CallEdge| {
        format!("{role} {} {} {}", share(edge.weight_ns, total_ns), quote(&edge.short), quote(&edge.module))
    };
    let [flat, cum] = [callers.flat_ns, callers.cum_ns].map(|ns| share(ns, total_ns));
    reply.push(&format!("function {cum} {} (own {flat}) {}", quote(&callers.short), quote(&callers.module)));
    callers.callers.iter().for_each(|caller| reply.push(&edge("caller", caller)));
    callers.callees.iter().for_each(|callee| reply.push(&edge("callee", callee)));
    reply.finish()
}

pub(super) fn source(answer: &Answer, limit: usize) -> String {
    let Some(listing) = &answer.listing else { return head(answer, "no such function") };
    let total_ns = answer.window.total_ns;
    let mut lines: Vec<_> = listing.lines.lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse((line.flat_ns, line.cum_ns)));
    let columns = format!("lines of {}: flat% cum% file:line", quote(&listing.lines.short));
    let mut reply = ReplyText::new(head(answer, &columns), limit);
    for line in lines {
        let [flat, cum] = [line.flat_ns, line.cum_ns].map(|ns| share(ns, total_ns));
        let place = if line.line > 0 { format!("{}:{}", line.file, line.line) } else { "no line table".to_owned() };
        reply.push(&format!("{flat} {cum} {}", quote(&place)));
    }
    reply.finish()
}

pub(super) fn waits(answer: &Answer, limit: usize) -> String {
    let mut reply = ReplyText::new(head(answer, "% reason within holder"), limit);
    for wait in &answer.waits {
        let share = share(wait.weight_ns, answer.window.total_ns);
        reply.push(&format!("{share} {} {} {}", wait.reason.word(), quote(&wait.within), quote(&wait.holder)));
    }
    reply.finish()
}

pub(super) fn threads(answer: &Answer, limit: usize) -> String {
    let mut reply = ReplyText::new(head(answer, "pid tid name % running% hottest"), limit);
    let total_ns = answer.window.total_ns;
    for process in answer.threads.iter().flat_map(|table| &table.processes) {
        for thread in process.threads.iter().filter(|thread| thread.inside) {
            let load = &thread.load;
            let [all, running] = [load.weight.ns, load.running_ns].map(|ns| share(ns, total_ns));
            let names = [&*thread.name, &*load.top].map(quote);
            reply.push(&format!("{} {} {} {all} {running} {}", process.pid, thread.tid, names[0], names[1]));
        }
    }
    reply.finish()
}

/// The functions of both profiles by the difference of their shares.
pub(super) fn compare(base: &Answer, new: &Answer, limit: usize) -> String {
    let mut shares: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for (side, answer) in [base, new].into_iter().enumerate() {
        for row in &answer.window.rows {
            shares.entry(&row.full).or_default()[side] = measure::percent_of(row.flat_ns, answer.window.total_ns);
        }
    }
    let samples = [base, new].map(|answer| answer.window.samples.max(1) as f64);
    let mut rows: Vec<(&str, [f64; 2])> = shares.into_iter().collect();
    rows.sort_by(|(_, one), (_, other)| (other[1] - other[0]).abs().total_cmp(&(one[1] - one[0]).abs()));
    let columns = "base% new% points (± at 95 %, ~ where chance explains it) function";
    let head = format!("{}\n{}", head(base, "is the base"), head(new, columns));
    let mut reply = ReplyText::new(head, limit);
    for (name, [before, now]) in rows {
        let variance = |percent: f64, samples: f64| percent * (100.0 - percent) / samples;
        let margin = DEVIATIONS * (variance(before, samples[0]) + variance(now, samples[1])).sqrt();
        let points = now - before;
        let mark = if points.abs() <= margin { " ~" } else { "" };
        reply.push(&format!("{before:.2}% {now:.2}% {points:+.2} ±{margin:.2}{mark} {}", quote(name)));
    }
    reply.finish()
}
