//! Parses a `:` line into a [`ColonCommand`].

use super::colon_command::ColonCommand;
use super::table::{ALIASES, COMMANDS, CommandSpec, Syntax, UNSUPPORTED};
use crate::keyword;
use crate::keyword::did_you_mean::did_you_mean;
use crate::tally::query::tags::{TagFilter, TagFilterError};
use crate::tally::query::{Pattern, Sort};
use crate::tui::pane::prompt::state::{self as prompt, Fault};

/// A line, split into its first word and the rest.
pub(super) struct SplitLine<'a> {
    pub(super) head: &'a str,
    /// Whether `=` separates the two.
    equals: bool,
    pub(super) rest: &'a str,
    /// Column of the first character of `rest`.
    rest_column: usize,
}

pub(super) fn split(line: &str) -> SplitLine<'_> {
    let line = line.trim_end();
    let start = line.len() - line.trim_start().len();
    let body = &line[start..];
    let end = body.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(body.len());
    let (head, after) = body.split_at(end);
    let trimmed = after.trim_start();
    let equals = trimmed.starts_with('=');
    let rest = trimmed.strip_prefix('=').unwrap_or(trimmed).trim_start();
    let rest_column = line[..line.len() - rest.len()].chars().count();
    SplitLine { head, equals, rest, rest_column }
}

/// Finds the command of a first word, and the digits attached to it (`top10`).
pub(super) fn find_command(head: &str) -> Option<(&'static CommandSpec, &str)> {
    let find = |name: &str| {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        COMMANDS.iter().find(|command| command.name == name)
    };
    let stem = head.trim_end_matches(|c: char| c.is_ascii_digit());
    let counted = || find(stem).filter(|command| matches!(command.syntax, Syntax::Top));
    find(head).map(|command| (command, "")).or_else(|| Some((counted()?, &head[stem.len()..])))
}

/// Parses a line.
///
/// # Errors
/// The mistake, its column, and its correction.
pub fn parse(line: &str) -> Result<ColonCommand, Fault> {
    let SplitLine { head, equals, rest, rest_column } = split(line);
    let fault = |at: usize, words: String| Err(Fault { at, words });
    if head.is_empty() {
        return if equals {
            fault(0, "expected a command before =; help lists them".to_owned())
        } else {
            Ok(ColonCommand::ClearFilters)
        };
    }
    if let (Ok(group), true) = (keyword::parse(head), rest.is_empty() && !equals) {
        return Ok(ColonCommand::Group(group));
    }
    let Some((command, digits)) = find_command(head) else {
        let start = line.len() - line.trim_start().len();
        return fault(start, explain_unknown(head));
    };
    let usage = || format!("usage: {}", command.usage);
    match command.syntax {
        Syntax::Bare(_) if !rest.is_empty() || equals => {
            fault(rest_column, format!("{} takes no argument", command.name))
        }
        Syntax::Bare(result) => Ok(result()),
        Syntax::Keyword(parse, _) | Syntax::Value(parse, _) if rest.is_empty() => match parse(rest) {
            Ok(result) if equals => Ok(result),
            _ => fault(rest_column, usage()),
        },
        Syntax::Keyword(parse, _) | Syntax::Value(parse, _) => parse(rest).or_else(|words| fault(rest_column, words)),
        Syntax::Filter(kind) if rest.is_empty() && equals => Ok(ColonCommand::Filter(kind, None)),
        Syntax::TagFilter(kind) if rest.is_empty() && equals => Ok(ColonCommand::Tag(kind, None)),
        Syntax::Filter(_) | Syntax::TagFilter(_) | Syntax::Function(_) if rest.is_empty() => {
            fault(rest_column, usage())
        }
        Syntax::TagFilter(kind) => parse_tag(rest, rest_column).map(|tag| ColonCommand::Tag(kind, Some(tag))),
        Syntax::Filter(kind) => {
            parse_pattern(rest, rest_column).map(|pattern| ColonCommand::Filter(kind, Some(pattern)))
        }
        Syntax::Function(_) | Syntax::Top if equals => fault(rest_column.saturating_sub(1), usage()),
        Syntax::Function(result) => parse_pattern(rest, rest_column).map(result),
        Syntax::Top => parse_top(digits, rest, rest_column),
    }
}

fn explain_unknown(head: &str) -> String {
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(names, _)| names.contains(&head)) {
        return format!("pprof's {head} {why}");
    }
    match did_you_mean(head, COMMANDS.iter().map(|command| command.name)) {
        Some(name) => format!("did you mean {name}? help lists the commands"),
        None => "unknown command; help lists them".to_owned(),
    }
}

fn parse_pattern(text: &str, column: usize) -> Result<Pattern, Fault> {
    Pattern::new(text).map_err(|error| {
        let fault = prompt::fault(&error, text.chars().count());
        Fault { at: column + fault.at, ..fault }
    })
}

