//! Damaged and malicious files: every request is answered in bounded time, and nothing crashes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use sigtop::profile::module::ModuleId;
use sigtop::profile::stack::FrameId;
use sigtop::symbols::damage::{Dice, Rounds, damage};
use sigtop::symbols::worker::{self, SymbolRequest, SymbolState};

use crate::skips::are_installed;
use crate::sources::{BOMB, C, CPP};
use crate::workshop::{Known, Workshop, ask_here, module};

/// Sends one file after the other through one worker and waits for all answers.
fn survive(shop: &Workshop, files: impl Iterator<Item = Vec<u8>>, addresses: &[u64], longest: Duration) {
    let (requests, for_worker) = crossbeam_channel::unbounded();
    let (from_worker, replies) = crossbeam_channel::unbounded();
    let worker = worker::spawn(for_worker, from_worker).unwrap();
    let path = shop.path("damaged");
    for (index, bytes) in files.enumerate() {
        std::fs::write(&path, &bytes).unwrap();
        let asked: Vec<(FrameId, u64)> = (0..).map(FrameId).zip(addresses.iter().copied()).collect();
        let mut waiting: HashSet<FrameId> = asked.iter().map(|&(id, _)| id).collect();
        let module_id = ModuleId(index as u32);
        requests
            .send(SymbolRequest {
                module: module_id,
                file: module(&path),
                pid: std::process::id(),
                addresses: asked,
                recorded_at: None,
            })
            .unwrap();
        let started = Instant::now();
        while !waiting.is_empty() {
            let reply = replies.recv_timeout(longest).unwrap_or_else(|error| {
                let kept = std::env::temp_dir().join("sigtop-symbols-stuck");
                let _ = std::fs::copy(&path, &kept);
                panic!("file {index}: {error}; it is kept as {}", kept.display())
            });
            assert_eq!(reply.module, module_id);
            for (id, lines) in reply.frames {
                for line in lines {
                    assert!(!line.full.contains(char::is_control) && !line.file.contains(char::is_control), "{line:?}");
                }
                if reply.state != SymbolState::Reading {
                    waiting.remove(&id);
                }
            }
        }
        assert!(started.elapsed() < longest, "file {index}: {:?}", started.elapsed());
    }
    drop(requests);
    worker.join().expect("the worker ends well");
}

fn addresses(shop: &Workshop, file: &str) -> Vec<u64> {
    let functions = shop.symbols(file).into_iter().filter(|symbol| symbol.size > 0 && symbol.is_code);
    let inside = functions.flat_map(|symbol| [0, symbol.size / 2, symbol.size].map(|at| symbol.start + at));
    inside.chain([0, 1, 0x1000, u64::MAX - 1, u64::MAX, 1 << 63]).collect()
}

/// Reads damaged copies of files, each of which is damaged in its headers and tables every other
/// time. `names` are of files in the shop.
fn survive_damages(shop: &Workshop, names: &[&str], addresses: &[u64], mut rounds: Rounds) {
    let whole: Vec<_> = names.iter().map(|name| (std::fs::read(shop.path(name)).unwrap(), shop.tables(name))).collect();
    let files = std::iter::from_fn(|| {
        rounds.begin_next().then(|| {
            let (bytes, tables) = &whole[rounds.dice.below(whole.len())];
            let mut bytes = bytes.clone();
            damage(&mut bytes, tables, &mut rounds.dice);
            bytes
        })
    });
    survive(shop, files, addresses, Duration::from_secs(20));
}

