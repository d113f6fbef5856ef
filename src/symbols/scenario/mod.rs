//! Scenarios: sessions written as text, for tests, goldens and screenshots. A scenario takes the
//! same path as a real session: [`Arrival`]s go to the profile,
//! [`SymbolReply`](crate::symbols::worker::SymbolReply)s to the names.
//!
//! ```text
//! # Times start at 0. The default unit is seconds; ns, us, ms, s and m are understood.
//! process 41273 ./server --port 8080     its main thread is 41273, its own file ./server
//! name parse_value = json::Parser<R>::parse_value(&mut self)
//! thread 41280 worker-0                  the following lines belong to this thread
//! at 1.2s prof 10ms main;worker_loop;parse_value x 30
//! at 0s..10s prof 10ms main;libc.so.6!memmove@string/memmove.S:12;copy_loop (inline) x 1000
//! wait 202 0x7f10 0x80 0x2 held by 41281 the thread waits in this call in its next samples
//! deepest 800 8192 96,64,8 main;work;spin  its deepest stack has 800 of 8192 bytes
//! end                                    the current thread ends
//! process 41302 from 41273 at 2s ./resize   a child forked at 2 s; the same pid again is an exec
//! at 3s real 1s [truncated];libfoo.so+0x12ab;0x7f001234
//! exit                                   the current process ends
//! now 12s                                default: the time of the last sample
//! ```
//!
//! * `at TIME CLOCK WEIGHT STACK [x COUNT]` adds COUNT samples of this weight each, at one time or
//!   spread evenly over `FROM..TO`. The stack is written root first.
//! * A frame is `[MODULE!]FUNCTION[@FILE:LINE][ (inline)]`. Without a module it lies in the
//!   process's own file. The suffix `(inline)` marks a function inlined into the frame before it. A
//!   frame `MODULE+0x12ab` has no symbol, and a frame `0x12ab` has no module.
//! * `wait CALL [held by TID] [on FILE]` writes a system call as `/proc/PID/syscall` does: its number
//!   and its first three arguments. `wait` alone ends the wait.
//! * `deepest USED SIZE BYTES,BYTES,… STACK` has a size for each frame of the stack.
//! * `source` is followed by the lines of a file, `code` by the instructions of a function: see
//!   [`code`].
//! * `name SHORT = FULL` gives the full name of the function that stacks call SHORT. Frames are
//!   separated by `;`, and the first `!` ends a module, so names with these characters need a
//!   `name`.

mod code;
mod line_text;
mod reader;

use std::collections::HashMap;
use std::fmt;

use crate::profile::Profile;
use crate::symbols::messages::{CodeReply, CodeRequest, ResolvedLine, SymbolReply, SymbolRequest, SymbolState};
use crate::symbols::names::Names;
use crate::symbols::source;
use crate::wire::Arrival;
use code::Listings;
use reader::ScenarioReader;

/// A scenario that has been played.
pub struct Scenario {
    /// The profile with all samples.
    pub profile: Profile,
    /// The names of all its frames, fully resolved.
    pub names: Names,
    /// The viewer's clock, ns.
    pub now_ns: u64,
    /// The script that was played.
    pub script: Script,
}

/// The reason why a text is not a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Line of the text, from 1.
    pub line: usize,
    /// A description of the error and of the correct syntax.
    pub cause: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for ScenarioError {}

/// Reads and plays a scenario.
///
/// # Errors
/// Returns the first line that is not understood.
pub fn scenario(text: &str) -> Result<Scenario, ScenarioError> {
    let script = Script::read(text)?;
    let (mut profile, mut names) = (Profile::default(), Names::default());
    script.arrivals.iter().for_each(|arrival| profile.apply(arrival.clone()));
    for request in names.catch_up(&profile) {
        names.absorb(script.reply(&request));
    }
    names.explain_waits(&profile);
    Ok(Scenario { profile, names, now_ns: script.now_ns, script })
}

