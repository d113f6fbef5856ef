//! Merges recordings into one that is played as any other. Each process keeps the name of the
//! recording that it comes from.
//!
//! Recordings that started at about the same time keep their places in time. Others begin together.

use std::collections::HashMap;
use std::io::{self, Read};
use std::mem;

use crossbeam_channel::{Receiver, Select};

use super::generated_code::{generated_code, generated_file};
use super::player::PlaybackSource;
use crate::link::recording::{
    Block, CpuReading, Decoder, Encoder, RecordingEntry, RecordingError, RecordingInfo, TargetExit, UnsampledReading,
};
use crate::profile::process::ProcessId;
use crate::wire::{Arrival, ConnectionEvent, Message, SourceId};

/// Maximum time between the starts of two recordings that keep their places in time, ns.
const SAME_TIME_NS: u64 = 600_000_000_000;

/// A recording that is merged with others.
pub struct NamedSource {
    /// The name that tells it from the others.
    pub name: String,
    /// Whether it may still be written while it is read.
    pub is_live: bool,
    /// The recording.
    pub source: PlaybackSource,
}

/// Merges recordings of the same clock. The description is that of the first, without what only
/// holds for one.
///
/// # Errors
/// If the system cannot start a thread, or the first entries of a recording are malformed.
pub fn merge(sources: Vec<NamedSource>) -> Result<PlaybackSource, RecordingError> {
    let mut remarks = Vec::new();
    let mut inputs = Vec::new();
    for NamedSource { name, is_live, mut source } in sources {
        remarks.extend(source.remark().map(|remark| format!("{name}: {remark}")));
        let (about, blocks) = source.read()?;
        inputs.push(MergedInput::new(name, is_live, about, blocks));
    }
    let about = description(&inputs);
    inputs.iter_mut().for_each(|input| input.set_start(&about));
    let mut merged = PlaybackSource::open(Box::new(MergedReader::new(&about, inputs)))?;
    merged.add_remarks(remarks);
    Ok(merged)
}

/// The description of merged recordings. They start with the earliest.
fn description(inputs: &[MergedInput]) -> RecordingInfo {
    let common = |text: fn(&RecordingInfo) -> &str| {
        let first = text(&inputs[0].about);
        let is_same = inputs.iter().all(|input| text(&input.about) == first);
        if is_same { first.to_owned() } else { String::new() }
    };
    let mut commands: Vec<&str> = inputs.iter().map(|input| input.about.command.as_str()).collect();
    commands.dedup();
    let first = &inputs[0].about;
    let dated = inputs.iter().map(|input| &input.about).filter(|about| about.started_unix_ns > 0);
    let earliest = dated.min_by_key(|about| about.started_unix_ns).unwrap_or(first);
    RecordingInfo {
        command: commands.join(" + "),
        host: common(|about| &about.host),
        kernel: common(|about| &about.kernel),
        names: inputs.iter().any(|input| input.about.names),
        launched: false,
        pid: 0,
        started_ns: earliest.started_ns,
        started_unix_ns: earliest.started_unix_ns,
        origin: inputs.iter().all(|input| input.about.origin.is_some()).then(|| first.origin.clone()).flatten(),
        ..first.clone()
    }
}

/// A recording that is being read.
struct MergedInput {
    name: String,
    is_live: bool,
    about: RecordingInfo,
    blocks: Receiver<Result<Block, RecordingError>>,
    decoder: Decoder,
    whole_bytes: u64,
    is_over: bool,
    /// Time to add to its times, ns, modulo 2⁶⁴.
    shift_ns: u64,
    /// The time of the last entry, ns.
    at_ns: u64,
    /// The numbers of its connections in the merged recording.
    sources: HashMap<SourceId, SourceId>,
    /// The indices of its processes in the merged recording.
    processes: Vec<u32>,
    /// The names that connections have in it, if it is itself merged.
    names: HashMap<SourceId, String>,
    cpu: Option<CpuReading>,
    unsampled: Option<UnsampledReading>,
    exit: Option<TargetExit>,
}

