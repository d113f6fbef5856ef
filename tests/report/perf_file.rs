//! Files of perf that are made here: both byte orders, compressed, as a stream, and damaged.

use std::io::Cursor;

use nix::sys::resource::{UsageWho, getrusage};
use sigtop::perf_data::{ImportedFile, import};
use sigtop::symbols::damage::Rounds;

/// Maximum peak memory of all tests of this program, kB.
const MOST_KB: i64 = 768 << 10;
/// Fields of samples.
const CHAIN_EVENT: u64 = 1 << 16 | 1 | 2 | 4 | 1 << 5 | 1 << 8;
const STACK_EVENT: u64 = 1 << 16 | 1 | 2 | 4 | 1 << 4 | 1 << 8 | 1 << 11 | 1 << 12 | 1 << 13;
/// The flag by which all records have a trailer.
const SAMPLE_ID_ALL: u64 = 1 << 18;
/// The general registers and the instruction pointer of x86-64.
const REGISTERS: u64 = 0xff_0fff;

/// Writes numbers in one byte order.
#[derive(Clone, Copy)]
struct FileMaker {
    is_big: bool,
}

impl FileMaker {
    fn words(self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.is_big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    fn halves(self, halves: &[u32]) -> Vec<u8> {
        halves.iter().flat_map(|half| if self.is_big { half.to_be_bytes() } else { half.to_le_bytes() }).collect()
    }

    fn record(self, kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let sizes = [misc, body.len() as u16 + 8];
        let sizes = sizes.iter().flat_map(|size| if self.is_big { size.to_be_bytes() } else { size.to_le_bytes() });
        [self.halves(&[kind]), sizes.collect(), body.to_vec()].concat()
    }

    /// The attributes of an event.
    fn event(self, config: u64, sample_type: u64) -> Vec<u8> {
        let flags = SAMPLE_ID_ALL.to_le_bytes().map(|byte| if self.is_big { byte.reverse_bits() } else { byte });
        [
            self.halves(&[1, 128]),
            self.words(&[config, 1000, sample_type, 8]),
            flags.to_vec(),
            // A call stack of the processor, registers, and 16 bytes of the stack.
            self.words(&[0, 0, 0, 1 << 11, REGISTERS]),
            self.halves(&[16, 0]),
            self.words(&[0; 4]),
        ]
        .concat()
    }

    fn trailer(self, time: u64, id: u64) -> Vec<u8> {
        [self.halves(&[7, 7]), self.words(&[time, id])].concat()
    }

    /// The records: a process, its program, two samples of one event and one of another, the end of
    /// the process, and a loss that is known later.
    fn records(self) -> Vec<Vec<u8>> {
        let comm = [self.halves(&[7, 7]), b"made\0\0\0\0".to_vec(), self.trailer(1, 11)].concat();
        let map = [
            self.halves(&[7, 7]),
            self.words(&[0x1000, 0x9000, 0]),
            self.halves(&[0, 0]),
            self.words(&[0, 0]),
            self.halves(&[5, 2]),
            b"/nowhere/made\0\0\0".to_vec(),
            self.trailer(2, 11),
        ];
        let of_chain = |time: u64, chain: &[u64]| {
            let start = [self.words(&[11, 0x1234]), self.halves(&[7, 7]), self.words(&[time, 1000])].concat();
            [start, self.words(&[chain.len() as u64]), self.words(chain)].concat()
        };
        let user = -512_i64 as u64;
        let start = [self.words(&[22, 0x1234]), self.halves(&[7, 7]), self.words(&[5, 3])].concat();
        // A group of two counters without ids, one branch, the registers, and a stack.
        let values = self.words(&[2, 8, 9, 1, 0x2000, 0x1500, 0, 2]);
        let registers = self.words(&[0x3000; REGISTERS.count_ones() as usize]);
        let of_stack = [start, values, registers, self.words(&[16, 0x1600, 0x1700, 16])].concat();
        vec![
            self.record(3, 1 << 13, &comm),
            self.record(10, 2, &map.concat()),
            self.record(9, 2, &of_chain(4, &[user, 0x1234, 0x2345])),
            self.record(9, 2, &of_stack),
            self.record(9, 2, &of_chain(3, &[user, 0x1234])),
            self.record(4, 0, &[self.halves(&[7, 1, 7, 1]), self.words(&[5]), self.trailer(5, 11)].concat()),
            self.record(2, 0, &[self.words(&[11, 5]), self.trailer(6, 11)].concat()),
        ]
    }

    fn magic(self) -> Vec<u8> {
        if self.is_big { b"2ELIFREP".to_vec() } else { b"PERFILE2".to_vec() }
    }

    /// A file with these records.
    fn file(self, records: &[u8]) -> Vec<u8> {
        let events = [self.event(0, CHAIN_EVENT), self.event(2, STACK_EVENT)];
        let (size, start) = (events[0].len() as u64 + 16, 104);
        let ids_at = start + 2 * size;
        let mut file =
            [self.magic(), self.words(&[104, size, start, 2 * size, ids_at + 16, records.len() as u64])].concat();
        file.extend(self.words(&[0; 6]));
        for (event, index) in events.iter().zip(0..) {
            file.extend(event);
            file.extend(self.words(&[ids_at + 8 * index, 8]));
        }
        file.extend(self.words(&[11, 22]));
        file.extend(records);
        file
    }

    /// The same as a stream.
    fn stream(self, records: &[u8]) -> Vec<u8> {
        let mut stream = [self.magic(), self.words(&[16])].concat();
        for (config, sample_type, id) in [(0, CHAIN_EVENT, 11), (2, STACK_EVENT, 22)] {
            let body = [self.event(config, sample_type), self.words(&[id])].concat();
            stream.extend(self.record(64, 0, &body));
        }
        stream.extend(records);
        stream
    }
}

const LITTLE: FileMaker = FileMaker { is_big: false };
const BIG: FileMaker = FileMaker { is_big: true };

fn read(bytes: Vec<u8>) -> Result<ImportedFile, String> {
    import(Box::new(Cursor::new(bytes)), None)
}

/// The events of a file, with their recordings.
fn events(bytes: Vec<u8>) -> Vec<(String, bool, Vec<u8>)> {
    let file = read(bytes).unwrap();
    assert!(file.remarks.is_empty(), "{:?}", file.remarks);
    file.events.into_iter().map(|event| (event.name, event.is_clock, event.bytes)).collect()
}

/// Compresses records: blocks that are stored as they are, cut into records of a few bytes.
fn packed(maker: FileMaker, records: &[u8]) -> Vec<u8> {
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    for block in records.chunks(100) {
        zstd.extend(&((block.len() as u32) << 3).to_le_bytes()[..3]);
        zstd.extend(block);
    }
    zstd.chunks(40).flat_map(|part| maker.record(81, 0, part)).collect()
}

#[test]
fn one_recording_comes_of_every_encoding() {
    let records = LITTLE.records().concat();
    let expected = events(LITTLE.file(&records));
    let names: Vec<(&str, bool)> = expected.iter().map(|(name, is_clock, _)| (name.as_str(), *is_clock)).collect();
    assert_eq!(names, [("cpu-clock", true), ("page-faults", false)]);
    assert!(events(LITTLE.stream(&records)) == expected, "a stream");
    assert!(events(LITTLE.file(&packed(LITTLE, &records))) == expected, "compressed");
    let of_big = BIG.records().concat();
    assert!(events(BIG.file(&of_big)) == expected, "the other byte order");
    assert!(events(BIG.stream(&packed(BIG, &of_big))) == expected, "a compressed stream in the other byte order");
}

#[test]
fn reports_of_a_made_file_have_its_numbers_and_losses() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("made.perf.data");
    std::fs::write(&path, LITTLE.file(&LITTLE.records().concat())).unwrap();
    let report = |options: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sigtop"));
        let output = command.arg("report").args(options).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let clock = report(&["--traces"]);
    assert_eq!(clock.matches("made+0x234").count(), 2, "{clock}");
    assert!(report(&["--top"]).contains("Samples: 2 (71.43% miss rate"), "{}", report(&["--top"]));
    // The calls that the processor has recorded: the target of the last, and where it was called.
    let calls = report(&["--traces", "--sample_index=page-faults"]);
    assert!(calls.contains("         3   made+0x500\n") && calls.contains("   made+0x1000\n"), "{calls}");
}

