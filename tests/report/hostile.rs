//! Readers under damage: valid files with bytes changed, cut off, and gzip bombs. Whatever they are given, they answer with a
//! profile that fits together or with a sentence, in bounded memory.
//!
//! `SIGTOP_FUZZ=10 cargo test --release --test report damaged` goes on for ten minutes with each reader, with other damage every time, and
//! with damage upon damage that did no harm. What fails names its seed: `SIGTOP_FUZZ=10 SIGTOP_SEED=…` does the same again.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::resource::{UsageWho, getrusage};
use sigtop::track::Opened;
use sigtop::write::error::ReadError;
use sigtop::write::formats;

use crate::making::{legacy, mixed, tests};

/// Memory that all this may take at its highest, kB.
const MOST_KB: i64 = 512 << 10;

/// In CI, and elsewhere.
fn rounds() -> u64 {
    if std::env::var_os("CI").is_some() { 100_000 } else { 500 }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// How long each test goes on, and where its dice begin: the same way every time, unless more is asked for.
fn asked(seed: u64) -> (Duration, u64) {
    let Some(minutes) = variable("SIGTOP_FUZZ") else { return (Duration::ZERO, seed) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    (Duration::from_secs(60 * minutes), variable("SIGTOP_SEED").unwrap_or((now << 8 | seed) | 1))
}

/// Damaged files that are still read, at most.
const MOST_READ: usize = 64;

/// Numbers that come the same way every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..1 + dice.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = dice.below(bytes.len());
        match dice.below(6) {
            0 => bytes[at] = dice.below(256) as u8,
            1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, 0xff),
            4 => drop(bytes.drain(at..(at + 1 + dice.below(8)).min(bytes.len()))),
            _ => {
                let part = bytes[at..(at + 16).min(bytes.len())].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
}

fn survives(valid: &[u8], seed: u64) {
    let ((time, seed), began) = (asked(seed), Instant::now());
    let (mut dice, mut read, mut round) = (Dice(seed), 0, 0);
    let mut harmless: Vec<Vec<u8>> = Vec::new();
    while round < rounds() || began.elapsed() < time {
        let earlier = if time.is_zero() { 0 } else { dice.below(2 * harmless.len().max(1)) };
        let mut bytes = harmless.get(earlier).map_or(valid, Vec::as_slice).to_vec();
        damage(&mut bytes, &mut dice);
        let what = || format!("SIGTOP_SEED={seed}, round {round}");
        let done = std::panic::catch_unwind(|| formats::read(bytes.as_slice()));
        match done.unwrap_or_else(|_| panic!("{}: it panics", what())) {
            Ok(saved) => {
                read += 1;
                saved.check().unwrap_or_else(|why| panic!("{}: {why}", what()));
                if !time.is_zero() && bytes.len() < 4 * valid.len() {
                    let place = if harmless.len() < MOST_READ { harmless.len() } else { dice.below(MOST_READ) };
                    harmless.resize_with(harmless.len().max(place + 1), Vec::new);
                    harmless[place] = bytes;
                }
            }
            Err(error) => {
                let sentence = error.to_string();
                assert!(!sentence.is_empty() && sentence.len() < 1_000, "{}: {sentence}", what());
            }
        }
        round += 1;
    }
    // Some damage does no harm; if none did, it was the damage of everything.
    assert!(read > 0);
    let most_kb = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    assert!(most_kb < MOST_KB, "{most_kb} kB");
}

fn inflated(name: &str) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let packed = fs::File::open(tests().join("profiles").join(name)).unwrap();
    flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn damaged_protos() {
    survives(&inflated("mixed.pb.gz"), 1);
    survives(&inflated("go-cpu.pb.gz"), 2);
}

#[test]
fn damaged_gzip() {
    survives(&fs::read(tests().join("profiles/mixed.pb.gz")).unwrap(), 3);
}

#[test]
fn damaged_gperftools_profiles() {
    survives(&legacy(4, true, 0), 5);
    survives(&legacy(8, false, 1), 6);
}

#[test]
fn damaged_folded_stacks() {
    survives(b"main;a;b c 12\nmain;a 3\n# what\nmain;std::map<int, X>::f(int) 9\n", 7);
}

#[test]
fn damaged_output_of_perf_script() {
    survives(&fs::read(tests().join("profiles/dash.perf")).unwrap(), 8);
}

/// The screen is shown what a damaged profile says, or a sentence.
#[test]
fn damaged_profiles_are_viewed_or_refused() {
    let perf = fs::read(tests().join("profiles/dash.perf")).unwrap();
    for (valid, seed) in [(inflated("mixed.pb.gz"), 11), (perf, 12), (b"main;a;b c 12\nmain;a 3\n".to_vec(), 13)] {
        let mut dice = Dice(seed);
        let mut viewed = 0;
        for round in 0..rounds() / 20 {
            let mut bytes = valid.clone();
            damage(&mut bytes, &mut dice);
            if let Ok(saved) = formats::read(bytes.as_slice()) {
                match Opened::of_saved(&saved, "a") {
                    Ok(_) => viewed += 1,
                    Err(why) => assert!(!why.is_empty() && why.len() < 1_000, "round {round}: {why}"),
                }
            }
        }
        assert!(viewed > 0);
    }
}

#[test]
fn every_beginning_of_a_profile_is_no_profile_or_a_whole_one() {
    let valid = inflated("mixed.pb.gz");
    for length in 0..valid.len() {
        if let Ok(saved) = formats::read(&valid[..length]) {
            saved.check().unwrap();
            assert_ne!(saved, mixed());
        }
    }
}

fn bomb(part: &[u8], times: usize) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    let many = part.repeat(4096);
    for _ in 0..times / 4096 {
        out.write_all(&many).unwrap();
    }
    out.finish().unwrap()
}

#[test]
fn bombs_are_put_down() {
    // 32 MB of empty samples, of unknown fields, of empty words, of a line that does not end.
    for (part, times) in [(&b"\x12\x00"[..], 16 << 20), (b"\xf8\x01\x01", 11 << 20), (b"\x32\x00", 16 << 20)] {
        let error = formats::read(bomb(part, times).as_slice()).unwrap_err();
        assert!(matches!(error, ReadError::Bomb { .. }), "{error}");
        assert!(error.to_string().contains("which no profile does"));
    }
    let mut endless = b"main 1\n".to_vec();
    endless.resize(8 << 20, b'a');
    let line = formats::read(endless.as_slice()).unwrap_err();
    assert!(line.to_string().contains("a line of more than 1 MB"), "{line}");
    let most_kb = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    assert!(most_kb < MOST_KB, "{most_kb} kB");
}

#[test]
fn lengths_that_are_lies_take_no_memory() {
    // A message of 63 MB, and one of 2^60 bytes, of which nothing follows.
    for bytes in [&b"\x12\xff\xff\xff\x1e"[..], b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x0f\x00"] {
        let error = formats::read(bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error}");
    }
}
