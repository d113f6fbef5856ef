//! The line of commands behind `:`, in pprof's [words](super::words): what a line means ([`parse`]), how it goes on ([`complete`]), and the
//! line while it is being typed ([`Colon`]).

use super::action::Edit;
use super::line::Line;
use super::nearest::nearest;
use super::order::Order;
use super::prompt::{self, Fault};
use super::setting::{self, chosen};
use super::words::{ABSENT, ALSO, Reader, WORDS, Word};
use crate::tally::query::{Pattern, Sort};
use crate::tally::tag::{Tag, TagError};

/// Lines that are kept for Up, at most.
const HISTORY: usize = 100;
/// Continuations of a line that are offered, at most.
const MAX_OFFERS: usize = 50;

/// A line taken apart: its first word, what separates it from the rest, and the rest with the character it begins at.
struct Parts<'a> {
    head: &'a str,
    equals: bool,
    rest: &'a str,
    at: usize,
}

fn parts(line: &str) -> Parts<'_> {
    let line = line.trim_end();
    let start = line.len() - line.trim_start().len();
    let body = &line[start..];
    let end = body.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(body.len());
    let (head, after) = body.split_at(end);
    let trimmed = after.trim_start();
    let equals = trimmed.starts_with('=');
    let rest = trimmed.strip_prefix('=').unwrap_or(trimmed).trim_start();
    let at = line[..line.len() - rest.len()].chars().count();
    Parts { head, equals, rest, at }
}

/// The word that a line begins with, and the digits right behind it.
fn known(head: &str) -> Option<(&'static Word, &str)> {
    let find = |name: &str| {
        let name = ALSO.iter().find(|(also, _)| *also == name).map_or(name, |(_, name)| name);
        WORDS.iter().find(|word| word.name == name)
    };
    let stem = head.trim_end_matches(|c: char| c.is_ascii_digit());
    let counted = || find(stem).filter(|word| matches!(word.reader, Reader::Top));
    find(head).map(|word| (word, "")).or_else(|| Some((counted()?, &head[stem.len()..])))
}

/// What a line asks for.
///
/// # Errors
/// What is wrong, at which character, and what would be right.
pub fn parse(line: &str) -> Result<Order, Fault> {
    let Parts { head, equals, rest, at } = parts(line);
    let fault = |at: usize, words: String| Err(Fault { at, words });
    if head.is_empty() {
        return if equals {
            fault(0, "a word stands before =; help lists them".to_owned())
        } else {
            Ok(Order::ClearFilters)
        };
    }
    let start = line.len() - line.trim_start().len();
    if let (Ok(group), true) = (chosen(head, &setting::GROUPS), rest.is_empty() && !equals) {
        return Ok(Order::Group(group));
    }
    let Some((word, digits)) = known(head) else {
        return fault(start, stranger(head));
    };
    match word.reader {
        Reader::Alone(_) if !rest.is_empty() || equals => fault(at, format!("{} stands alone", word.name)),
        Reader::Alone(order) => Ok(order()),
        Reader::Value(read, _) if rest.is_empty() => match read(rest) {
            Ok(order) if equals => Ok(order),
            _ => fault(at, format!("write {}", word.form)),
        },
        Reader::Value(read, _) => read(rest).or_else(|words| fault(at, words)),
        Reader::Filter(kind) if rest.is_empty() && equals => Ok(Order::Filter(kind, None)),
        Reader::Tag(kind) if rest.is_empty() && equals => Ok(Order::Tag(kind, None)),
        Reader::Filter(_) | Reader::Tag(_) | Reader::Function(_) if rest.is_empty() => {
            fault(at, format!("write {}", word.form))
        }
        Reader::Tag(kind) => tag(rest, at).map(|tag| Order::Tag(kind, Some(tag))),
        Reader::Filter(kind) => pattern(rest, at).map(|pattern| Order::Filter(kind, Some(pattern))),
        Reader::Function(_) if equals => fault(at.saturating_sub(1), format!("write {}", word.form)),
        Reader::Function(order) => pattern(rest, at).map(order),
        Reader::Top if equals => fault(at.saturating_sub(1), format!("write {}", word.form)),
        Reader::Top => top(digits, rest, at),
    }
}

