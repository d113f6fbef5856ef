//! `sigtop check`: reads the profiles of both sides, or runs both commands, and prints the verdict.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::args::CheckArgs;
use super::args::check::MeasureChoice;
use super::downloads::Downloads;
use super::failure::{Failure, print_message};
use super::progress;
use super::replay::ReplayOptions;
use super::report::{read_profile, symbolize};
use crate::check::compare::Measure;
use crate::check::print::{CheckReport, SideFacts};
use crate::check::rules::GrowthRule;
use crate::check::series::{Series, UnitKind, ValueChoice};
use crate::check::verdict::{CheckRules, check};
use crate::pprof::profile::SavedProfile;
use crate::pprof::report::prepare;
use crate::tally::query::OwnCode;

/// Runs `sigtop check`. The result is the exit status.
pub(super) fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let report = match args.runs {
        Some(runs) => compare_runs(args, runs)?,
        None => compare_files(args)?,
    };
    let text = if args.json {
        format!("{}\n", report.json())
    } else if args.markdown {
        report.markdown()
    } else if args.github {
        report.github()
    } else {
        report.text()
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("cannot write to stdout", error))
        }
        _ => Ok(report.result.verdict.status()),
    }
}

fn compare_files(args: &CheckArgs) -> Result<CheckReport, Failure> {
    let [base, new] = match (&args.base_file, &args.new_file) {
        (Some(base), Some(new)) => [list_files(base)?, list_files(new)?],
        (Some(_), None) => return Err(usage("there is nothing to compare with the base: sigtop check BASE NEW")),
        _ if !args.base.is_empty() => [args.base.clone(), args.new.clone()],
        _ => return Err(usage("there is no base: sigtop check BASE NEW, or --runs N -- OLD... -- NEW...")),
    };
    let names = |files: &[PathBuf]| files.iter().map(|file| file.display().to_string()).collect::<Vec<String>>();
    let sides = [names(&base), names(&new)];
    compare(args, [&base, &new], sides, false)
}

/// The files of a directory, or the file itself.
fn list_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::internal(&format!("{}: cannot be read", path.display()), error);
    let entries = fs::read_dir(path).map_err(unreadable)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    if files.is_empty() {
        return Err(usage(&format!("{}: there are no files in this directory", path.display())));
    }
    Ok(files)
}

fn usage(message: &str) -> Failure {
    Failure::new(Failure::USAGE, message)
}

/// Reads the profiles of both sides and compares them. `names` are those of the sides in the
/// report.
fn compare(
    args: &CheckArgs,
    files: [&[PathBuf]; 2],
    names: [Vec<String>; 2],
    are_runs: bool,
) -> Result<CheckReport, Failure> {
    let downloads = Downloads::new(&args.debug_information, &args.config)?;
    let mut all = Vec::new();
    for file in files.into_iter().flatten() {
        all.push(read(file, &downloads)?);
    }
    downloads.finish();
    SavedProfile::unify(&mut all).map_err(|error| Failure::internal("cannot compare the profiles", error))?;
    let value = all[0].value_index(&args.sample_index).map_err(|error| usage(&error))?;
    let sample_type = all[0].sample_types[value].clone();
    if let Some(own) = &args.own {
        fold_foreign(&mut all, own, value);
    }
    let new = all.split_off(files[0].len());
    let base = all;
    let kind = UnitKind::choose(&base, &new, are_runs);
    let measure = match args.by {
        Some(MeasureChoice::Share) => Measure::Share,
        Some(MeasureChoice::Time) => Measure::Time,
        None if are_runs => Measure::Time,
        None => Measure::Share,
    };
    if measure == Measure::Time && !matches!(kind, UnitKind::Runs | UnitKind::Files) {
        return Err(usage(
            "--by time needs five or more files a side, or --runs: one run does not tell how much runs differ",
        ));
    }
    let choice = ValueChoice { value, cum: args.cum };
    let series = [&base, &new].map(|profiles| Series::new(profiles, kind, choice));
    let has_rules = !args.fail_on.is_empty() || args.total.is_some();
    let rules = CheckRules {
        functions: if has_rules { args.fail_on.clone() } else { vec![GrowthRule::any_growth()] },
        total: args.total.or((are_runs && !has_rules).then_some(0.0)),
    };
    let result = check([&series[0], &series[1]], kind, measure, &rules, files.map(<[PathBuf]>::len));
    let [base_names, new_names] = names;
    Ok(CheckReport {
        result,
        value_name: sample_type.kind.to_string(),
        unit: sample_type.unit.to_string(),
        sides: [SideFacts::new(base_names, &base), SideFacts::new(new_names, &new)],
    })
}