impl MergedInput {
    fn new(
        name: String,
        is_live: bool,
        about: RecordingInfo,
        blocks: Receiver<Result<Block, RecordingError>>,
    ) -> MergedInput {
        MergedInput {
            name,
            is_live,
            at_ns: about.started_ns,
            about,
            blocks,
            decoder: Decoder::default(),
            whole_bytes: 0,
            is_over: false,
            shift_ns: 0,
            sources: HashMap::new(),
            processes: Vec::new(),
            names: HashMap::new(),
            cpu: None,
            unsampled: None,
            exit: None,
        }
    }

    /// Moves it to its place in the merged recording.
    fn set_start(&mut self, merged: &RecordingInfo) {
        let later_ns = self.about.started_unix_ns.saturating_sub(merged.started_unix_ns);
        let is_same_time = self.about.started_unix_ns > 0 && later_ns <= SAME_TIME_NS;
        self.at_ns = merged.started_ns + if is_same_time { later_ns } else { 0 };
        self.shift_ns = self.at_ns.wrapping_sub(self.about.started_ns);
    }

    /// Notes that everything was read. Returns what is wrong with it.
    fn end(&mut self) -> Option<RecordingError> {
        self.is_over = true;
        (!self.decoder.is_complete()).then_some(RecordingError::CutOff { whole_bytes: self.whole_bytes })
    }
}

/// The number of the next connection, and the index of the next process.
#[derive(Default)]
struct NextNumbers {
    source: u32,
    process: u32,
}

/// The bytes of the merged recording.
struct MergedReader {
    inputs: Vec<MergedInput>,
    encoder: Encoder,
    next: NextNumbers,
    ready: io::Cursor<Vec<u8>>,
    is_complete: bool,
    /// The faults of recordings, which are reported at the end.
    faults: Vec<String>,
}

impl Read for MergedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.ready.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            if self.is_complete {
                let faults = mem::take(&mut self.faults);
                return if faults.is_empty() { Ok(0) } else { Err(io::Error::other(faults.join("; "))) };
            }
            match self.next_input() {
                Some(input) => self.merge_block(input),
                None => self.complete(),
            }
        }
    }
}

impl MergedReader {
    fn new(about: &RecordingInfo, inputs: Vec<MergedInput>) -> MergedReader {
        let mut encoder = Encoder::uncompressed(about);
        encoder.flush();
        let ready = io::Cursor::new(encoder.take_blocks().concat());
        MergedReader { inputs, encoder, next: NextNumbers::default(), ready, is_complete: false, faults: Vec::new() }
    }

    /// The recording to read from: of those that are complete the one that is behind the others,
    /// then any of those that arrive.
    fn next_input(&self) -> Option<usize> {
        let open = || self.inputs.iter().enumerate().filter(|(_, input)| !input.is_over);
        let behind = open().filter(|(_, input)| !input.is_live).min_by_key(|(_, input)| input.at_ns);
        if let Some((index, _)) = behind {
            return Some(index);
        }
        let live: Vec<usize> = open().map(|(index, _)| index).collect();
        if live.is_empty() {
            return None;
        }
        let mut select = Select::new();
        for &index in &live {
            select.recv(&self.inputs[index].blocks);
        }
        Some(live[select.ready()])
    }

    /// Reads a block of a recording and writes its entries.
    fn merge_block(&mut self, index: usize) {
        let block = self.inputs[index].blocks.recv();
        let fault = match block {
            Ok(Ok(block)) => self.write_block(index, &block),
            Ok(Err(fault)) => Some(fault),
            Err(_) => self.inputs[index].end(),
        };
        if let Some(fault) = fault {
            let input = &mut self.inputs[index];
            input.is_over = true;
            self.faults.push(format!("{} {fault}", input.name));
        }
        self.encoder.flush();
        self.ready = io::Cursor::new(self.encoder.take_blocks().concat());
    }

