//! Arbitrary answers with hostile names, for property tests.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sigtop::profile::process::ProcessId;
use sigtop::profile::thread::{ThreadId, ThreadState};
use sigtop::profile::totals::Weight;
use sigtop::profile::waits::WaitReason;
use sigtop::session::{Answer, Facts, Question, TargetExit};
use sigtop::symbols::FunctionId;
use sigtop::tally::activity::{RowActivity, ThreadPart};
use sigtop::tally::callers::{CallEdge, Callers};
use sigtop::tally::change::{Change, Changes, Difference};
use sigtop::tally::flame::{Flame, FlameBox};
use sigtop::tally::text::Text;
use sigtop::tally::threads::{
    DeepestRow, FoldedRows, Load, LoadChange, ProcessRow, StackRow, ThreadRow, ThreadTable, WaitRow, WaitShare,
};
use sigtop::tally::timeline::Timeline;
use sigtop::tally::top::{InlineState, TopRow, TopTable};
use sigtop::tally::trend::{Direction, Trend, Trends};
use sigtop::wire::{Clock, Engine, EngineState};

use crate::listings::listing;
use crate::session::Session;
use crate::stage::SCREEN;

/// Names chosen by an attacker.
pub(crate) const HOSTILE: &[&str] = &[
    "",
    "\x1b[2J\x1b[31mred",
    "\x1b]52;c;cm0gLXJmIC8=\x07",
    "\u{9b}31m\u{9d}0;title\u{9c}",
    "a\r\nb\tc\x08d\x7f\0",
    "\u{202e}esrever\u{202c} \u{2066}x\u{2069}",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字",
    "👨‍👩‍👧‍👦 zero\u{200b}width\u{200d}\u{feff}",
    "line\u{2028}paragraph\u{2029}soft\u{ad}",
    "::::::::",
    "(((((((((((((((",
    "<<<<<<>>>>>>>",
    "std::map<std::string, std::vector<int> >::operator[](std::string&&)",
];

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        30 => prop::sample::select(HOSTILE).prop_map(str::to_owned),
        30 => any::<String>(),
        30 => "[a-z:<>]{1,60}",
        1 => Just("x::".repeat(400_000)),
    ]
}

pub(crate) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0..100_000_000_000_u64, any::<u64>()]
}

fn change(seed: u64) -> Change {
    Change { negative: seed.is_multiple_of(2), significant: seed.is_multiple_of(3) }
}

fn row() -> impl Strategy<Value = TopRow> {
    (name(), name(), name(), number(), number(), 0..3_usize).prop_map(
        |(full, short, module, flat_ns, cum_ns, inline)| TopRow {
            function: FunctionId(0),
            owner: full.as_str().into(),
            full: full.into(),
            short: short.as_str().into(),
            module: module.into(),
            inline: [InlineState::No, InlineState::Partial, InlineState::Yes][inline],
            flat_ns,
            cum_ns,
            latency_ns: cum_ns / 2,
            library_ns: cum_ns,
            library_call: if cum_ns % 3 == 0 { Text::default() } else { short.as_str().into() },
            is_own: cum_ns % 2 == 0,
            // Half of the rows have differences.
            changes: (flat_ns % 2 == 0).then(|| Changes {
                before_ns: (0, 0),
                flat: change(cum_ns),
                cum: change(flat_ns / 2),
            }),
        },
    )
}

fn table() -> impl Strategy<Value = TopTable> {
    (prop::collection::vec(row(), 0..30), number(), number(), number(), number()).prop_map(
        |(rows, total_ns, kept_ns, samples, kept_samples)| TopTable {
            rows,
            total_ns,
            kept_ns,
            latency_ns: total_ns / 2,
            kept_latency_ns: kept_ns / 2,
            before_ns: total_ns / 3,
            before_kept_ns: kept_ns,
            samples,
            kept_samples,
            idle_ns: kept_ns,
            idle_threads: samples as usize % 3,
            interval: samples % 5,
            unknown_latency: samples % 7,
        },
    )
}

fn edge() -> impl Strategy<Value = CallEdge> {
    (name(), name(), name(), any::<bool>(), number()).prop_map(|(full, short, module, inlined, weight_ns)| CallEdge {
        children: Vec::new(),
        before_ns: weight_ns / 3,
        full: full.into(),
        short: short.into(),
        module: module.into(),
        is_own: !inlined,
        inlined,
        weight_ns,
        change: (weight_ns % 2 == 0).then(|| change(weight_ns / 2)),
    })
}

