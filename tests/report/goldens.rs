//! Reports are identical to pprof's for a matrix of options and profiles from many tools. The
//! goldens are pprof's own output, made by tests/golden/reports.sh, which writes pprof's version
//! into their first line.

use std::fs::{self, File};

use clap::Parser;
use sigtop::app::args::report::Symbolize;
use sigtop::app::args::{Cli, CliSubcommand};
use sigtop::pprof::format;
use sigtop::pprof::merge::Subtraction;
use sigtop::pprof::profile::SavedProfile;
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};

use crate::making::tests;

/// Translates an option of pprof into ours.
fn ours(word: &str) -> String {
    match word {
        "-functions" | "-filefunctions" | "-files" | "-lines" | "-addresses" => format!("--granularity={}", &word[1..]),
        word if word.starts_with('-') => format!("-{word}"),
        word => word.to_owned(),
    }
}

fn read(name: &str) -> SavedProfile {
    let file = File::open(tests().join("profiles").join(name)).unwrap();
    format::read(file).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the output of sigtop: the report, or the message that there is none.
fn printed(profile: &str, question: &str) -> String {
    let words = ["sigtop", "report"].map(str::to_owned).into_iter().chain(question.split(' ').map(ours));
    let cli = Cli::try_parse_from(words.chain([profile.to_owned()])).unwrap_or_else(|error| panic!("{error}"));
    let Some(CliSubcommand::Report(given)) = cli.subcommand else { panic!("{question}") };
    let mut saved = SavedProfile::merge(given.files.iter().map(|name| read(name)).collect()).unwrap();
    let is_diff = !given.diff_base.is_empty();
    let bases = if is_diff { &given.diff_base } else { &given.base };
    if !bases.is_empty() {
        let base = SavedProfile::merge(bases.iter().map(|name| read(name)).collect()).unwrap();
        saved = saved.subtract(base, Subtraction { is_diff, normalize: given.normalize }).unwrap();
    }
    prepare(&mut saved, given.symbolize == Symbolize::Local);
    let options = ReportOptions { zone: jiff::tz::TimeZone::UTC, ..given.options() };
    let mut out = Vec::new();
    if let Err(error) = generate(&mut out, saved, &options) {
        return format!("{error}\n");
    }
    if matches!(options.kind, ReportKind::Export(_) | ReportKind::TopProto) {
        // Of a file that is written, the golden has what pprof reads in it.
        let mut written = format::read(out.as_slice()).unwrap();
        prepare(&mut written, false);
        out = Vec::new();
        generate(&mut out, written, &ReportOptions { kind: ReportKind::Raw, ..ReportOptions::default() }).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn reports_are_pprofs_to_the_letter() {
    let (mut profiles, mut compared, mut wrong) = (0, 0, Vec::new());
    for entry in tests().join("golden").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let stem = name.strip_prefix("report-").or(name.strip_prefix("labels-"));
        let Some(profile) = stem.and_then(|name| name.strip_suffix(".txt")) else { continue };
        let golden = fs::read_to_string(&path).unwrap();
        let (first, rest) = golden.split_once('\n').unwrap();
        let is_pprofs = first.starts_with("# google/pprof ") && first.ends_with(&format!(": {profile}"));
        assert!(is_pprofs, "{name} does not say which pprof made it");
        profiles += 1;
        for part in rest.split("$$$ ").skip(1) {
            let (question, expected) = part.split_once('\n').unwrap();
            compared += 1;
            // Where pprof says that there was no call, sigtop says one: see the writer.
            let printed = printed(profile, question).replace("\ncalls=1 ", "\ncalls=0 ");
            if printed != expected {
                let mut lines = printed.lines().zip(expected.lines());
                let differing = lines.find(|(ours, pprofs)| ours != pprofs);
                wrong.push(format!("{profile} {question}: {differing:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(profiles >= 12 && compared >= 280, "{profiles} profiles, {compared} reports");
}
