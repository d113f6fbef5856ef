//! Conditions on who was sampled, in the form of pprof's tagfocus and tagignore. A sample has four tags: the numbers `pid`
//! and `tid`, the names `process` and `thread`.
//!
//! * `tid=41280`, `pid=100:200`, `tid=41280:`: the number, or one of a range; after commas others.
//! * `thread=worker`, `process=^server$,cron`: a regular expression on the name; one of several.
//! * `41280` is either number; `worker` looks at `thread:NAME` and `process:NAME`; of several, all have to match.

use std::fmt;
use std::ops::RangeInclusive;

use super::query::Pattern;

/// What a sample says about its thread.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// As the viewer sees it.
    pub pid: u32,
    /// As the target sees it.
    pub tid: u32,
    /// Last part of the executable's path.
    pub process: &'a str,
    /// The thread's latest name.
    pub thread: &'a str,
}

/// A condition, and its text; equal when the text is.
#[derive(Clone, Debug)]
pub struct Tag {
    text: String,
    condition: Condition,
}

#[derive(Clone, Debug)]
enum Condition {
    /// Either number.
    Number(RangeInclusive<u32>),
    Pid(Vec<RangeInclusive<u32>>),
    Tid(Vec<RangeInclusive<u32>>),
    Process(Vec<Pattern>),
    Thread(Vec<Pattern>),
    /// All of them, on any name behind its key.
    Names(Vec<Pattern>),
}

/// Why a text is no condition.
#[derive(Clone, Debug)]
pub enum TagError {
    /// There is no such tag.
    Key(String),
    /// This tag is a number, and that is none.
    Number(&'static str, String),
    /// The regular expression that begins at this byte is wrong.
    Pattern(usize, Box<regex::Error>),
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagError::Key(key) => write!(f, "no tag is called `{key}`: use pid, tid, process or thread"),
            TagError::Number(key, text) => {
                write!(f, "`{text}` is no number: write {key}=41280, {key}=41280:41290 or {key}=41280:")
            }
            TagError::Pattern(_, error) => {
                // The last line says what is wrong; those before draw it.
                let words = error.to_string();
                f.write_str(words.lines().last().unwrap_or_default().trim_start_matches("error: "))
            }
        }
    }
}

impl std::error::Error for TagError {}

impl Tag {
    /// Reads one.
    ///
    /// # Errors
    /// An unknown key, a number or a regular expression that is none.
    pub fn new(text: &str) -> Result<Tag, TagError> {
        let numbers = |key, from: usize| {
            let read = |text: &str| range(text).ok_or_else(|| TagError::Number(key, text.trim().to_owned()));
            text[from..].split(',').map(read).collect::<Result<Vec<_>, _>>()
        };
        let condition = match text.split_once('=') {
            Some(("pid", _)) => Condition::Pid(numbers("pid", 4)?),
            Some(("tid", _)) => Condition::Tid(numbers("tid", 4)?),
            Some(("process", _)) => Condition::Process(patterns(text, 8)?),
            Some(("thread", _)) => Condition::Thread(patterns(text, 7)?),
            Some((key, _)) => return Err(TagError::Key(key.to_owned())),
            None => match range(text) {
                Some(range) => Condition::Number(range),
                None => Condition::Names(patterns(text, 0)?),
            },
        };
        Ok(Tag { text: text.to_owned(), condition })
    }

    /// This thread.
    pub fn of_thread(tid: u32) -> Tag {
        Tag { text: format!("tid={tid}"), condition: Condition::Tid(vec![tid..=tid]) }
    }

    /// This process.
    pub fn of_process(pid: u32) -> Tag {
        Tag { text: format!("pid={pid}"), condition: Condition::Pid(vec![pid..=pid]) }
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether samples with these labels have it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let one_of = |ranges: &[RangeInclusive<u32>], number| ranges.iter().any(|range| range.contains(&number));
        let any = |patterns: &[Pattern], name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        match &self.condition {
            Condition::Number(range) => range.contains(&labels.pid) || range.contains(&labels.tid),
            Condition::Pid(ranges) => one_of(ranges, labels.pid),
            Condition::Tid(ranges) => one_of(ranges, labels.tid),
            Condition::Process(patterns) => any(patterns, labels.process),
            Condition::Thread(patterns) => any(patterns, labels.thread),
            Condition::Names(patterns) => {
                let named = [format!("process:{}", labels.process), format!("thread:{}", labels.thread)];
                patterns.iter().all(|pattern| named.iter().any(|name| pattern.matches(name)))
            }
        }
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        self.text == other.text
    }
}

fn patterns(text: &str, from: usize) -> Result<Vec<Pattern>, TagError> {
    let mut at = from;
    let read = |part: &str| {
        let start = at;
        at += part.len() + 1;
        Pattern::new(part).map_err(|error| TagError::Pattern(start, Box::new(error)))
    };
    text[from..].split(',').map(read).collect()
}

/// `5`, `5:9`, `5:`, `:9`.
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

    const WORKER: Labels = Labels { pid: 41273, tid: 41280, process: "server", thread: "worker-0" };

    #[test]
    fn tags_match_as_pprofs_do() {
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
            ("thread=", true),
            ("", true),
        ] {
            assert_eq!(Tag::new(text).unwrap().matches(&WORKER), matches, "{text}");
        }
        assert!(Tag::of_thread(41280).matches(&WORKER) && Tag::of_process(41273).matches(&WORKER));
        assert_eq!(Tag::of_thread(7), Tag::new("tid=7").unwrap());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("tip=5", "use pid, tid, process or thread"),
            ("tid=worker", "write tid=41280"),
            ("tid=", "is no number"),
            ("pid=99999999999", "is no number"),
            ("pid=:", "is no number"),
            ("tid=+5", "is no number"),
            ("thread=a,b(", "unclosed group"),
            ("(", "unclosed group"),
        ] {
            let error = Tag::new(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(matches!(Tag::new("thread=a,b("), Err(TagError::Pattern(9, _))));
    }
}
