//! Reports as JSON: every one conforms to its schema in assets/schemas, and its numbers are those
//! of the text.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use sigtop::pprof::format;
use sigtop::pprof::live_top::{TopHeader, TopLimits, write_top};
use sigtop::pprof::live_top_json::{TopJsonFacts, to_json};
use sigtop::pprof::profile::SavedProfile;
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};
use sigtop::pprof::units::scaled_label;
use sigtop::symbols::scenario::scenario;
use sigtop::tally::measure::percent;
use sigtop::tally::query::{Filters, OwnCode, Pattern, Query, Sort};
use sigtop::tally::tallier::Tallier;
use sigtop::wire::{Clock, LossCause};

use crate::making::tests;

/// All profiles in tests/profiles, with their names.
fn profiles() -> Vec<(String, SavedProfile)> {
    let mut all = Vec::new();
    for entry in tests().join("profiles").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let is_profile =
            ["gz", "prof", "heap", "perf"].iter().any(|ending| path.extension().is_some_and(|of| of == *ending));
        if is_profile {
            let mut profile = format::read(fs::File::open(&path).unwrap()).unwrap();
            prepare(&mut profile, true);
            all.push((path.file_name().unwrap().to_string_lossy().into_owned(), profile));
        }
    }
    assert!(all.len() >= 15, "{} profiles", all.len());
    all
}

fn print(profile: &SavedProfile, kind: &ReportKind, json: bool) -> Result<String, String> {
    let unit = profile.sample_types[profile.value_index("").unwrap()].unit.as_str().to_owned();
    let options = ReportOptions { kind: kind.clone(), json, unit, nodefraction: 0.02, ..ReportOptions::default() };
    let mut out = Vec::new();
    generate(&mut out, profile.clone(), &options).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// Validates an object against the schema that it names.
pub(crate) fn validate(report: &Value) {
    let schema = report["schema"].as_str().unwrap_or_default().strip_prefix("sigtop.").expect("a schema of sigtop");
    let path = tests().join("../assets/schemas").join(format!("{schema}.json"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
}

/// Collects the integers of the members with these names, but 0, as the text prints them.
fn collect(value: &Value, names: &[&str], unit: &str, all: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, names, unit, all)),
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| *name != "labels") {
                match value.as_i64().filter(|_| names.contains(&name.as_str())) {
                    Some(number) => all.extend((number != 0).then(|| scaled_label(number, unit, unit))),
                    None => collect(value, names, unit, all),
                }
            }
        }
        _ => {}
    }
}

