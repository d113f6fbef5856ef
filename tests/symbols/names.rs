//! Tests of names, lines and inlined calls, and of addresses that must have none.

use std::collections::{BTreeMap, BTreeSet};

use sigtop::symbols::worker::SymbolState;

use crate::skips::are_installed;
use crate::sources::{ASSEMBLY, C, CPP, LIBRARY, RUST};
use crate::workshop::{Symbol, Workshop, ask_here};

/// Returns, for every address of a section, the names of the sized symbols of `nm` that cover it
/// most closely.
fn expected(symbols: &[Symbol], section: (u64, u64)) -> BTreeMap<u64, Vec<&str>> {
    let covering = |address: u64| {
        let covers = |symbol: &&Symbol| symbol.is_code && symbol.addresses().contains(&address);
        let found: Vec<&Symbol> = symbols.iter().filter(covers).collect();
        let nearest = found.iter().map(|symbol| symbol.start).max();
        found.iter().filter(|symbol| Some(symbol.start) == nearest).map(|symbol| symbol.name.as_str()).collect()
    };
    (section.0..section.1).map(|address| (address, covering(address))).collect()
}

/// Returns the start addresses of symbols without size.
fn unsized_starts(symbols: &[Symbol]) -> Vec<u64> {
    symbols.iter().filter(|symbol| symbol.size == 0).map(|symbol| symbol.start).collect()
}

#[test]
fn every_address_has_the_name_that_nm_gives_it_or_none() {
    if !are_installed(&["nm"]) {
        return;
    }
    let shop = Workshop::new();
    for (level, output) in [("-O0", "slow"), ("-O2", "fast")] {
        let path = shop.build("gcc", C, &[level, "-falign-functions=64"], output);
        let symbols = shop.nm(&[output]);
        let section = shop.section(output, ".text");
        let known = ask_here(&path, section.0..section.1);
        assert_eq!(known.state, SymbolState::Symbols);
        let unsized_starts = unsized_starts(&symbols);
        let mut nameless = 0;
        for (address, names) in expected(&symbols, section) {
            let found = known.names(address);
            if let [found] = found[..] {
                let start = unsized_starts.iter().filter(|&&start| start <= address).max();
                let is_unsized = names.is_empty()
                    && start.is_some_and(|start| {
                        symbols.iter().any(|symbol| symbol.start == *start && symbol.name == found)
                    });
                assert!(names.contains(&found) || is_unsized, "{address:#x}: {found}, not {names:?}");
            } else {
                assert_eq!((found.len(), names.len()), (0, 0), "{address:#x}: {names:?}");
                nameless += 1;
            }
        }
        assert!(nameless > 50, "there is padding between functions: {nameless}");
    }
}

/// The program has a symbol without size, like those of crtstuff, followed by code that has unwind
/// tables but no symbol.
#[test]
fn symbol_without_size_ends_where_the_unwind_tables_begin_a_function() {
    let source = ".text\n.globl unsized\n.type unsized,@function\nunsized: nop\nnop\nret\n\
        .cfi_startproc\nnop\nnop\nnop\nnop\nret\n.cfi_endproc\n";
    let shop = Workshop::new();
    let path = shop.build("gcc", ("next.s", source), &["-shared", "-nostdlib"], "next.so");
    let start = shop.section("next.so", ".text").0;
    let known = ask_here(&path, start..start + 8);
    let named: Vec<usize> = (start..start + 8).map(|address| known.names(address).len()).collect();
    assert_eq!(named, [1, 1, 1, 0, 0, 0, 0, 0]);
}