    fn write_block(&mut self, index: usize, block: &Block) -> Option<RecordingError> {
        let mut has_reading = false;
        let MergedInput { name, decoder, shift_ns, at_ns, sources, processes, names, cpu, unsampled, exit, .. } =
            &mut self.inputs[index];
        let (encoder, next) = (&mut self.encoder, &mut self.next);
        let mut shifted = |time_ns: u64| {
            let shifted_ns = time_ns.wrapping_add(*shift_ns);
            *at_ns = shifted_ns.max(*at_ns);
            shifted_ns
        };
        let decoded = decoder.decode_block(&block.plain, |entry| match entry {
            RecordingEntry::Sample(sampled) => {
                let event = ConnectionEvent::Received(Message::Sample(sampled.sample, sampled.frames.into()));
                let source = *sources.entry(sampled.source).or_insert_with(|| next.source());
                encoder.write_event(&Arrival { source, pid: sampled.pid, at_ns: shifted(sampled.at_ns), event });
            }
            RecordingEntry::Event(arrival) => {
                if let ConnectionEvent::Received(Message::Hello(_)) = &arrival.event {
                    sources.insert(arrival.source, next.source());
                    processes.push(next.process());
                    let inner = names.remove(&arrival.source).map(|inner| format!("{name}/{inner}"));
                    encoder.write_merged(sources[&arrival.source], inner.as_ref().unwrap_or(name));
                }
                let source = *sources.entry(arrival.source).or_insert_with(|| next.source());
                encoder.write_event(&Arrival { source, at_ns: shifted(arrival.at_ns), ..arrival });
            }
            RecordingEntry::Symbols(mut symbols) => {
                if let Some((process, version)) = generated_code(&symbols.file) {
                    let Some(&process) = processes.get(process.0 as usize) else { return };
                    symbols.file = generated_file(ProcessId(process), version);
                }
                encoder.write_symbols(&symbols);
            }
            RecordingEntry::Merged { source, name } => drop(names.insert(source, name)),
            RecordingEntry::Cpu(reading) => {
                has_reading = true;
                *cpu = Some(CpuReading { at_ns: shifted(reading.at_ns), ..reading });
            }
            RecordingEntry::Unsampled(reading) => {
                has_reading = true;
                *unsampled = Some(UnsampledReading { at_ns: shifted(reading.at_ns), ..reading });
            }
            RecordingEntry::Exited { at_ns, exit: how } => {
                shifted(at_ns);
                *exit = Some(how);
            }
            RecordingEntry::Time(time_ns) => encoder.write_time(shifted(time_ns)),
            RecordingEntry::Info(_) | RecordingEntry::End => {}
        });
        self.inputs[index].whole_bytes = block.at_bytes + block.raw.len() as u64;
        if has_reading && self.sets_the_pace(index) {
            self.write_readings(index);
        }
        decoded.err().map(|fault| RecordingError::Malformed { at_bytes: block.at_bytes, fault })
    }

    /// Whether the readings of all recordings are added when this one has a new reading, so that
    /// there is one sum a second.
    fn sets_the_pace(&self, index: usize) -> bool {
        let first = self.inputs.iter().position(|input| !input.is_over && input.cpu.is_some());
        first.is_none_or(|first| first == index)
    }

    /// Writes the sums of the last readings, at the time of this recording.
    fn write_readings(&mut self, index: usize) {
        let at_ns = self.inputs[index].at_ns;
        let cpu = || self.inputs.iter().filter_map(|input| Some((input.is_over, input.cpu?)));
        let used_ns = cpu().fold(0u64, |sum, (_, cpu)| sum.saturating_add(cpu.used_ns));
        // The last second of a recording that is over has passed.
        let now = cpu().filter(|(is_over, _)| !is_over).filter_map(|(_, cpu)| cpu.now);
        let now = now.reduce(|(user, system), other| (user + other.0, system + other.1));
        self.encoder.write_cpu(&CpuReading { at_ns, used_ns, now });
        let unsampled = || self.inputs.iter().filter_map(|input| input.unsampled.as_ref());
        if let Some(largest) = unsampled().max_by_key(|reading| reading.ns) {
            let sum = |ns: fn(&UnsampledReading) -> u64| unsampled().map(ns).fold(0, u64::saturating_add);
            let ns = sum(|reading| reading.ns);
            let is_reported = unsampled().any(|reading| reading.share > 0.0);
            let share = if is_reported { ns as f64 / used_ns.max(ns).max(1) as f64 } else { 0.0 };
            let (uncounted_ns, reason) = (sum(|reading| reading.uncounted_ns), largest.reason.clone());
            self.encoder.write_unsampled(&UnsampledReading { at_ns, uncounted_ns, ns, share, reason });
        }
    }