/// A scenario before it is played: its arrivals in order of time, and the answers of the symbol
/// worker.
#[derive(Debug)]
pub struct Script {
    /// The arrivals to pass to [`Profile::apply`].
    pub arrivals: Vec<Arrival>,
    /// The viewer's clock at the end, ns.
    pub now_ns: u64,
    /// The functions of each address, innermost first, by path of the module and address.
    resolved: HashMap<(String, u64), Vec<ResolvedLine>>,
    listings: Listings,
}

impl Script {
    /// Reads a scenario.
    ///
    /// # Errors
    /// Returns the first line that is not understood.
    pub fn read(text: &str) -> Result<Script, ScenarioError> {
        let mut reader = ScenarioReader::default();
        for (index, line) in text.lines().enumerate() {
            reader.line(line.trim()).map_err(|cause| ScenarioError { line: index + 1, cause })?;
        }
        let mut arrivals = reader.arrivals;
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        let resolved = reader.frames.into_iter().map(|((path, lines), address)| {
            let innermost_first = lines.into_iter().enumerate().rev();
            let lines = innermost_first.map(|(outer, line)| reader.full_names.resolve(line, outer > 0)).collect();
            ((path, address), lines)
        });
        let resolved = resolved.collect();
        let listings = reader.texts.finish(&reader.full_names);
        Ok(Script { arrivals, now_ns: reader.now_ns.unwrap_or(reader.latest_ns), resolved, listings })
    }

    /// Returns the answer of a symbol worker.
    pub fn reply(&self, request: &SymbolRequest) -> SymbolReply {
        let path = request.file.path.to_string_lossy().into_owned();
        let lines = |address| self.resolved.get(&(path.clone(), address)).cloned().unwrap_or_default();
        let frames = request.addresses.iter().map(|&(id, address)| (id, lines(address))).collect();
        SymbolReply { module: request.module, state: SymbolState::Lines, frames }
    }

    /// Returns the answer of a symbol worker to a request for code.
    pub fn code(&self, request: &CodeRequest) -> CodeReply {
        self.listings.code(request)
    }

