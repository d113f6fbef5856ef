//! Size of a recording on disk, and speed of its replay: a real recording of the demo, repeated
//! until it has millions of samples.
//!
//! `cargo bench --bench replay -- --rounds 5 --seconds 12`.

#[path = "measure.rs"]
#[expect(dead_code, reason = "a bench uses a part of what the benches share")]
mod measure;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use measure::{argument, median};
use sigtop::link::recording::{Block, BlockReader, Decoder, Encoder, RecordingEntry, RecordingInfo};
use sigtop::profile::Profile;
use sigtop::wire::{Arrival, ConnectionEvent, Message};

const SIGTOP: &str = env!("CARGO_BIN_EXE_sigtop");
/// Minimum number of samples to replay.
const SAMPLES: usize = 5_000_000;

/// Records the demo's target at this frequency for this many seconds.
fn recorded(hz: &str, seconds: u64) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("sigtop-replay-{}-{hz}.sigtop", std::process::id()));
    let mut command = Command::new(SIGTOP);
    command.args(["record", "--quiet", "--hz", hz, "-o"]).arg(&path).args(["-d", &seconds.to_string(), "--", SIGTOP]);
    let status = command.args(["demo-target", &(seconds + 1).to_string()]).stdout(Stdio::null()).status();
    assert!(status.expect("sigtop runs").success() || path.exists());
    let bytes = fs::read(&path).expect("a recording");
    fs::remove_file(path).expect("a recording");
    bytes
}

fn blocks(bytes: &[u8]) -> Vec<Block> {
    let mut blocks = BlockReader::open(bytes).expect("a recording");
    std::iter::from_fn(|| blocks.read().expect("a whole recording")).collect()
}

/// Bytes per sample after the first part of a recording, in which stacks are new.
fn bytes_a_sample(bytes: &[u8]) -> f64 {
    let (mut decoder, mut sum, mut samples) = (Decoder::default(), 0, 0);
    let blocks = blocks(bytes);
    for (index, block) in blocks.iter().enumerate() {
        let mut here = 0;
        decoder
            .decode_block(&block.plain, |entry| here += usize::from(matches!(entry, RecordingEntry::Sample(_))))
            .expect("entries");
        if index >= blocks.len() / 3 {
            (sum, samples) = (sum + block.raw.len(), samples + here);
        }
    }
    sum as f64 / samples.max(1) as f64
}

/// Concatenates the recording with itself into one.
fn many(bytes: &[u8]) -> (Vec<u8>, usize) {
    let (mut about, mut arrivals): (Option<RecordingInfo>, Vec<Arrival>) = (None, Vec::new());
    let mut decoder = Decoder::default();
    for block in blocks(bytes) {
        let entries = decoder.decode_block(&block.plain, |entry| match entry {
            RecordingEntry::Info(entry) => about = Some(entry),
            RecordingEntry::Event(Arrival { event: ConnectionEvent::Closed | ConnectionEvent::Aborted(_), .. }) => {}
            RecordingEntry::Event(arrival) => arrivals.push(arrival),
            RecordingEntry::Sample(sampled) => {
                let event = ConnectionEvent::Received(Message::Sample(sampled.sample.clone(), sampled.frames.into()));
                let (source, pid, at_ns) = (sampled.source, sampled.pid, sampled.at_ns);
                arrivals.push(Arrival { source, pid, at_ns, event });
            }
            _ => {}
        });
        entries.expect("entries");
    }
    let mut encoder = Encoder::new(&about.expect("a beginning"));
    arrivals.iter().for_each(|arrival| encoder.write_event(arrival));
    let is_sample = |arrival: &&Arrival| matches!(arrival.event, ConnectionEvent::Received(Message::Sample(..)));
    let mut samples: Vec<Arrival> = arrivals.iter().filter(is_sample).cloned().collect();
    let (first, last) = (samples[0].at_ns, samples[samples.len() - 1].at_ns);
    let (round_ns, mut count) = (last - first + 1_000_000, samples.len());
    while count < SAMPLES {
        for arrival in &mut samples {
            arrival.at_ns += round_ns;
            if let ConnectionEvent::Received(Message::Sample(sample, _)) = &mut arrival.event {
                sample.monotonic_ns += round_ns;
            }
            encoder.write_event(arrival);
        }
        count += samples.len();
    }
    let end = encoder.finish(&[]);
    (encoder.take_blocks().into_iter().chain(end).flatten().collect(), count)
}

/// Millions of samples per second: decompressed only, also decoded, and also added to a profile.
fn speeds(bytes: &[u8], samples: usize) -> [f64; 3] {
    let speed = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        samples as f64 / start.elapsed().as_secs_f64() / 1e6
    };
    let unpacked = || drop(blocks(bytes));
    let apart = || {
        let (mut blocks, mut decoder) = (BlockReader::open(bytes).expect("a recording"), Decoder::default());
        while let Some(block) = blocks.read().expect("whole") {
            decoder.decode_block(&block.plain, |_| {}).expect("entries");
        }
    };
    let played = || {
        let (mut blocks, mut decoder) = (BlockReader::open(bytes).expect("a recording"), Decoder::default());
        let mut profile = Profile::default();
        while let Some(block) = blocks.read().expect("whole") {
            let entries = decoder.decode_block(&block.plain, |entry| match entry {
                RecordingEntry::Sample(it) => {
                    profile.apply_recorded(it.source, it.at_ns, &it.sample, it.stack, it.frames)
                }
                RecordingEntry::Event(arrival) => profile.apply(arrival),
                _ => {}
            });
            entries.expect("entries");
        }
        assert_eq!(profile.stack_quality().samples as usize, samples);
    };
    [speed(&unpacked), speed(&apart), speed(&played)]
}

fn main() {
    let (rounds, seconds) = (argument("rounds", 5), argument("seconds", 12));
    for hz in ["99", "999"] {
        let bytes = recorded(hz, seconds);
        let samples: usize = count(&bytes);
        let steady = bytes_a_sample(&bytes);
        println!("{hz} Hz: {samples} samples, {} bytes; {steady:.1} bytes a sample at steady state", bytes.len());
        if hz == "999" {
            let (bytes, samples) = many(&bytes);
            let all: Vec<[f64; 3]> = (0..rounds).map(|_| speeds(&bytes, samples)).collect();
            let middle = |what: usize| median(all.iter().map(|round| round[what]));
            let size = bytes.len() as f64 / samples as f64;
            println!("{samples} samples of {size:.1} bytes, millions a second, median of {rounds}:");
            for (what, name) in ["unpacked", "and taken apart", "and into a profile"].iter().enumerate() {
                println!("  {name:<20} {:.1}", middle(what));
            }
        }
    }
}

/// Number of samples in a recording.
fn count(bytes: &[u8]) -> usize {
    let (mut decoder, mut samples) = (Decoder::default(), 0);
    for block in blocks(bytes) {
        let entries = decoder
            .decode_block(&block.plain, |entry| samples += usize::from(matches!(entry, RecordingEntry::Sample(_))));
        entries.expect("entries");
    }
    samples
}