fn stranger(head: &str) -> String {
    if let Some((_, why)) = ABSENT.iter().find(|(words, _)| words.contains(&head)) {
        return format!("pprof's {head} {why}");
    }
    match nearest(head, WORDS.iter().map(|word| word.name)) {
        Some(meant) => format!("did you mean {meant}? help lists the words"),
        None => "no such word; help lists them".to_owned(),
    }
}

fn pattern(text: &str, at: usize) -> Result<Pattern, Fault> {
    Pattern::new(text).map_err(|error| {
        let fault = prompt::fault(&error, text.chars().count());
        Fault { at: at + fault.at, ..fault }
    })
}

fn tag(text: &str, at: usize) -> Result<Tag, Fault> {
    Tag::new(text).map_err(|error| match &error {
        TagError::Pattern(start, fault) => {
            let fault = prompt::fault(fault, text[*start..].chars().count());
            Fault { at: at + text[..*start].chars().count() + fault.at, ..fault }
        }
        TagError::Key(_) | TagError::Number(..) => Fault { at, words: error.to_string() },
    })
}

fn top(digits: &str, rest: &str, at: usize) -> Result<Order, Fault> {
    let count = |digits: &str, at| match digits.parse() {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(Fault { at, words: "a number of rows, such as top10".to_owned() }),
    };
    let mut rows = if digits.is_empty() { None } else { Some(count(digits, 0)?) };
    let (mut sort, mut focus, mut ignore) = (None, Vec::new(), Vec::new());
    let mut from = 0;
    for word in rest.split_whitespace() {
        let offset = from + rest[from..].find(word).unwrap_or_default();
        from = offset + word.len();
        let at = at + rest[..offset].chars().count();
        match word.trim_start_matches('-') {
            "cum" if word.starts_with('-') => sort = Some(Sort::Cum),
            "flat" if word.starts_with('-') => sort = Some(Sort::Flat),
            number if !word.starts_with('-') && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                rows = Some(count(number, at)?);
            }
            "" => return Err(Fault { at, words: "a pattern follows -".to_owned() }),
            text if word.starts_with('-') => ignore.push(pattern(text, at + 1)?),
            text => focus.push(pattern(text, at)?),
        }
    }
    Ok(Order::Top { rows, sort, focus, ignore })
}

/// What the word that a line begins with does, while the line is typed.
pub fn hint(line: &str) -> Option<&'static Word> {
    let Parts { head, .. } = parts(line);
    known(head).map(|(word, _)| word)
}

/// Whole lines that this one can become; `functions` are the names that a pattern may mean.
pub fn complete<'a>(line: &str, functions: impl Iterator<Item = &'a str>) -> Vec<String> {
    let Parts { head, rest, .. } = parts(line);
    let Some((word, _)) = known(head).filter(|_| line.contains(['=', ' '])) else {
        let fits = WORDS.iter().filter(|word| word.name.starts_with(line.trim_start()));
        return fits.map(stem).collect();
    };
    let stem = match word.reader {
        Reader::Top => line.strip_suffix(rest).unwrap_or_default().to_owned(),
        _ => stem(word),
    };
    let lower = rest.to_lowercase();
    match word.reader {
        Reader::Alone(_) => Vec::new(),
        Reader::Tag(_) => {
            let keys = ["thread=", "process=", "tid=", "pid="];
            keys.iter().filter(|key| key.starts_with(rest)).map(|key| format!("{stem}{key}")).collect()
        }
        Reader::Value(_, values) => {
            values.iter().filter(|value| value.starts_with(rest)).map(|value| format!("{stem}{value}")).collect()
        }
        Reader::Top => {
            ["-cum", "-flat"].iter().filter(|it| it.starts_with(rest)).map(|it| format!("{stem}{it}")).collect()
        }
        Reader::Filter(_) | Reader::Function(_) => functions
            .filter(|name| name.to_lowercase().contains(&lower))
            .take(MAX_OFFERS)
            .map(|name| format!("{stem}{}", regex::escape(name)))
            .collect(),
    }
}