fn callers() -> impl Strategy<Value = Callers> {
    let edges = || prop::collection::vec(edge(), 0..20);
    (name(), name(), name(), number(), number(), edges(), edges()).prop_map(
        |(full, short, module, flat_ns, cum_ns, callers, callees)| {
            let (short, module) = (short.into(), module.into());
            let changes = (flat_ns % 2 == 0).then(|| Changes {
                before_ns: (0, 0),
                flat: change(cum_ns),
                cum: change(flat_ns / 2),
            });
            Callers { full, short, module, flat_ns, cum_ns, whole_ns: cum_ns, changes, callers, callees }
        },
    )
}

/// A flame graph whose boxes have arbitrary parents and children.
fn flame() -> impl Strategy<Value = Flame> {
    let numbers = (0..40_usize, 0..40_usize, 0..20_usize, number(), number());
    let boxes = (name(), name(), name(), any::<bool>(), numbers).prop_map(
        |(full, short, module, inlined, (parent, start, count, weight_ns, self_ns))| FlameBox {
            is_own: weight_ns % 3 == 0,
            parent,
            children: start..start + count,
            full: full.into(),
            short: short.into(),
            module: module.into(),
            inlined,
            weight_ns,
            self_ns,
            difference: (weight_ns % 2 == 0).then(|| Difference { ns: self_ns, change: change(weight_ns / 2) }),
        },
    );
    // Half of the flame graphs are consistent trees.
    (prop::collection::vec(boxes, 0..40), number(), any::<bool>()).prop_map(|(mut boxes, hidden, tidy)| {
        if tidy {
            let count = boxes.len();
            for (index, shown) in boxes.iter_mut().enumerate() {
                shown.parent = index.saturating_sub(1) / 3;
                shown.children = (index * 3 + 1).min(count)..(index * 3 + 4).min(count);
            }
        }
        Flame { boxes, hidden }
    })
}

fn load() -> impl Strategy<Value = Load> {
    (number(), number(), prop::array::uniform8(number()), name(), name()).prop_map(
        |(ns, samples, parts_ns, top, module)| Load {
            weight: Weight::new(ns, samples),
            running_ns: ns / 2,
            parts_ns,
            top: top.as_str().into(),
            top_full: top.into(),
            top_module: module.into(),
            change: load_change(ns),
        },
    )
}

fn load_change(ns: u64) -> Option<LoadChange> {
    ns.is_multiple_of(2).then(|| LoadChange { weight: change(ns / 2), fewer: ns.is_multiple_of(4) })
}

fn folded() -> impl Strategy<Value = FoldedRows> {
    (any::<usize>(), number()).prop_map(|(count, ns)| FoldedRows {
        count,
        weight: Weight::new(ns, ns),
        change: load_change(ns),
    })
}

/// Processes and threads, some of them twice.
fn threads() -> impl Strategy<Value = ThreadTable> {
    let states = vec![
        ThreadState::Running,
        ThreadState::Waiting,
        ThreadState::Sleeping,
        ThreadState::Stopped,
        ThreadState::Unknown,
        ThreadState::Ended,
    ];
    let row = || {
        (name(), name()).prop_map(|(full, module)| StackRow {
            short: full.as_str().into(),
            full: full.as_str().into(),
            module: module.as_str().into(),
            is_own: full.len().is_multiple_of(2),
        })
    };
    let frames = prop::collection::vec((row(), number()), 0..20);
    let deepest = (number(), number(), frames).prop_map(|(used, size, frames)| DeepestRow { used, size, frames });
    let deepest = prop::option::of(deepest);
    let wait = (name(), prop::option::of(number()), row()).prop_map(|(name, since_ns, within)| WaitRow {
        name: name.as_str().into(),
        reason: if name.len().is_multiple_of(2) { WaitReason::Lock } else { WaitReason::Sleep },
        since_ns,
        holder: since_ns.map(|ns| ThreadId((ns % 20) as u32)),
        within,
    });
    let wait = prop::option::of(wait);
    let thread = (
        0..20u32,
        any::<u32>(),
        name(),
        prop::sample::select(states),
        load(),
        any::<bool>(),
        (wait, wait_shares(), deepest),
    );
    let thread = thread.prop_map(|(id, tid, name, state, load, inside, (wait, waits, deepest))| ThreadRow {
        id: ThreadId(id),
        tid,
        name,
        state,
        load,
        inside,
        wait,
        waits,
        stack: Vec::new(),
        deepest,
    });
    let process = (0..9u32, any::<u32>(), name(), number(), any::<(bool, bool)>(), load());
    let process = (process, prop::collection::vec(thread, 0..12), folded()).prop_map(
        |((id, pid, name, since_ns, (ended, is_child), load), threads, folded)| ProcessRow {
            id: ProcessId(id),
            pid,
            parent: pid / 2,
            is_child,
            ancestor: None,
            depth: pid as usize % 99,
            idle: folded,
            command: name.clone(),
            name,
            since_ns,
            ended,
            load,
            inside: is_child,
            threads,
            folded,
        },
    );
    let processes = prop::collection::vec(process, 0..5);
    (processes, folded()).prop_map(|(processes, folded)| ThreadTable { processes, folded })
}

