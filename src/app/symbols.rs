//! `sigtop symbols`: shows where the function names of a file, of all files that a process maps, or
//! of those in a recording come from.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::args::{ConfigArgs, SymbolArgs};
use super::downloads::Downloads;
use super::failure::Failure;
use super::replay::{self, FileKind, ReplayOptions};
use crate::profile::module::ModuleFile;
use crate::session::unread_reason;
use crate::symbols::coverage::{NameCoverage, coverage};
use crate::symbols::download::DebuginfodClient;
use crate::symbols::explain::{self, Explanation, LineSource, NameSource};
use crate::tally::measure;
use crate::wire::interpreter::{FrameAccess, Interpreter};

/// Width of the first column, including the gap after it.
const TOPIC_COLUMNS: usize = 12;

/// Runs `sigtop symbols`.
pub(super) fn run(
    target: &OsStr,
    json: bool,
    debug_information: &SymbolArgs,
    config: &ConfigArgs,
) -> Result<u8, Failure> {
    let downloads = Downloads::new(debug_information, config)?;
    let explainer = Explainer { servers: downloads.client().cloned() };
    let explained = explain_target(target, &explainer);
    downloads.finish();
    let explained = explained?;
    let text = if json { format!("{}\n", explained.json()) } else { explained.text() };
    // A closed pipe is not an error: the reader has seen enough.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal("cannot write to stdout", error))
        }
        _ => Ok(0),
    }
}

/// The findings on a process, a recording or a file.
#[derive(Default)]
struct ExplainedTarget {
    files: Vec<Explanation>,
    /// The names of a recording's samples, by file.
    coverage: Vec<NameCoverage>,
    /// The interpreters of a recording.
    interpreters: Vec<Interpreter>,
}

impl ExplainedTarget {
    fn text(&self) -> String {
        let shares = format_coverage(&self.coverage) + &format_interpreters(&self.interpreters);
        format_explanations(&self.files) + &shares
    }

    fn json(&self) -> Value {
        let all: u64 = self.coverage.iter().map(NameCoverage::total_ns).sum();
        let coverage = self.coverage.iter().map(|file| {
            let share = |ns: u64| measure::percent_of(ns, all);
            json!({
                "file": file.module, "total": file.total_ns(), "total_percent": share(file.total_ns()),
                "with_line": file.line_ns, "with_line_percent": share(file.line_ns),
                "name_only": file.name_ns, "name_only_percent": share(file.name_ns),
                "neither": file.nameless_ns, "neither_percent": share(file.nameless_ns),
            })
        });
        let interpreters = self.interpreters.iter().map(|found| {
            let reason = (found.access == FrameAccess::Nobody).then(|| unread_reason(found));
            json!({
                "interpreter": found.to_string(), "stacks": found.merged, "freed": found.unnamed,
                "unread": found.unmerged, "reason": reason,
            })
        });
        json!({
            "schema": "sigtop.symbols.v1",
            "unit": "nanoseconds",
            "files": self.files.iter().map(explanation_json).collect::<Vec<Value>>(),
            "coverage": coverage.collect::<Vec<Value>>(),
            "interpreters": interpreters.collect::<Vec<Value>>(),
        })
    }
}

fn explanation_json(of: &Explanation) -> Value {
    let names = match of.names {
        NameSource::Own => "own",
        NameSource::Debug => "debug",
        NameSource::Packed => "packed",
        NameSource::Exports => "exports",
        NameSource::Nothing => "nothing",
    };
    let lines = match &of.lines {
        LineSource::Own => "own",
        LineSource::Debug => "debug",
        LineSource::Unreadable(_) => "unreadable",
        LineSource::Nothing => "nothing",
    };
    let searched = of.looked.iter().map(|(path, found)| json!({"path": path, "found": found}));
    json!({
        "path": of.path, "build_id": of.build_id, "error": of.opened.as_ref().err(), "functions": of.functions,
        "names": names, "lines": lines, "debug_file": of.debug_file,
        "searched": searched.collect::<Vec<Value>>(), "remedies": of.remedies,
    })
}

