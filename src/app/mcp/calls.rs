//! The calls of tools: what they ask of a profile, and the profiles that are kept.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::arguments::Arguments;
use super::reply::{ReplyText, ToolError, quote, quote_sentence};
use super::tables;
use super::tools::parameter_names;
use crate::app::args::{ProcessSelector, SamplingArgs, WatchArgs};
use crate::app::explain::explain_session;
use crate::app::failure::Failure;
use crate::app::gather::{read_file, sample, sample_process};
use crate::app::settings::apply_config;
use crate::app::start::prepare_target;
use crate::attach::find;
use crate::keyword;
use crate::session::{Answer, FinishedSession, Question};
use crate::tally::query::Sort;
use crate::tally::threads::ThreadsQuery;
use crate::wire::Clock;

/// Maximum number of profiles that are kept. The oldest is dropped.
const MAX_PROFILES: usize = 8;
/// Duration of a recording in seconds: the default, and the range.
const DEFAULT_SECONDS: f64 = 5.0;
const SECONDS: (f64, f64) = (0.1, 60.0);
/// Number of names that an error offers.
const MAX_OPTIONS: usize = 8;

/// The profiles that were recorded, by handle.
#[derive(Default)]
pub(super) struct Toolbox {
    profiles: Vec<(String, FinishedSession)>,
    recorded: usize,
}

type ToolResult = Result<String, ToolError>;

