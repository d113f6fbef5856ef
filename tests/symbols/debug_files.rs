//! Tests of debug information that is outside of the file, or packed in it. Real tools make each
//! kind of file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use sigtop::symbols::worker::{ResolvedLine, SymbolState};

use crate::skips::are_installed;
use crate::sources::C;
use crate::workshop::{Known, Symbol, Workshop, ask_here};

/// The addresses of the functions that `C` defines.
fn addresses(shop: &Workshop, file: &str) -> Vec<u64> {
    ["outer", "hidden", "main"].iter().flat_map(|name| shop.symbol(file, name).addresses()).collect()
}

/// Names, lines and inlined calls, but not the paths of files: tools shorten these.
fn resolved(known: &Known) -> BTreeMap<u64, Vec<(String, u32, bool)>> {
    let line = |line: &ResolvedLine| (line.full.clone(), line.line, line.inlined);
    known.lines.iter().map(|(&address, lines)| (address, lines.iter().map(line).collect())).collect()
}

fn assert_inlined(known: &Known) {
    let chains: Vec<Vec<&str>> = known.lines.keys().map(|&address| known.names(address)).collect();
    assert!(chains.contains(&vec!["innermost", "middle", "outer"]), "{chains:?}");
}

#[test]
fn packed_symbol_table_names_local_functions() {
    if !are_installed(&["objcopy", "strip", "xz"]) {
        return;
    }
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2"], "app");
    let asked = addresses(&shop, "app");
    shop.run("objcopy", &["--strip-debug", "--remove-section=.comment", "--only-keep-debug", "app", "mini"]);
    shop.run("xz", &["mini"]);
    shop.run("strip", &["app"]);
    let stripped = ask_here(&path, asked.iter().copied());
    assert_eq!(stripped.state, SymbolState::Exports);
    shop.run("objcopy", &["--add-section=.gnu_debugdata=mini.xz", "app"]);
    let known = ask_here(&path, asked.iter().copied());
    assert_eq!(known.state, SymbolState::Symbols);
    let names: std::collections::BTreeSet<&str> = asked.iter().flat_map(|&address| known.names(address)).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["hidden", "main", "outer"]);

    // A damaged one is as good as none.
    let mut packed = std::fs::read(shop.path("mini.xz")).unwrap();
    let middle = packed.len() / 2;
    packed[middle] ^= 0x55;
    std::fs::write(shop.path("damaged.xz"), packed).unwrap();
    shop.run("objcopy", &["--update-section=.gnu_debugdata=damaged.xz", "app"]);
    assert_eq!(ask_here(&path, asked).state, SymbolState::Exports);
}

#[test]
fn debug_information_that_dwz_shares_is_complete() {
    if !are_installed(&["dwz"]) {
        return;
    }
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2", "-g", "-Wl,--build-id=sha1"], "app");
    shop.build("gcc", C, &["-O1", "-g", "-Wl,--build-id=sha1"], "other");
    let asked = addresses(&shop, "app");
    let whole = ask_here(&path, asked.iter().copied());
    assert_inlined(&whole);
    shop.run("dwz", &["-m", "common.debug", "app", "other"]);
    shop.section("app", ".gnu_debugaltlink");
    let shared = ask_here(&path, asked.iter().copied());
    assert_eq!((&shared.state, resolved(&shared)), (&SymbolState::Lines, resolved(&whole)));
}

#[test]
fn split_debug_information_is_complete() {
    // The compiler calls it.
    if !are_installed(&["objcopy"]) {
        return;
    }
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let shop = Workshop::new();
        let path = shop.build("gcc", C, &["-O2", "-g", version], "app");
        let asked = addresses(&shop, "app");
        let whole = ask_here(&path, asked.iter().copied());
        assert_inlined(&whole);
        std::fs::write(shop.path(C.0), C.1).unwrap();
        shop.run("gcc", &["-O2", "-g", version, "-gsplit-dwarf", "-c", C.0, "-o", "part.o"]);
        shop.run("gcc", &["part.o", "-o", "app"]);
        let split = ask_here(&path, asked.iter().copied());
        assert_eq!((&split.state, resolved(&split)), (&SymbolState::Lines, resolved(&whole)), "{version}");

        // LLVM 14 hangs on the fifth version, as gcc writes it.
        if version == "-gdwarf-4" && are_installed(&["llvm-dwp"]) {
            shop.run("llvm-dwp", &["-e", "app", "-o", "app.dwp"]);
            std::fs::rename(shop.path("part.dwo"), shop.path("away")).unwrap();
            let package = ask_here(&path, asked.iter().copied());
            assert_eq!(resolved(&package), resolved(&whole), "{version}");
            std::fs::remove_file(shop.path("app.dwp")).unwrap();
        }

        // Without the other part, and with that of another build, lines and names are still known.
        let _ = std::fs::remove_file(shop.path("part.dwo"));
        let without = ask_here(&path, asked.iter().copied());
        let other = C.1.replace("innermost", "another");
        std::fs::write(shop.path("other.c"), other).unwrap();
        shop.run("gcc", &["-O2", "-g", version, "-gsplit-dwarf", "-c", "other.c", "-o", "part.o"]);
        assert!(shop.path("part.dwo").exists());
        let wrong = ask_here(&path, asked.iter().copied());
        for known in [without, wrong] {
            assert_eq!(known.state, SymbolState::Lines, "{version}");
            assert!(known.lines.values().all(|lines| lines.len() == 1 && lines[0].line > 0), "{:?}", known.lines);
        }
    }
}