    /// Writes the end. The targets have ended if all of them have.
    fn complete(&mut self) {
        let at_ns = self.inputs.iter().map(|input| input.at_ns).max().unwrap_or_default();
        if let Some(last) = (0..self.inputs.len()).max_by_key(|&index| self.inputs[index].at_ns) {
            self.write_readings(last);
        }
        let exits: Option<Vec<TargetExit>> = self.inputs.iter().map(|input| input.exit).collect();
        if let Some([first, others @ ..]) = exits.as_deref() {
            let exit = if others.iter().all(|other| other == first) { *first } else { TargetExit::Gone };
            self.encoder.write_exit(at_ns, exit);
        }
        self.encoder.write_time(at_ns);
        let end = self.encoder.finish(&[]);
        self.ready = io::Cursor::new(self.encoder.take_blocks().into_iter().chain(end).flatten().collect());
        self.is_complete = true;
    }
}

impl NextNumbers {
    fn source(&mut self) -> SourceId {
        self.source += 1;
        SourceId(self.source - 1)
    }

    fn process(&mut self) -> u32 {
        self.process += 1;
        self.process - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::recording::{FileSymbols, RecordedFunction, SymbolStatus};
    use crate::profile::stack::{Frame, FrameId};
    use crate::session::model::Model;
    use crate::session::player::Player;
    use crate::session::protocol::Question;
    use crate::wire::{Clock, Engine, FrameAddress, Hello, Sample, SpawnCause, Thread};

    const SECOND: u64 = 1_000_000_000;
    const ADDRESS: u64 = 0x1000;

    fn about(started_ns: u64, started_unix_ns: u64) -> RecordingInfo {
        RecordingInfo {
            version: String::new(),
            command: "app".to_owned(),
            host: String::new(),
            names: true,
            launched: false,
            pid: 7,
            clock: Clock::Prof,
            engine: Engine::Threads,
            period_ns: SECOND / 99,
            started_ns,
            started_unix_ns,
            origin: None,
            kernel: String::new(),
        }
    }

    /// A recording of process 7 with one sample, a second after the start, in generated code that
    /// is called `function`.
    fn recording(about: &RecordingInfo, function: &str, weight_ns: u64) -> Vec<u8> {
        let mut encoder = Encoder::new(about);
        let at_ns = about.started_ns + SECOND;
        let app = || Box::<[u8]>::from(b"app".as_slice());
        let hello = Hello {
            token: 0,
            pid: 7,
            parent: 1,
            start_ticks: 5,
            monotonic_ns: at_ns,
            cpu_ns: 0,
            spawn_cause: SpawnCause::Tick,
            executable: app(),
            argv: app(),
        };
        let sample = Sample {
            tid: 7,
            clock: Clock::Prof,
            flags: 0,
            generation: 0,
            monotonic_ns: at_ns,
            weight_ns,
            allocation: Default::default(),
            age_ms: 0,
            slot: 0,
        };
        let frames = [FrameAddress::Instruction(ADDRESS).pack()].into();
        for message in
            [Message::Hello(hello), Message::Thread(Thread { tid: 7, name: app() }), Message::Sample(sample, frames)]
        {
            let event = ConnectionEvent::Received(message);
            encoder.write_event(&Arrival { source: SourceId(3), pid: 7, at_ns, event });
        }
        encoder.write_cpu(&CpuReading { at_ns, used_ns: weight_ns, now: Some((10.0, 1.0)) });
        let (full, short) = (function.to_owned(), function.to_owned());
        let named = RecordedFunction { full, short, file: String::new(), line: 0, inlined: false };
        encoder.write_symbols(&FileSymbols {
            file: generated_file(ProcessId(0), 0),
            status: SymbolStatus::Symbols,
            addresses: vec![(ADDRESS, vec![named])],
        });
        let end = encoder.finish(&[]);
        encoder.take_blocks().into_iter().chain(end).flatten().collect()
    }

    fn named(name: &str, bytes: Vec<u8>) -> NamedSource {
        let source = PlaybackSource::open(Box::new(io::Cursor::new(bytes))).expect("a recording");
        NamedSource { name: name.to_owned(), is_live: false, source }
    }

    /// Plays a recording. Returns what it leaves, and its faults.
    fn play(source: PlaybackSource) -> (Model, Player, Vec<String>) {
        let mut model = Model::new(Clock::Prof, Question::default());
        let (about, blocks) = source.read().expect("a thread");
        let mut player = Player::new(about, false);
        let mut faults = Vec::new();
        for block in blocks {
            let played = block.and_then(|block| player.play(&block, &mut model, 0));
            faults.extend(played.err().map(|fault| fault.to_string()));
        }
        (model, player, faults)
    }

    /// Returns the recording of each process, the time of its Hello in ns, its function, and its
    /// weight in ns.
    fn processes(model: &Model) -> Vec<(String, u64, String, u64)> {
        let profile = &model.profile;
        let of = |(index, process): (usize, &crate::profile::process::Process)| {
            let process_id = ProcessId(index as u32);
            let frame = Frame::Unmapped { process: process_id, code_version: 0, address: ADDRESS };
            let id: FrameId = profile.stacks.find(frame).expect("a frame");
            let function = model.names.function(model.names.lines(id)[0].function).full.clone();
            let recording = profile.recording_name(process).expect("a merged recording").to_owned();
            (recording, process.since_ns, function, process.sampled_ns)
        };
        profile.processes().iter().enumerate().map(of).collect()
    }

    #[test]
    fn equal_pids_and_addresses_of_two_recordings_stay_apart() {
        let early = about(100 * SECOND, 1_000_000 * SECOND);
        let late = about(9 * SECOND, 1_000_003 * SECOND);
        let sources = vec![named("b", recording(&late, "two", 20)), named("a", recording(&early, "one", 10))];
        let (model, player, faults) = play(merge(sources).expect("merged"));
        assert!(faults.is_empty(), "{faults:?}");
        let expected = [("a", 101, "one", 10), ("b", 104, "two", 20)]
            .map(|(name, at_s, function, ns)| (name.to_owned(), at_s * SECOND, function.to_owned(), ns));
        assert_eq!(processes(&model), expected);
        assert_eq!(player.cpu_used().as_nanos(), 30);
        assert_eq!(player.cpu_now(), None, "both are over");
    }

    #[test]
    fn recordings_of_different_days_begin_together() {
        let days = [about(100 * SECOND, 1_000_000 * SECOND), about(9 * SECOND, 2_000_000 * SECOND)];
        let sources = days.iter().map(|about| named("day", recording(about, "one", 10))).collect();
        let (model, ..) = play(merge(sources).expect("merged"));
        let times: Vec<u64> = processes(&model).iter().map(|(_, since_ns, ..)| since_ns / SECOND).collect();
        assert_eq!(times, [101, 101]);
    }

    #[test]
    fn what_is_merged_is_merged_again_with_the_names_of_both() {
        let one = |name| named(name, recording(&about(SECOND, 7), name, 10));
        let inner = merge(vec![one("a"), one("b")]).expect("merged");
        let inner = NamedSource { name: "both".to_owned(), is_live: false, source: inner };
        let (model, ..) = play(merge(vec![inner, one("c")]).expect("merged"));
        let mut names: Vec<(String, String)> =
            processes(&model).into_iter().map(|(name, _, function, _)| (name, function)).collect();
        names.sort();
        let expected = [("both/a", "a"), ("both/b", "b"), ("c", "c")];
        assert_eq!(names, expected.map(|(name, function)| (name.to_owned(), function.to_owned())));
    }

    #[test]
    fn a_recording_that_is_cut_off_does_not_end_the_others() {
        let about = about(SECOND, 7);
        let mut cut = recording(&about, "cut", 10);
        cut.truncate(cut.len() - 1);
        let whole = recording(&RecordingInfo { started_unix_ns: 8, ..about }, "whole", 20);
        let (model, _, faults) = play(merge(vec![named("cut", cut), named("whole", whole)]).expect("merged"));
        assert_eq!(processes(&model).len(), 2);
        assert!(faults.len() == 1 && faults[0].contains("cut is truncated after"), "{faults:?}");
    }
}
