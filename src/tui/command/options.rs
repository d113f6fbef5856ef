//! Parsers for the values of options: durations, rates, percentages and window lengths. The command
//! line, the config file and the `:` line share them. Options with a fixed list of values use
//! [`keyword::parse`](crate::keyword::parse) instead.

use std::time::Duration;

use crate::profile::MIN_MEMORY_BYTES;
use crate::wire::{INTERVALS_BYTES, PERIODS_NS};

/// Longest window shorter than `all`, in seconds: the time for which samples keep their timestamps.
const MAX_WINDOW_S: u64 = 60;

/// Length of the rolling window in ns; `None` is everything since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(pub Option<u64>);

/// One of the window lengths that the keys `w` and `W` step through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowStep {
    /// The word for it, as an option value.
    pub name: &'static str,
    /// Length in ns; `None` is everything since the start.
    pub length_ns: Option<u64>,
}

impl WindowStep {
    /// All steps, the shortest first.
    pub const ALL: [WindowStep; 4] = [
        WindowStep { name: "2s", length_ns: Some(2_000_000_000) },
        WindowStep { name: "10s", length_ns: Some(10_000_000_000) },
        WindowStep { name: "60s", length_ns: Some(60_000_000_000) },
        WindowStep { name: "all", length_ns: None },
    ];

    /// The next longer step than a window of `length_ns` if `direction` is positive, else the next
    /// shorter one. Both wrap around.
    pub fn from(length_ns: Option<u64>, direction: i8) -> WindowStep {
        let length = |length_ns: Option<u64>| length_ns.unwrap_or(u64::MAX);
        let [shortest, .., longest] = WindowStep::ALL;
        let mut steps = WindowStep::ALL.into_iter();
        match direction {
            1.. => steps.find(|step| length(step.length_ns) > length(length_ns)).unwrap_or(shortest),
            _ => steps.rev().find(|step| length(step.length_ns) < length(length_ns)).unwrap_or(longest),
        }
    }
}

/// Parses a duration: a number with the unit `us`, `ms`, `s`, `m` or `h`; without a unit, seconds.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("unknown unit `{other}`: use us, ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| "expected a number with a unit, such as 500ms".to_owned())?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| "duration is too long".to_owned())?;
    if duration.is_zero() { Err("duration must be greater than 0".to_owned()) } else { Ok(duration) }
}

/// Checks the range of a period; `range` names it in the unit that was typed.
fn check_period(period_ns: u64, range: &str) -> Result<u64, String> {
    if PERIODS_NS.contains(&period_ns) { Ok(period_ns) } else { Err(format!("must be between {range}")) }
}

/// Parses a sampling period; returns ns.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn period_ns(text: &str) -> Result<u64, String> {
    check_period(u64::try_from(duration(text)?.as_nanos()).unwrap_or(u64::MAX), "50us and 10s")
}

/// Parses a sampling frequency in Hz; returns the period in ns.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn period_ns_of_hz(text: &str) -> Result<u64, String> {
    let hz: f64 = text.parse().map_err(|_| "expected a number of samples per second".to_owned())?;
    let period_ns = if hz > 0.0 { (1e9 / hz) as u64 } else { u64::MAX };
    check_period(period_ns, "0.1 and 20 000 Hz")
}

/// Parses a percentage, with or without the sign: `1%` or `1`. Returns a fraction.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let number = number.map_err(|_| "expected a percentage, such as 0.5%".to_owned())?;
    if number > 0.0 && number <= 100.0 { Ok(number / 100.0) } else { Err("must be between 0% and 100%".to_owned()) }
}

/// Parses the time between two updates of the numbers; returns ns.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn refresh_ns(text: &str) -> Result<u64, String> {
    let refresh = duration(text)?;
    match (Duration::from_millis(50)..=Duration::from_secs(60)).contains(&refresh) {
        true => Ok(refresh.as_nanos() as u64),
        false => Err("must be between 50ms and 60s".to_owned()),
    }
}