/// Explains a process, a recording or a file.
fn explain_target(target: &OsStr, explainer: &Explainer) -> Result<ExplainedTarget, Failure> {
    let files = match target.to_str().and_then(|text| text.parse::<u32>().ok()) {
        Some(pid) => explain_process(pid, explainer)?,
        None if is_recording(target) => return explain_recording(target, explainer),
        None => vec![explain_file(target, explainer)?],
    };
    Ok(ExplainedTarget { files, ..ExplainedTarget::default() })
}

/// Explains files, after it has downloaded their debug files if the user allows that.
struct Explainer {
    servers: Option<DebuginfodClient>,
}

impl Explainer {
    fn explain(&self, file: &ModuleFile, pid: u32) -> Explanation {
        self.servers.iter().for_each(|servers| explain::download(file, pid, servers));
        explain::explain(file, pid, self.servers.as_ref())
    }
}

fn explain_process(pid: u32, explainer: &Explainer) -> Result<Vec<Explanation>, Failure> {
    let files = explain::files_of(pid).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(127, format!("no process {pid}; for a file of this name: sigtop symbols ./{pid}"))
        }
        _ => {
            let message =
                format!("cannot read the memory map of process {pid}: {error}; run sigtop as its user or root");
            Failure::new(126, message)
        }
    })?;
    if files.is_empty() {
        let message = format!("process {pid} maps no files: it has exited or is a kernel thread");
        return Err(Failure::new(126, message));
    }
    Ok(files.iter().map(|file| explainer.explain(file, pid)).collect())
}

/// Whether a file is a recording, of sigtop or of perf.
fn is_recording(path: &OsStr) -> bool {
    let file = Path::new(path).is_file().then(|| File::open(path));
    let kind = file.and_then(Result::ok).and_then(|file| FileKind::read(file).ok()).map(|(kind, _)| kind);
    kind.is_some_and(|kind| kind != FileKind::Profile)
}

/// Explains the files that have samples in a recording, as they are on this machine, and how much
/// of the samples has names.
fn explain_recording(path: &OsStr, explainer: &Explainer) -> Result<ExplainedTarget, Failure> {
    let name = path.to_string_lossy();
    let file = File::open(path).map_err(|error| Failure::new(126, format!("{name} cannot be read: {error}")))?;
    let how = ReplayOptions { servers: explainer.servers.clone(), ..ReplayOptions::default() };
    let opened = replay::open(Box::new(file), &name, 0);
    let finished = opened.and_then(|opened| replay::play_to_end(opened.source, &name, &how));
    let finished = finished.map_err(|error| Failure::new(126, format!("{name} {error}")))?;
    let (profile, names) = (&finished.model.profile, &finished.model.names);
    let files = names.states().map(|(module, _)| explainer.explain(profile.modules.file(module), 0));
    let coverage = coverage(profile, names, finished.model.clock);
    Ok(ExplainedTarget { files: files.collect(), coverage, interpreters: profile.interpreters() })
}

/// Formats how many samples have frames of each interpreter:
///
/// ```text
/// Python 3.11: 954 stacks with Python functions, 3 of them with a freed one; 2 could not be read
/// ```
fn format_interpreters(interpreters: &[Interpreter]) -> String {
    let mut out = String::new();
    for found in interpreters {
        let Interpreter { access, merged, unnamed, unmerged, .. } = found;
        // Writing to a String cannot fail.
        let _ = match access {
            FrameAccess::All | FrameAccess::Sleeping => writeln!(
                out,
                "\n{found}: {merged} stacks with Python functions, {unnamed} of them with a freed one; \
                 {unmerged} could not be read"
            ),
            FrameAccess::Nobody => writeln!(out, "\n{found}: {}", unread_reason(found)),
        };
        if *access == FrameAccess::Sleeping {
            out.push_str("The agent reads no running threads under a seccomp filter; --engine external does\n");
        }
    }
    out
}