/// Debug information has the name that a library uses for its own function. The symbol table also
/// has the name that programs use.
#[test]
fn function_with_debug_information_has_its_public_name() {
    let source = "void internal(void) __asm__(\"__GI_stop\") __attribute__((visibility(\"hidden\")));\n\
        static volatile int sink;\nvoid internal(void) { sink++; }\n\
        extern void stop(void) __attribute__((alias(\"__GI_stop\")));\n\
        void _IO_put(void) { sink--; }\nextern void put(void) __attribute__((weak, alias(\"_IO_put\")));\n";
    let shop = Workshop::new();
    let path = shop.build("gcc", ("alias.c", source), &["-O2", "-g", "-shared", "-fPIC"], "alias.so");
    for public in ["stop", "put"] {
        let known = ask_here(&path, shop.symbol("alias.so", public).addresses());
        assert_eq!(known.state, SymbolState::Lines);
        for lines in known.lines.values() {
            assert_eq!((lines.len(), lines[0].full.as_str(), lines[0].short.as_str()), (1, public, public));
        }
    }
}

/// Locks are called by the variables that they are, or are in.
#[test]
fn addresses_of_data_have_the_names_of_variables() {
    let source = "struct { long id, locks[9]; } server = { 1 };\nlong counter;\nstatic long hidden = 3;\n\
        const long constant = 4;\nlong *keep(void) { counter++; return &hidden; }\n\
        int main(void) { return (int)(*keep() + constant + server.id); }\n";
    let shop = Workshop::new();
    for (arguments, output) in
        [(&["-g"][..], "lines"), (&["-no-pie"], "fixed"), (&["-static"], "static"), (&["-static-pie"], "static-pie")]
    {
        let path = shop.build("gcc", ("data.c", source), arguments, output);
        for (variable, offset, name) in [
            ("server", 0, Some("server")),
            ("server", 0x28, Some("server+0x28")),
            ("counter", 0, Some("counter")),
            ("hidden", 0, Some("hidden")),
            ("constant", 0, None),
        ] {
            let address = shop.symbol(output, variable).start + offset;
            let known = ask_here(&path, [address]);
            assert_eq!(known.names(address), name.into_iter().collect::<Vec<_>>(), "{output} {variable}");
        }
    }
}

#[test]
fn lines_and_inlined_calls_are_those_of_addr2line() {
    if !are_installed(&["addr2line"]) {
        return;
    }
    let shop = Workshop::new();
    for (arguments, output) in [
        (&["-O2", "-g"][..], "plain"),
        (&["-O2", "-g", "-gdwarf-4"], "dwarf4"),
        (&["-O2", "-g", "-ffunction-sections", "-freorder-functions"], "sections"),
        (&["-O2", "-g", "-gz=zlib"], "packed"),
        (&["-O2", "-g", "-flto"], "lto"),
    ] {
        let path = shop.build("gcc", C, arguments, output);
        let wanted = ["outer", "hidden", "main"];
        let symbols = shop.symbols(output);
        let functions = symbols.iter().filter(|symbol| wanted.contains(&symbol.name.as_str()));
        let addresses: Vec<u64> = functions.flat_map(Symbol::addresses).collect();
        assert!(addresses.len() > 50, "{output}");
        let known = ask_here(&path, addresses.iter().copied());
        assert_eq!(known.state, SymbolState::Lines, "{output}");
        let mut deepest = 0;
        for &address in &addresses {
            let said = shop.run("addr2line", &["-i", "-f", "-e", output, &format!("{address:#x}")]);
            let said: Vec<&str> = said.lines().collect();
            let theirs = said.chunks(2).map(|pair| {
                let (file, line) =
                    pair[1].split_once(" (disc").map_or(pair[1], |(place, _)| place).rsplit_once(':').unwrap();
                (pair[0].to_owned(), file.to_owned(), line.parse().unwrap_or(0))
            });
            let mut theirs: Vec<(String, String, u32)> = theirs.collect();
            let ours = known.lines[&address].iter().map(|line| (line.full.clone(), line.file.clone(), line.line));
            let ours: Vec<(String, String, u32)> = ours.collect();
            // For a few lines that LTO moved, binutils print the unit's artificial name as the
            // file.
            for (theirs, ours) in theirs.iter_mut().zip(&ours).filter(|(theirs, _)| theirs.1.ends_with("<artificial>"))
            {
                theirs.1.clone_from(&ours.1);
            }
            assert_eq!(ours, theirs, "{output} {address:#x}");
            let inlined: Vec<bool> = known.lines[&address].iter().rev().map(|line| line.inlined).collect();
            assert!(!inlined[0] && inlined[1..].iter().all(|&inlined| inlined), "{output} {address:#x}");
            deepest = deepest.max(inlined.len());
        }
        assert_eq!(deepest, 3, "{output}");
    }
}