/// Parses a memory size: a number of MB, or one with the unit MB or GB.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn memory_bytes(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let number = upper.trim_end_matches("IB").trim_end_matches('B');
    let (number, shift) = match (number.strip_suffix('M'), number.strip_suffix('G')) {
        (Some(number), _) => (number, 20),
        (_, Some(number)) => (number, 30),
        _ => (number, 20),
    };
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        None => Err("expected a size, such as 512MB or 2GB".to_owned()),
        Some(bytes) if bytes < MIN_MEMORY_BYTES => Err(format!("must be at least {}MB", MIN_MEMORY_BYTES >> 20)),
        Some(bytes) => Ok(bytes),
    }
}

/// Parses the mean number of bytes between two samples: a number, or one with the unit k, M or G.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn interval_bytes(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let number = upper.trim_end_matches("IB").trim_end_matches('B');
    let unit = [('K', 10), ('M', 20), ('G', 30)].into_iter();
    let found = unit.filter_map(|(unit, shift)| Some((number.strip_suffix(unit)?, shift))).next();
    let (number, shift) = found.unwrap_or((number, 0));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or("expected a size, such as 64k or 1MB")?;
    if INTERVALS_BYTES.contains(&bytes) { Ok(bytes) } else { Err("must be between 1 and 1024G".to_owned()) }
}

/// Parses the length of the rolling window; returns ns, or `None` for `all`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn window_ns(text: &str) -> Result<Option<u64>, String> {
    if text == "all" {
        return Ok(None);
    }
    let window = duration(text)?;
    if window > Duration::from_secs(MAX_WINDOW_S) {
        return Err(format!("must be at most {MAX_WINDOW_S}s, or `all` for everything since the start"));
    }
    Ok(Some(window.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyword;
    use crate::tui::theme::ThemeName;
    use crate::wire::Clock;

    #[test]
    fn durations_rates_and_windows_are_parsed_or_refused() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "s", "0", "-1", "1x", "1e999", &"9".repeat(400)] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(period_ns_of_hz("1000"), Ok(1_000_000));
        let hz = period_ns_of_hz;
        let range = Err("must be between 0.1 and 20 000 Hz".to_owned());
        assert_eq!([hz("0"), hz("nan"), hz("100000")], [range.clone(), range.clone(), range]);
        assert_eq!(period_ns("1us"), Err("must be between 50us and 10s".to_owned()));
        assert_eq!(window_ns("all"), Ok(None));
        assert!(window_ns("2m").is_err());
        assert_eq!(refresh_ns("1"), Ok(1_000_000_000));
        assert!(refresh_ns("49ms").is_err() && refresh_ns("61s").is_err());
    }

    #[test]
    fn percentages_and_keywords_are_parsed_or_refused() {
        assert_eq!((percent("0.5%"), percent("2")), (Ok(0.005), Ok(0.02)));
        assert!(["0", "101%", "NaN", "a lot"].iter().all(|text| percent(text).is_err()));
        assert_eq!(keyword::parse("real"), Ok(Clock::Real));
        assert_eq!(keyword::parse::<ThemeName>("color-blind"), keyword::parse("colour-blind"));
        assert_eq!(keyword::parse::<ThemeName>("solarized"), Err("use dark, light, 16 or colour-blind".to_owned()));
    }

    #[test]
    fn memory_sizes_are_in_binary_units_and_have_a_minimum() {
        for (text, mib) in [("512MB", 512), ("512", 512), ("2g", 2048), ("1GiB", 1024), ("64M", 64)] {
            assert_eq!(memory_bytes(text), Ok(mib << 20), "{text}");
        }
        for text in ["", "MB", "-1", "63MB", "1TB", "99999999999999999999", "99999999999G"] {
            assert!(memory_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_window_step_can_be_typed() {
        for WindowStep { name, length_ns } in WindowStep::ALL {
            assert_eq!(window_ns(name), Ok(length_ns));
        }
        assert_eq!(WindowStep::from(Some(5_000_000_000), 1).name, "10s");
        assert_eq!(WindowStep::from(None, 1).name, "2s");
        assert_eq!(WindowStep::from(Some(2_000_000_000), -1).name, "all");
    }
}
