//! Tests of the choice of symbol files, and of the messages if there is none.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sigtop::profile::module::ModuleFile;
use sigtop::symbols::worker::SymbolState;

use crate::skips::are_installed;
use crate::sources::{C, SHARED, SHARING};
use crate::workshop::{Workshop, ask, ask_here, ask_recorded, module};

/// Returns the message that says why there are no names.
fn missing(state: &SymbolState) -> &str {
    match state {
        SymbolState::Missing(why) => why,
        state => panic!("{state:?}"),
    }
}

#[test]
fn a_separate_debug_file_is_found_by_its_link() {
    if !are_installed(&["objcopy", "strip"]) {
        return;
    }
    for directory in [".", ".debug"] {
        for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
            let shop = Workshop::new();
            let path = shop.build("gcc", C, &["-O2", "-g", build_id], "app");
            let hidden = shop.symbol("app", "hidden").start;
            let debug = format!("{directory}/app.debug");
            std::fs::create_dir_all(shop.path(directory)).unwrap();
            shop.run("objcopy", &["--only-keep-debug", "app", &debug]);
            shop.run("strip", &["app"]);
            shop.run("objcopy", &[&format!("--add-gnu-debuglink={debug}"), "app"]);
            let known = ask_here(&path, [hidden]);
            assert_eq!(
                (&known.state, known.names(hidden)),
                (&SymbolState::Lines, vec!["hidden"]),
                "{directory} {build_id}"
            );
            assert!(known.lines[&hidden][0].file.ends_with("inlined.c"), "{:?}", known.lines[&hidden]);

            // Another build's debug file is worse than none.
            shop.build("gcc", (C.0, &format!("int pushed_down;\n{}", C.1)), &["-O0", "-g", build_id], "other");
            shop.run("objcopy", &["--only-keep-debug", "other", &debug]);
            let known = ask_here(&path, [hidden]);
            let place = format!("app+{hidden:#x}");
            let names = known.names(hidden);
            assert_eq!((&known.state, names), (&SymbolState::Exports, vec![&*place]), "{directory} {build_id}");
        }
    }
}

#[test]
fn packed_debug_sections_are_unpacked() {
    if !are_installed(&["objcopy", "readelf"]) {
        return;
    }
    let shop = Workshop::new();
    shop.build("gcc", C, &["-O2", "-g"], "app");
    let outer = shop.symbol("app", "outer").start;
    for kind in ["zlib", "zstd"] {
        shop.run("objcopy", &[&format!("--compress-debug-sections={kind}"), "app", kind]);
        let listed = shop.run("readelf", &["-SW", "--section-details", kind]);
        assert!(listed.to_lowercase().contains(kind), "{kind}: {listed}");
        let known = ask_here(&shop.path(kind), [outer]);
        assert_eq!(known.state, SymbolState::Lines, "{kind}");
        assert_eq!(known.lines[&outer][0].line, ask_here(&shop.path("app"), [outer]).lines[&outer][0].line);
    }
}

#[test]
fn shared_debug_information_is_read_too() {
    let shop = Workshop::new();
    shop.build("gcc", SHARED, &["-shared", "-nostdlib", "-Wl,--build-id=sha1"], "shared.debug");
    let id: String = shop.build_id("shared.debug").iter().map(|byte| format!(", {byte:#x}")).collect();
    let link = format!(".section .gnu_debugaltlink, \"\", @progbits\n.asciz \"shared.debug\"\n.byte {}\n", &id[2..]);
    let source = format!("{}{link}", SHARING.1);
    let path = shop.build("gcc", (SHARING.0, &source), &["-shared", "-nostdlib"], "sharing.so");
    let work = shop.symbol("sharing.so", "work").start;
    assert_eq!(ask_here(&path, [work]).names(work), ["said_elsewhere"]);

    // Without the other file, the symbol is still known.
    shop.build(
        "gcc",
        (SHARED.0, &SHARED.1.replace("said", "nothing")),
        &["-shared", "-nostdlib", "-Wl,--build-id=sha1"],
        "shared.debug",
    );
    assert_eq!(ask_here(&path, [work]).names(work), ["work"]);
}