#[test]
fn the_first_answer_has_symbols_and_the_second_lines() {
    let shop = Workshop::new();
    let path = shop.build("gcc", C, &["-O2", "-g"], "app");
    let addresses = shop.symbol("app", "outer").addresses();
    let known = ask_here(&path, addresses.clone());
    for address in addresses.clone() {
        let first = &known.first[&address];
        assert_eq!((first.len(), first[0].full.as_str(), first[0].line), (1, "outer", 0));
        assert_eq!(known.names(address).last(), Some(&"outer"));
        assert!(known.lines[&address].iter().all(|line| line.file.ends_with("inlined.c") || line.line == 0));
    }
    assert!(addresses.into_iter().any(|address| known.names(address) == ["innermost", "middle", "outer"]));
}

#[test]
fn cpp_names_are_the_same_with_and_without_debug_information() {
    if !are_installed(&["g++"]) {
        return;
    }
    let shop = Workshop::new();
    let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
    for (arguments, output) in [(&["-O2"][..], "bare"), (&["-O2", "-g"], "debug")] {
        let path = shop.build("g++", CPP, arguments, output);
        let functions = shop.symbols(output).into_iter().filter(|symbol| symbol.size > 0 && symbol.is_code);
        let starts: BTreeMap<u64, String> = functions.map(|symbol| (symbol.start, symbol.name)).collect();
        let known = ask_here(&path, starts.keys().copied());
        let name = |(&address, raw): (&u64, &String)| Some((raw.clone(), known.lines[&address].last()?.short.clone()));
        seen.push(starts.iter().filter_map(name).collect());
    }
    let bare = &seen[0];
    let short: Vec<&str> = bare.values().map(String::as_str).collect();
    for wanted in [
        "main",
        "plain_c",
        "geometry::Grid::at",
        "geometry::Grid::operator<",
        "(anonymous namespace)::unnamed",
        "(anonymous namespace)::Private::other",
        "main::{lambda#1}::operator()",
    ] {
        assert!(short.contains(&wanted), "{wanted} is not in {short:?}");
    }
    for (raw, name) in bare {
        // Debug information has the place of a lambda.
        if let Some(other) = seen[1].get(raw).filter(|_| !name.contains("{lambda")) {
            assert_eq!(name, other, "{raw}");
        }
    }
}

/// The short names of all functions at the addresses of a file's functions, inlined ones too.
fn short_names(
    shop: &Workshop,
    path: &std::path::Path,
    file: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let symbols = shop.symbols(file);
    let addresses: Vec<u64> =
        symbols.iter().filter(|symbol| is_wanted(&symbol.name)).flat_map(Symbol::addresses).collect();
    let known = ask_here(path, addresses);
    known.lines.values().flatten().map(|line| line.short.clone()).collect()
}

/// Functions without a name of their own are distinguished by their place, called or inlined.
#[test]
fn lambdas_are_named_by_their_place() {
    if !are_installed(&["g++"]) {
        return;
    }
    let source = "static volatile int sink;\n\
        template<class F> __attribute__((noinline)) static void call(F f) { f(1); f(2); }\n\
        int main(int n, char**) {\n\
        auto own = [n](int x) { for (int i = 0; i < x; i++) sink = sink + i * n; };\n\
        call(own);\n\
        call([](auto x) { sink = sink - x; });\n}\n";
    let shop = Workshop::new();
    for optimization in ["-O0", "-O2"] {
        let path = shop.build("g++", ("lam.cc", source), &["-g", optimization], "lam");
        let names = short_names(&shop, &path, "lam", |name| name.contains("call") || name.contains("main"));
        for wanted in ["main::{lambda} lam.cc:4", "main::{lambda} lam.cc:6"] {
            assert!(names.contains(wanted), "{wanted} is not in {names:?}");
        }
    }
}

