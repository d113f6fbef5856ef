//! Filters by thread, with the syntax of pprof's tagfocus and tagignore. A sample has four tags:
//! the numbers `pid` and `tid`, the names `process` and `thread`. That of a sleeping thread also has
//! the reason for which it waits, `wait`, and the name of the thread that holds its lock, `holder`.
//! Where several files are shown as one, `source` is the name of the file or its host.
//!
//! * `tid=41280`, `pid=100:200`, `tid=41280:`: a number or a range; commas separate alternatives.
//! * `thread=worker`, `process=^server$,cron`: a regular expression on the name; one must match.
//! * `wait=lock,disk`, `holder=compactor`: likewise; no running thread matches.
//! * `source=web1`: likewise.
//! * `41280` matches either number. `worker` is matched with `thread:NAME` and `process:NAME`; of
//!   several expressions all must match.

use std::fmt;
use std::ops::RangeInclusive;

use super::Pattern;
use crate::symbols::WaitLabel;

/// The tags of a sample.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTags<'a> {
    /// The process id in the viewer's namespace.
    pub pid: u32,
    /// The thread id in the target's namespace.
    pub tid: u32,
    /// The last component of the executable's path.
    pub process: &'a str,
    /// The thread's latest name.
    pub thread: &'a str,
    /// The name of the file or host that the sample comes from, if several are shown.
    pub source: Option<&'a str>,
    /// The reason for which the thread waits.
    pub wait: Option<&'a str>,
    /// The name of the thread that holds the lock for which it waits.
    pub holder: Option<&'a str>,
}

/// A condition on the tags of a sample. Two filters are equal if their texts are.
#[derive(Clone, Debug)]
pub struct TagFilter {
    text: String,
    condition: Condition,
}

#[derive(Clone, Debug)]
enum Condition {
    /// The process or the thread id is in this range.
    Number(RangeInclusive<u32>),
    Pid(Vec<RangeInclusive<u32>>),
    Tid(Vec<RangeInclusive<u32>>),
    Process(Vec<Pattern>),
    Thread(Vec<Pattern>),
    Source(Vec<Pattern>),
    Wait(Vec<Pattern>),
    Holder(Vec<Pattern>),
    /// Each pattern matches `process:NAME` or `thread:NAME`.
    Names(Vec<Pattern>),
}

/// The reason why a text is not a tag filter.
#[derive(Clone, Debug)]
pub enum TagFilterError {
    /// There is no tag with this key.
    Key(String),
    /// The tag with this key is a number, and the text is not one.
    Number(&'static str, String),
    /// The regular expression that begins at this byte has a syntax error.
    Pattern(usize, Box<regex::Error>),
}

impl fmt::Display for TagFilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagFilterError::Key(key) => {
                write!(f, "there is no tag `{key}`: use pid, tid, process, thread, source, wait or holder")
            }
            TagFilterError::Number(key, text) => {
                write!(f, "`{text}` is not a number: write {key}=41280, {key}=41280:41290 or {key}=41280:")
            }
            TagFilterError::Pattern(_, error) => {
                // The last line names the error; the lines before show its position.
                let words = error.to_string();
                f.write_str(words.lines().last().unwrap_or_default().trim_start_matches("error: "))
            }
        }
    }
}

impl std::error::Error for TagFilterError {}

impl TagFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// The key is unknown, or a number or a regular expression is malformed.
    pub fn new(text: &str) -> Result<TagFilter, TagFilterError> {
        let numbers = |key, from: usize| {
            let read = |text: &str| range(text).ok_or_else(|| TagFilterError::Number(key, text.trim().to_owned()));
            text[from..].split(',').map(read).collect::<Result<Vec<_>, _>>()
        };
        let condition = match text.split_once('=') {
            Some(("pid", _)) => Condition::Pid(numbers("pid", 4)?),
            Some(("tid", _)) => Condition::Tid(numbers("tid", 4)?),
            Some(("process", _)) => Condition::Process(patterns(text, 8)?),
            Some(("thread", _)) => Condition::Thread(patterns(text, 7)?),
            Some(("source", _)) => Condition::Source(patterns(text, 7)?),
            Some(("wait", _)) => Condition::Wait(patterns(text, 5)?),
            Some(("holder", _)) => Condition::Holder(patterns(text, 7)?),
            Some((key, _)) => return Err(TagFilterError::Key(key.to_owned())),
            None => match range(text) {
                Some(range) => Condition::Number(range),
                None => Condition::Names(patterns(text, 0)?),
            },
        };
        Ok(TagFilter { text: text.to_owned(), condition })
    }

    /// A filter that matches the thread with this id.
    pub fn for_thread(tid: u32) -> TagFilter {
        TagFilter { text: format!("tid={tid}"), condition: Condition::Tid(vec![tid..=tid]) }
    }

    /// A filter that matches the process with this id.
    pub fn for_process(pid: u32) -> TagFilter {
        TagFilter { text: format!("pid={pid}"), condition: Condition::Pid(vec![pid..=pid]) }
    }

    /// A filter that matches the waits of a row with this full name: those for the locks of a
    /// holder, or of a reason. `None` if the row is no wait.
    pub fn for_wait(full: &str) -> Option<TagFilter> {
        let label = WaitLabel::parse(full.strip_prefix("wait:")?);
        // A comma would begin another pattern.
        let exactly = |text: &str| format!("^{}$", regex::escape(text).replace(',', "."));
        TagFilter::new(&match label.holder_name() {
            Some(name) => format!("holder={}", exactly(name)),
            None => format!("wait={}", exactly(label.word())),
        })
        .ok()
    }

    /// The filter as the user typed it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it depends on what a thread waits for.
    pub fn is_of_waits(&self) -> bool {
        matches!(self.condition, Condition::Wait(_) | Condition::Holder(_))
    }

    /// Whether samples with these tags match.
    pub fn matches(&self, tags: &ThreadTags) -> bool {
        let one_of = |ranges: &[RangeInclusive<u32>], number| ranges.iter().any(|range| range.contains(&number));
        let any = |patterns: &[Pattern], name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        match &self.condition {
            Condition::Number(range) => range.contains(&tags.pid) || range.contains(&tags.tid),
            Condition::Pid(ranges) => one_of(ranges, tags.pid),
            Condition::Tid(ranges) => one_of(ranges, tags.tid),
            Condition::Process(patterns) => any(patterns, tags.process),
            Condition::Thread(patterns) => any(patterns, tags.thread),
            Condition::Source(patterns) => tags.source.is_some_and(|source| any(patterns, source)),
            Condition::Wait(patterns) => tags.wait.is_some_and(|wait| any(patterns, wait)),
            Condition::Holder(patterns) => tags.holder.is_some_and(|holder| any(patterns, holder)),
            Condition::Names(patterns) => {
                let named = [format!("process:{}", tags.process), format!("thread:{}", tags.thread)];
                patterns.iter().all(|pattern| named.iter().any(|name| pattern.matches(name)))
            }
        }
    }
}

