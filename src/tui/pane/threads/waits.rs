//! Draws what a thread waits for, by wall-clock time.
//!
//! ```text
//! 74% sleep  23% lock cache_mutex ▸ compactor  in Cache::insert
//! [lock cache_mutex] held by compactor for 1.2 s  in Cache::insert
//! ```
//!
//! The shares are those of the thread's time in the window. A thread that is in one wait nearly all
//! the time shows how long it lasts instead.

use std::time::Duration;

use ratatui::layout::Rect;

use crate::session::Answer;
use crate::tally::measure;
use crate::tally::threads::{StackRow, ThreadRow, WaitRow, WaitShare};
use crate::tui::canvas::Canvas;
use crate::tui::fit_names::{NameToFit, fit_name};
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use crate::tui::theme::Role;
use crate::wire::Clock;

/// Columns between two shares.
const GAP: u16 = 2;
/// The word before the function in which a thread waits, and the fewest columns of its name.
const WITHIN: &str = "in ";
const WITHIN_COLUMNS: u16 = 8;
/// Waits shorter than this are shown without their duration, ns. They begin again all the time.
const SHORT_WAIT_NS: u64 = 1_000_000_000;
/// The share from which a thread counts as waiting for one thing alone, in percent.
const ALONE_PERCENT: u128 = 95;
/// The smallest share that is shown, as its reciprocal.
const LEAST: u64 = 100;

/// Whether threads show the time for which they run and wait: by wall-clock time.
pub(super) fn shows_waits(answer: &Answer) -> bool {
    answer.facts.clock == Clock::Real && answer.baseline_ns.is_none()
}

/// Draws what a thread waits for. Returns false, and draws nothing, if it does not wait.
pub(super) fn draw(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, thread: &ThreadRow) -> bool {
    let shares = merge(&thread.waits);
    let weight_ns = thread.load.weight.ns;
    let is_alone = |share: &WaitShare| u128::from(share.weight_ns) * 100 >= u128::from(weight_ns) * ALONE_PERCENT;
    let single = |wait: &&WaitRow| {
        let is_listed = context.answer.is_some_and(shows_waits);
        !is_listed || shares.first().is_some_and(|share| share.reason == wait.reason && is_alone(share))
    };
    if let Some(wait) = thread.wait.as_ref().filter(single) {
        draw_wait(canvas, place, context, (wait, thread.inside));
        return true;
    }
    let least_ns = weight_ns / LEAST;
    let mut x = place.x;
    for share in shares.iter().filter(|share| share.weight_ns > least_ns) {
        let percent = measure::percents(share.weight_ns as f64 / weight_ns.max(1) as f64);
        let word = share.words();
        let words = match &*share.holder {
            "" => format!("{percent}% {word}"),
            holder => format!("{percent}% {word} ▸ {holder}"),
        };
        if x > place.x && text::columns(&words, 999) > place.right().saturating_sub(x).into() {
            return true;
        }
        let is_notable = share.reason.is_lock() && thread.inside;
        let style = canvas.style(if is_notable { Role::Notable } else { Role::Dim });
        x += canvas.put(x, place.y, place.right().saturating_sub(x), &words, style) + GAP;
    }
    let within = thread.waits.iter().find(|share| share.weight_ns > least_ns && !share.within.is_empty());
    let left = place.right().saturating_sub(x + WITHIN.len() as u16);
    if let Some(within) = within.filter(|_| left >= WITHIN_COLUMNS) {
        let dim = canvas.style(Role::Dim);
        let name = fit_name(
            &NameToFit { full: &within.within, short: &within.within, room: left.into() },
            context.screen.names,
        );
        let used = canvas.put(x, place.y, left, WITHIN, dim);
        canvas.put(x + used, place.y, left, &name, dim);
    }
    x > place.x
}

/// The shares of each reason, lock and holder, the greatest first.
fn merge(waits: &[WaitShare]) -> Vec<WaitShare> {
    let mut shares: Vec<WaitShare> = Vec::new();
    for wait in waits {
        let key = |share: &WaitShare| (share.reason, share.variable.clone(), share.holder.clone());
        match shares.iter_mut().find(|share| key(share) == key(wait)) {
            Some(share) => share.weight_ns = share.weight_ns.saturating_add(wait.weight_ns),
            None => shares.push(wait.clone()),
        }
    }
    shares.sort_by_key(|share| std::cmp::Reverse(share.weight_ns));
    shares
}

/// Draws the present wait of a thread, and the function in which it waits.
fn draw_wait(canvas: &mut Canvas<'_>, place: Rect, context: &PaneContext<'_>, (wait, inside): (&WaitRow, bool)) {
    let (dim, notable) = (canvas.style(Role::Dim), canvas.style(Role::Notable));
    let room = place.width;
    let now_ns = context.answer.map_or(0, |answer| answer.now_ns);
    let lasts_ns = wait.since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
    let lasting = format!("{} for {}", wait.name, measure::duration(Duration::from_nanos(lasts_ns)));
    let has_room = lasts_ns >= SHORT_WAIT_NS && text::columns(&lasting, usize::from(room) + 1) <= room.into();
    let name = text::cut_right(if has_room { &lasting } else { &wait.name }, room.into());
    let style = if wait.reason.is_lock() && inside { notable } else { dim };
    canvas.put(place.x, place.y, room, &name, style);
    let used = text::columns(&name, room.into()) as u16 + GAP;
    let (at, left) = (place.x + used, room.saturating_sub(used + WITHIN.len() as u16));
    if left < WITHIN_COLUMNS {
        return;
    }
    canvas.put(at, place.y, left, WITHIN, dim);
    let StackRow { full, short, module, .. } = &wait.within;
    let name = fit_name(&NameToFit { full, short, room: left.into() }, context.screen.names);
    let style = if inside { canvas.theme.module(module) } else { dim };
    canvas.put(at + WITHIN.len() as u16, place.y, left, &name, style);
}