#[test]
fn closures_and_async_functions_are_named_by_their_place() {
    let source = "use std::future::Future;\n\
        fn main() {\n\
        call(|x: u32| std::hint::black_box(x) + 1);\n\
        call(|x| std::hint::black_box(x) * 2);\n\
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());\n\
        let _ = std::hint::black_box(std::pin::pin!(fetch(1)).as_mut().poll(&mut context));\n}\n\
        #[inline(never)]\nfn call(f: impl Fn(u32) -> u32) { std::hint::black_box(f(3)); }\n\
        async fn fetch(n: u32) -> u32 { std::hint::black_box(n) }\n";
    let shop = Workshop::new();
    for optimization in ["-Copt-level=0", "-Copt-level=2"] {
        let arguments = ["-g", optimization, "--edition=2021", "--crate-name", "lam"];
        let path = shop.build("rustc", ("lam.rs", source), &arguments, "lam");
        let names = short_names(&shop, &path, "lam", |name| name.contains("lam"));
        for wanted in ["lam::main::{closure} lam.rs:3", "lam::main::{closure} lam.rs:4", "async fn lam::fetch"] {
            assert!(names.contains(wanted), "{wanted} is not in {names:?}");
        }
    }
}

/// Regression test: `{{closure}}` was the name of one that was inlined from another unit.
#[test]
fn closures_of_other_units_are_named_by_their_place() {
    let source = "mod far {\n\
        pub fn evidence(n: u64) -> u64 {\n\
        (0..n).fold(n, |sum, i| sum ^ i * std::hint::black_box(7))\n}\n\
        #[inline(never)]\npub fn other(n: u64) -> u64 { evidence(n) / 2 }\n}\n\
        mod near {\n#[inline(never)]\n\
        pub fn next(n: u64) -> u64 { super::far::evidence(n + 1) + super::far::other(n) }\n}\n\
        fn main() { println!(\"{}\", near::next(std::env::args().count() as u64)) }\n";
    let shop = Workshop::new();
    let path = shop.build("rustc", ("far.rs", source), &["-g", "-O", "-Ccodegen-units=4"], "far");
    let names = short_names(&shop, &path, "far", |name| name.contains("near4next"));
    assert!(names.contains("far::far::evidence::{closure} far.rs:3"), "{names:?}");
}

#[test]
fn cpp_inlined_functions_have_their_namespace() {
    if !are_installed(&["g++"]) {
        return;
    }
    let shop = Workshop::new();
    let path = shop.build("g++", CPP, &["-O2", "-g"], "app");
    let known = ask_here(&path, shop.symbol("app", "main").addresses());
    let inlined: Vec<&str> =
        known.lines.values().flatten().filter(|line| line.inlined).map(|line| line.short.as_str()).collect();
    for wanted in ["geometry::Grid::inlined", "(anonymous namespace)::Private::method", "std::map::operator[]"] {
        assert!(inlined.contains(&wanted), "{wanted} is not in {inlined:?}");
    }
}

