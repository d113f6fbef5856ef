//! Reports are pprof's to the letter, for a matrix of options over profiles of many makes. The goldens are pprof's own output,
//! made by tests/golden/reports.sh, which writes pprof's version into their first line.

use std::fs::{self, File};

use clap::Parser;
use sigtop::cli::{Cli, Verb};
use sigtop::tally::saved::Saved;
use sigtop::tally::saved::merge::Subtraction;
use sigtop::write::formats;
use sigtop::write::report::{prepare, report};

use crate::making::tests;

/// pprof's options as ours.
fn ours(word: &str) -> String {
    match word {
        "-functions" | "-filefunctions" | "-files" | "-lines" | "-addresses" => format!("--granularity={}", &word[1..]),
        word if word.starts_with('-') => format!("-{word}"),
        word => word.to_owned(),
    }
}

fn read(name: &str) -> Saved {
    let file = File::open(tests().join("profiles").join(name)).unwrap();
    formats::read(file).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What we print: the report, or the sentence that there is none.
fn printed(profile: &str, question: &str) -> String {
    let words = ["sigtop", "report"].map(str::to_owned).into_iter().chain(question.split(' ').map(ours));
    let cli = Cli::try_parse_from(words.chain([profile.to_owned()])).unwrap_or_else(|error| panic!("{error}"));
    let Some(Verb::Report(given)) = cli.verb else { panic!("{question}") };
    let mut saved = Saved::combined(given.files.iter().map(|name| read(name)).collect()).unwrap();
    let is_diff = !given.diff_base.is_empty();
    let bases = if is_diff { &given.diff_base } else { &given.base };
    if !bases.is_empty() {
        let base = Saved::combined(bases.iter().map(|name| read(name)).collect()).unwrap();
        saved = saved.without(base, Subtraction { is_diff, normalize: given.normalize }).unwrap();
    }
    prepare(&mut saved);
    let options = sigtop::write::report::Options { zone: jiff::tz::TimeZone::UTC, ..given.options() };
    let mut out = Vec::new();
    match report(&mut out, saved, &options) {
        Ok(_) => String::from_utf8(out).unwrap(),
        Err(error) => format!("{error}\n"),
    }
}

#[test]
fn reports_are_pprofs_to_the_letter() {
    let (mut profiles, mut compared, mut wrong) = (0, 0, Vec::new());
    for entry in tests().join("golden").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(profile) = name.strip_prefix("report-").and_then(|name| name.strip_suffix(".txt")) else { continue };
        let golden = fs::read_to_string(&path).unwrap();
        let (first, rest) = golden.split_once('\n').unwrap();
        let is_pprofs = first.starts_with("# google/pprof ") && first.ends_with(&format!(": {profile}"));
        assert!(is_pprofs, "{name} does not say which pprof made it");
        profiles += 1;
        for part in rest.split("$$$ ").skip(1) {
            let (question, expected) = part.split_once('\n').unwrap();
            compared += 1;
            let printed = printed(profile, question);
            if printed != expected {
                let mut lines = printed.lines().zip(expected.lines());
                let differing = lines.find(|(ours, pprofs)| ours != pprofs);
                wrong.push(format!("{profile} {question}: {differing:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(profiles >= 9 && compared >= 250, "{profiles} profiles, {compared} reports");
}
