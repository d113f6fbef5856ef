//! Robustness of the readers against files with changed bytes, truncated files and gzip bombs. A
//! reader returns a consistent profile or an error message, in bounded memory.
//! `SIGTOP_FUZZ` also damages files again that were still readable.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::slice;

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::sys::resource::{UsageWho, getrusage};
use sigtop::pprof::error::ReadError;
use sigtop::pprof::format;
use sigtop::session::PlaybackSource;
use sigtop::symbols::damage::{Rounds, damage};

use crate::making::{legacy, mixed, tests};

/// Maximum peak memory of all these tests, kB.
const MOST_KB: i64 = 768 << 10;

/// Maximum number of damaged but readable files that are kept to be damaged again.
const MOST_READ: usize = 64;

/// Reads damaged copies, every other time damaged in the `telling` parts.
fn survives(valid: &[u8], telling: &[Range<usize>], seed: u64) {
    let (mut rounds, mut read) = (Rounds::new(seed, 100_000), 0);
    let mut harmless: Vec<Vec<u8>> = Vec::new();
    while rounds.begin_next() {
        let earlier = if rounds.is_fuzzing() { rounds.dice.below(2 * harmless.len().max(1)) } else { 0 };
        let mut bytes = harmless.get(earlier).map_or(valid, Vec::as_slice).to_vec();
        damage(&mut bytes, telling, &mut rounds.dice);
        match format::read(bytes.as_slice()) {
            Ok(saved) => {
                read += 1;
                saved.check().unwrap();
                if rounds.is_fuzzing() && bytes.len() < 4 * valid.len() {
                    let place = if harmless.len() < MOST_READ { harmless.len() } else { rounds.dice.below(MOST_READ) };
                    harmless.resize_with(harmless.len().max(place + 1), Vec::new);
                    harmless[place] = bytes;
                }
            }
            Err(error) => {
                let sentence = error.to_string();
                assert!(!sentence.is_empty() && sentence.len() < 1_000, "{sentence}");
            }
        }
    }
    // Some damaged files are still readable. If none is, the damage is too heavy for a useful test.
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
    survives(&inflated("mixed.pb.gz"), &[], 1);
    survives(&inflated("go-cpu.pb.gz"), &[], 2);
}

#[test]
fn damaged_gzip() {
    // What is packed has a checksum, the header has none.
    survives(&fs::read(tests().join("profiles/mixed.pb.gz")).unwrap(), slice::from_ref(&(0..10)), 3);
}

#[test]
fn damaged_gperftools_profiles() {
    survives(&legacy(4, true, 0), &[], 5);
    survives(&legacy(8, false, 1), &[], 6);
}

#[test]
fn damaged_profiles_of_contention_threads_and_counts() {
    survives(
        b"--- mutex:\ncycles/second = 2000\nsampling period=100\n4 3 @ 0x1 0x2\nMAPPED_LIBRARIES:\n1-3: a\n",
        &[],
        10,
    );
    survives(
        b"--- threadz 1 ---\n--- Thread 7f (name: a/1) stack: ---\n PC: 0x1: f\n 0x2: g\n--- Thread 80 (name: b/2) stack: \
          ---\n [same as previous thread]\n--- Memory map: ---\n1-3: a\n",
        &[],
        11,
    );
    survives(b"goroutine profile: total 3\n2 @ 0x1 0x2\n#\t0x1\tf\n1 @ 0x2\n", &[], 12);
}

#[test]
fn damaged_heap_profiles() {
    survives(&fs::read(tests().join("profiles/libtcmalloc.heap")).unwrap(), &[], 8);
    survives(
        b"heap_v2/524288\n  t*: 2: 90 [0: 0]\n@ 0x1 0x2\n  t*: 2: 90 [1: 7]\nMAPPED_LIBRARIES:\n1-3 r-xp 0 0:0 7 a\n",
        &[],
        9,
    );
}

#[test]
fn damaged_folded_stacks() {
    survives(b"main;a;b c 12\nmain;a 3\n# what\nmain;std::map<int, X>::f(int) 9\n", &[], 7);
}

#[test]
fn damaged_output_of_perf_script() {
    survives(&fs::read(tests().join("profiles/dash.perf")).unwrap(), &[], 8);
    let flat = fs::read(tests().join("profiles/threads-flat.perf")).unwrap();
    survives(&flat[..2_000], &[], 10);
}

/// A damaged profile is shown on the screen or refused with an error message.
#[test]
fn damaged_profiles_are_viewed_or_refused() {
    let perf = fs::read(tests().join("profiles/dash.perf")).unwrap();
    for (valid, seed) in [(inflated("mixed.pb.gz"), 11), (perf, 12), (b"main;a;b c 12\nmain;a 3\n".to_vec(), 13)] {
        let mut viewed = 0;
        Rounds::new(seed, 5_000).read_damaged(&valid, |bytes| {
            if let Ok(saved) = format::read(bytes) {
                match PlaybackSource::import(&saved, "a", 0) {
                    Ok(_) => viewed += 1,
                    Err(why) => assert!(!why.is_empty() && why.len() < 1_000, "{why}"),
                }
            }
        });
        assert!(viewed > 0);
    }
}

#[test]
fn every_beginning_of_a_profile_is_no_profile_or_a_whole_one() {
    let valid = inflated("mixed.pb.gz");
    for length in 0..valid.len() {
        if let Ok(saved) = format::read(&valid[..length]) {
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
    // 32 MB of empty samples, of unknown fields and of empty strings, and below a line that does
    // not end.
    for (part, times) in [(&b"\x12\x00"[..], 16 << 20), (b"\xf8\x01\x01", 11 << 20), (b"\x32\x00", 16 << 20)] {
        let error = format::read(bomb(part, times).as_slice()).unwrap_err();
        assert!(matches!(error, ReadError::Bomb { .. }), "{error}");
        assert!(error.to_string().contains("not a profile: "));
    }
    let mut endless = b"main 1\n".to_vec();
    endless.resize(8 << 20, b'a');
    let line = format::read(endless.as_slice()).unwrap_err();
    assert!(line.to_string().contains("a line of more than 1 MB"), "{line}");
    let most_kb = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    assert!(most_kb < MOST_KB, "{most_kb} kB");
}

#[test]
fn lengths_that_are_lies_take_no_memory() {
    // The length of a message of 63 MB and that of one of 2^60 bytes, each without the message.
    for bytes in [&b"\x12\xff\xff\xff\x1e"[..], b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x0f\x00"] {
        let error = format::read(bytes).unwrap_err();
        assert!(matches!(error, ReadError::Malformed(_)), "{error}");
    }
}