/// The values in the text below the header: words that end with the unit.
fn values_of_text(text: &str, kind: &ReportKind, suffix: &str) -> Vec<String> {
    let is_value = |word: &&str| {
        let digits = word.strip_suffix(suffix).unwrap_or_default().trim_start_matches('-');
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let body = match kind {
        ReportKind::Top | ReportKind::Tree | ReportKind::Peek(_) => {
            text.split_once("cum%").map_or("", |(_, body)| body)
        }
        ReportKind::List(_) | ReportKind::Disasm(_) => text.split_once('\n').map_or("", |(_, body)| body),
        ReportKind::Traces => text.split_once("-----------+").map_or("", |(_, body)| body),
        _ => text,
    };
    let mut all = Vec::new();
    for line in body.lines() {
        // Of a line of code, the columns before it are values.
        let line = match kind {
            ReportKind::List(_) | ReportKind::Disasm(_) => line.split(':').next().unwrap_or(line),
            ReportKind::Method(_) if line.starts_with("  callees (") => continue,
            ReportKind::Method(_) => line.split(" | ").next().unwrap_or(line),
            // A label.
            ReportKind::Traces if line.contains(":  ") => continue,
            ReportKind::Traces => line.split("   ").find(|part| !part.is_empty()).unwrap_or(line),
            _ => line,
        };
        all.extend(line.split([' ', '(']).filter(is_value).map(str::to_owned));
    }
    all
}

#[test]
fn json_has_the_numbers_of_the_text_and_conforms_to_its_schema() {
    let any = || Pattern::new(".").unwrap();
    let kinds = [
        (ReportKind::Top, &["flat", "cum"][..]),
        (ReportKind::Tree, &["flat", "cum", "value"]),
        (ReportKind::Peek(any()), &["flat", "cum", "value"]),
        (ReportKind::List(any()), &["flat", "cum"]),
        (ReportKind::Method(any()), &["flat", "cum", "value"]),
        (ReportKind::Disasm(any()), &["flat", "cum"]),
        (ReportKind::Traces, &["value"]),
    ];
    let mut compared = 0;
    for (name, profile) in profiles() {
        let unit = profile.sample_types[profile.value_index("").unwrap()].unit.as_str();
        let suffix = scaled_label(1, unit, unit).trim_start_matches('1').to_owned();
        for (kind, names) in &kinds {
            let (text, json) = match (print(&profile, kind, false), print(&profile, kind, true)) {
                (Err(text), Err(json)) if text == json => continue,
                (text, json) => (text.unwrap(), json.unwrap()),
            };
            let report: Value = serde_json::from_str(&json).unwrap();
            validate(&report);
            // Counts have no unit: nothing tells them from numbers of lines and addresses.
            if suffix.is_empty() {
                continue;
            }
            let (mut expected, mut found) = (Vec::new(), values_of_text(&text, kind, &suffix));
            for (_, list) in report.as_object().unwrap().iter().filter(|(_, value)| value.is_array()) {
                collect(list, names, unit, &mut expected);
            }
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{name} {kind:?}:\n{text}\n{json}");
            compared += found.len();
        }
    }
    assert!(compared > 2_000, "{compared} values");
}

#[test]
fn rows_and_cuts_of_top_are_those_of_the_text() {
    let mut rows = 0;
    for (name, profile) in profiles() {
        let (text, json) =
            (print(&profile, &ReportKind::Top, false).unwrap(), print(&profile, &ReportKind::Top, true).unwrap());
        let report: Value = serde_json::from_str(&json).unwrap();
        let unit = report["unit"].as_str().unwrap();
        let label = |value: &Value| scaled_label(value.as_i64().unwrap(), unit, unit);
        let share = |value: &Value| percent(value.as_f64().unwrap().abs());
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("cum%")).skip(1).collect();
        let all = report["rows"].as_array().unwrap();
        assert_eq!(all.len(), lines.len(), "{name}");
        for (row, line) in all.iter().zip(lines) {
            let mark = match row["inline"].as_str().unwrap() {
                "no" => "",
                "yes" => " (inline)",
                _ => " (partial-inline)",
            };
            let (flat, sum, cum) =
                (share(&row["flat_percent"]), share(&row["sum_percent"]), share(&row["cum_percent"]));
            let (flat_value, cum_value) = (label(&row["flat"]), label(&row["cum"]));
            let function = row["name"].as_str().unwrap();
            assert_eq!(
                line,
                format!("{flat_value:>10} {flat} {sum} {cum_value:>10} {cum}  {function}{mark}"),
                "{name}"
            );
            rows += 1;
        }
        let omitted = report["omitted"].as_u64().unwrap();
        let dropped = text.lines().find_map(|line| line.strip_prefix("Dropped ")?.split(' ').next()?.parse().ok());
        assert_eq!(omitted, dropped.unwrap_or(0), "{name}");
        let accounting = format!("Showing nodes accounting for {},", label(&report["shown"]));
        assert!(text.contains(&accounting), "{name}: {accounting}\n{text}");
    }
    assert!(rows > 60, "{rows} rows");
}

