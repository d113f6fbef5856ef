//! The raw dump of a live profile: one line for each stack, for exact accounting by other programs.
//!
//! The header consists of lines `# key value`, starting with `# sigtop-raw 1`: `ticks`, `sent`,
//! `lost CAUSE TICKS NS BYTES` for each cause, `agent-cpu`, `handler-cpu` (ns), `foreign-signals`,
//! `interval` (the mean bytes between two samples of memory), and for each process image `process
//! PID IMAGE CPU_NS EXECUTABLE`. After it follows a line `PID TID CLOCK WEIGHT_NS SAMPLES
//! whole|truncated STACK` for each distinct stack of a thread. STACK has the frames from root to
//! leaf, separated by `;`: `MODULE!NAME` (an inlined function is a frame of its own),
//! `MODULE+0xADDRESS`, or `?+0xADDRESS` outside of every module. An empty stack is `-`. In a frame,
//! `\`, `;` and newline are escaped with `\`; other control characters become U+FFFD.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::profile::Clock;
use crate::profile::Profile;
use crate::profile::loss::{LossCause, Losses};
use crate::profile::process::Process;
use crate::profile::stack::{Frame, FrameId, StackId};
use crate::profile::thread::ThreadId;
use crate::profile::totals::{Span, Weight};
use crate::symbols::{INTERPRETED_CODE, Names, UNNAMED_CODE};

/// Formats the dump. `losses` are those of the profile, and what the viewer counted.
pub fn format_raw_dump(profile: &Profile, names: &Names, losses: &Losses) -> String {
    let mut out = String::from("# sigtop-raw 1\n");
    write_header(&mut out, profile, losses);
    for clock in Clock::ALL {
        let mut sums: BTreeMap<(ThreadId, StackId), Weight> = BTreeMap::new();
        profile.visit(clock, Span::Total, |key, weight| *sums.entry(key).or_default() += weight);
        for ((thread, stack), weight) in sums {
            write_stack(&mut out, profile, names, (clock, thread, stack), weight);
        }
    }
    out
}

fn write_header(out: &mut String, profile: &Profile, losses: &Losses) {
    let sent: u64 = profile.processes().iter().map(|process| process.account.sent).sum();
    let _ = writeln!(out, "# ticks {}\n# sent {sent}", losses.ticks);
    for cause in LossCause::ALL {
        let index = cause as usize;
        let _ = writeln!(
            out,
            "# lost {} {} {} {}",
            cause.id(),
            losses.lost_ticks[index],
            losses.lost_ns[index],
            losses.lost_bytes[index]
        );
    }
    let _ = writeln!(out, "# agent-cpu {}\n# handler-cpu {}", losses.agent_cpu_ns, losses.handler_cpu_ns);
    let _ = writeln!(out, "# foreign-signals {}", losses.foreign_signals);
    let _ = writeln!(out, "# interval {}", profile.sampling_interval(true));
    for Process { pid, image, account, executable, .. } in profile.processes() {
        let executable = escape(executable);
        let _ = writeln!(out, "# process {pid} {image} {} {executable}", account.process_cpu_ns);
    }
}

fn write_stack(
    out: &mut String,
    profile: &Profile,
    names: &Names,
    (clock, thread, stack): (Clock, ThreadId, StackId),
    weight: Weight,
) {
    let thread = profile.thread(thread);
    let word = clock.names().action;
    let mut frames: Vec<FrameId> = profile.stacks.leaf_first(profile.stacks.code(stack)).collect();
    frames.reverse();
    let truncated = frames.first().is_some_and(|&frame| profile.frame(frame) == Frame::Truncated);
    let whole = if truncated { "truncated" } else { "whole" };
    let names = frames[usize::from(truncated)..].iter().flat_map(|&frame| frame_names(profile, names, frame));
    let stack = names.collect::<Vec<String>>().join(";");
    let stack = if stack.is_empty() { "-" } else { &stack };
    let pid = profile.process(thread.process).pid;
    let count = weight.count(clock);
    let _ = writeln!(out, "{pid} {} {word} {} {count} {whole} {stack}", thread.tid, weight.ns);
}

/// The functions of a frame, outermost first.
fn frame_names(profile: &Profile, names: &Names, id: FrameId) -> Vec<String> {
    let (module, address) = match profile.frame(id) {
        Frame::Code { module, address } => (module, address),
        Frame::Unmapped { address, .. } => return vec![unmapped_name(names, id, address)],
        Frame::Script { .. } => return vec![script_name(names, id)],
        Frame::MemoryLimit => return vec!["?![memory limit]".to_owned()],
        Frame::LeftOut => return vec!["?![frames left out]".to_owned()],
        Frame::Truncated
        | Frame::Wait(_)
        | Frame::Title(_)
        | Frame::Thread(_)
        | Frame::Process(_)
        | Frame::Recording(_) => {
            return vec!["[truncated]".to_owned()];
        }
    };
    let provisional = format!("{}+{address:#x}", profile.modules.file(module).name());
    let lines = names.lines(id);
    if lines.first().is_none_or(|line| !names.function(line.function).has_name()) {
        return vec![escape(&provisional)];
    }
    let module = escape(&profile.modules.file(module).name());
    let name = |line: &crate::symbols::FrameLine| format!("{module}!{}", escape(&names.function(line.function).full));
    lines.iter().rev().map(name).collect()
}

/// The name of code in no file, or its address.
fn unmapped_name(names: &Names, id: FrameId, address: u64) -> String {
    match names.lines(id).first().map(|line| names.function(line.function).full.as_str()) {
        None | Some(UNNAMED_CODE) => format!("?+{address:#x}"),
        Some(name) => format!("{UNNAMED_CODE}!{}", escape(name)),
    }
}

/// The name of a function of an interpreter, and its line.
fn script_name(names: &Names, id: FrameId) -> String {
    names.lines(id).first().map_or_else(String::new, |line| {
        format!("{INTERPRETED_CODE}!{}:{}", escape(&names.function(line.function).full), line.line)
    })
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | ';' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::scenario::scenario;

    #[test]
    fn dump_has_header_and_every_stack() {
        let session = scenario(
            "process 41273 ./server\nthread 41280 worker-0\nat 1s prof 10ms main;work;memcpy x 3\nat 2s prof 10ms main;a\\;b\n",
        )
        .expect("a scenario");
        let text = format_raw_dump(&session.profile, &session.names, &session.profile.losses());
        assert!(text.starts_with("# sigtop-raw 1\n# ticks "), "{text}");
        assert!(text.contains("# lost no-slot 0 0 0\n"));
        let stacks: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(
            stacks.iter().any(|line| line.contains(" prof 30000000 3 whole ") && line.ends_with("!memcpy")),
            "{text}"
        );
    }
}