#[test]
fn rust_names_have_no_hashes_and_no_generics() {
    let shop = Workshop::new();
    for mangling in ["legacy", "v0"] {
        let mangling = format!("-Csymbol-mangling-version={mangling}");
        // The legacy mangling needs `-Zunstable-options`.
        let arguments = ["-O", "-g", "-Zunstable-options", &mangling];
        let arguments = if mangling.ends_with("v0") { &["-O", "-g", &mangling][..] } else { &arguments };
        std::fs::write(shop.path(RUST.0), RUST.1).unwrap();
        let arguments: Vec<&str> =
            ["RUSTC_BOOTSTRAP=1", "rustc"].into_iter().chain(arguments.iter().copied()).collect();
        shop.run("env", &[&arguments[..], &[RUST.0, "-o", "app"]].concat());
        let path = shop.path("app");
        let symbols = shop.symbols("app");
        let of_app = symbols.iter().filter(|symbol| symbol.name.contains("beasts"));
        let addresses: Vec<u64> = of_app.flat_map(Symbol::addresses).collect();
        let known = ask_here(&path, addresses);
        let lines: Vec<_> = known.lines.values().flatten().collect();
        let outer: Vec<&str> = lines.iter().filter(|line| !line.inlined).map(|line| line.short.as_str()).collect();
        let inlined: Vec<&str> = lines.iter().filter(|line| line.inlined).map(|line| line.short.as_str()).collect();
        for wanted in ["beasts::main", "beasts::Beast::speak", "beasts::generic"] {
            assert!(outer.contains(&wanted), "{mangling}: {wanted} is not in {outer:?}");
        }
        assert!(inlined.contains(&"beasts::inlined"), "{mangling}: {inlined:?}");
        assert!(
            lines
                .iter()
                .any(|line| line.short.starts_with("beasts::Beast::speak::{") && line.file.ends_with("beasts.rs"))
        );
        for line in lines {
            assert!(!line.short.contains('<') && !line.full.contains("17h"), "{line:?}");
        }
    }
}

#[test]
fn a_stripped_library_has_its_exports_and_no_neighbours() {
    if !are_installed(&["nm"]) {
        return;
    }
    let shop = Workshop::new();
    shop.build("gcc", LIBRARY, &["-O2", "-shared", "-fPIC"], "whole.so");
    let part = shop.symbol("whole.so", "another").addresses();
    let path = shop.build("gcc", LIBRARY, &["-O2", "-shared", "-fPIC", "-s"], "library.so");
    let symbols = shop.nm(&["-D", "library.so"]);
    let section = shop.section("library.so", ".text");
    let known = ask_here(&path, section.0..section.1);
    assert_eq!(known.state, SymbolState::Exports);
    let mut nameless = 0;
    for (address, names) in expected(&symbols, section) {
        let mut found = known.names(address);
        found.retain(|name| !name.starts_with("library.so+0x"));
        match found[..] {
            [] => assert!(names.is_empty(), "{address:#x}: {names:?}"),
            [found] if part.contains(&address) => assert_eq!(found, "alias_global", "which alone jumps there"),
            [found] => assert!(names.contains(&found), "{address:#x}: {found}, not {names:?}"),
            _ => panic!("{address:#x}: {found:?}"),
        }
        nameless += usize::from(found.is_empty());
    }
    assert!(nameless > 20, "the hidden functions have no names: {nameless}");
    let alias = symbols.iter().find(|symbol| symbol.name == "alias_weak").unwrap().start;
    assert_eq!(known.names(alias), ["alias_global"], "global before weak, without underscores before with");
}

#[test]
fn functions_of_a_stripped_program_are_called_by_their_start() {
    let shop = Workshop::new();
    shop.build("gcc", C, &["-O2", "-falign-functions=64"], "whole");
    let path = shop.build("gcc", C, &["-O2", "-falign-functions=64", "-s"], "app");
    let section = shop.section("app", ".text");
    let known = ask_here(&path, section.0..section.1);
    assert_eq!(known.state, SymbolState::Exports);
    for Symbol { start, size, .. } in ["outer", "hidden", "main"].map(|name| shop.symbol("whole", name)) {
        let place = format!("app+{start:#x}");
        assert!((start..start + size).all(|address| known.names(address) == [&*place]), "{place}");
        let padding = known.lines.get(&(start + size));
        assert!(size % 64 == 0 || padding.is_none_or(Vec::is_empty), "padding is no function");
    }
}

