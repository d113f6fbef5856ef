//! The raw dump, `sigtop --raw FILE`: everything that was received, for exact accounting. It is
//! written once, at the end.
//!
//! The dump is UTF-8 text with `\n` after every line. It begins with the header, lines of
//! `# key value…`:
//!
//! ```text
//! # sigtop-raw 1
//! # ticks 1234
//! # sent 1230
//! # lost ring-full 3 30303030 0
//! # lost no-slot 0 0 0
//! # agent-cpu 1200000
//! # handler-cpu 900000
//! # foreign-signals 0
//! # interval 524288
//! # process 4123 0 1530000000 /usr/bin/x
//! ```
//!
//! - `sigtop-raw`: version of this format; always the first line.
//! - `ticks`: ticks that were to become samples; `sent`: samples written to sockets. Both are sums
//!   of the last accounts of all process images.
//! - `lost`: a cause of loss, its ticks, and their weights in ns and bytes. There is one line for
//!   each cause (ring-full, no-slot, not-ready, socket-full, no-timer, unaccounted), even if its
//!   counts are 0.
//! - `agent-cpu`: CPU time of agent threads, ns; `handler-cpu`: that of handlers, ns, estimated.
//! - `interval`: mean bytes between two samples of memory; 0 if none was sampled.
//! - `process`: pid, image number (0, then 1 after an exec, …), CPU time in the last account in
//!   ns, and executable (the rest of the line). There is one line for each process image, in order
//!   of the Hello messages.
//!
//! Then follows one line for each distinct (process, thread, clock, cut, stack), in any order, with
//! its fields separated by one space:
//!
//! ```text
//! PID TID CLOCK WEIGHT_NS SAMPLES whole|truncated STACK
//! 4123 4123 prof 10101010 1 whole x!_start;libc.so.6+0x2724a;x!main;x!burn_a
//! ```
//!
//! - CLOCK is `prof`, `real`, `virtual`, `alloc` or `live`.
//! - `truncated` means that the stack was cut or could not be read. It adds no frame.
//! - STACK is the frames from root to leaf, separated by `;`. It is never empty: a stack without
//!   frames is `-`.
//!
//! A frame with a name is `MODULE!NAME`: the last part of the module's path and the full demangled
//! name, with one frame for each inlined function. A frame without a name is `MODULE+0xADDRESS`,
//! with the address in the file (of the call, for a return address), or `?+0xADDRESS` outside of
//! every module. The omitted frames of a deep stack are `?![frames left out]`. In a frame, `\`, `;`
//! and newline are written `\\`, `\;` and `\n`, and other control characters as U+FFFD.

use std::collections::BTreeMap;

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame {
    /// The last part of the module's path, or `?` outside of every module.
    pub(crate) module: String,
    /// The full name, if there is one.
    pub(crate) name: Option<String>,
}

impl Frame {
    fn parse(text: &str) -> Result<Frame, String> {
        if let Some((module, address)) = text.rsplit_once("+0x")
            && !module.contains('!')
            && u64::from_str_radix(address, 16).is_ok()
        {
            return Ok(Frame { module: module.to_owned(), name: None });
        }
        match text.split_once('!') {
            Some((module, name)) if !module.is_empty() && !name.is_empty() => {
                Ok(Frame { module: module.to_owned(), name: Some(name.to_owned()) })
            }
            _ => Err(format!("neither MODULE!NAME nor MODULE+0xADDRESS: {text:?}")),
        }
    }

    /// Returns the name, or an empty string.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("")
    }
}

/// A line of the dump: one distinct stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The process's pid.
    pub(crate) pid: u32,
    /// The thread's tid.
    pub(crate) tid: u32,
    /// The clock: `prof`, `real`, `virtual`, `alloc` or `live`.
    pub(crate) clock: String,
    /// The weight of all its samples in ns.
    pub(crate) weight_ns: u64,
    /// Number of samples.
    pub(crate) samples: u64,
    /// Whether the stack is marked as truncated.
    pub(crate) truncated: bool,
    /// The frames of the process, root first.
    pub(crate) frames: Vec<Frame>,
    /// The frames of the kernel that the last of them called, in the same order.
    pub(crate) kernel: Vec<Frame>,
}

/// A process image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// The process's pid.
    pub(crate) pid: u32,
    /// Number of earlier images of the process.
    pub(crate) image: u32,
    /// CPU time in ns.
    pub(crate) cpu_ns: u64,
    /// The path of the executable.
    pub(crate) executable: String,
}

/// A parsed dump.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raw {
    /// The header lines with one number.
    numbers: BTreeMap<String, u64>,
    /// Lost ticks and their weight in ns, by cause.
    pub(crate) lost: BTreeMap<String, (u64, u64)>,
    /// Bytes of lost samples of memory.
    pub(crate) lost_bytes: u64,
    /// The process images, in order of their Hello messages.
    pub(crate) images: Vec<Image>,
    /// The lines of stacks.
    pub(crate) entries: Vec<Entry>,
}

