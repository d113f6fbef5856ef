//! Reads the lines of a scenario.

use std::collections::HashMap;

use super::code::{FrameText, Texts};
use super::line_text::{FullNames, LineText, line_text};
use crate::wire::{
    Arrival, BlockingCall, Clock, ConnectionEvent, DeepestStack, FrameAddress, Hello, MAX_FRAMES, Message, Module,
    Sample, SourceId, SpawnCause, StackFrame, Thread, Wait, flag,
};

/// Maximum number of samples in one scenario. All are kept in memory before they are played.
const MAX_SAMPLES: u64 = 1_000_000;
/// Size of the address range of every module, and the start of the first one.
const MODULE_SPACE: u64 = 1 << 36;
/// Maximum number of modules in one scenario: their address ranges fit below 2^47.
const MAX_MODULES: usize = (1 << 11) - 2;
/// First address assigned to a function. Addresses below are those given as `module+0x12ab`.
const FIRST_ADDRESS: u64 = 1 << 24;
/// Distance between the addresses of two frames.
const ADDRESS_STEP: u64 = 16;
/// The suffix of an inlined function.
const INLINE: &str = " (inline)";

/// The process that the lines of the scenario describe.
struct CurrentProcess {
    source: SourceId,
    pid: u32,
    tid: u32,
    executable: String,
    start_ns: u64,
    latest_ns: u64,
    modules: Vec<usize>,
    threads: Vec<u32>,
    /// The wait of the following samples of the current thread.
    wait: Option<Wait<Box<[u8]>>>,
}

/// The state of reading a scenario, line by line.
#[derive(Default)]
pub(super) struct ScenarioReader {
    current: Option<CurrentProcess>,
    /// The latest time of every pid.
    ended_ns: HashMap<u32, u64>,
    sources: u32,
    samples: u64,
    pub(super) latest_ns: u64,
    pub(super) now_ns: Option<u64>,
    modules: Vec<String>,
    pub(super) full_names: FullNames,
    /// The address of each frame, by the path of its module and its functions, outermost first.
    pub(super) frames: HashMap<(String, Vec<LineText>), u64>,
    pub(super) texts: Texts,
    pub(super) arrivals: Vec<Arrival>,
}

