//! Draws what threads wait for into the row above the table, by wall-clock time.
//!
//! ```text
//!  waiting: 57% sleep · 14% lock cache_mutex, 98% held by compactor · B shows more
//!  waiting: 57% sleep · 14% lock in Cache::insert, 98% held by compactor · B shows more
//! ```

use ratatui::layout::Rect;

use crate::tally::measure;
use crate::tally::threads::WaitShare;
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::name_style::NameStyle;
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use crate::tui::theme::Role;

/// The smallest share of all time that is named, as its reciprocal.
const LEAST: u64 = 100;
/// Share of a wait from which one lock stands for it, in percent.
const ALONE_PERCENT: u64 = 95;
/// Columns of the name of a lock or a function.
const WITHIN_COLUMNS: usize = 24;
/// The text before the parts, and behind them.
const LABEL: &str = "waiting: ";
const HINT: &str = " · B shows more";

/// Draws the row if there are waits. Returns the area of the table.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, context: &PaneContext<'_>, waits: &[WaitShare]) -> Rect {
    let table = context.top_table(area);
    if table == area {
        return area;
    }
    let y = area.y + 1;
    let room = usize::from(area.width.saturating_sub(2));
    let (words, hint) = fit_words(waits, context.window_base_ns(), room);
    let [dim, notable] = [Role::Dim, Role::Notable].map(|role| canvas.style(role));
    let has_lock = waits.iter().any(|share| share.reason.is_lock());
    let mut x = area.x + 1;
    for (part, style) in [(LABEL, dim), (&*words, if has_lock { notable } else { dim }), (hint, dim)] {
        x += canvas.put(x, y, area.right().saturating_sub(x), part, style);
    }
    table
}

/// The parts in words, as many as fit, the longest waits first; and the hint if it fits too.
fn fit_words(waits: &[WaitShare], base_ns: u64, room: usize) -> (String, &'static str) {
    let room = room.saturating_sub(LABEL.len());
    let mut reasons: Vec<(&WaitShare, u64)> = Vec::new();
    for share in waits {
        match reasons.iter_mut().find(|(first, _)| first.reason == share.reason) {
            Some((_, ns)) => *ns = ns.saturating_add(share.weight_ns),
            None => reasons.push((share, share.weight_ns)),
        }
    }
    reasons.sort_by_key(|&(first, ns)| (std::cmp::Reverse(ns), first.reason.word()));
    reasons.retain(|&(_, ns)| ns >= base_ns / LEAST);
    let columns = |parts: &[String]| text::columns(&parts.join(" · "), 999);
    // The function is left out first, then the last parts, those before a lock, and its holder.
    let lock = reasons.iter().position(|(first, _)| first.reason.is_lock()).unwrap_or(0);
    for (details, skipped, least) in [(2, 0, reasons.len()), (1, 0, lock + 1), (1, lock, 2), (0, 0, 0)] {
        let kept = reasons.iter().skip(skipped);
        let kept = kept.map(|&(first, ns)| part_words(waits, first, (ns, base_ns), details));
        let parts: Vec<String> = (skipped > 0).then(|| "…".to_owned()).into_iter().chain(kept).collect();
        let count = (1..=parts.len()).rev().find(|&count| columns(&parts[..count]) <= room).unwrap_or(0);
        if count >= least {
            let words = parts[..count].join(" · ");
            let has_room = text::columns(&words, 999) + HINT.len() - 1 <= room;
            return (words, if has_room { HINT } else { "" });
        }
    }
    (String::new(), "")
}

/// One reason: `14% lock cache_mutex, 98% held by compactor`. Without the name of the lock, or if
/// there are several, it is followed by the function that waits longest.
fn part_words(waits: &[WaitShare], first: &WaitShare, (ns, base_ns): (u64, u64), details: usize) -> String {
    let percent =
        |part_ns: u64, whole_ns: u64| format!("{}%", measure::percents(part_ns as f64 / whole_ns.max(1) as f64));
    let mut words = format!("{} {}", percent(ns, base_ns), first.reason.word());
    if !first.reason.is_lock() || details == 0 {
        return words;
    }
    let of_lock = waits.iter().filter(|share| share.reason == first.reason && share.variable == first.variable);
    let of_lock_ns = of_lock.fold(0, |sum: u64, share| sum.saturating_add(share.weight_ns));
    let is_alone = of_lock_ns.saturating_mul(100) >= ns.saturating_mul(ALONE_PERCENT);
    if is_alone && !first.variable.is_empty() {
        let name = NameToFit { full: &first.variable, short: &first.variable, room: WITHIN_COLUMNS };
        words = format!("{words} {}", fit_name(&name, NameStyle::Short));
    } else if details > 1 && !first.within.is_empty() {
        let name = NameToFit { full: &first.within, short: &first.within, room: WITHIN_COLUMNS };
        words = format!("{words} in {}", fit_name(&name, NameStyle::Short));
    }
    let of_holder = |holder: &str| {
        let held = waits.iter().filter(|share| share.reason == first.reason && *share.holder == *holder);
        held.fold(0, |sum: u64, share| sum.saturating_add(share.weight_ns))
    };
    let holders = waits.iter().filter(|share| share.reason == first.reason && !share.holder.is_empty());
    let heaviest = holders.map(|share| (of_holder(&share.holder), &share.holder)).max_by_key(|(held_ns, _)| *held_ns);
    match heaviest {
        Some((held_ns, holder)) => format!("{words}, {} held by {holder}", percent(held_ns, ns)),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::waits::WaitReason;
    use crate::tally::text::Text;

    #[test]
    fn a_lock_and_its_holder_are_what_is_left_last() {
        let share = |reason, variable: &str, holder: &str, weight_ns| {
            let [variable, holder, within] = [variable, holder, "Cache::insert"].map(Text::from);
            WaitShare { reason, variable, holder, within, weight_ns }
        };
        let waits = [
            share(WaitReason::Sleep, "", "", 55),
            share(WaitReason::Lock, "cache_mutex", "compactor", 21),
            share(WaitReason::Lock, "cache_mutex", "", 5),
            share(WaitReason::Runnable, "", "", 2),
        ];
        let fit = |room: usize| {
            let (words, hint) = fit_words(&waits, 100, room + LABEL.len());
            words + hint
        };
        assert_eq!(fit(90), "55% sleep · 26% lock cache_mutex, 81% held by compactor · 2.00% runnable · B shows more");
        assert_eq!(fit(60), "55% sleep · 26% lock cache_mutex, 81% held by compactor");
        assert_eq!(fit(52), "… · 26% lock cache_mutex, 81% held by compactor");
        assert_eq!(fit(40), "55% sleep · 26% lock · 2.00% runnable");
        assert_eq!(fit(20), "55% sleep · 26% lock");
        assert_eq!(fit(5), "");
    }
}