fn stem(word: &Word) -> String {
    match word.reader {
        Reader::Value(..) | Reader::Filter(_) | Reader::Tag(_) => format!("{}=", word.name),
        Reader::Function(_) => format!("{} ", word.name),
        Reader::Alone(_) | Reader::Top => word.name.to_owned(),
    }
}

/// The line while it is being typed.
#[derive(Clone, Debug, Default)]
pub struct Colon {
    line: Line,
    fault: Option<Fault>,
    /// What Tab goes round in, and where it is.
    offers: Option<(Vec<String>, usize)>,
    /// Which line of the history is shown, counted from the newest, and what was typed before.
    recalled: Option<(usize, String)>,
}

impl Colon {
    /// The line.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// What is wrong with it, once it was to be obeyed.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The continuations that Tab goes round in.
    pub fn offers(&self) -> &[String] {
        self.offers.as_ref().map_or(&[], |(offers, _)| offers)
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        self.line.insert(text);
        self.changed();
    }

    /// Edits the line.
    pub fn edit(&mut self, edit: Edit) {
        if self.line.edit(edit) {
            self.changed();
        }
    }

    fn changed(&mut self) {
        (self.fault, self.offers, self.recalled) = (None, None, None);
    }

    /// What the line asks for; if that is nothing, the line says why from now on.
    pub fn order(&mut self) -> Option<Order> {
        match parse(&self.line.text()) {
            Ok(order) => Some(order),
            Err(fault) => {
                self.fault = Some(fault);
                None
            }
        }
    }

    /// Goes on as far as it is clear, then from one continuation to the next.
    pub fn complete<'a>(&mut self, functions: impl Iterator<Item = &'a str>) {
        if let Some((offers, at)) = &mut self.offers {
            *at = (*at + 1) % offers.len();
            self.line.set(&offers[*at]);
            return;
        }
        let text = self.line.text();
        let offers = complete(&text, functions);
        let common = offers.iter().skip(1).fold(offers.first().cloned().unwrap_or_default(), |common, offer| {
            common.chars().zip(offer.chars()).take_while(|(one, other)| one == other).map(|(c, _)| c).collect()
        });
        if common.len() > text.len() && common.starts_with(&text) {
            self.line.set(&common);
            self.changed();
        } else if let Some(first) = offers.first() {
            self.line.set(first);
            self.changed();
            self.offers = (offers.len() > 1).then_some((offers, 0));
        }
    }

    /// Shows an older (-1) or newer (1) line of the history, and at its end what was being typed.
    pub fn recall(&mut self, history: &History, step: i8) {
        let (at, typed) = match self.recalled.take() {
            Some((at, typed)) => (Some(at), typed),
            None => (None, self.line.text()),
        };
        let next = match (at, step) {
            (None, ..0) => Some(0),
            (None, _) => None,
            (Some(at), ..0) => Some(at + 1),
            (Some(at), _) => at.checked_sub(1),
        };
        let next = next.map(|next| next.min(history.0.len().saturating_sub(1)));
        self.changed();
        match next.and_then(|next| Some((next, history.0.iter().rev().nth(next)?))) {
            Some((next, line)) => {
                self.line.set(line);
                self.recalled = Some((next, typed));
            }
            None => self.line.set(&typed),
        }
    }
}

/// Lines that were obeyed, the newest last.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<String>);