fn trends() -> impl Strategy<Value = Trends> {
    let row = (prop::array::uniform8(any::<f32>()), 0..3_usize).prop_map(|(shares, direction)| Trend {
        shares,
        direction: [Direction::Rising, Direction::Falling, Direction::Steady][direction],
    });
    prop::collection::vec(row, 0..30).prop_map(|rows| Trends { rows })
}

fn wait_shares() -> impl Strategy<Value = Vec<WaitShare>> {
    let reasons = [WaitReason::Lock, WaitReason::RwLock, WaitReason::Sleep, WaitReason::Runnable];
    let share = (prop::sample::select(reasons.to_vec()), name(), name(), number());
    let share = share.prop_map(|(reason, holder, within, weight_ns)| WaitShare {
        variable: within.as_str().into(),
        reason,
        holder: Text::from(holder),
        within: Text::from(within),
        weight_ns,
    });
    prop::collection::vec(share, 0..9)
}

fn activity() -> impl Strategy<Value = RowActivity> {
    let thread = (0..99u32, name(), number());
    let thread = thread.prop_map(|(tid, name, weight_ns)| ThreadPart { tid, name: Text::from(name), weight_ns });
    let shares = prop::array::uniform30(any::<f32>());
    (shares, prop::collection::vec(thread, 0..40)).prop_map(|(shares, threads)| RowActivity { shares, threads })
}

fn facts() -> impl Strategy<Value = Facts> {
    let numbers =
        (prop::collection::vec(any::<u32>(), 0..6), prop::option::of(any::<u32>()), number(), number(), any::<usize>());
    let measured = (
        prop::option::of(any::<f64>()),
        prop::option::of(any::<f64>()),
        prop::collection::vec(any::<f32>(), 0..70),
        prop::option::of((any::<f32>(), any::<f32>())),
    );
    let kinds = (0..3_usize, 0..2_usize, 0..8_usize, prop::option::of(any::<i32>()));
    (numbers, measured, kinds, prop::option::of(number())).prop_map(
        |(
            (pids, threads, up, period_ns, processes),
            (effective_hz, overhead, cpu_history, cpu_now),
            kinds,
            waiting,
        )| {
            let states = [
                EngineState::Off,
                EngineState::Running,
                EngineState::SignalTaken,
                EngineState::TimerTaken,
                EngineState::Unsupported,
                EngineState::TimerRefused,
                EngineState::ClockTaken,
            ];
            let (clock, engine, state, ended) = kinds;
            let up = Duration::from_nanos(up);
            Facts {
                pids,
                processes,
                threads,
                up,
                ended: ended.map(|signal| (TargetExit::Killed(signal), up)),
                clock: [Clock::Prof, Clock::Real, Clock::Virtual][clock],
                engine: [Engine::Threads, Engine::Itimer][engine],
                engine_state: states.get(state).copied(),
                period_ns,
                effective_hz,
                overhead,
                sigtop_of_a_cpu: overhead,
                halved_for: overhead,
                age: waiting.map(Duration::from_nanos),
                cpu_history,
                cpu_now,
                symbolizing: (processes, processes / 2),
                waiting,
                ..Session::new(SCREEN).facts
            }
        },
    )
}

/// An arbitrary answer, whose question is set later.
pub(crate) fn answer() -> impl Strategy<Value = Answer> {
    let besides = (
        (prop::option::of(callers()), prop::option::of(activity())),
        prop::option::of(listing()),
        prop::option::of(flame()),
        (prop::option::of(threads().boxed()), wait_shares()),
        trends(),
    );
    let rest = (facts(), prop::collection::vec(name(), 0..3), number(), number());
    // The strategies are boxed, since together they are too large for the stack of a test.
    (table().boxed(), table().boxed(), besides.boxed(), rest.boxed()).prop_map(
        |(window, total, besides, (facts, tagged, now_ns, measured_ns))| {
            let question = Question::default();
            let ((callers, activity), listing, flame, (threads, waits), trends) = besides;
            let ticks_ns = window.rows.iter().map(|row| row.flat_ns).collect::<Vec<_>>().into();
            Answer {
                question,
                window: window.into(),
                total: total.into(),
                callers,
                activity,
                listing,
                flame: flame.map(Arc::new),
                timeline: now_ns.is_multiple_of(3).then_some(Timeline { ticks_ns }),
                baseline_ns: now_ns.is_multiple_of(2).then_some(now_ns),
                overlap_ns: measured_ns,
                threads,
                waits,
                tagged,
                now_ns,
                measured_ns,
                trends: trends.into(),
                facts,
            }
        },
    )
}
