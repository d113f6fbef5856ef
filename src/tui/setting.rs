//! Values of settings as people write them, and what they mean: the same words on the command line, in the config file and
//! on the `:` line.

use std::time::Duration;

use super::OnQuit;
use super::list::NameStyle;
use super::nearest::nearest;
use super::theme::ThemeName;
use super::theme::palette::Palette;
use crate::link::wire::{Clock, Engine, PERIODS_NS};
use crate::tally::query::{Group, Roots, Sort};

/// The longest window that is kept by time, s.
const LONGEST_WINDOW_S: u64 = 60;

/// One value that a setting can have.
#[derive(Debug)]
pub struct Choice<T> {
    /// As it is written.
    pub word: &'static str,
    /// As it may be written too.
    pub also: Option<&'static str>,
    /// What it is.
    pub value: T,
    /// What it means.
    pub words: &'static str,
}

const fn choice<T>(word: &'static str, value: T, words: &'static str) -> Choice<T> {
    Choice { word, also: None, value, words }
}

/// Clocks.
pub static CLOCKS: [Choice<Clock>; 3] = [
    choice("prof", Clock::Prof, "CPU time, user and system (ITIMER_PROF)"),
    choice("real", Clock::Real, "wall time, of threads that sleep too (ITIMER_REAL)"),
    choice("virtual", Clock::Virtual, "user CPU time, by setitimer(2) alone (ITIMER_VIRTUAL)"),
];

/// Engines.
pub static ENGINES: [Choice<Engine>; 2] = [
    choice("threads", Engine::Threads, "timer_create(2) for each thread"),
    choice(
        "itimer",
        Engine::Itimer,
        "setitimer(2) for the process: kills a target that resets the signal, cuts waits short",
    ),
];

/// Orders.
pub static SORTS: [Choice<Sort>; 3] = [
    choice("flat", Sort::Flat, "time in the function itself"),
    choice("cum", Sort::Cum, "time in it and in what it calls"),
    choice("name", Sort::Name, "its name"),
];

/// What a row is.
pub static GROUPS: [Choice<Group>; 7] = [
    choice("functions", Group::Function, "a function, inlined ones included"),
    choice("files", Group::File, "a source file"),
    choice("lines", Group::Line, "a line of a source file"),
    choice("addresses", Group::Address, "an address"),
    choice("modules", Group::Module, "a program or library"),
    choice("threads", Group::Thread, "a function in one thread"),
    choice("processes", Group::Process, "a function in one process"),
];

/// What lies at the root of every stack.
pub static ROOTS: [Choice<Roots>; 4] = [
    Choice { also: Some(""), ..choice("none", Roots::Plain, "nothing that was not sampled") },
    choice("thread", Roots::Threads, "the thread"),
    choice("process", Roots::Processes, "the process"),
    choice("process,thread", Roots::Both, "the process, and on it the thread"),
];

/// Styles of names.
pub static NAMES: [Choice<NameStyle>; 3] = [
    choice("short", NameStyle::Short, "without arguments and generics"),
    choice("full", NameStyle::Full, "with everything"),
    choice("bare", NameStyle::Bare, "the last part alone"),
];

/// Themes.
pub static THEMES: [Choice<ThemeName>; 4] = [
    choice("dark", ThemeName::Palette(Palette::Dark), "for dark terminals"),
    choice("light", ThemeName::Palette(Palette::Light), "for light terminals"),
    choice("16", ThemeName::Sixteen, "the sixteen colours that the terminal's own theme chose"),
    Choice {
        also: Some("color-blind"),
        ..choice(
            "colour-blind",
            ThemeName::Palette(Palette::ColourBlind),
            "for dark terminals: heat is lightness, and nothing is told by red and green alone",
        )
    },
];

/// What quitting does to a launched program.
pub static ON_QUIT: [Choice<OnQuit>; 3] = [
    choice("ask", OnQuit::Ask, "ask"),
    choice("end", OnQuit::End, "end the program"),
    choice("leave", OnQuit::LetRun, "let it run"),
];