#[test]
fn symbols_without_size_end_at_the_next_one() {
    let shop = Workshop::new();
    let path = shop.build("gcc", ASSEMBLY, &["-shared", "-nostdlib", "-Wl,--build-id=none"], "hand.so");
    let symbols = shop.symbols("hand.so");
    let start = |name: &str| symbols.iter().find(|symbol| symbol.name == name).unwrap().start;
    let section = shop.section("hand.so", ".text");
    let known = ask_here(&path, section.0..section.1 + 4);
    let names = |from: u64, length: u64| (from..from + length).map(|address| known.names(address)).collect::<Vec<_>>();
    assert!(names(start("sized"), 3).iter().all(|names| names == &["sized"]));
    assert!(names(start("sized") + 3, 4).iter().all(Vec::is_empty), "what is behind a sized symbol is not its own");
    assert!(names(start("unsized"), 3).iter().all(|names| names == &["unsized"]));
    assert!(names(start("label"), 2).iter().all(|names| names == &["label"]));
    assert!(names(section.1, 4).iter().all(Vec::is_empty), "nothing reaches out of its section");

    // Without the full symbol table, the end of a symbol without size is unknown.
    shop.build("gcc", ASSEMBLY, &["-shared", "-nostdlib", "-Wl,--build-id=none", "-s"], "hand.so");
    let known = ask_here(&path, section.0..section.1);
    assert_eq!(known.names(start("sized")), ["sized"]);
    assert!(known.names(start("unsized")).is_empty() && known.names(start("label")).is_empty());
}

#[test]
fn stubs_are_named_after_what_they_call() {
    if !are_installed(&["objdump"]) {
        return;
    }
    let shop = Workshop::new();
    for (arguments, output) in [
        (&["-O2", "-Wl,-z,lazy"][..], "lazy"),
        (&["-O2", "-Wl,-z,now"], "now"),
        (&["-O2", "-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy"], "checked"),
        (&["-O2", "-s"], "stripped"),
    ] {
        let path = shop.build("gcc", C, arguments, output);
        // objdump names the stubs by itself.
        let listed = shop.run("objdump", &["-d", "-j", ".plt", "-j", ".plt.got", "-j", ".plt.sec", output]);
        let stubs = listed.lines().filter_map(|line| {
            let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
            Some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
        });
        let stubs: Vec<(u64, String)> = stubs.filter(|(_, name)| name.ends_with("@plt")).collect();
        assert!(stubs.iter().any(|(_, name)| name == "rand@plt"), "{output}: {stubs:?}");
        let known = ask_here(&path, stubs.iter().flat_map(|(address, _)| [*address, address + 5]));
        for (address, name) in &stubs {
            assert_eq!(
                (known.names(*address), known.names(address + 5)),
                (vec![name.as_str()], vec![name.as_str()]),
                "{output}"
            );
        }
    }
}

#[test]
fn the_vdso_is_known() {
    let known = ask_here(std::path::Path::new("[vdso]"), (0..0x2000).step_by(16));
    assert_eq!(known.state, SymbolState::Exports);
    let names: Vec<&str> = known.lines.values().flatten().map(|line| line.short.as_str()).collect();
    assert!(names.iter().any(|name| name.ends_with("clock_gettime")), "{names:?}");
}