impl PartialEq for TagFilter {
    fn eq(&self, other: &TagFilter) -> bool {
        self.text == other.text
    }
}

fn patterns(text: &str, from: usize) -> Result<Vec<Pattern>, TagFilterError> {
    let mut at = from;
    let read = |part: &str| {
        let start = at;
        at += part.len() + 1;
        Pattern::new(part).map_err(|error| TagFilterError::Pattern(start, Box::new(error)))
    };
    text[from..].split(',').map(read).collect()
}

/// Parses a number or a range: `5`, `5:9`, `5:`, `:9`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let number = |text: &str, open: u32| {
        let digits = text.trim();
        if digits.is_empty() { Some(open) } else { digits.parse().ok().filter(|_| !digits.starts_with('+')) }
    };
    match text.split_once(':') {
        Some((first, last)) if !(first.trim().is_empty() && last.trim().is_empty()) => {
            Some(number(first, 0)?..=number(last, u32::MAX)?)
        }
        Some(_) => None,
        None if text.trim().is_empty() => None,
        None => number(text, 0).map(|number| number..=number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: ThreadTags = ThreadTags {
        pid: 41273,
        tid: 41280,
        process: "server",
        thread: "worker-0",
        source: Some("web1"),
        wait: Some("lock"),
        holder: None,
    };

    #[test]
    fn filters_match_as_those_of_pprof_do() {
        for (text, matches) in [
            ("tid=41280", true),
            ("tid=4128", false),
            ("tid=1, 41280", true),
            ("tid=41270:41280", true),
            ("tid=41281:", false),
            ("tid=:41280", true),
            ("pid=41273", true),
            ("pid=41280", false),
            ("41273", true),
            ("41280", true),
            ("4128", false),
            ("thread=worker", true),
            ("thread=^worker$", false),
            ("thread=main,0$", true),
            ("thread=server", false),
            ("process=^server$", true),
            ("worker", true),
            ("^thread:worker-0$", true),
            ("worker,server", true),
            ("worker,main", false),
            ("source=^web1$", true),
            ("source=web2", false),
            ("wait=^lock$,disk", true),
            ("wait=read", false),
            ("holder=", false),
            ("thread=", true),
            ("", true),
        ] {
            assert_eq!(TagFilter::new(text).unwrap().matches(&WORKER), matches, "{text}");
        }
        assert!(TagFilter::for_thread(41280).matches(&WORKER) && TagFilter::for_process(41273).matches(&WORKER));
        assert_eq!(TagFilter::for_thread(7), TagFilter::new("tid=7").unwrap());
    }

    #[test]
    fn errors_name_the_cause_and_the_syntax() {
        for (text, words) in [
            ("tip=5", "use pid, tid, process, thread, source, wait or holder"),
            ("tid=worker", "write tid=41280"),
            ("tid=", "is not a number"),
            ("pid=99999999999", "is not a number"),
            ("pid=:", "is not a number"),
            ("tid=+5", "is not a number"),
            ("thread=a,b(", "unclosed group"),
            ("(", "unclosed group"),
        ] {
            let error = TagFilter::new(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(matches!(TagFilter::new("thread=a,b("), Err(TagFilterError::Pattern(9, _))));
    }

    #[test]
    fn a_row_of_waits_is_a_filter() {
        let text = |full| TagFilter::for_wait(full).map(|filter| filter.text().to_owned());
        assert_eq!(text("wait:[poll] socket:[5] and 3 more").as_deref(), Some("wait=^poll$"));
        assert_eq!(text("wait:[lock 0x7f10] held by a,b 4130").as_deref(), Some("holder=^a.b$"));
        assert_eq!(text("Cache::insert"), None);
    }
}