#[test]
fn tags_comments_and_the_whole_profile_conform_to_their_schemas() {
    for (name, profile) in profiles() {
        for kind in [ReportKind::Tags, ReportKind::Comments, ReportKind::Raw] {
            validate(&serde_json::from_str(&print(&profile, &kind, true).unwrap()).unwrap());
        }
        let raw: Value = serde_json::from_str(&print(&profile, &ReportKind::Raw, true).unwrap()).unwrap();
        let value = profile.value_index("").unwrap();
        let sum = raw["samples"].as_array().unwrap().iter().map(|sample| sample["values"][value].as_i64().unwrap());
        assert_eq!(sum.sum::<i64>(), profile.samples.values(value).sum::<i64>(), "{name}");
        let text = print(&profile, &ReportKind::Tags, false).unwrap();
        let tags: Value = serde_json::from_str(&print(&profile, &ReportKind::Tags, true).unwrap()).unwrap();
        let unit = tags["unit"].as_str().unwrap();
        for key in tags["keys"].as_array().unwrap() {
            let total = scaled_label(key["value"].as_i64().unwrap(), unit, unit);
            assert!(text.contains(&format!(" {}: Total {total} of ", key["key"].as_str().unwrap())), "{name}: {text}");
            for tag in key["tags"].as_array().unwrap() {
                let value = scaled_label(tag["value"].as_i64().unwrap(), unit, unit);
                let ends = format!(": {}", tag["tag"].as_str().unwrap());
                assert!(
                    text.lines().any(|line| line.trim().starts_with(&value) && line.ends_with(&ends)),
                    "{name}: {tag}"
                );
            }
        }
    }
}

#[test]
fn a_file_format_is_no_table() {
    let (_, profile) = profiles().swap_remove(0);
    let error = print(&profile, &ReportKind::Dot, true).unwrap_err();
    assert!(error.starts_with("--json prints tables"), "{error}");
}

#[test]
fn the_live_table_has_the_numbers_of_the_text() {
    let mut rows = 0;
    for (name, limits) in
        [("server", TopLimits::default()), ("long", TopLimits { nodefraction: 0.02, nodecount: Some(3) })]
    {
        let text = fs::read_to_string(tests().join(format!("scenarios/{name}.txt"))).unwrap();
        let played = scenario(&text).unwrap();
        let mut lost = [0; LossCause::ALL.len()];
        lost[LossCause::RingFull as usize] = 2;
        let query = Query::default();
        let (filters, own) = (Filters::default(), OwnCode::default());
        let header = TopHeader {
            file: "a\x1b[2J",
            clock: Clock::Prof,
            duration_ns: Some(played.now_ns),
            lost_ticks: lost,
            lost_ns: lost.map(|ticks| ticks * 10_000_000),
            filters: &filters,
            own: &own,
            sort: Sort::Flat,
        };
        let facts = TopJsonFacts {
            command: "a b".to_owned(),
            pids: vec![7],
            engine: "threads",
            period: 10_000_000,
            achieved_hz: Some(99.0),
            unsampled_percent: None,
            is_last: true,
        };
        let table = Tallier::default().table(&played.profile, &played.names, &query);
        let mut text = String::new();
        write_top(&mut text, &header, &table, &limits);
        let report = to_json(&header, &facts, &table, &limits);
        validate(&report);
        assert!(!report.to_string().contains('\x1b'));
        let loss = &report["recordings"][0]["losses"][0];
        assert_eq!(
            (loss["cause"].as_str(), loss["ticks"].as_u64(), loss["value"].as_u64()),
            (Some("ring-full"), Some(2), Some(20_000_000))
        );
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("cum%")).skip(1).collect();
        let all = report["rows"].as_array().unwrap();
        assert_eq!((all.len(), report["shown"].as_u64() > Some(0)), (lines.len(), true));
        for (row, line) in all.iter().zip(lines) {
            let shares = ["flat_percent", "sum_percent", "cum_percent"].map(|of| percent(row[of].as_f64().unwrap()));
            let columns: Vec<&str> = line.split_whitespace().collect();
            assert_eq!([columns[1], columns[2], columns[4]], shares.each_ref().map(|share| share.trim()), "{line}");
            // The text has two decimals of a unit of its own.
            let digits = columns[0].trim_end_matches(char::is_alphabetic);
            let factor = match columns[0].strip_prefix(digits).unwrap() {
                "s" => 1e9,
                "hrs" => 3600e9,
                "" => 1.0,
                unit => panic!("{unit}"),
            };
            let flat = row["flat"].as_u64().unwrap() as f64;
            assert!((digits.parse::<f64>().unwrap() * factor - flat).abs() <= factor * 0.005, "{line}: {flat}");
            assert!(line.contains(row["name"].as_str().unwrap()), "{line}");
            rows += 1;
        }
        let dropped =
            text.lines().find_map(|line| line.strip_prefix("Dropped ")?.split(' ').next()?.parse::<u64>().ok());
        assert_eq!(report["omitted_by_fraction"].as_u64(), Some(dropped.unwrap_or(0)), "{text}");
        let cut = text.lines().find_map(|line| line.strip_prefix("Showing top 3 nodes out of ")?.parse::<u64>().ok());
        assert_eq!(report["omitted_by_count"].as_u64(), Some(cut.map_or(0, |all| all - 3)), "{text}");
    }
    assert!(rows > 8, "{rows} rows");
}