impl Toolbox {
    /// Calls a tool. Returns `None` if there is none of this name.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Option<ToolResult> {
        parameter_names(tool)?;
        Some(Arguments::check(tool, arguments).and_then(|arguments| match tool {
            "processes" => processes(&arguments),
            "record" => self.record(&arguments),
            "top" => self.top(&arguments),
            "callers" => self.callers(&arguments),
            "source" => self.source(&arguments),
            "waits" => self.waits(&arguments),
            "threads" => self.threads(&arguments),
            _ => self.compare(&arguments),
        }))
    }

    fn record(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let seconds = Duration::from_secs_f64(arguments.number("seconds", DEFAULT_SECONDS, SECONDS)?);
        let clock = match arguments.text("clock")? {
            Some(word) => keyword::parse(word).map_err(|error| {
                let options = keyword::names::<Clock>().into_iter().map(str::to_owned).collect();
                ToolError::new(format!("clock: {error}"), "pass one of the options", options)
            })?,
            None => Clock::Real,
        };
        let pid = arguments.number("pid", 0.0, (0.0, f64::from(u32::MAX)))? as u32;
        let (name, file, command) = (arguments.text("name")?, arguments.text("file")?, arguments.list("command")?);
        let sampling = SamplingArgs { clock: Some(clock), ..SamplingArgs::default() };
        let args = WatchArgs { batch: true, sampling, ..WatchArgs::default() };
        let failed = |failure: Failure| {
            ToolError::new(failure.message, "processes lists what can be profiled", vec!["processes".to_owned()])
        };
        let args = apply_config(args).map_err(failed)?;
        let recorded = match (pid, name, file, &command[..]) {
            (0, None, Some(file), []) => read_file(Path::new(file)),
            (0, Some(name), None, []) => sample_process(&ProcessSelector::Name(name.to_owned()), &args, seconds),
            (0, None, None, [_, ..]) => {
                let command = command.iter().map(OsString::from).collect();
                prepare_target(&WatchArgs { command, ..args }).and_then(|pending| sample(pending, seconds))
            }
            (pid, None, None, []) if pid > 0 => sample_process(&ProcessSelector::Pid(pid), &args, seconds),
            _ => {
                let options = ["pid", "name", "command", "file"].map(str::to_owned).to_vec();
                return Err(ToolError::new("record needs one target", "pass one of pid, name, command, file", options));
            }
        };
        let mut finished = recorded.map_err(failed)?;
        self.recorded += 1;
        let handle = format!("r{}", self.recorded);
        let (sentences, omitted) = explain_session(&mut finished);
        let mut reply = ReplyText::new(format!("profile {handle}"), usize::MAX);
        sentences
            .iter()
            .for_each(|sentence| reply.push(&quote_sentence(&format!("{} [{}]", sentence.text, sentence.row))));
        if omitted > 0 {
            reply.push(&format!("({omitted} less important sentences left out)"));
        }
        if self.profiles.len() == MAX_PROFILES {
            let (oldest, _) = self.profiles.remove(0);
            reply.push(&format!("(profile {oldest} is dropped: at most {MAX_PROFILES} are kept)"));
        }
        self.profiles.push((handle, finished));
        Ok(reply.finish())
    }

    fn profile(&mut self, handle: &str) -> Result<&mut FinishedSession, ToolError> {
        let options: Vec<String> = self.profiles.iter().map(|(handle, _)| handle.clone()).collect();
        let found = self.profiles.iter_mut().find(|(known, _)| known == handle);
        found.map(|(_, finished)| finished).ok_or_else(|| {
            ToolError::new(format!("there is no profile {handle}"), "record makes one, and returns its handle", options)
        })
    }

    /// Answers a question about a profile with the filters of the call.
    fn ask(&mut self, arguments: &Arguments<'_>, handle: &str, question: Question) -> Result<Answer, ToolError> {
        let filters = arguments.filters()?;
        Ok(self.profile(arguments.required(handle)?)?.answer(Question { filters, ..question }))
    }

    /// The full name of the heaviest function that is meant.
    fn function(&mut self, arguments: &Arguments<'_>) -> Result<String, ToolError> {
        let name = arguments.required("function")?;
        let table = self.ask(arguments, "profile", Question { sort: Sort::Cum, ..Question::default() })?.window;
        let rows = || table.rows.iter();
        let exact = rows().find(|row| *row.full == *name || *row.short == *name);
        let found = exact.or_else(|| rows().find(|row| row.full.contains(name)));
        found.map(|row| row.full.to_string()).ok_or_else(|| {
            let options = rows().take(MAX_OPTIONS).map(|row| row.short.to_string()).collect();
            ToolError::new(format!("no sample has a function {name}"), "pass a name that top lists", options)
        })
    }

    fn top(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let sort = match arguments.text("sort")? {
            None | Some("flat") => Sort::Flat,
            Some("cum") => Sort::Cum,
            Some(other) => {
                let options = vec!["flat".to_owned(), "cum".to_owned()];
                return Err(ToolError::new(format!("sort: unknown order {other}"), "pass flat or cum", options));
            }
        };
        let limit = arguments.limit()?;
        let answer = self.ask(arguments, "profile", Question { sort, ..Question::default() })?;
        Ok(tables::top(&answer, limit))
    }

    fn callers(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let (centre, limit) = (Some(self.function(arguments)?), arguments.limit()?);
        let answer = self.ask(arguments, "profile", Question { centre, ..Question::default() })?;
        Ok(tables::callers(&answer, limit))
    }

    fn source(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let (listing, limit) = (Some(self.function(arguments)?), arguments.limit()?);
        let answer = self.ask(arguments, "profile", Question { listing, ..Question::default() })?;
        Ok(tables::source(&answer, limit))
    }

    fn waits(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let limit = arguments.limit()?;
        let answer = self.ask(arguments, "profile", Question { waits: true, ..Question::default() })?;
        if answer.facts.clock != Clock::Real {
            let hint = "record again with clock wall";
            return Err(ToolError::new("these samples do not tell of waits", hint, vec!["wall".to_owned()]));
        }
        Ok(tables::waits(&answer, limit))
    }

    fn threads(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let limit = arguments.limit()?;
        let threads = Some(ThreadsQuery { ended_processes: true, ..ThreadsQuery::default() });
        let answer = self.ask(arguments, "profile", Question { threads, ..Question::default() })?;
        Ok(tables::threads(&answer, limit))
    }

    fn compare(&mut self, arguments: &Arguments<'_>) -> ToolResult {
        let limit = arguments.limit()?;
        let base = self.ask(arguments, "base", Question::default())?;
        let new = self.ask(arguments, "new", Question::default())?;
        Ok(tables::compare(&base, &new, limit))
    }
}

fn processes(arguments: &Arguments<'_>) -> ToolResult {
    let filter = arguments.text("filter")?.unwrap_or_default();
    let mut reply = ReplyText::new("pid name".to_owned(), arguments.limit()?);
    let own = std::process::id();
    for process in find::attachable_processes() {
        if process.pid != own && process.comm.contains(filter) {
            reply.push(&format!("{} {}", process.pid, quote(&process.comm)));
        }
    }
    Ok(reply.finish())
}