#[test]
fn package_of_the_fifth_version_is_complete() {
    if !are_installed(&["clang", "llvm-dwp"]) {
        return;
    }
    let shop = Workshop::new();
    let (first, second) = ("first.c", "second.c");
    std::fs::write(shop.path(first), C.1).unwrap();
    // Two units: the index of a package tells them apart.
    let other = ["innermost", "middle", "outer", "hidden", "main"]
        .iter()
        .fold(C.1.to_owned(), |text, name| text.replace(&format!("{name}("), &format!("other_{name}(")));
    std::fs::write(shop.path(second), other).unwrap();
    let names = ["outer", "hidden", "main", "other_outer", "other_hidden", "other_main"];
    let build = |arguments: &[&str]| {
        for (source, object) in [(first, "first.o"), (second, "second.o")] {
            let all = [&["-O2", "-g", "-gdwarf-5"], arguments, &["-c", source, "-o", object]].concat();
            shop.run("clang", &all);
        }
        shop.run("clang", &["first.o", "second.o", "-o", "app"]);
        let symbols = shop.symbols("app");
        let functions = symbols.iter().filter(|symbol| names.contains(&symbol.name.as_str()));
        functions.flat_map(Symbol::addresses).collect::<Vec<u64>>()
    };
    let asked = build(&[]);
    let whole = ask_here(&shop.path("app"), asked.iter().copied());
    assert_inlined(&whole);
    assert_eq!(build(&["-gsplit-dwarf"]), asked);
    shop.run("llvm-dwp", &["-e", "app", "-o", "app.dwp"]);
    shop.section("app.dwp", ".debug_cu_index");
    for part in ["first.dwo", "second.dwo"] {
        std::fs::remove_file(shop.path(part)).unwrap();
    }
    let package = ask_here(&shop.path("app"), asked.iter().copied());
    assert_eq!(resolved(&package), resolved(&whole));
    std::fs::remove_file(shop.path("app.dwp")).unwrap();
    let without = ask_here(&shop.path("app"), asked.iter().copied());
    assert!(resolved(&without) != resolved(&whole), "the package is needed");
}

#[test]
fn debuginfod_cache_is_searched_by_build_id() {
    if !are_installed(&["objcopy", "strip"]) {
        return;
    }
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2", "-g", "-Wl,--build-id=sha1"], "app");
    let id: String = shop.build_id("app").iter().map(|byte| format!("{byte:02x}")).collect();
    let debug_file = format!("cache/{id}/debuginfo");
    std::fs::create_dir_all(shop.path(&format!("cache/{id}"))).unwrap();
    shop.run("objcopy", &["--only-keep-debug", "app", &debug_file]);
    shop.run("strip", &["app"]);
    let explain = |variable: &str, value: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
        command.env_remove("DEBUGINFOD_CACHE_PATH").env_remove("XDG_CACHE_HOME").env(variable, value);
        let output = command.arg("symbols").arg(&path).output().expect("sigtop runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = explain("DEBUGINFOD_CACHE_PATH", &shop.path("cache"));
    for part in [&*debug_file, "the symbol table of its debug file", "the line tables of its debug file"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::rename(shop.path("cache"), shop.path("debuginfod_client")).unwrap();
    assert!(explain("XDG_CACHE_HOME", &shop.path("")).contains("debuginfod_client"));

    // Another file under the same name is not used.
    let elsewhere = shop.path(&format!("debuginfod_client/{id}/debuginfo"));
    shop.build("gcc", C, &["-O1", "-g", "-Wl,--build-id=sha1"], "other");
    std::fs::copy(shop.path("other"), elsewhere).unwrap();
    let text = explain("XDG_CACHE_HOME", &shop.path(""));
    assert!(text.contains("none was found") && text.contains("debuginfo: build id "), "{text}");
}