/// The kernel takes no samples of an event that costs too much until its next tick.
#[test]
fn times_without_samples_are_losses() {
    let throttle = |kind: u32, at: u64, id: u64| {
        LITTLE.record(kind, 0, &[LITTLE.words(&[at, id, 33]), LITTLE.trailer(at, id)].concat())
    };
    let losses = |more: &[Vec<u8>], event: &str| {
        let name = format!("throttled-{event}-{}.perf.data", more.len());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, LITTLE.file(&[LITTLE.records(), more.to_vec()].concat().concat())).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sigtop"));
        let output = command.args(["report", "--json", "--sample_index", event]).arg(&path).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = json["recordings"].as_array().unwrap().iter().flat_map(|one| one["losses"].as_array().unwrap());
        let all: Vec<u64> = all.map(|loss| loss["ticks"].as_u64().unwrap()).collect();
        (all, said)
    };
    let (before, said) = losses(&[], "cpu-clock");
    assert_eq!((before, said.as_str()), (vec![5], ""), "the lost records of the file");
    // Samples have a period of 1000 ns.
    let (found, said) = losses(&[throttle(5, 10_000, 11), throttle(6, 15_000, 11)], "cpu-clock");
    assert_eq!((found, said.as_str()), (vec![5, 5], ""));
    // A thread that does not run gets no samples again, but it has lost none.
    let (found, _) = losses(&[throttle(5, 10_000, 11), throttle(6, 9_000_000_000, 11)], "cpu-clock");
    assert_eq!(found, [5, 10_000]);
    // A time without an end, and an end without a time.
    for kind in [5, 6] {
        assert_eq!(losses(&[throttle(kind, 10_000, 11)], "cpu-clock").0, [5]);
    }
    // How many page faults there were is not known.
    let (found, said) = losses(&[throttle(5, 10_000, 22), throttle(6, 15_000, 22)], "cpu-clock");
    assert!(found == [5] && said.contains("has 1 times without samples"), "{said}");
}