#[test]
fn split_debug_information_gives_lines() {
    // The compiler calls it.
    if !are_installed(&["objcopy"]) {
        return;
    }
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O1", "-g", "-gsplit-dwarf"], "app");
    let main = shop.symbol("app", "main").start;
    let known = ask_here(&path, [main]);
    assert_eq!((known.state.clone(), known.names(main)), (SymbolState::Lines, vec!["main"]));
    assert!(known.lines[&main][0].line > 0);
}

#[test]
fn a_file_with_another_build_id_is_not_used() {
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2", "-Wl,--build-id=sha1"], "app");
    let outer = shop.symbol("app", "outer").start;
    let right = ModuleFile { build_id: shop.build_id("app"), ..module(&path) };
    let known = ask(right.clone(), std::process::id(), [outer]);
    assert_eq!((known.state.clone(), known.names(outer)), (SymbolState::Symbols, vec!["outer"]));

    let wrong = ModuleFile { build_id: [0xab, 0xcd, 0xef].into(), ..right };
    let known = ask(wrong, std::process::id(), [outer]);
    assert!(known.lines[&outer].is_empty());
    let why = missing(&known.state);
    for part in [path.to_str().unwrap(), "abcdef", "start the program anew"] {
        assert!(why.contains(part), "{why}");
    }

    let unmarked = shop.build("gcc", C, &["-O2", "-Wl,--build-id=none"], "unmarked");
    let known = ask(ModuleFile { build_id: [1, 2].into(), ..module(&unmarked) }, std::process::id(), [outer]);
    assert!(missing(&known.state).contains("no build id"), "{:?}", known.state);
}

#[test]
fn without_a_build_id_the_inode_must_be_the_same() {
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2", "-Wl,--build-id=none"], "app");
    let outer = shop.symbol("app", "outer").start;
    let metadata = std::fs::metadata(&path).unwrap();
    let same = ModuleFile { inode: metadata.ino(), device: metadata.dev(), ..module(&path) };
    assert_eq!(ask(same.clone(), std::process::id(), [outer]).state, SymbolState::Symbols);

    // On layered file systems the inode of a mapping may differ from that of the file.
    let kind = shop.run("stat", &["-f", "-c", "%T", "app"]);
    let replaced = ModuleFile { inode: same.inode + 1, ..same };
    let known = ask(replaced, std::process::id(), [outer]);
    if kind.trim() == "overlayfs" {
        assert_eq!(known.state, SymbolState::Symbols);
    } else {
        assert!(missing(&known.state).contains("replaced"), "{:?}", known.state);
    }
}

/// Regression test: a library without a build id that was built again lent its names to a recording
/// of the old one.
#[test]
fn a_file_that_is_newer_than_the_recording_names_nothing_without_a_build_id() {
    let shop = Workshop::new();
    let (day, id) = (Duration::from_secs(86_400), "-Wl,--build-id=sha1");
    for build_id in ["-Wl,--build-id=none", id] {
        let path = shop.build("gcc", C, &["-O2", build_id], "app");
        let outer = shop.symbol("app", "outer").start;
        let identity = if build_id == id { shop.build_id("app") } else { Box::default() };
        let file = ModuleFile { build_id: identity, ..module(&path) };
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let after = ask_recorded(file.clone(), 0, [outer], Some(modified + day));
        assert_eq!(after.names(outer), ["outer"]);
        let before = ask_recorded(file, 0, [outer], Some(modified - day));
        if build_id == id {
            assert_eq!(before.names(outer), ["outer"], "it is the same");
        } else {
            assert!(before.lines[&outer].is_empty());
            assert!(missing(&before.state).contains("was changed after the recording"), "{:?}", before.state);
        }
    }
}

/// A process that runs until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start(path: &Path) -> Sleeper {
        let child = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program");
        let mut sleeper = Sleeper(child);
        // The first byte of its output shows that it has been loaded.
        let mut byte = [0];
        std::io::Read::read_exact(sleeper.0.stdout.as_mut().unwrap(), &mut byte).expect("it speaks");
        sleeper
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that says when it has been loaded, and then waits.
const WAITS: (&str, &str) = (
    "waits.c",
    "#include <unistd.h>\nint waits(void) { char c; write(1, \"!\", 1); return read(0, &c, 1); }\nint main(void) { return waits(); }\n",
);