impl Raw {
    /// Parses a dump. Anything that the format does not allow is an error that names the line.
    pub(crate) fn parse(text: &str) -> Result<Raw, String> {
        let mut raw = Raw::default();
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some("# sigtop-raw 1") {
            return Err(format!("not a raw dump: {:.80?}", text));
        }
        for (number, line) in lines {
            let parsed = match line.strip_prefix("# ") {
                Some(header) => raw.header(header),
                None => entry(line).map(|entry| raw.entries.push(entry)),
            };
            parsed.map_err(|error| format!("line {}: {error}: {line:?}", number + 1))?;
        }
        Ok(raw)
    }

    fn header(&mut self, header: &str) -> Result<(), String> {
        let mut words = header.splitn(2, ' ');
        let (key, rest) = (words.next().unwrap_or(""), words.next().ok_or("no value")?);
        match key {
            "lost" => {
                let mut words = rest.split(' ');
                let cause = words.next().ok_or("no cause")?.to_owned();
                self.lost.insert(cause, (number(words.next())?, number(words.next())?));
                self.lost_bytes += number(words.next())?;
            }
            "process" => {
                let mut words = rest.splitn(4, ' ');
                self.images.push(Image {
                    pid: number(words.next())? as u32,
                    image: number(words.next())? as u32,
                    cpu_ns: number(words.next())?,
                    executable: words.next().ok_or("no executable")?.to_owned(),
                });
            }
            _ => {
                self.numbers.insert(key.to_owned(), number(Some(rest))?);
            }
        }
        Ok(())
    }

    /// Returns the value of a header line with one number.
    pub(crate) fn number(&self, key: &str) -> u64 {
        *self.numbers.get(key).unwrap_or_else(|| panic!("no `# {key} NUMBER` in the dump"))
    }

    /// Returns the number of samples of a clock.
    pub(crate) fn samples(&self, clock: &str) -> u64 {
        self.of(clock).map(|entry| entry.samples).sum()
    }

    /// Returns the weight of a clock's samples in ns.
    pub(crate) fn weight_ns(&self, clock: &str) -> u64 {
        self.of(clock).map(|entry| entry.weight_ns).sum()
    }

    /// Returns the lost ticks of all causes and their weight in ns.
    pub(crate) fn lost_all(&self) -> (u64, u64) {
        self.lost.values().fold((0, 0), |sum, lost| (sum.0 + lost.0, sum.1 + lost.1))
    }

    /// Returns the weight in ns of a clock's samples with a frame whose name satisfies `wanted`,
    /// each counted once.
    pub(crate) fn cum_ns(&self, clock: &str, wanted: impl Fn(&str) -> bool) -> u64 {
        let with = self.of(clock).filter(|entry| entry.frames.iter().any(|frame| wanted(frame.name())));
        with.map(|entry| entry.weight_ns).sum()
    }

    /// Returns the number of these samples.
    pub(crate) fn cum_samples(&self, clock: &str, wanted: impl Fn(&str) -> bool) -> u64 {
        let with = self.of(clock).filter(|entry| entry.frames.iter().any(|frame| wanted(frame.name())));
        with.map(|entry| entry.samples).sum()
    }

    /// Returns the lines of a clock.
    pub(crate) fn of(&self, clock: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.clock == clock)
    }
}

fn number(word: Option<&str>) -> Result<u64, String> {
    let word = word.ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("not a number: {word:?}"))
}

fn entry(line: &str) -> Result<Entry, String> {
    let fields: Vec<&str> = line.splitn(7, ' ').collect();
    let &[pid, tid, clock, weight, samples, cut, stack] = fields.as_slice() else {
        return Err(format!("{} fields of 7", fields.len()));
    };
    if !["prof", "real", "virtual", "alloc", "live"].contains(&clock) || !["whole", "truncated"].contains(&cut) {
        return Err("no such clock or cut".to_owned());
    }
    let mut frames = frames(stack)?;
    let is_kernel = |frame: &Frame| frame.module == "[kernel]";
    let first = frames.iter().position(is_kernel).unwrap_or(frames.len());
    let kernel = frames.split_off(first);
    Ok(Entry {
        pid: number(Some(pid))? as u32,
        tid: number(Some(tid))? as u32,
        clock: clock.to_owned(),
        weight_ns: number(Some(weight))?,
        samples: number(Some(samples))?,
        truncated: cut == "truncated",
        frames,
        kernel,
    })
}

fn frames(stack: &str) -> Result<Vec<Frame>, String> {
    if stack == "-" {
        return Ok(Vec::new());
    }
    let mut texts = vec![String::new()];
    let mut characters = stack.chars();
    while let Some(character) = characters.next() {
        let last = texts.last_mut().expect("never empty");
        match character {
            ';' => texts.push(String::new()),
            '\\' => match characters.next() {
                Some('n') => last.push('\n'),
                Some(escaped @ ('\\' | ';')) => last.push(escaped),
                other => return Err(format!("an escape of {other:?}")),
            },
            _ => last.push(character),
        }
    }
    texts.iter().map(|text| Frame::parse(text)).collect()
}