/// Arguments for a small file, most of which is tables.
const SMALL: [&str; 6] = ["-O2", "-g", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code"];

#[test]
fn damaged_c_programs() {
    let shop = Workshop::new();
    shop.build("gcc", C, &SMALL, "app.so");
    shop.build("gcc", C, &[&SMALL[..], &["-gdwarf-4"]].concat(), "older.so");
    let asked = addresses(&shop, "app.so");
    survive_damages(&shop, &["app.so", "older.so"], &asked, Rounds::new(0x5eed_0001, 20_000));
}

#[test]
fn damaged_files_with_a_packed_symbol_table() {
    if !are_installed(&["objcopy", "strip", "xz"]) {
        return;
    }
    let shop = Workshop::new();
    shop.build("gcc", C, &SMALL, "app.so");
    let asked = addresses(&shop, "app.so");
    shop.run("objcopy", &["--strip-debug", "--remove-section=.comment", "--only-keep-debug", "app.so", "mini"]);
    shop.run("xz", &["mini"]);
    shop.run("strip", &["app.so"]);
    shop.run("objcopy", &["--add-section=.gnu_debugdata=mini.xz", "app.so"]);
    survive_damages(&shop, &["app.so"], &asked, Rounds::new(0x5eed_0003, 6_000));
}

#[test]
fn damaged_cpp_programs() {
    if !are_installed(&["g++"]) {
        return;
    }
    let shop = Workshop::new();
    shop.build("g++", CPP, &["-O1", "-g", "-gz=zlib"], "app");
    shop.build("g++", CPP, &["-O1", "-g", "-gdwarf-4"], "unpacked");
    let asked = addresses(&shop, "unpacked");
    survive_damages(&shop, &["app", "unpacked", "unpacked"], &asked, Rounds::new(0x5eed_0002, 1_500));
}

#[test]
fn every_truncation() {
    let shop = Workshop::new();
    let whole = std::fs::read(shop.build("gcc", C, &["-O2", "-g"], "app")).unwrap();
    let asked = addresses(&shop, "app");
    let files = (0..whole.len()).step_by(37).map(|length| whole[..length].to_vec());
    survive(&shop, files, &asked, Duration::from_secs(20));
}

#[test]
fn garbage() {
    let shop = Workshop::new();
    let header = std::fs::read(shop.build("gcc", C, &["-O2"], "app")).unwrap()[..64].to_vec();
    let mut dice = Dice(0x5eed_0003);
    let files = (0..300).map(|index| {
        let mut bytes = if index % 2 == 0 { header.clone() } else { Vec::new() };
        bytes.extend((0..dice.below(20_000)).map(|_| dice.below(256) as u8));
        bytes
    });
    survive(&shop, files, &[0, 0x1000, 0x1140], Duration::from_secs(20));
}

/// Builds a bomb and asks about its only function. Returns the answer and the time it took.
fn explode(unit: &str, abbreviations: &str, lines: &str) -> (Known, Duration) {
    let shop = Workshop::new();
    let source = BOMB.replace("UNIT", unit).replace("ABBREVIATIONS", abbreviations).replace("LINES", lines);
    let path = shop.build("gcc", ("bomb.s", &source), &["-shared", "-nostdlib"], "bomb.so");
    let work = shop.symbol("bomb.so", "work").start;
    let started = Instant::now();
    let known = ask_here(&path, [work, work + 1]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!((known.names(work), known.names(work + 1)), (vec!["work"], vec!["work"]));
    (known, took)
}

/// One unit with the function, and one file in its line table.
const HARMLESS: &str = "named_unit .Labbreviations\nfunction\n.byte 0, 0\n9:\n";
const ONE_FILE: &str = ".asciz \"a.c\"\n.byte 0, 0, 0\n";

#[test]
fn the_bomb_without_its_powder_is_read() {
    let (known, _) = explode(HARMLESS, "", ONE_FILE);
    assert_eq!(known.state, SymbolState::Lines);
    let line = known.lines.values().next().unwrap().last().unwrap();
    assert_eq!((line.file.as_str(), line.line), ("/src/a.c", 2));
}

#[test]
fn calls_inlined_too_deeply_do_not_fill_the_stack() {
    let calls = ".rept 300000\n.uleb128 3\n.quad work, .Lend - work\n.endr\n.fill 300002\n";
    let unit = format!("named_unit .Labbreviations\nfunction\n{calls}9:\n");
    let (known, _) = explode(&unit, "", ONE_FILE);
    assert!(known.lines.values().all(|lines| lines.len() == 1));
}

#[test]
fn file_names_do_not_multiply_into_gigabytes() {
    // The name of the directory is 1 MB long and applies to each of 300 000 files.
    let unit = "unit .Labbreviations\n.fill 1000000, 1, 0x61\n.byte 0\n.long 0\nfunction\n.byte 0, 0\n9:\n";
    let (known, _) = explode(unit, "", ".rept 300000\n.asciz \"a\"\n.byte 0, 0, 0\n.endr\n");
    assert!(known.lines.values().flatten().all(|line| line.file.is_empty()));
}

#[test]
fn tables_read_again_and_again_are_given_up() {
    // Each unit begins at another offset in one long table of abbreviations.
    let units = ".set at, 0\n.rept 20000\nnamed_unit .Lfirst+at\n.byte 0\n9:\n.set at, at + 6\n.endr\n";
    let abbreviations = ".byte 0\n.Lfirst:\n.set code, 1000\n.rept 100000\n.uleb128 code, 0x34\n.byte 0, 0, 0\n.set code, code + 1\n.endr\n";
    explode(&format!("{units}{HARMLESS}"), abbreviations, ONE_FILE);
}