/// Runs sigtop and returns the objects that it prints, each validated.
fn objects(words: &[&str]) -> Vec<Value> {
    let mut sigtop = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    let output = sigtop.args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!all.is_empty(), "{words:?}");
    all.iter().for_each(validate);
    all
}

#[test]
fn all_commands_with_tables_print_json() {
    let recording = tests().join("recordings/python.sigtop").display().to_string();
    let view = objects(&["view", "--json", "--no-config", &recording]);
    let report = objects(&["report", "--json", &recording]);
    assert_eq!(view[0]["rows"][0]["name"], report[0]["rows"][0]["name"]);
    assert_eq!((&view[0]["total"], &view[0]["rows"][0]["flat"]), (&report[0]["total"], &report[0]["rows"][0]["flat"]));
    assert_eq!(report[0]["recordings"][0]["engine"], "threads");
    assert_eq!(report[0]["recordings"][0]["losses"], view[0]["recordings"][0]["losses"]);
    let symbols = objects(&["symbols", "--json", &recording]);
    let covered: u64 = symbols[0]["coverage"].as_array().unwrap().iter().map(|of| of["total"].as_u64().unwrap()).sum();
    assert_eq!(Some(covered), report[0]["total"].as_u64());
    assert!(!objects(&["symbols", "--json", env!("CARGO_BIN_EXE_sigtop")])[0]["files"][0]["names"].is_null());
    assert_eq!(objects(&["--json", "--no-config"])[0]["schema"], "sigtop.processes.v1");
    let with_stacks = tests().join("recordings/ripgrep.sigtop").display().to_string();
    let stacks = objects(&["report", "--stacks", "--json", &with_stacks]);
    let used: Vec<u64> =
        stacks[0]["threads"].as_array().unwrap().iter().map(|of| of["used"].as_u64().unwrap()).collect();
    assert!(!used.is_empty() && used.is_sorted_by(|one, next| one >= next), "{used:?}");
}

#[test]
fn tables_of_a_running_program_are_one_object_a_line() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables.jsonl");
    let mut sigtop = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    sigtop.args(["--no-config", "--json", "--interval", "50ms", "--hz", "250", "--table"]).arg(&file);
    sigtop.args(["--", "sh", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; exit 7"]);
    let output = sigtop.stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(7), &b""[..]), "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    all.iter().for_each(validate);
    let tables: Vec<&Value> = all.iter().filter(|object| object["schema"] == "sigtop.top.v1").collect();
    let last = tables.last().expect("a table");
    assert!(last["is_last"] == true && tables.iter().filter(|table| table["is_last"] == true).count() == 1, "{text}");
    assert_eq!(last["recordings"][0]["engine"], "threads");
    assert!(last["samples"].as_u64() > Some(0) && last["total"].as_u64() > Some(0), "{text}");
}