impl History {
    /// Keeps a line, once.
    pub fn keep(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        self.0.retain(|kept| *kept != line);
        if self.0.len() == HISTORY {
            self.0.remove(0);
        }
        self.0.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An order in a few words.
    fn order(line: &str) -> String {
        let text = |patterns: &[Pattern]| patterns.iter().map(Pattern::text).collect::<Vec<_>>().join("|");
        match parse(line).unwrap_or_else(|fault| panic!("{line}: {fault:?}")) {
            Order::Filter(kind, pattern) => format!("{kind:?} {}", text(&Vec::from_iter(pattern))),
            Order::Tag(kind, tag) => format!("tag {kind:?} {}", tag.as_ref().map_or("", Tag::text)),
            Order::Peek(pattern) => format!("peek {}", pattern.text()),
            Order::Top { rows, sort, focus, ignore } => {
                format!("top {rows:?} {sort:?} {} {}", text(&focus), text(&ignore))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_understood_as_pprof_does() {
        for (line, meaning) in [
            ("top", "top None None  "),
            ("top10", "top Some(10) None  "),
            ("top 5 -cum", "top Some(5) Some(Cum)  "),
            ("top10 --cum parse -malloc -^free$ x", "top Some(10) Some(Cum) parse|x malloc|^free$"),
            ("text -flat", "top None Some(Flat)  "),
            ("peek ^a b$", "peek ^a b$"),
            ("list ^a b$", "List(Pattern(Regex(\"^a b$\")))"),
            ("disasm x", "Disasm(Pattern(Regex(\"x\")))"),
            ("focus=parse", "Focus parse"),
            ("  focus = a=b ", "Focus a=b"),
            ("focus parse", "Focus parse"),
            ("focus=", "Focus "),
            ("ignore=x", "Ignore x"),
            ("hide=x", "Hide x"),
            ("show=x", "Show x"),
            ("show_from=x", "ShowFrom x"),
            ("tagfocus=tid=41280", "tag Focus tid=41280"),
            ("tagignore = worker,x", "tag Ignore worker,x"),
            ("tagfocus=", "tag Focus "),
            ("", "ClearFilters"),
            (" ", "ClearFilters"),
            (":", "ClearFilters"),
            ("hz=250", "Period(4000000)"),
            ("period=1ms", "Period(1000000)"),
            ("clock=real", "Clock(Real)"),
            ("engine itimer", "Engine(Itimer)"),
            ("window=60s", "Window(Some(60000000000))"),
            ("window=all", "Window(None)"),
            ("sort=cum", "Sort(Cum)"),
            ("cum", "Sort(Cum)"),
            ("flat", "Sort(Flat)"),
            ("names=full", "Names(Full)"),
            ("granularity=files", "Group(File)"),
            ("lines", "Group(Line)"),
            ("threads", "Group(Thread)"),
            ("tagroot=thread", "Roots(Threads)"),
            ("tagroot = process,thread", "Roots(Both)"),
            ("tagroot=", "Roots(Plain)"),
            ("reset", "Act(Reset)"),
            ("quit", "Act(Quit)"),
            ("exit", "Act(Quit)"),
            ("help", "Act(Help)"),
        ] {
            assert_eq!(order(line), meaning, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_where_it_is() {
        for (line, at, words) in [
            ("clock=rael", 6, "did you mean real?"),
            ("clock=", 6, "write clock=real"),
            ("clock", 5, "write clock=real"),
            ("tagroot", 7, "write tagroot=thread"),
            ("tagroot=tid", 8, "use none, thread, process or process,thread"),
            ("hz=fast", 3, "a number of samples"),
            ("hz=1000000", 3, "20000 Hz"),
            ("window=2m", 7, "at most 60s"),
            ("focus", 5, "write focus=REGEX"),
            ("focus=a(", 7, "unclosed group"),
            (" focus = ä(", 10, "unclosed group"),
            ("tagfocus", 8, "write tagfocus=tid=5"),
            ("tagfocus=tip=5", 9, "use pid, tid"),
            ("tagfocus=thread=ä,(", 18, "unclosed group"),
            ("tagignore=tid=x", 10, "is no number"),
            ("peek", 4, "write peek REGEX"),
            ("top0", 0, "top10"),
            ("top99999999999999999999999", 0, "top10"),
            ("top 3 a( b", 7, "unclosed group"),
            ("top a a(", 7, "unclosed group"),
            ("top -", 4, "a pattern follows"),
            ("quit now", 5, "stands alone"),
            ("foucs=x", 0, "did you mean focus?"),
            ("  svg", 2, "pprof's svg makes a report"),
            ("list", 4, "write list REGEX"),
            ("weblist main", 0, "list REGEX"),
            ("nodecount=5", 0, "every row"),
            ("xyzzy", 0, "no such word"),
            ("=", 0, "a word stands before"),
        ] {
            let fault = parse(line).expect_err(line);
            assert!(fault.at == at && fault.words.contains(words), "{line}: {fault:?}");
        }
    }

    #[test]
    fn no_word_is_both_there_and_not() {
        let absent = || ABSENT.iter().flat_map(|(words, _)| words.iter());
        assert!(absent().all(|word| known(word).is_none()), "a word of ours is called absent");
        assert!(ALSO.iter().all(|(_, name)| WORDS.iter().any(|word| word.name == *name)));
        for word in &WORDS {
            let line = word.form.replace("REGEX", "x");
            assert!(parse(&line).is_ok(), "{line}");
        }
    }

    fn tab(text: &str, times: usize) -> String {
        let mut colon = Colon::default();
        colon.insert(text);
        (0..times).for_each(|_| colon.complete(["json::parse", "json::print", "main"].into_iter()));
        colon.line().text()
    }

    #[test]
    fn tab_goes_on() {
        for (typed, times, becomes) in [
            ("foc", 1, "focus="),
            ("sh", 1, "show"),
            ("clock=", 1, "clock=prof"),
            ("clock=", 2, "clock=real"),
            ("clock=", 3, "clock=prof"),
            ("clock r", 1, "clock=real"),
            ("peek js", 1, "peek json::p"),
            ("peek js", 2, "peek json::parse"),
            ("focus=MAI", 1, "focus=main"),
            ("tagfocus=t", 1, "tagfocus=thread="),
            ("tagfocus=t", 2, "tagfocus=tid="),
            ("top10 -c", 1, "top10 -cum"),
            ("xyz", 2, "xyz"),
        ] {
            assert_eq!(tab(typed, times), becomes, "{typed}");
        }
        assert!(tab("", 1).starts_with("top"));
    }

    #[test]
    fn lines_come_back() {
        let mut history = History::default();
        ["top", "cum", "top", " "].iter().for_each(|line| history.keep((*line).to_owned()));
        let mut colon = Colon::default();
        colon.insert("pe");
        let mut step = |step| {
            colon.recall(&history, step);
            colon.line().text()
        };
        assert_eq!([step(-1), step(-1), step(-1)], ["top", "cum", "cum"]);
        assert_eq!([step(1), step(1), step(1)], ["top", "pe", "pe"]);
        (0..1000).for_each(|number| history.keep(format!("hz={number}")));
        assert_eq!(history.0.len(), HISTORY);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Whatever is typed is obeyed or refused, and the fault lies on the line or right behind it.
        #[test]
        fn nothing_breaks_the_line(pieces in prop::collection::vec(prop_oneof![
            Just("top".to_owned()), Just(" -cum".to_owned()), Just("=".to_owned()), Just("focus".to_owned()),
            Just("peek ".to_owned()), Just(" ".to_owned()), Just("9".to_owned()), ".{0,4}", any::<char>().prop_map(String::from),
        ], 0..8)) {
            let line = pieces.concat();
            if let Err(fault) = parse(&line) {
                prop_assert!(fault.at <= line.chars().count(), "{:?}", fault);
            }
            for offer in complete(&line, ["main", "a\u{1b}b"].into_iter()) {
                prop_assert!(offer.len() <= line.len() + 40);
            }
        }
    }
}