fn parse_tag(text: &str, column: usize) -> Result<TagFilter, Fault> {
    TagFilter::new(text).map_err(|error| match &error {
        TagFilterError::Pattern(start, fault) => {
            let fault = prompt::fault(fault, text[*start..].chars().count());
            Fault { at: column + text[..*start].chars().count() + fault.at, ..fault }
        }
        TagFilterError::Key(_) | TagFilterError::Number(..) => Fault { at: column, words: error.to_string() },
    })
}

fn parse_top(digits: &str, rest: &str, rest_column: usize) -> Result<ColonCommand, Fault> {
    let parse_count = |digits: &str, at| match digits.parse() {
        Ok(rows) if rows > 0 => Ok(rows),
        _ => Err(Fault { at, words: "expected a number of rows, such as top10".to_owned() }),
    };
    let mut rows = if digits.is_empty() { None } else { Some(parse_count(digits, 0)?) };
    let (mut sort, mut focus, mut ignore) = (None, Vec::new(), Vec::new());
    let mut from = 0;
    for word in rest.split_whitespace() {
        let offset = from + rest[from..].find(word).unwrap_or_default();
        from = offset + word.len();
        let at = rest_column + rest[..offset].chars().count();
        match word.trim_start_matches('-') {
            "cum" if word.starts_with('-') => sort = Some(Sort::Cum),
            "flat" if word.starts_with('-') => sort = Some(Sort::Flat),
            number if !word.starts_with('-') && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                rows = Some(parse_count(number, at)?);
            }
            "" => return Err(Fault { at, words: "expected a pattern after -".to_owned() }),
            text if word.starts_with('-') => ignore.push(parse_pattern(text, at + 1)?),
            text => focus.push(parse_pattern(text, at)?),
        }
    }
    Ok(ColonCommand::Top { rows, sort, focus, ignore })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parsed line in a few words.
    fn meaning(line: &str) -> String {
        let text = |patterns: &[Pattern]| patterns.iter().map(Pattern::text).collect::<Vec<_>>().join("|");
        match parse(line).unwrap_or_else(|fault| panic!("{line}: {fault:?}")) {
            ColonCommand::Filter(kind, pattern) => format!("{kind:?} {}", text(&Vec::from_iter(pattern))),
            ColonCommand::Tag(kind, tag) => format!("tag {kind:?} {}", tag.as_ref().map_or("", TagFilter::text)),
            ColonCommand::Peek(pattern) => format!("peek {}", pattern.text()),
            ColonCommand::Top { rows, sort, focus, ignore } => {
                format!("top {rows:?} {sort:?} {} {}", text(&focus), text(&ignore))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn lines_mean_what_they_mean_in_pprof() {
        for (line, expected) in [
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
            ("clock=wall", "Clock(Real)"),
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
            assert_eq!(meaning(line), expected, "{line}");
        }
    }

    #[test]
    fn errors_point_at_the_column_and_say_what_is_expected() {
        for (line, at, words) in [
            ("clock=wlal", 6, "did you mean wall?"),
            ("clock=", 6, "usage: clock=wall"),
            ("clock", 5, "usage: clock=wall"),
            ("tagroot", 7, "usage: tagroot=thread"),
            ("tagroot=tid", 8, "use none, thread, process, process,thread, wait or source"),
            ("hz=fast", 3, "expected a number of samples"),
            ("hz=1000000", 3, "20 000 Hz"),
            ("window=2m", 7, "at most 60s"),
            ("focus", 5, "usage: focus=REGEX"),
            ("focus=a(", 7, "unclosed group"),
            (" focus = ä(", 10, "unclosed group"),
            ("tagfocus", 8, "usage: tagfocus=tid=5"),
            ("tagfocus=tip=5", 9, "use pid, tid"),
            ("tagfocus=thread=ä,(", 18, "unclosed group"),
            ("tagignore=tid=x", 10, "is not a number"),
            ("peek", 4, "usage: peek REGEX"),
            ("top0", 0, "top10"),
            ("top99999999999999999999999", 0, "top10"),
            ("top 3 a( b", 7, "unclosed group"),
            ("top a a(", 7, "unclosed group"),
            ("top -", 4, "expected a pattern"),
            ("quit now", 5, "takes no argument"),
            ("foucs=x", 0, "did you mean focus?"),
            ("  svg", 2, "pprof's svg writes a report"),
            ("list", 4, "usage: list REGEX"),
            ("weblist main", 0, "list REGEX"),
            ("nodecount=5", 0, "every row"),
            ("xyzzy", 0, "unknown command"),
            ("=", 0, "expected a command before"),
        ] {
            let fault = parse(line).expect_err(line);
            assert!(fault.at == at && fault.words.contains(words), "{line}: {fault:?}");
        }
    }

    #[test]
    fn no_command_is_listed_as_unsupported() {
        let unsupported = || UNSUPPORTED.iter().flat_map(|(names, _)| names.iter());
        assert!(unsupported().all(|name| find_command(name).is_none()), "a command is listed as unsupported");
        assert!(ALIASES.iter().all(|(_, name)| COMMANDS.iter().any(|command| command.name == *name)));
        for command in &COMMANDS {
            let line = command.usage.replace("REGEX", "x");
            assert!(parse(&line).is_ok(), "{line}");
        }
    }
}
