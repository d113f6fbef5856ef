//! Triggers under a virtual clock: a spike at a random time is in the file, with its beginning.

use std::time::Duration;

use super::file_schedule::{FileSchedule, ScheduleTimes};
use crate::app::trigger::{Trigger, TriggerState, WINDOW_NS};
use crate::link::recording::{BlockReader, Decoder, RecordingEntry, RecordingInfo};
use crate::session::{BlackBox, Facts, Model, Question};
use crate::symbols::worker::{ResolvedLine, SymbolReply, SymbolState};
use crate::wire::{
    Arrival, Clock, ConnectionEvent, Engine, FrameAddress, Hello, Message, Module, Sample, SourceId, SpawnCause,
};

const SECOND: u64 = 1_000_000_000;
const PERIOD_NS: u64 = SECOND / 99;
/// The addresses of the two functions.
const SERVE: u64 = 0x1100;
const PARSE: u64 = 0x1200;
/// Length of the spike, ns.
const SPIKE_NS: u64 = 2 * SECOND;

struct Simulation {
    model: Model,
    black_box: BlackBox,
    triggers: Vec<TriggerState>,
    schedule: FileSchedule,
    /// The CPU time of the last second, in percent of one CPU, and of the second that is not over.
    cpu: (f32, f32),
}

impl Simulation {
    fn new(condition: &str, start_ns: u64) -> Simulation {
        let about = RecordingInfo {
            version: String::new(),
            command: "server".to_owned(),
            host: String::new(),
            names: false,
            launched: false,
            pid: 7,
            clock: Clock::Prof,
            engine: Engine::Threads,
            period_ns: PERIOD_NS,
            started_ns: start_ns,
            started_unix_ns: start_ns,
            origin: None,
            kernel: String::new(),
        };
        let question = Question { window_ns: Some(WINDOW_NS), ..Question::default() };
        let times = ScheduleTimes { before_ns: 60 * SECOND, after_ns: 10 * SECOND, cooldown_ns: 60 * SECOND };
        let mut simulation = Simulation {
            model: Model::new(Clock::Prof, question),
            black_box: BlackBox::new(Duration::from_secs(120), &about),
            triggers: vec![TriggerState::new(Trigger::parse(condition).expect("a condition"))],
            schedule: FileSchedule::new(times),
            cpu: (0.0, 0.0),
        };
        let (executable, argv) = ((*b"/bin/server").into(), (*b"server\0").into());
        let (token, pid, parent, start_ticks, cpu_ns) = (0, 7, 1, 1, 0);
        let spawn_cause = SpawnCause::Tick;
        let monotonic_ns = start_ns;
        let hello = Hello { token, pid, parent, start_ticks, monotonic_ns, cpu_ns, spawn_cause, executable, argv };
        simulation.arrive(start_ns, Message::Hello(hello));
        let (id, generation, start, end, bias, device, inode) = (1, 1, 0x1000, 0x2000, 0, 1, 1);
        let (path, build_id) = ((*b"/bin/server").into(), [].into());
        let module = Module { id, generation, start, end, bias, device, inode, path, build_id };
        simulation.arrive(start_ns, Message::Module(module));
        simulation
    }

    fn arrive(&mut self, at_ns: u64, message: Message) {
        let arrival = Arrival { source: SourceId(1), pid: 7, at_ns, event: ConnectionEvent::Received(message) };
        self.black_box.record(std::slice::from_ref(&arrival));
        self.model.apply_all(vec![arrival]);
    }

    fn sample(&mut self, at_ns: u64, tid: u32, address: u64) {
        let (clock, flags, generation, weight_ns) = (Clock::Prof, 0, 1, PERIOD_NS);
        let (monotonic_ns, age_ms, slot) = (at_ns, 0, 0);
        let allocation = Default::default();
        let sample = Sample { tid, clock, flags, generation, monotonic_ns, age_ms, weight_ns, allocation, slot };
        let frames = [FrameAddress::Instruction(address).pack()].into();
        self.cpu.1 += 100.0 * PERIOD_NS as f32 / SECOND as f32;
        self.arrive(at_ns, Message::Sample(sample, frames));
    }