/// A package manager renames the old file or removes it, while its first name is already known.
#[test]
fn a_program_that_was_replaced_is_read_from_its_process() {
    let shop = Workshop::new();
    let path = shop.build("gcc", WAITS, &["-O0", "-Wl,--build-id=sha1"], "app");
    let waits = shop.symbol("app", "waits").start;
    let file = ModuleFile { build_id: shop.build_id("app"), ..module(&path) };
    let sleeper = Sleeper::start(&path);
    for replace in ["mv app old", "rm old"] {
        shop.run("sh", &["-c", replace]);
        shop.build("gcc", C, &["-O2"], "app");
        assert_eq!(ask(file.clone(), sleeper.0.id(), [waits]).names(waits), ["waits"], "{replace}");
    }
}

/// Regression test: names were those of the stripped copy, which has the same build id.
#[test]
fn a_program_that_was_stripped_in_its_place_is_read_from_its_process() {
    let shop = Workshop::new();
    let path = shop.build("gcc", WAITS, &["-O0", "-g", "-Wl,--build-id=0x5eed"], "app");
    let waits = shop.symbol("app", "waits").start;
    let build_id = shop.build_id("app");
    shop.build("gcc", WAITS, &["-O0", "-g", "-s", "-Wl,--build-id=0x5eed"], "stripped");
    let sleeper = Sleeper::start(&path);
    std::fs::rename(shop.path("stripped"), &path).unwrap();
    let known = ask(ModuleFile { build_id, path: deleted(&path), ..module(&path) }, sleeper.0.id(), [waits]);
    assert_eq!((known.state.clone(), known.names(waits)), (SymbolState::Lines, vec!["waits"]));
}

/// The path of a deleted file in the kernel's lists.
fn deleted(path: &Path) -> PathBuf {
    format!("{} (deleted)", path.display()).into()
}

#[test]
fn a_program_that_was_removed_is_read_from_its_process() {
    for build_id in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"] {
        let shop = Workshop::new();
        let path = shop.build("gcc", WAITS, &["-O0", build_id], "app");
        let waits = shop.symbol("app", "waits").start;
        let id = if build_id.ends_with("none") { Box::default() } else { shop.build_id("app") };
        let inode = std::fs::metadata(&path).unwrap().ino();
        let sleeper = Sleeper::start(&path);
        std::fs::remove_file(&path).unwrap();
        let file = ModuleFile { path: deleted(&path), build_id: id, device: 0, inode };
        let known = ask(file.clone(), sleeper.0.id(), [waits]);
        assert_eq!((known.state.clone(), known.names(waits)), (SymbolState::Symbols, vec!["waits"]), "{build_id}");

        // A new program with the old name must not be used.
        shop.build("gcc", C, &["-O2", build_id], "app");
        assert_eq!(ask(file.clone(), sleeper.0.id(), [waits]).names(waits), ["waits"], "{build_id}");
        drop(sleeper);
        let known = ask(file, u32::MAX, [waits]);
        assert!(known.lines[&waits].is_empty());
        let why = missing(&known.state);
        assert!(why.contains("start the program anew") || why.contains("no name any more"), "{why}");
    }
}

#[test]
fn what_is_no_program_is_named_with_the_reason() {
    let shop = Workshop::new();
    std::fs::write(shop.path("text"), "#!/bin/sh\necho hello to everybody who reads this file as a program\n").unwrap();
    std::fs::write(shop.path("empty"), "").unwrap();
    shop.run("mkfifo", &["pipe"]);
    shop.build(
        "gcc",
        ("narrow.c", "int f(void) { return 1; }"),
        &["-c", "-Wa,--32", "-m32", "-ffreestanding"],
        "narrow.o",
    );
    for (name, reason) in [
        ("text", "no ELF header"),
        ("empty", "outside of the file"),
        ("pipe", "not a regular file"),
        (".", "not a regular file"),
        ("absent", "No such file"),
        ("narrow.o", "no ELF header"),
    ] {
        let known = ask_here(&shop.path(name), [0x1000, 0x2000]);
        let why = missing(&known.state);
        assert!(why.contains(reason) && why.contains(shop.path(name).to_str().unwrap()), "{name}: {why}");
        assert!(known.lines.values().all(Vec::is_empty));
    }
    // A name that is not a path, one with terminal escape sequences, and an empty one.
    for path in ["anon_inode:[io_uring]", "/memfd:\x1b[31mred (deleted)", ""] {
        let known = ask_here(Path::new(path), [1]);
        assert!(!missing(&known.state).contains('\x1b'), "{:?}", known.state);
    }
}