    /// Returns the answer of the reader of source files.
    pub fn source(&self, request: &source::SourceRequest) -> source::SourceReply {
        self.listings.source(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::stack::Frame;
    use crate::profile::totals::Span;
    use crate::wire::Clock;

    const TWO: &str = "
        # A server and its child.
        process 41273 ./server --port 8080
        name parse_value = json::Parser<R>::parse_value(&mut self)
        thread 41280 worker-0
        at 1.2s prof 10ms main;worker_loop;parse_value x 30
        at 0s..10s prof 10ms main;libc.so.6!memmove@string/memmove.S:12;copy_loop@copy.h:3 (inline) x 1000
        process 41302 from 41273 ./resize -w 800
        at 3s real 1s [truncated];libfoo.so+0x12ab;0x7f001234
    ";

    /// Returns every stack of a clock with its weight: full names, root first, one for each line.
    fn stacks(played: &Scenario, clock: Clock) -> Vec<(String, u64)> {
        let mut stacks = Vec::new();
        played.profile.visit(clock, Span::Total, |(_, stack), weight| {
            let frames: Vec<_> = played.profile.stacks.leaf_first(stack).collect();
            let lines = frames.iter().rev().flat_map(|&frame| played.names.lines(frame).iter().rev());
            let names: Vec<&str> = lines.map(|line| played.names.function(line.function).full.as_str()).collect();
            stacks.push((names.join(";"), weight.ns));
        });
        stacks.sort();
        stacks
    }

    #[test]
    fn what_is_written_is_what_is_known() {
        let played = scenario(TWO).unwrap();
        assert_eq!(
            stacks(&played, Clock::Prof),
            [
                ("main;memmove;copy_loop".to_owned(), 10_000_000_000),
                ("main;worker_loop;json::Parser<R>::parse_value(&mut self)".to_owned(), 300_000_000),
            ]
        );
        assert_eq!(stacks(&played, Clock::Real), [("[truncated];libfoo.so+0x12ab;[JIT]".to_owned(), 1_000_000_000)]);
        assert_eq!(played.now_ns, 9_990_000_000);
        assert_eq!(played.names.progress().0, 0);
        let [server, resize] = played.profile.processes() else { panic!("two processes") };
        assert_eq!((server.pid, server.argv.join(" ").as_str()), (41273, "./server --port 8080"));
        assert_eq!((resize.pid, resize.parent), (41302, 41273));
        let names: Vec<_> = played.profile.threads().iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
        assert_eq!(names, [(41273, "server"), (41280, "worker-0"), (41302, "resize")]);
    }

    #[test]
    fn inlined_functions_share_a_frame_with_file_and_line() {
        let played = scenario(TWO).unwrap();
        let frames = played.profile.stacks.frames();
        let inlining = frames.iter().position(|&frame| {
            matches!(frame, Frame::Code { module, .. } if played.profile.modules.file(module).name() == "libc.so.6")
        });
        let lines = played.names.lines(crate::profile::stack::FrameId(inlining.unwrap() as u32));
        let lines_found: Vec<_> = lines
            .iter()
            .map(|line| {
                let function = played.names.function(line.function);
                (function.short.as_str(), function.file.as_str(), line.line, line.inlined)
            })
            .collect();
        assert_eq!(lines_found, [("copy_loop", "copy.h", 3, true), ("memmove", "string/memmove.S", 12, false)]);
    }

    #[test]
    fn samples_of_a_span_are_spread_evenly() {
        let script = Script::read("process 7 ./a\nat 1s..2s prof 1ms main x 4").unwrap();
        let times: Vec<u64> = script.arrivals[3..].iter().map(|arrival| arrival.at_ns / 1_000_000).collect();
        assert_eq!(times, [1000, 1250, 1500, 1750]);
    }

    #[test]
    fn the_same_pid_again_is_an_exec() {
        let played = scenario("process 7 sh\nat 1s prof 1ms main\nprocess 7 ./a\nat 2s prof 1ms main\nexit").unwrap();
        let images: Vec<_> = played.profile.processes().iter().map(|image| (image.image, image.connected)).collect();
        assert_eq!(images, [(0, false), (1, false)]);
    }

    #[test]
    fn an_error_names_line_cause_and_remedy() {
        let cause = |text: &str| scenario(text).err().expect("an error").to_string();
        assert_eq!(
            cause("process 7 ./a\nfoo"),
            "line 2: ‘foo’ is none of process, thread, name, source, code, at, wait, end, exit, now"
        );
        assert_eq!(cause("at 1s prof 1ms main"), "line 1: no process before this line");
        assert_eq!(cause("process x ./a"), "line 1: ‘x’ is not a whole number");
        assert!(cause("process 7").contains("COMMAND"));
        for (line, part) in [
            ("at 1s prof 1ms", "STACK"),
            ("at 1s cpu 1ms main", "clocks"),
            ("at 1parsec prof 1ms main", "units"),
            ("at -1s prof 1ms main", "a time like"),
            ("at 99999999999s prof 1ms main", "a time like"),
            ("at 2s..1s prof 1ms main", "ends before"),
            ("at 1s prof 1ms f (inline)", "inlined into"),
            ("at 1s prof 1ms a;;b", "without a name"),
            ("at 1s prof 1ms [truncated]", "1 to 512"),
            ("at 1s prof 1ms libx.so+0x99999999999", "below"),
            ("at 1s prof 1ms !f", "module without a name"),
            ("at 1s prof 1ms f x 99999999999", "samples"),
            ("thread 8", "TID NAME"),
            ("name a b", "SHORT = FULL"),
        ] {
            let cause = cause(&format!("process 7 ./a\n{line}"));
            assert!(cause.starts_with("line 2: ") && cause.contains(part), "{line}: {cause}");
        }
    }
}
