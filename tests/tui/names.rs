//! The rule for names in little room, on names of real programs: the symbols of rustc, sigtop,
//! node, LLVM, GCC, the C++ library, Redis, PostgreSQL, SQLite, Python and glibc.

use std::fmt::Write;

use sigtop::symbols::demangle::demangle;
use sigtop::symbols::simplify::tidy;
use sigtop::tui::NameStyle;
use sigtop::tui::fit_names::{NameToFit, fit_name, fit_names};
use sigtop::tui::name_parts::bare_name;

use crate::goldens::compare;

const REAL: &str = include_str!("names/real.txt");

/// The full and short names of the symbols.
fn names() -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    for symbol in REAL.lines() {
        let name = demangle(symbol.as_bytes());
        // Hashes that tell symbols apart are in no name.
        if names.iter().all(|(full, _)| *full != name.full) {
            names.push((name.full, tidy(&name.short)));
        }
    }
    assert!(names.len() >= 100, "{}", names.len());
    names
}

fn to_fit(names: &[(String, String)], room: usize) -> Vec<NameToFit<'_>> {
    names.iter().map(|(full, short)| NameToFit { full, short, room }).collect()
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

#[test]
fn real_names_in_all_styles() {
    let names = names();
    let mut text = String::new();
    let fitted = [56, 24].map(|room| {
        [NameStyle::Short, NameStyle::Bare, NameStyle::Full].map(|style| fit_names(&to_fit(&names, room), style))
    });
    for (index, (full, _)) in names.iter().enumerate() {
        let _ = writeln!(text, "{full}");
        for [short, bare, full] in &fitted {
            let _ = writeln!(text, "    {:57}{:57}{}", short[index], bare[index], full[index]);
        }
    }
    compare("names", &text);
}

#[test]
fn names_are_cut_between_parts_and_on_the_right() {
    for (full, short) in names() {
        for style in [NameStyle::Short, NameStyle::Bare, NameStyle::Full] {
            let mut before = 0;
            for room in (1..40).chain((40..=200).step_by(7)) {
                let fitted = fit_name(&NameToFit { full: &full, short: &short, room }, style);
                let cut = fitted.strip_suffix('…').unwrap_or(&fitted);
                assert!(columns(&fitted) <= room, "{fitted}");
                assert!(columns(&fitted) >= before, "more room shows less: {fitted}");
                assert!(!fitted.starts_with(['…', ':']) || room == 1, "{fitted}");
                before = columns(&fitted);
                if style != NameStyle::Full {
                    let is_end = short.ends_with(&*fitted);
                    let is_start = bare_name(&short).starts_with(cut) && cut.len() < fitted.len();
                    // An offset in a module is kept.
                    assert!(is_end || is_start || short.contains("+0x"), "{fitted} of {short}");
                    let dropped = short.strip_suffix(&*fitted).unwrap_or_default();
                    assert!(dropped.is_empty() || dropped.ends_with(['/', '.', ':', ' ']), "{fitted} of {short}");
                }
            }
        }
    }
}

#[test]
fn visible_names_read_differently() {
    let names = names();
    for style in [NameStyle::Short, NameStyle::Bare, NameStyle::Full] {
        let fitted = fit_names(&to_fit(&names, 60), style);
        for (index, text) in fitted.iter().enumerate() {
            assert!(columns(text) <= 60, "{text}");
            let other = fitted[..index].iter().position(|other| other == text);
            assert_eq!(other.map(|other| &names[other].0), None, "{} reads the same: {text}", names[index].0);
        }
    }
}

#[test]
fn libc_variants_of_one_width_differ() {
    let fulls = ["__memmove_avx512_unaligned_erms", "__memset_avx512_unaligned_erms"];
    let names: Vec<(String, String)> = fulls.map(|full| (full.to_owned(), tidy(full))).into();
    assert_eq!(fit_names(&to_fit(&names, 20), NameStyle::Short), ["memmove (avx512)", "memset (avx512)"]);
}

/// The address took the room, and the holder could not be read.
#[test]
fn a_lock_without_room_keeps_its_holder() {
    let short = "[lock 0x7f3dc9f4e6f8] held by compactor 4130";
    let fit = |room| fit_name(&NameToFit { full: short, short, room }, NameStyle::Short).into_owned();
    assert_eq!(fit(44), short);
    assert_eq!(fit(43), "[lock] held by compactor 4130");
    assert_eq!(fit(20), "[lock] held by comp…");
}

/// Names as the interpreter's code objects have them, with the file and line that panes show.
#[test]
fn python_names_lose_their_place_first() {
    let shorts = [
        "JSONEncoder.iterencode (encoder.py:205)",
        "_make_iterencode.<locals>._iterencode_dict (encoder.py:342)",
        "_make_iterencode.<locals>._iterencode_list (encoder.py:290)",
        "Reader.run (a.py:3)",
        "Writer.run (a.py:90)",
        "main.<locals>.<lambda> (app.py:12)",
    ];
    let names: Vec<(String, String)> = shorts.map(|short| (short.replace(" (", " (/srv/"), short.to_owned())).into();
    let mut text = String::new();
    for room in [60, 45, 30, 20, 12] {
        for style in [NameStyle::Short, NameStyle::Bare] {
            let _ = writeln!(text, "{room} {}", fit_names(&to_fit(&names, room), style).join(" | "));
        }
    }
    compare("python_names", &text);
}

/// Regression test: the version of a library was kept, and the address in it was cut.
#[test]
fn the_version_of_a_library_goes_first() {
    let fit = |short: &str, room| fit_name(&NameToFit { full: short, short, room }, NameStyle::Short).into_owned();
    assert_eq!(fit("libsqlite3.so.0.8.6+0x12ab", 30), "libsqlite3.so.0.8.6+0x12ab");
    assert_eq!(fit("libsqlite3.so.0.8.6+0x12ab", 20), "libsqlite3+0x12ab");
    assert_eq!(fit("parse.so.cold", 8), "parse.s…", "this is no library");
}