fn fold_foreign(profiles: &mut [SavedProfile], own: &OwnCode, value: usize) {
    let mut any_own = false;
    for profile in profiles {
        any_own |= profile.fold_foreign(own, profile.locations.len(), value).0;
    }
    if !any_own {
        print_message("no function is own code: --own=REGEX says which are");
    }
}

fn read(file: &Path, downloads: &Downloads) -> Result<SavedProfile, Failure> {
    let name = file.to_string_lossy();
    let mut warnings = Vec::new();
    let (servers, progress) = (downloads.client().cloned(), downloads.progress().clone());
    let how = ReplayOptions { sample_times: true, servers, progress, ..ReplayOptions::default() };
    let failure = |error| Failure::new(Failure::INTERNAL, error);
    let mut profile = read_profile(&name, &how, &mut warnings).map_err(failure)?;
    symbolize(&mut profile, downloads, &mut warnings).map_err(failure)?;
    warnings.iter().for_each(|warning| print_message(warning));
    prepare(&mut profile, true);
    Ok(profile)
}

/// Runs both commands in turns and compares the recordings.
fn compare_runs(args: &CheckArgs, runs: u32) -> Result<CheckReport, Failure> {
    let mut commands = args.commands.split(|word| word == "--");
    let (Some(base), Some(new), None) = (commands.next(), commands.next(), commands.next()) else {
        return Err(usage("--runs needs two commands: sigtop check --runs 10 -- ./old ARGUMENTS -- ./new ARGUMENTS"));
    };
    if base.is_empty() || new.is_empty() {
        return Err(usage("a command of --runs is empty"));
    }
    let directory = RunDirectory::create()?;
    let mut files = [Vec::new(), Vec::new()];
    for run in 0..runs {
        // What changes with time affects both sides: the second command of a pair is the first of
        // the next.
        let order = if run % 2 == 0 { [0, 1] } else { [1, 0] };
        for (turn, side) in order.into_iter().enumerate() {
            let command = [base, new][side];
            if io::stderr().is_terminal() {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                progress::show_line(&format!(
                    "run {} of {}: {}",
                    2 * run as usize + turn + 1,
                    2 * runs,
                    words.join(" ")
                ));
            }
            let file = directory.0.join(format!("{}-{run}.sigtop", ["base", "new"][side]));
            record(args, command, &file)?;
            files[side].push(file);
        }
    }
    let words =
        |command: &[OsString]| command.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<String>>();
    compare(args, [&files[0], &files[1]], [words(base), words(new)], true)
}

/// Records one run of a command, whose output is dropped.
fn record(args: &CheckArgs, command: &[OsString], file: &Path) -> Result<(), Failure> {
    let sigtop = std::env::current_exe().map_err(|error| Failure::internal("cannot find the executable", error))?;
    let mut recorder = Command::new(sigtop);
    recorder.args(["record", "--quiet", "-o"]).arg(file);
    if let Some(hz) = args.hz {
        recorder.arg("--hz").arg(hz.to_string());
    }
    if args.config.no_config {
        recorder.arg("--no-config");
    }
    recorder.args(args.config.config.iter().flat_map(|path| [OsStr::new("--config"), path.as_os_str()]));
    recorder.arg("--").args(command).stdin(Stdio::null()).stdout(Stdio::null());
    let status = recorder.status().map_err(|error| Failure::internal("cannot start a run", error))?;
    if status.success() {
        return Ok(());
    }
    let program = command[0].to_string_lossy();
    Err(Failure::new(Failure::INTERNAL, format!("a run of {program} failed ({status}): its samples are not compared")))
}

/// A private directory for the recordings of runs, which is removed with them.
struct RunDirectory(PathBuf);

impl RunDirectory {
    fn create() -> Result<RunDirectory, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("sigtop-check-{}", std::process::id()));
        let created = fs::DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| Failure::internal(&format!("cannot create {}", path.display()), error))?;
        Ok(RunDirectory(path))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