/// The value that a word is among these.
///
/// # Errors
/// Which words there are.
pub fn chosen<T: Copy>(text: &str, choices: &[Choice<T>]) -> Result<T, String> {
    let is = |choice: &&Choice<T>| choice.word == text || choice.also == Some(text);
    choices.iter().find(is).map(|choice| choice.value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|choice| choice.word).collect();
        match nearest(text, words.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("use {}", listed(&words)),
        }
    })
}

/// Words in a sentence: `a, b or c`.
pub fn listed(words: &[&str]) -> String {
    match words {
        [first @ .., before, last] => {
            first.iter().map(|word| format!("{word}, ")).collect::<String>() + before + " or " + last
        }
        _ => words.concat(),
    }
}

/// A length of time. A bare number is seconds; `10us`, `500ms`, `10s`, `2m`, `1h` are understood.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is no unit of time: use us, ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| "a time is a number with a unit, such as 500ms".to_owned())?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| "this is too long".to_owned())?;
    if duration.is_zero() { Err("it must be longer than nothing".to_owned()) } else { Ok(duration) }
}

fn in_range(period_ns: u64) -> Result<u64, String> {
    if PERIODS_NS.contains(&period_ns) {
        Ok(period_ns)
    } else {
        Err("between 50us (20000 Hz) and 10s (0.1 Hz)".to_owned())
    }
}

/// The time between two samples, ns.
///
/// # Errors
/// What is wrong with it.
pub fn period_ns(text: &str) -> Result<u64, String> {
    in_range(u64::try_from(duration(text)?.as_nanos()).unwrap_or(u64::MAX))
}

/// The time between two samples, ns, of so many samples a second.
///
/// # Errors
/// What is wrong with it.
pub fn hertz(text: &str) -> Result<u64, String> {
    let hz: f64 = text.parse().map_err(|_| "a rate is a number of samples a second".to_owned())?;
    if hz > 0.0 { in_range((1e9 / hz) as u64) } else { Err("it must be more than nothing".to_owned()) }
}

/// A part of something, written as a percentage: `1%`, or `1`.
///
/// # Errors
/// What is wrong with it.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| "write it like 0.5%".to_owned())?;
    if number > 0.0 && number <= 100.0 { Ok(number / 100.0) } else { Err("it lies between 0% and 100%".to_owned()) }
}

/// The length of the window, ns; `None` for `all`.
///
/// # Errors
/// What is wrong with it.
pub fn window_ns(text: &str) -> Result<Option<u64>, String> {
    if text == "all" {
        return Ok(None);
    }
    let window = duration(text)?;
    if window > Duration::from_secs(LONGEST_WINDOW_S) {
        return Err(format!("at most {LONGEST_WINDOW_S}s are kept by time; `all` is everything since the start"));
    }
    Ok(Some(window.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_understood_or_refused() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "s", "0", "-1", "1x", "1e999", &"9".repeat(400)] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(hertz("1000"), Ok(1_000_000));
        assert!(hertz("0").is_err() && hertz("nan").is_err() && hertz("100000").is_err());
        assert_eq!(window_ns("all"), Ok(None));
        assert!(window_ns("2m").is_err());
    }

    #[test]
    fn words_are_understood_or_suggested() {
        assert_eq!((percent("0.5%"), percent("2")), (Ok(0.005), Ok(0.02)));
        assert!(["0", "101%", "NaN", "a lot"].iter().all(|text| percent(text).is_err()));
        assert_eq!(chosen("real", &CLOCKS), Ok(Clock::Real));
        assert_eq!(chosen("color-blind", &THEMES), chosen("colour-blind", &THEMES));
        assert_eq!(chosen("rael", &CLOCKS), Err("did you mean real?".to_owned()));
        assert_eq!(chosen("solarized", &THEMES), Err("use dark, light, 16 or colour-blind".to_owned()));
        assert_eq!(listed(&["a"]), "a");
    }
}