impl ScenarioReader {
    /// Reads one line.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(super) fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(text) = line.strip_prefix('|') {
            return self.add_line(text);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "" => Ok(()),
            _ if word.starts_with('#') => Ok(()),
            "process" => self.process(rest),
            "thread" => self.thread(rest),
            "name" => self.name(rest),
            "at" => self.at(rest),
            "source" => self.texts.source(rest),
            "code" => self.code(rest),
            "exit" => self.exit(),
            "end" => self.end(),
            "wait" => self.wait(rest),
            "deepest" => self.deepest(rest),
            "now" => {
                self.now_ns = Some(duration_ns(rest)?);
                Ok(())
            }
            _ => Err(format!("‘{word}’ is none of process, thread, name, source, code, at, wait, end, exit, now")),
        }
    }

    fn process(&mut self, text: &str) -> Result<(), String> {
        let usage = "a process is ‘process PID [from PID] [at TIME] COMMAND…’";
        let mut words = text.split_whitespace().peekable();
        let pid = number(words.next().ok_or(usage)?)?;
        let mut parent = 1;
        if words.next_if_eq(&"from").is_some() {
            parent = number(words.next().ok_or(usage)?)?;
        }
        let mut born_ns = None;
        if words.next_if_eq(&"at").is_some() {
            born_ns = Some(duration_ns(words.next().ok_or(usage)?)?);
        }
        let argv: Vec<&str> = words.collect();
        let executable = (*argv.first().ok_or(usage)?).to_owned();
        if self.current.as_ref().is_some_and(|current| current.pid == pid) {
            self.exit()?;
        }
        let start_ns = born_ns.or(self.ended_ns.get(&pid).copied()).unwrap_or(0);
        let source = SourceId(self.sources);
        self.sources += 1;
        let (modules, threads) = (Vec::new(), Vec::new());
        let name = executable.rsplit('/').next().unwrap_or(&executable).to_owned();
        self.current = Some(CurrentProcess {
            source,
            pid,
            tid: pid,
            executable: executable.clone(),
            start_ns,
            latest_ns: start_ns,
            modules,
            threads,
            wait: None,
        });
        self.say(
            start_ns,
            Message::Hello(Hello {
                token: 0,
                pid,
                parent,
                start_ticks: u64::from(pid),
                monotonic_ns: start_ns,
                cpu_ns: 0,
                spawn_cause: SpawnCause::Tick,
                executable: executable.as_bytes().into(),
                argv: argv.iter().flat_map(|word| word.bytes().chain([0])).collect(),
            }),
        )?;
        self.module(&executable)?;
        self.thread(&format!("{pid} {name}"))
    }

    fn exit(&mut self) -> Result<(), String> {
        let CurrentProcess { source, pid, latest_ns, .. } = self.current.take().ok_or("no process before this line")?;
        self.ended_ns.insert(pid, latest_ns);
        self.arrivals.push(Arrival { source, pid, at_ns: latest_ns, event: ConnectionEvent::Closed });
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let CurrentProcess { tid, latest_ns, .. } = *self.current.as_ref().ok_or("no process before this line")?;
        self.say(latest_ns, Message::ThreadEnd { tid })
    }

    fn thread(&mut self, text: &str) -> Result<(), String> {
        let (tid, name) = text.split_once(char::is_whitespace).ok_or("a thread is ‘thread TID NAME’")?;
        let tid = number(tid)?;
        let current = self.current.as_mut().ok_or("no process before this line")?;
        (current.tid, current.wait) = (tid, None);
        let at_ns = if current.threads.contains(&tid) { current.latest_ns } else { current.start_ns };
        current.threads.push(tid);
        self.say(at_ns, Message::Thread(Thread { tid, name: name.trim().as_bytes().into() }))
    }

    /// Reads `CALL [held by TID] [on FILE]`, or nothing.
    fn wait(&mut self, text: &str) -> Result<(), String> {
        let usage = "a wait is ‘wait CALL [held by TID] [on FILE]’, with the call as in /proc/PID/syscall";
        let current = self.current.as_mut().ok_or("no process before this line")?;
        let (text, object) = text.split_once(" on ").unwrap_or((text, ""));
        let (text, holder) = text.split_once(" held by ").unwrap_or((text, "0"));
        let call = BlockingCall::parse(text.trim().as_bytes());
        let object = object.trim().as_bytes();
        current.wait = match call {
            None if text.is_empty() => None,
            None => return Err(usage.to_owned()),
            Some(call) => Some(Wait {
                tid: current.tid,
                call,
                holder: number(holder.trim())?,
                is_file: object.starts_with(b"/"),
                object: object.into(),
            }),
        };
        Ok(())
    }

    /// Reads `USED SIZE BYTES,BYTES,… STACK`: the deepest stack of the thread, with the sizes of its
    /// frames in the order of the stack.
    fn deepest(&mut self, text: &str) -> Result<(), String> {
        let usage = "a deepest stack is ‘deepest USED SIZE BYTES,BYTES,… STACK’";
        let mut words = text.splitn(4, char::is_whitespace).map(str::trim);
        let mut word = || words.next().filter(|word| !word.is_empty()).ok_or(usage);
        let (used, size, sizes, stack) = (word()?, word()?, word()?, word()?);
        let bytes = |text: &str| text.parse::<u64>().map_err(|_| format!("‘{text}’ is not a number of bytes"));
        let mut sizes: Vec<u64> = sizes.split(',').map(bytes).collect::<Result<_, _>>()?;
        sizes.reverse();
        let (addresses, _) = self.stack(stack)?;
        let frames = addresses.into_iter().zip(sizes).map(|(address, bytes)| StackFrame { address, bytes }).collect();
        let CurrentProcess { tid, latest_ns, .. } = *self.current.as_ref().ok_or("no process before this line")?;
        let (used, size) = (bytes(used)?, bytes(size)?);
        self.say(latest_ns, Message::DeepestStack(DeepestStack { tid, generation: 0, used, size, frames }))
    }

    fn code(&mut self, text: &str) -> Result<(), String> {
        let own = self.current.as_ref().ok_or("no process before this line")?.executable.clone();
        let (module, function) = text.split_once('!').unwrap_or((&own, text));
        self.module(module)?;
        self.texts.code(module, function);
        Ok(())
    }

    fn add_line(&mut self, text: &str) -> Result<(), String> {
        if let Some(FrameText { path, lines, address, starred }) = self.texts.add_line(text)? {
            let known = self.frames.entry((path, lines)).or_insert(address);
            *known = if starred { address } else { *known };
        }
        Ok(())
    }

    fn name(&mut self, text: &str) -> Result<(), String> {
        let (short, full) = text.split_once(" = ").ok_or("a name is ‘name SHORT = FULL’")?;
        self.full_names.0.insert(short.trim().to_owned(), full.trim().to_owned());
        Ok(())
    }

    fn at(&mut self, text: &str) -> Result<(), String> {
        let usage = "samples are ‘at TIME CLOCK WEIGHT STACK [x COUNT]’";
        let mut words = text.splitn(4, char::is_whitespace).map(str::trim);
        let mut word = || words.next().filter(|word| !word.is_empty()).ok_or(usage);
        let (time, clock, weight, rest) = (word()?, word()?, word()?, word()?);
        let (from, to) = match time.split_once("..") {
            Some((from, to)) => (duration_ns(from)?, duration_ns(to)?),
            None => (duration_ns(time)?, duration_ns(time)?),
        };
        let length = to.checked_sub(from).ok_or_else(|| format!("‘{time}’ ends before it starts"))?;
        let known = Clock::ALL.into_iter().find(|known| !known.is_memory() && known.names().action == clock);
        let clock = known.ok_or_else(|| format!("‘{clock}’ is none of the clocks prof, real, virtual"))?;
        let weight_ns = duration_ns(weight)?;
        let (stack, count) = match rest.rsplit_once(" x ").map(|(stack, count)| (stack, count.trim().parse::<u64>())) {
            Some((stack, Ok(count))) => (stack, count),
            _ => (rest, 1),
        };
        self.samples = self.samples.saturating_add(count);
        if self.samples > MAX_SAMPLES {
            return Err(format!("more than {MAX_SAMPLES} samples"));
        }
        let (frames, mut flags) = self.stack(stack)?;
        let CurrentProcess { tid, wait, .. } = self.current.as_ref().ok_or("no process before this line")?;
        let (tid, wait) = (*tid, wait.clone());
        let waits = wait.is_some();
        if let Some(wait) = wait {
            flags |= flag::WAITS;
            self.say(from, Message::Wait(wait))?;
        }
        for index in 0..count {
            let at_ns = from + (u128::from(length) * u128::from(index) / u128::from(count)) as u64;
            let sample = Sample {
                tid,
                clock,
                flags,
                generation: 0,
                monotonic_ns: at_ns,
                weight_ns,
                allocation: Default::default(),
                age_ms: 0,
                slot: 0,
            };
            self.say(at_ns, Message::Sample(sample, frames.clone().into()))?;
            // A thread that waits does not run between the samples of one line.
            flags |= if waits { flag::REPEAT } else { 0 };
        }
        Ok(())
    }

    /// Returns the packed frames, leaf first, and the sample's flags.
    fn stack(&mut self, text: &str) -> Result<(Vec<u64>, u32), String> {
        let mut parts = text.split(';').map(str::trim).peekable();
        let flags = if parts.next_if_eq(&"[truncated]").is_some() { flag::TRUNCATED } else { 0 };
        let mut addresses = Vec::new();
        while let Some(part) = parts.next() {
            if let Some(address) = part.strip_prefix("0x") {
                addresses.push(hexadecimal(address, MODULE_SPACE)?);
                continue;
            }
            if let Some((module, address)) = part.split_once("+0x").filter(|(module, _)| !module.contains('!')) {
                addresses.push(self.module(module)? + hexadecimal(address, FIRST_ADDRESS)?);
                continue;
            }
            if part.ends_with(INLINE) {
                return Err(format!("‘{part}’ has no frame before it that it could be inlined into"));
            }
            let own = self.current.as_ref().ok_or("no process before this line")?.executable.clone();
            let (module, function) = part.split_once('!').unwrap_or((&own, part));
            let mut lines = vec![line_text(function)?];
            while let Some(inlined) = parts.next_if(|part| part.ends_with(INLINE)) {
                lines.push(line_text(inlined[..inlined.len() - INLINE.len()].trim_end())?);
            }
            let bias = self.module(module)?;
            let next = FIRST_ADDRESS + self.frames.len() as u64 * ADDRESS_STEP;
            addresses.push(bias + *self.frames.entry((module.to_owned(), lines)).or_insert(next));
        }
        if addresses.is_empty() || addresses.len() > MAX_FRAMES {
            return Err(format!("a stack has 1 to {MAX_FRAMES} frames besides [truncated]"));
        }
        let leaf = addresses.len() - 1;
        let kind = |(index, address)| match index == leaf {
            true => FrameAddress::Instruction(address),
            false => FrameAddress::Return(address + 1),
        };
        Ok((addresses.into_iter().enumerate().map(kind).map(FrameAddress::pack).rev().collect(), flags))
    }

    /// Returns the bias of a module. Announces the module if the process has not mapped it yet.
    fn module(&mut self, path: &str) -> Result<u64, String> {
        if path.is_empty() {
            return Err("a module without a name".to_owned());
        }
        let index = self.modules.iter().position(|known| known == path).unwrap_or_else(|| {
            self.modules.push(path.to_owned());
            self.modules.len() - 1
        });
        if index >= MAX_MODULES {
            return Err(format!("more than {MAX_MODULES} modules"));
        }
        let bias = (index as u64 + 1) * MODULE_SPACE;
        let current = self.current.as_mut().ok_or("no process before this line")?;
        if !current.modules.contains(&index) {
            current.modules.push(index);
            let at_ns = current.start_ns;
            let module = Module {
                id: index as u32,
                generation: 0,
                start: bias,
                end: bias + MODULE_SPACE,
                bias,
                device: 1,
                inode: index as u64 + 1,
                path: path.as_bytes().into(),
                build_id: [].into(),
            };
            self.say(at_ns, Message::Module(module))?;
        }
        Ok(bias)
    }

    fn say(&mut self, at_ns: u64, message: Message) -> Result<(), String> {
        let current = self.current.as_mut().ok_or("no process before this line")?;
        if at_ns < current.start_ns {
            return Err(format!("process {} started only after this", current.pid));
        }
        current.latest_ns = current.latest_ns.max(at_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
        let (source, pid) = (current.source, current.pid);
        self.arrivals.push(Arrival { source, pid, at_ns, event: ConnectionEvent::Received(message) });
        Ok(())
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("‘{text}’ is not a whole number"))
}

fn hexadecimal(text: &str, end: u64) -> Result<u64, String> {
    let address = u64::from_str_radix(text, 16).ok().filter(|&address| address < end);
    address.ok_or_else(|| format!("‘0x{text}’ is not an address below {end:#x}"))
}

/// Parses a duration such as `1.2s` and returns it in ns. The default unit is seconds.
fn duration_ns(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ns = match &text[number.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" => 60_000_000_000,
        _ => return Err(format!("‘{text}’ has none of the units ns, us, ms, s, m")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || format!("‘{text}’ is not a time like 1.2s");
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let fraction_ns = format!("{fraction:0<9}").parse::<u64>().map_err(|_| wrong())?;
    let ns = u128::from(whole) * unit_ns + u128::from(fraction_ns) * unit_ns / 1_000_000_000;
    u64::try_from(ns).map_err(|_| wrong())
}