    /// Answers as the session does, every half second. Returns the recording if one is due.
    fn look(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if now_ns.is_multiple_of(SECOND) {
            self.cpu = (self.cpu.1, 0.0);
        }
        let mut requests = Vec::new();
        self.model.request_symbols(|request| {
            requests.push(request);
            Ok(())
        });
        for request in requests {
            let name = |address: u64| if address == PARSE { "json::parse" } else { "serve" }.to_owned();
            let line = |address| ResolvedLine {
                full: name(address),
                short: name(address),
                file: String::new(),
                line: 0,
                inlined: false,
            };
            let frames = request.addresses.iter().map(|&(id, address)| (id, vec![line(address)])).collect();
            self.model.apply_symbols(SymbolReply { module: request.module, state: SymbolState::Symbols, frames });
        }
        let facts = Facts { cpu_now: Some((self.cpu.0, 0.0)), ..Facts::unknown(Clock::Prof) };
        let answer = self.model.answer(now_ns, facts);
        for state in &mut self.triggers {
            if let Some(firing) = state.update(&answer) {
                self.schedule.note(firing, false, now_ns);
            }
        }
        self.black_box.advance(now_ns);
        let file = self.schedule.take(now_ns, false)?;
        Some(self.black_box.span(file.since_ns, now_ns, Vec::new()).encode().expect("a recording"))
    }
}

/// Times and leaf addresses of the samples of a recording.
fn samples(recording: &[u8]) -> Vec<(u64, u64)> {
    let (mut decoder, mut all) = (Decoder::default(), Vec::new());
    let mut blocks = BlockReader::open(recording).expect("a recording");
    while let Some(block) = blocks.read().expect("a block") {
        let entries = decoder.decode_block(&block.plain, |entry| {
            if let RecordingEntry::Sample(sampled) = entry {
                all.push((sampled.at_ns, FrameAddress::unpack(sampled.frames[0]).lookup()));
            }
        });
        entries.expect("well-formed entries");
    }
    assert!(decoder.is_complete());
    all
}

fn random() -> impl FnMut(u64) -> u64 {
    let mut state = 0x5167_70a1u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

#[test]
fn a_spike_at_any_time_is_in_the_file_with_its_first_100_ms() {
    let mut random = random();
    let mut files = 0;
    for run in 0..200 {
        let condition = ["cpu>90%", "parse>40%"][run % 2];
        let start_ns = 1_000_000 * SECOND;
        let mut simulation = Simulation::new(condition, start_ns);
        let spike_ns = start_ns + 65 * SECOND + random(30 * SECOND);
        let (mut spike, mut recording) = (Vec::new(), None);
        let mut look_ns = start_ns + SECOND / 2;
        let mut tick_ns = start_ns + random(PERIOD_NS);
        while recording.is_none() && tick_ns < spike_ns + 40 * SECOND {
            while look_ns <= tick_ns {
                recording = recording.or(simulation.look(look_ns));
                look_ns += SECOND / 2;
            }
            // The server uses a quarter of a CPU, and in a spike a whole one besides.
            if random(4) == 0 {
                simulation.sample(tick_ns, 7, SERVE);
            }
            if (spike_ns..spike_ns + SPIKE_NS).contains(&tick_ns) {
                simulation.sample(tick_ns, 8, PARSE);
                spike.push((tick_ns, PARSE));
            }
            tick_ns += PERIOD_NS;
        }
        let Some(recording) = recording else { panic!("run {run}: {condition} has not fired") };
        let all = samples(&recording);
        let in_file: Vec<(u64, u64)> = all.iter().copied().filter(|&(_, address)| address == PARSE).collect();
        let first: Vec<_> = spike.iter().filter(|(at_ns, _)| at_ns - spike_ns < SECOND / 10).collect();
        assert!(first.len() >= 9 && first.iter().all(|sample| in_file.contains(sample)), "run {run}: {condition}");
        assert_eq!(in_file, spike, "run {run}: the whole spike is in the file");
        let (first_ns, last_ns) = (all[0].0, all[all.len() - 1].0);
        assert!((57 * SECOND..64 * SECOND).contains(&(spike_ns - first_ns)), "run {run}: {} ns", spike_ns - first_ns);
        assert!((10 * SECOND..14 * SECOND).contains(&(last_ns - spike_ns)), "run {run}: {} ns", last_ns - spike_ns);
        files += 1;
    }
    assert_eq!(files, 200);
}

#[test]
fn a_steady_load_below_the_limits_writes_nothing() {
    for condition in ["cpu>90%", "parse>60%"] {
        let start_ns = 1_000_000 * SECOND;
        let mut simulation = Simulation::new(condition, start_ns);
        let mut look_ns = start_ns;
        for tick in 0..60 * 99u64 {
            let tick_ns = start_ns + tick * PERIOD_NS;
            while look_ns <= tick_ns {
                assert_eq!(simulation.look(look_ns), None, "{condition}");
                look_ns += SECOND / 2;
            }
            match tick % 4 {
                0 => simulation.sample(tick_ns, 7, SERVE),
                2 => simulation.sample(tick_ns, 7, PARSE),
                _ => {}
            }
        }
    }
}