/// Regression test: of functions that the linker has folded into one, one gave its name to the time
/// of all, and nothing said so.
#[test]
fn functions_folded_into_one_are_counted() {
    if !are_installed(&["g++", "ld.gold"]) {
        return;
    }
    const FOLDED: (&str, &str) = (
        "folded.cc",
        "volatile unsigned sink;\n\
         struct Both { Both(); int x; };\n\
         __attribute__((noinline)) Both::Both() { sink = 3; }\n\
         template <class T> __attribute__((noinline)) void outer(T *p, unsigned n)\n\
         { for (unsigned i = 0; i < n; i++) sink = sink * 7 + *p + i; }\n\
         extern \"C\" void many(void) { sink--; }\n\
         extern \"C\" void alias_of_many(void) __attribute__((alias(\"many\")));\n\
         int main(int c, char **) { Both b; int i = c; unsigned u = c; long l = c;\n\
         outer(&i, 5); outer(&u, 6); outer(&l, 7); many(); alias_of_many(); return b.x; }\n",
    );
    let fold = ["-fno-ipa-icf", "-ffunction-sections", "-fuse-ld=gold", "-Wl,--icf=all"];
    for flags in [&["-O1", "-g"][..], &["-O1"]] {
        let shop = Workshop::new();
        let path = shop.build("g++", FOLDED, &[flags, &fold].concat(), "app");
        let start = |name: &str| shop.symbol("app", name).start;
        let (int, unsigned) = (start("_Z5outerIiEvPT_j"), start("_Z5outerIjEvPT_j"));
        assert_eq!(int, unsigned, "the linker folds them");
        let both = start("_ZN4BothC1Ev");
        let addresses = [int, start("_Z5outerIlEvPT_j"), both, start("many")];
        let known = ask_here(&path, addresses);
        let shown = addresses.map(|address| known.names(address).join(" in "));
        assert_eq!(shown, ["outer +1", "outer", "Both::Both", "many"].map(str::to_owned), "{flags:?}");
        let full = &known.lines[&int][0].full;
        assert!(full.starts_with("void outer<") && full.ends_with(" and 1 more at this address"), "{full}");
    }
}

/// A part of a stripped function has the name of the function that jumps to it, unless others call
/// it, jump to it, or know its address.
#[test]
fn parts_of_stripped_functions_have_their_names() {
    if !are_installed(&["nm", "strip"]) {
        return;
    }
    const SOURCE: &str = "#define WHOLE __attribute__((noipa)) int\n\
        #define PART static WHOLE\n\
        volatile int sum;\n\
        PART slow(int x) { for (int i = 0; i < x; i++) sum += i * x; return sum; }\n\
        PART shared(int x) { for (int i = 0; i < x; i++) sum += i ^ x; return sum; }\n\
        PART called(int x) { for (int i = 0; i < x; i++) sum += i | x; return sum; }\n\
        PART known(int x) { for (int i = 0; i < x; i++) sum += i & x; return sum; }\n\
        int (*pointer)(int) = known;\n\
        WHOLE whole(int x) { return sum ? 1 : slow(x); }\n\
        WHOLE first(int x) { return sum ? 2 : shared(x); }\n\
        WHOLE second(int x) { return sum ? 3 : shared(x + 1); }\n\
        WHOLE third(int x) { return sum ? 4 : called(x); }\n\
        WHOLE fourth(int x) { return 5 + called(x); }\n\
        WHOLE fifth(int x) { return sum ? 6 : known(x); }\n\
        int main(int x, char **y) { return whole(x) + first(x) + second(x) + third(x) + fourth(x) + fifth(x) + !y; }\n";
    let shop = Workshop::new();
    for flags in [&["-O2", "-rdynamic"][..], &["-O2", "-rdynamic", "-no-pie"]] {
        let app = shop.build("gcc", ("parts.c", SOURCE), flags, "parts");
        let symbols = shop.symbols("parts");
        let start = |name: &str| symbols.iter().find(|symbol| symbol.name == name).expect(name).start;
        let [slow, others @ ..] = ["slow", "shared", "called", "known"].map(start);
        shop.run("strip", &["parts"]);
        let named = ask_here(&app, [slow + 8].into_iter().chain(others));
        let name = |address: u64| &*named.lines[&address][0].full;
        assert_eq!(name(slow + 8), "whole");
        for other in others {
            assert_eq!(name(other), format!("parts+{other:#x}"));
        }
    }
}
