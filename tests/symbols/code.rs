//! The code of functions of real programs has the same instructions as objdump's output, and the
//! lines of the source.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::unbounded;
use sigtop::profile::module::{ModuleFile, ModuleId};
use sigtop::symbols::assembly::{Code, LineState};
use sigtop::symbols::worker::{self, CodeRequest};

use crate::skips::are_installed;
use crate::sources::{C, RUST};
use crate::workshop::{Workshop, module};

/// Starts a worker, requests the code at an address, and returns the answers in order.
fn ask(file: ModuleFile, address: u64) -> Vec<Result<Arc<Code>, String>> {
    let ((_, names), (named, _)) = (unbounded(), unbounded());
    let ((request, requests), (replies, codes)) = (unbounded(), unbounded());
    let worker = worker::spawn_for_code(names, named, requests, replies, worker::SymbolOptions::default()).unwrap();
    request.send(CodeRequest { module: ModuleId(7), file, pid: std::process::id(), address }).unwrap();
    drop(request);
    let answers = codes.iter().map(|reply| reply.code).collect();
    worker.join().expect("the worker ends well");
    answers
}

fn code(path: &Path, address: u64) -> Arc<Code> {
    ask(module(path), address).pop().expect("an answer").expect("code")
}

/// Returns the addresses of the instructions of a function according to objdump.
fn objdump(shop: &Workshop, file: &str, symbol: &str) -> Vec<u64> {
    let listed = shop.run("objdump", &["-d", "--no-show-raw-insn", &format!("--disassemble={symbol}"), file]);
    let address = |line: &str| u64::from_str_radix(line.split_once(":\t")?.0.trim(), 16).ok();
    listed.lines().filter_map(address).collect()
}

fn symbol(shop: &Workshop, file: &str, name: &str) -> (u64, u64) {
    let symbols = shop.symbols(file);
    let Range { start, end } = symbols.iter().find(|symbol| symbol.name.contains(name)).expect("a symbol").addresses();
    (start, end)
}

#[test]
fn instructions_are_objdumps_and_lines_are_the_sources() {
    if !are_installed(&["objdump"]) {
        return;
    }
    let shop = Workshop::new();
    let program = shop.build("gcc", C, &["-g", "-O2"], "inlined");
    let (start, end) = symbol(&shop, "inlined", "outer");
    let answers = ask(module(&program), start + 3);
    assert_eq!(answers.len(), 2, "once without lines, once with");
    let [first, last] = [0, 1].map(|index| answers[index].clone().expect("code"));
    assert_eq!((first.lines, last.lines), (LineState::Reading, LineState::Known));
    assert_eq!((&*last.short, last.start, last.end, last.is_cut), ("outer", start, end, false));
    let addresses: Vec<u64> = last.instructions.iter().map(|instruction| instruction.address).collect();
    assert_eq!(addresses, objdump(&shop, "inlined", "outer"));
    assert!(last.modified.is_some());

    // rand() is called on line 5, in a function inlined into an inlined function.
    let call = last.instructions.iter().find(|instruction| instruction.text.contains("rand")).expect("a call");
    let chain: Vec<_> = last.place(call).iter().map(|line| (&*line.short, line.line)).collect();
    assert_eq!(chain[0], ("innermost", 5));
    assert_eq!((chain[1], chain[2].0, chain.len()), (("middle", 9), "outer", 3));
    assert!(last.place(call)[0].file.ends_with("/inlined.c"));
    let (from, to) = last.range("outer", &last.place(call)[2].file).expect("lines");
    assert!((13..=15).contains(&from) && (16..=18).contains(&to), "{from}-{to}");
    // The loop jumps back, to an instruction.
    let jumps: BTreeSet<u64> = last.instructions.iter().filter_map(|instruction| instruction.jump).collect();
    assert!(!jumps.is_empty() && jumps.iter().all(|jump| addresses.contains(jump)), "{jumps:x?}");
}

#[test]
fn what_is_missing_is_said_with_its_remedy() {
    let shop = Workshop::new();
    let program = shop.build("gcc", C, &["-O1"], "no-lines");
    let (start, _) = symbol(&shop, "no-lines", "outer");
    let bare = code(&program, start);
    assert_eq!((bare.lines, bare.places.len()), (LineState::Absent, 0));
    assert!(!bare.instructions.is_empty());

    // Without symbols, unwind tables still tell where functions begin.
    shop.build("gcc", C, &["-O1", "-s"], "no-lines");
    let stripped = code(&program, start);
    assert_eq!((&*stripped.full, stripped.start), (&*format!("no-lines+{start:#x}"), start));

    if are_installed(&["objcopy"]) {
        shop.run("objcopy", &["--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr", "no-lines"]);
        let stripped = ask(module(&program), start).pop().expect("an answer").unwrap_err();
        assert!(stripped.contains("no symbol of") && stripped.contains("debug symbols"), "{stripped}");
    }

    let changed = ModuleFile { build_id: [1, 2, 3].into(), ..module(&program) };
    let changed = ask(changed, start).pop().expect("an answer").unwrap_err();
    assert!(changed.contains("start the program anew"), "{changed}");

    let gone = ask(module(Path::new("/nowhere/app")), 0x1000).pop().expect("an answer").unwrap_err();
    assert!(gone.contains("/nowhere/app cannot be read"), "{gone}");
}

#[test]
fn calls_are_named_in_rust_too() {
    let shop = Workshop::new();
    let program = shop.build("rustc", RUST, &["-g", "-O", "--crate-name", "beasts"], "beasts");
    let (start, _) = symbol(&shop, "beasts", "speak");
    let speak = code(&program, start);
    assert!(speak.full.contains("Speak") || speak.short.contains("speak"), "{}", speak.full);
    let lines = speak.places.iter().map(|place| [place.0[0].line, place.0[place.0.len() - 1].line]);
    assert!(lines.clone().any(|lines| lines == [18, 12]), "{:?}", lines.collect::<Vec<_>>());
    let main = symbol(&shop, "beasts", "beasts4main").0;
    let main = code(&program, main);
    let calls = main.instructions.iter().filter(|instruction| instruction.text.starts_with("call"));
    let calls: Vec<&str> = calls.map(|instruction| &*instruction.text).collect();
    assert!(calls.iter().any(|call| call.ends_with("generic")), "{calls:?}");
}

#[test]
fn calls_through_tables_of_addresses_are_named() {
    const SOURCE: (&str, &str) = (
        "tables.c",
        "#include <stdlib.h>\nint own(int x);\nint caller(int x) { return own(x) + rand() + 1; }\nint own(int x) { return x * rand(); }\n",
    );
    let shop = Workshop::new();
    // Without these flags the linker replaces them by direct calls.
    let flags = ["-O1", "-shared", "-fPIC", "-fno-plt", "-Wl,-Bsymbolic", "-Wl,--no-relax"];
    let library = shop.build("gcc", SOURCE, &flags, "libtables.so");
    let (start, _) = symbol(&shop, "libtables.so", "caller");
    let caller = code(&library, start);
    let calls = caller.instructions.iter().filter(|instruction| instruction.text.starts_with("call"));
    let calls: Vec<&str> = calls.map(|instruction| &*instruction.text).collect();
    assert_eq!(calls, ["call *own@GOT", "call *rand@GOT"]);
}
