//! The arguments of a call, checked.

use serde_json::Value;

use super::reply::ToolError;
use super::tools::parameter_names;
use crate::keyword::did_you_mean::did_you_mean;
use crate::tally::query::tags::TagFilter;
use crate::tally::query::{Filters, Pattern};

/// Number of rows unless the call says otherwise, and the maximum.
const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 500;

/// The arguments of a call.
pub(super) struct Arguments<'a>(&'a Value);

impl<'a> Arguments<'a> {
    /// Checks that the tool has parameters of all these names.
    pub(super) fn check(tool: &str, arguments: &'a Value) -> Result<Arguments<'a>, ToolError> {
        let known = parameter_names(tool).unwrap_or_default();
        let names = arguments.as_object().into_iter().flat_map(|object| object.keys());
        match names.into_iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                let nearest = did_you_mean(name, known.iter().copied());
                let hint = nearest.map_or("leave it out".to_owned(), |nearest| format!("did you mean {nearest}?"));
                let options = known.into_iter().map(str::to_owned).collect();
                Err(ToolError::new(format!("{tool} has no parameter {name}"), hint, options))
            }
            None => Ok(Arguments(arguments)),
        }
    }

    /// A text; `None` without one.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ToolError> {
        match &self.0[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(ToolError::new(format!("{name} is not a string"), "pass a string", Vec::new())),
        }
    }

    /// A text that has to be there.
    pub(super) fn required(&self, name: &str) -> Result<&'a str, ToolError> {
        let missing = || ToolError::new(format!("{name} is missing"), format!("pass {name}"), vec![name.to_owned()]);
        self.text(name)?.ok_or_else(missing)
    }

    /// A number within a range.
    pub(super) fn number(&self, name: &str, default: f64, (least, most): (f64, f64)) -> Result<f64, ToolError> {
        let number = match &self.0[name] {
            Value::Null => Some(default),
            value => value.as_f64(),
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
            let range = format!("{least} to {most}");
            ToolError::new(format!("{name} is not a number from {range}"), format!("pass {range}"), vec![range.clone()])
        })
    }

    /// A list of texts; empty without one.
    pub(super) fn list(&self, name: &str) -> Result<Vec<&'a str>, ToolError> {
        let words = match &self.0[name] {
            Value::Null => Some(Vec::new()),
            value => value.as_array().and_then(|words| words.iter().map(Value::as_str).collect()),
        };
        words.ok_or_else(|| {
            ToolError::new(format!("{name} is not a list of strings"), "pass [\"./app\", \"arg\"]", Vec::new())
        })
    }

    /// The maximum number of rows.
    pub(super) fn limit(&self) -> Result<usize, ToolError> {
        Ok(self.number("limit", DEFAULT_LIMIT as f64, (1.0, MAX_LIMIT as f64))? as usize)
    }

    /// The filters on frames, threads and processes.
    pub(super) fn filters(&self) -> Result<Filters, ToolError> {
        let pattern = |name: &str| -> Result<Vec<Pattern>, ToolError> {
            let Some(text) = self.text(name)? else { return Ok(Vec::new()) };
            Ok(vec![Pattern::parse(text).map_err(|error| wrong_pattern(name, error))?])
        };
        let mut tagfocus = Vec::new();
        for name in ["thread", "process"] {
            if let Some(text) = self.text(name)? {
                let filter = TagFilter::new(&format!("{name}={text}"));
                tagfocus.push(filter.map_err(|error| wrong_pattern(name, error.to_string()))?);
            }
        }
        Ok(Filters { focus: pattern("focus")?, ignore: pattern("ignore")?, tagfocus, ..Filters::default() })
    }
}

fn wrong_pattern(name: &str, error: String) -> ToolError {
    ToolError::new(format!("{name}: {error}"), "pass a regular expression; escape ( and [ by \\", Vec::new())
}