/// Formats the shares of samples with names:
///
/// ```text
///     samples  with line  name only    neither  file
///      62.13%     40.10%     20.00%      2.03%  libc.so.6
/// ```
fn format_coverage(files: &[NameCoverage]) -> String {
    let all: u64 = files.iter().map(NameCoverage::total_ns).sum();
    if all == 0 {
        return String::new();
    }
    let mut out = format!("\n{:>10} {:>10} {:>10} {:>10}  file\n", "samples", "with line", "name only", "neither");
    for file in files {
        let share = |ns: u64| measure::percentage(ns, all);
        let [total, line, name, nameless] = [file.total_ns(), file.line_ns, file.name_ns, file.nameless_ns].map(share);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{total:>10} {line:>10} {name:>10} {nameless:>10}  {}", file.module);
    }
    out
}

fn explain_file(path: &OsStr, explainer: &Explainer) -> Result<Explanation, Failure> {
    let path = std::path::absolute(path).map_err(|error| Failure::internal("invalid path", error))?;
    let file = ModuleFile { path, build_id: [].into(), device: 0, inode: 0 };
    let explanation = explainer.explain(&file, std::process::id());
    match explanation.opened {
        Err(message) => Err(Failure::new(if file.path.exists() { 126 } else { 127 }, message)),
        Ok(_) => Ok(explanation),
    }
}

/// Formats the findings on each file:
///
/// ```text
/// /usr/lib/x86_64-linux-gnu/libz.so.1
///   build id    5d0e2b…
///   debug file  none was found
///               /usr/lib/debug/.build-id/5d/0e2b….debug: nothing
///   to do       apt install zlib1g-dbgsym (from the archive debian-debug)
/// ```
fn format_explanations(explanations: &[Explanation]) -> String {
    let mut out = String::new();
    for (index, explanation) in explanations.iter().enumerate() {
        let blank = if index > 0 { "\n" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{blank}{}", explanation.path);
        for (topic, finding) in explanation.findings() {
            let _ = writeln!(out, "  {topic:TOPIC_COLUMNS$}{finding}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_samples() {
        let file = |module: &str, line_ns, name_ns, nameless_ns| NameCoverage {
            module: module.to_owned(),
            line_ns,
            name_ns,
            nameless_ns,
        };
        let expected = "
   samples  with line  name only    neither  file
    80.00%     50.00%     30.00%         0%  app
    20.00%         0%         0%     20.00%  [JIT]
";
        assert_eq!(format_coverage(&[file("app", 50, 30, 0), file("[JIT]", 0, 0, 20)]), expected);
        assert_eq!(format_coverage(&[]), "");
    }

    #[test]
    fn interpreters_that_are_not_read_are_named_with_the_reason() {
        let python = |minor| Interpreter { major: 3, minor, ..Interpreter::default() };
        let said = format_interpreters(&[python(13), python(15)]);
        let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
        assert!(lines[0].starts_with("Python 3.13: this build is not read: it is free-threaded"), "{said}");
        assert_eq!(lines[1], "Python 3.15: frames of this version are not read: native frames only");
    }

    #[test]
    fn explanation_lists_findings_and_remedies() {
        let explanation = Explanation {
            path: "/opt/app".to_owned(),
            opened: Ok("/proc/7/root/opt/app".to_owned()),
            build_id: "12ab".to_owned(),
            functions: 1,
            names: NameSource::Exports,
            lines: LineSource::Nothing,
            debug_file: None,
            looked: vec![("/opt/app.debug".to_owned(), "another checksum".to_owned())],
            remedies: vec!["build it with -g".to_owned(), "or so".to_owned()],
        };
        let gone = Explanation { opened: Err("it is gone".to_owned()), ..explanation.clone() };
        let expected = "\
/opt/app
  build id    12ab
  opened as   /proc/7/root/opt/app
  names       only what it exports, 1 function; it was stripped
  lines       none: it has no line tables
  debug file  none was found
              /opt/app.debug: another checksum
  to do       build it with -g
              or so

/opt/app
  build id    12ab
  names       none: it is gone
";
        assert_eq!(format_explanations(&[explanation, gone]), expected);
    }
}