#[test]
fn every_beginning_of_a_file_is_read_or_refused() {
    let records = LITTLE.records().concat();
    for valid in [LITTLE.file(&records), LITTLE.stream(&packed(LITTLE, &records)), BIG.file(&BIG.records().concat())] {
        for length in 0..valid.len() {
            match read(valid[..length].to_vec()) {
                Ok(file) => assert!(!file.events.is_empty()),
                Err(why) => assert!(!why.is_empty() && why.len() < 1_000, "{why}"),
            }
        }
    }
}

#[test]
fn damaged_files_are_read_or_refused_in_bounded_memory() {
    let records = LITTLE.records().concat();
    let stream = LITTLE.stream(&packed(LITTLE, &records));
    for (valid, seed) in [(LITTLE.file(&records), 31), (stream, 32), (BIG.file(&BIG.records().concat()), 33)] {
        let mut imported = 0;
        Rounds::new(seed, 50_000).read_damaged(&valid, |bytes| match read(bytes.to_vec()) {
            Ok(_) => imported += 1,
            Err(why) => assert!(!why.is_empty() && why.len() < 1_000, "{why}"),
        });
        assert!(imported > 0);
    }
    let most_kb = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    assert!(most_kb < MOST_KB, "{most_kb} kB");
}

#[test]
fn compressed_bytes_that_stand_for_gigabytes_are_refused() {
    // Blocks of one byte, repeated 128 KiB times.
    let block = [&((128 << 10 << 3 | 1 << 1) as u32).to_le_bytes()[..3], &[1]].concat();
    let zstd = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0x58][..], &block.repeat(8 << 10)].concat();
    let records: Vec<u8> = zstd.chunks(32 << 10).flat_map(|part| LITTLE.record(81, 0, part)).collect();
    let why = read(LITTLE.file(&records)).err().unwrap();
    assert!(why.contains("malformed record") || why.contains("times their size"), "{why}");
}
