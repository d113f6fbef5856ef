//! Numbers as text: values and percentages as pprof writes them, to the letter, and durations,
//! counts and rates as the header does. A value is in ns, or in bytes for a clock of memory. Pure;
//! nothing here pads beyond what pprof pads.
//!
//! pprof chooses a unit anew for every report, from its smallest value. A screen would flicker, so
//! there the smallest value is one sample: `ValueUnit::for_report(clock, period_ns, total_ns)` with
//! the session's total, for every pane.

use std::time::Duration;

use crate::wire::Clock;

/// A unit of time or memory, as pprof names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueUnit {
    /// `ns`
    Nanoseconds,
    /// `us`
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`
    Seconds,
    /// `hrs`
    Hours,
    /// `B`
    Bytes,
    /// `kB`, 1024 bytes
    Kilobytes,
    /// `MB`
    Megabytes,
    /// `GB`
    Gigabytes,
    /// `TB`
    Terabytes,
}

impl ValueUnit {
    const TIME: [ValueUnit; 5] = [
        ValueUnit::Nanoseconds,
        ValueUnit::Microseconds,
        ValueUnit::Milliseconds,
        ValueUnit::Seconds,
        ValueUnit::Hours,
    ];
    const MEMORY: [ValueUnit; 5] =
        [ValueUnit::Bytes, ValueUnit::Kilobytes, ValueUnit::Megabytes, ValueUnit::Gigabytes, ValueUnit::Terabytes];

    /// The largest unit of a clock's values that is not greater than `ns`; seconds or bytes for 0.
    pub fn largest_in(clock: Clock, ns: u64) -> ValueUnit {
        let fits = |unit: &ValueUnit| ns as f64 >= unit.ns();
        let (units, zero) = if clock.is_memory() {
            (ValueUnit::MEMORY, ValueUnit::Bytes)
        } else {
            (ValueUnit::TIME, ValueUnit::Seconds)
        };
        units.into_iter().rev().find(fits).unwrap_or(zero)
    }

    /// The unit that pprof chooses for a report: that of its smallest nonzero value or, if the
    /// value is less than a hundredth of the total and has a smaller unit, that of 100 times the
    /// value. A smallest value of 0 means that there is none.
    pub fn for_report(clock: Clock, smallest_ns: u64, total_ns: u64) -> ValueUnit {
        let smallest_ns = if smallest_ns == 0 { total_ns } else { smallest_ns };
        let (least, most) = (ValueUnit::largest_in(clock, smallest_ns), ValueUnit::largest_in(clock, total_ns));
        let hundredfold_ns = smallest_ns.saturating_mul(100);
        if least != most && hundredfold_ns < total_ns { ValueUnit::largest_in(clock, hundredfold_ns) } else { least }
    }

    fn ns(self) -> f64 {
        match self {
            ValueUnit::Nanoseconds => 1.0,
            ValueUnit::Microseconds => 1e3,
            ValueUnit::Milliseconds => 1e6,
            ValueUnit::Seconds => 1e9,
            ValueUnit::Hours => 3600e9,
            ValueUnit::Bytes => 1.0,
            ValueUnit::Kilobytes => 1024.0,
            ValueUnit::Megabytes => 1048576.0,
            ValueUnit::Gigabytes => 1073741824.0,
            ValueUnit::Terabytes => 1099511627776.0,
        }
    }

    /// The suffix of values in this unit.
    pub fn name(self) -> &'static str {
        match self {
            ValueUnit::Nanoseconds => "ns",
            ValueUnit::Microseconds => "us",
            ValueUnit::Milliseconds => "ms",
            ValueUnit::Seconds => "s",
            ValueUnit::Hours => "hrs",
            ValueUnit::Bytes => "B",
            ValueUnit::Kilobytes => "kB",
            ValueUnit::Megabytes => "MB",
            ValueUnit::Gigabytes => "GB",
            ValueUnit::Terabytes => "TB",
        }
    }
}

/// Formats a value: two decimals unless both are 0, and the unit. A value that rounds to 0 is `0`
/// without a unit.
pub fn value(ns: u64, unit: ValueUnit) -> String {
    let decimal = format!("{:.2}", ns as f64 / unit.ns());
    match decimal.strip_suffix(".00").unwrap_or(&decimal) {
        "0" => "0".to_owned(),
        digits => format!("{digits}{}", unit.name()),
    }
}

/// Formats a value for the screen: as [`value`] does, but a value that rounds to 0 is `<0.01s`.
pub fn shown(ns: u64, unit: ValueUnit) -> String {
    match value(ns, unit) {
        zero if zero == "0" && ns > 0 => format!("<0.01{}", unit.name()),
        words => words,
    }
}

/// Formats a value for the screen that may be a difference: with a minus sign if it is negative and
/// does not round to 0.
pub fn signed(ns: u64, unit: ValueUnit, negative: bool) -> String {
    if !negative {
        return shown(ns, unit);
    }
    match value(ns, unit) {
        zero if zero == "0" => zero,
        digits => format!("-{digits}"),
    }
}

/// Formats the difference of two shares in percentage points, with its sign; `0` if it rounds to
/// that. The weights and their bases are those before and now.
pub fn points((before, now): (u64, u64), (before_base, now_base): (u64, u64)) -> String {
    let percent = |part: u64, base: u64| if base == 0 { 0.0 } else { part as f64 / base as f64 * 100.0 };
    match format!("{:+.2}", percent(now, now_base) - percent(before, before_base)) {
        words if words[1..] == *"0.00" => "0".to_owned(),
        words => words,
    }
}

/// Formats `part` as a percentage of `total`: at least two digits, padded to six characters.
pub fn percentage(part: u64, total: u64) -> String {
    percent(percent_of(part, total))
}

/// The share of `part` in `total` in percent; 0 of nothing.
pub fn percent_of(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 }
}

/// Formats a percentage for a column of six: as [`percentage`] does, but a share below 0.01 % is
/// `<0.01%`.
pub fn share(part: u64, total: u64) -> String {
    let is_tiny = part > 0 && (part as f64) < total as f64 * 1e-4;
    if is_tiny { "<0.01%".to_owned() } else { percentage(part, total) }
}

/// Half the width of the 95 % interval of a share (Agresti and Coull), for a part of `base_ns` that
/// was counted in `samples` samples; from 0 to 1.
pub fn margin(part_ns: u64, base_ns: u64, samples: u64) -> Option<f64> {
    if samples == 0 || base_ns == 0 {
        return None;
    }
    let share = (part_ns as f64 / base_ns as f64).clamp(0.0, 1.0);
    let trials = samples as f64 + 4.0;
    let centre = (share * samples as f64 + 2.0) / trials;
    Some(1.96 * (centre * (1.0 - centre) / trials).sqrt())
}

/// Number of samples from which on a share is exact enough to be shown without its margin.
const EXACT_SAMPLES: u64 = 1000;

/// Formats a share of the latency for a column of six: as [`share`] does or, if there are few
/// samples or `unknown` thousandths of all latency are not known, rounded and with its margin,
/// `80±3%`. Says whether it has one.
pub fn rough_share(part: u64, total: u64, samples: u64, unknown: u64) -> (String, bool) {
    let fraction = part as f64 / total.max(1) as f64;
    // If the latency of a row is longer by half of that, and of the others shorter, its share is
    // larger by so much.
    let unknown = unknown as f64 / 1000.0 * fraction * (1.0 - fraction);
    match margin(part, total, samples).filter(|_| samples < EXACT_SAMPLES || unknown >= 0.01) {
        Some(margin) => {
            let margin = (margin + unknown).min(fraction.max(1.0 - fraction));
            (format!("{:.0}±{:.0}%", fraction * 100.0, margin * 100.0), true)
        }
        None => (share(part, total), false),
    }
}

/// Formats a number of percents as [`percentage`] does.
pub fn percent(percent: f64) -> String {
    match percent.abs() {
        whole if (99.95..=100.05).contains(&whole) => "  100%".to_owned(),
        much if much >= 1.0 => format!("{much:5.2}%"),
        little => format!("{:>5}%", significant(little, 2)),
    }
}

/// Formats a number as C's `%.{digits}g` does: with significant digits, without trailing zeros, and
/// with an exponent if it is below 0.0001 or its integer part has more digits.
pub fn significant(number: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let scientific = format!("{number:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let bare = |number: &str| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", bare(mantissa), exponent.abs());
    }
    bare(&format!("{number:.*}", (digits as i32 - 1 - exponent) as usize))
}

/// Formats a duration for a sentence or the header: `3 ms`, `10.1 ms`, `1.2 s`, `2m14s`, `1h02m`,
/// `3d04h`.
pub fn duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let tenths = |unit_ns: u128, name: &str| {
        let tenths = (ns * 10 + unit_ns / 2) / unit_ns;
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{whole} {name}"),
            (whole, tenth) => format!("{whole}.{tenth} {name}"),
        }
    };
    match ns {
        0 => "0 s".to_owned(),
        1..950 => format!("{ns} ns"),
        950..950_000 => tenths(1_000, "us"),
        950_000..999_950_000 => tenths(1_000_000, "ms"),
        999_950_000..59_950_000_000 => tenths(1_000_000_000, "s"),
        _ => {
            let seconds = (ns + 500_000_000) / 1_000_000_000;
            let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
            match (days, hours) {
                (0, 0) => format!("{minutes}m{:02}s", seconds % 60),
                (0, _) => format!("{hours}h{:02}m", minutes % 60),
                _ => format!("{days}d{:02}h", hours % 24),
            }
        }
    }
}

/// Formats a count in groups of three digits: `1 851`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count for a column of six: `1 234`, `56 789`, `1.23M`, `12.3G`.
pub fn brief_count(number: u64) -> String {
    if number < 100_000 { count(number) } else { three_digits(number) }
}

/// Formats a count of a thousand or more with three digits: `1.23k`, `12.3G`.
fn three_digits(number: u64) -> String {
    let mut value = number as f64 / 1e3;
    let mut units = ["k", "M", "G", "T", "P", "E"].iter();
    let mut unit = units.next();
    while value >= 999.5
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1e3, Some(next));
    }
    format!("{}{}", significant(value, 3), unit.unwrap_or(&"E"))
}

/// Formats an estimated count in ten columns, with its margin, relative to it, if that is 1 % or
/// more: `12 345`, `12.3k±58%`.
pub fn rough_count(number: u64, margin: f64) -> String {
    match margin {
        0.01.. => {
            let number = if number < 1000 { count(number) } else { three_digits(number) };
            format!("{number}±{:.0}%", (margin * 100.0).min(999.0))
        }
        _ => brief_count(number),
    }
}

/// Formats a measured rate without its unit: `99.0`, `1 000`.
pub fn rate(hz: f64) -> String {
    if hz < 999.95 { format!("{hz:.1}") } else { count(hz.round() as u64) }
}

/// Formats a measured rate without its unit: `87`, `1 000`; one decimal below 10.
pub fn whole_rate(hz: f64) -> String {
    if hz < 9.95 { format!("{hz:.1}") } else { count(hz.round() as u64) }
}

/// Formats the frequency of a sampling period: `99 Hz`, `0.5 Hz`.
pub fn hertz(period_ns: u64) -> String {
    let hz = 1e9 / period_ns.max(1) as f64;
    if hz >= 10.0 { format!("{} Hz", count(hz.round() as u64)) } else { format!("{} Hz", significant(hz, 2)) }
}

/// Formats the mean number of bytes between two samples: `512 KiB`.
pub fn interval(period_bytes: u64) -> String {
    bytes(period_bytes).replacen(".0 ", " ", 1)
}

/// Formats a fraction as a number of percents, with two decimals below 10.
pub fn percents(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent < 10.0 { format!("{percent:.2}") } else { format!("{percent:.0}") }
}

/// Formats the size of a file: `312 B`, `14.2 KiB`, `2.1 GiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 1023.95
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1024.0, Some(next));
    }
    format!("{value:.1} {}", unit.unwrap_or(&"PiB"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::property::property;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn points_have_a_sign() {
        let points = |before, now| points((before, now), (10_000, 10_000));
        assert_eq!(points(1_000, 4_160), "+31.60");
        assert_eq!((points(131, 100), points(0, 10_000)), ("-0.31".to_owned(), "+100.00".to_owned()));
        assert_eq!(super::points((4_000, 4_001), (1_000_000, 1_000_000)), "0", "it rounds to 0");
        assert_eq!(
            (super::points((5, 5), (10, 20)), super::points((0, 5), (0, 10))),
            ("-25.00".into(), "+50.00".into())
        );
    }

    #[test]
    fn values_have_two_decimals_or_none() {
        assert_eq!(value(2_090_000_000, ValueUnit::Seconds), "2.09s");
        assert_eq!(value(2_090_000_000, ValueUnit::Milliseconds), "2090ms");
        assert_eq!(value(2_000_000_000, ValueUnit::Seconds), "2s");
        assert_eq!(value(0, ValueUnit::Hours), "0");
        assert_eq!(value(4_999_999, ValueUnit::Seconds), "0");
        assert_eq!([shown(4_999_999, ValueUnit::Seconds), shown(0, ValueUnit::Seconds)], ["<0.01s", "0"]);
        assert_eq!(value(1_234, ValueUnit::Microseconds), "1.23us");
        assert_eq!(value(5_400_000_000_000, ValueUnit::Hours), "1.50hrs");
        assert_eq!(value(u64::MAX, ValueUnit::Nanoseconds), "18446744073709551616ns");
    }

    #[test]
    fn report_units_follow_the_smallest_value_unless_the_total_is_much_greater() {
        let (ms, s) = (1_000_000, 1_000_000_000);
        assert_eq!(ValueUnit::for_report(Clock::Prof, 10 * ms, 500 * ms), ValueUnit::Milliseconds);
        assert_eq!(ValueUnit::for_report(Clock::Prof, 10 * ms, s), ValueUnit::Milliseconds);
        assert_eq!(ValueUnit::for_report(Clock::Prof, 10 * ms, s + 1), ValueUnit::Seconds);
        assert_eq!(ValueUnit::for_report(Clock::Prof, ms, 5 * s), ValueUnit::Milliseconds);
        assert_eq!(ValueUnit::for_report(Clock::Prof, 0, 5 * s), ValueUnit::Seconds);
        assert_eq!(ValueUnit::for_report(Clock::Prof, 0, 0), ValueUnit::Seconds);
        assert_eq!(ValueUnit::largest_in(Clock::Prof, 3600 * s - 1), ValueUnit::Seconds);
        assert_eq!(ValueUnit::largest_in(Clock::Prof, 3600 * s), ValueUnit::Hours);
    }

    #[test]
    fn bytes_have_units_of_their_own() {
        let unit = ValueUnit::for_report(Clock::Alloc, 512 << 10, 3 << 30);
        assert_eq!((unit, value(3 << 29, unit)), (ValueUnit::Megabytes, "1536MB".to_owned()));
        assert_eq!(value(1_300_000_000, ValueUnit::largest_in(Clock::Live, 1_300_000_000)), "1.21GB");
        assert_eq!(ValueUnit::largest_in(Clock::Alloc, 0), ValueUnit::Bytes);
    }

    #[test]
    fn percentages_match_pprof() {
        let cases = [(3728, 10_000, "37.28%"), (92, 10_000, " 0.92%"), (18, 100_000, "0.018%"), (0, 5, "    0%")];
        for (part, total, text) in cases {
            assert_eq!(percentage(part, total), text);
        }
        assert_eq!(percentage(0, 0), "    0%");
        assert_eq!(percentage(99_949, 100_000), "99.95%");
        assert_eq!(percentage(99_951, 100_000), "  100%");
        assert_eq!(percentage(3, 2), "150.00%");
        assert_eq!(percentage(1, 100), " 1.00%");
        assert_eq!(percentage(99_999, 10_000_000), "    1%");
        assert_eq!(percentage(1, 10_000_000), "1e-05%");
    }

    /// Formats a number in C's hexadecimal form, which is exact.
    fn exact(number: f64) -> String {
        let bits = number.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
        let sign = if number.is_sign_negative() { "-" } else { "" };
        match exponent {
            0 => format!("{sign}0x0.{fraction:013x}p-1022"),
            _ => format!("{sign}0x1.{fraction:013x}p{}", exponent - 1023),
        }
    }

    fn printf(format: &str, numbers: &[f64]) -> Vec<String> {
        let mut command = Command::new("printf");
        command.env("LC_ALL", "C").arg(format!("{format}\n")).args(numbers.iter().map(|&number| exact(number)));
        let output = command.output().expect("printf(1)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    proptest! {
        #![proptest_config(property(12))]

        #[test]
        fn significant_matches_printf_g(
            mut numbers in prop::collection::vec(prop_oneof![
                0.0..1.0f64,
                0.0..1e-3f64,
                (1..100_000u64, 1..10_000_000u64).prop_map(|(part, total)| part as f64 / total as f64 * 100.0),
                (0..1000u32, -9..9i32).prop_map(|(digits, exponent)| f64::from(digits) * 10f64.powi(exponent)),
                any::<f64>().prop_filter("finite", |number| number.is_finite()),
            ], 400),
            digits in 1..6usize,
        ) {
            numbers.extend([0.0, 1.0, 0.5, 0.995, 0.0995, 0.095, 0.999_999, 99.5, 1e-4, 9.96e-5]);
            let formatted: Vec<String> = numbers.iter().map(|&number| format!("{:>5}", significant(number, digits))).collect();
            prop_assert_eq!(formatted, printf(&format!("%5.{digits}g"), &numbers));
        }
    }

    #[test]
    fn durations_round_and_never_show_sixty_seconds() {
        let format = |ns: u64| duration(Duration::from_nanos(ns));
        let (ms, s) = (1_000_000, 1_000_000_000);
        let cases = [
            (0, "0 s"),
            (1, "1 ns"),
            (3 * ms, "3 ms"),
            (10_101_010, "10.1 ms"),
            (250_000, "250 us"),
            (999_960_000, "1 s"),
            (1_200 * ms, "1.2 s"),
            (10 * s, "10 s"),
            (59_940 * ms, "59.9 s"),
            (59_960 * ms, "1m00s"),
            (134 * s, "2m14s"),
            (3_599_600 * ms, "1h00m"),
            (3_720 * s, "1h02m"),
            (273_600 * s, "3d04h"),
        ];
        assert_eq!(cases.map(|(ns, _)| format(ns)), cases.map(|(_, text)| text.to_owned()));
    }

    #[test]
    fn a_share_of_the_latency_has_the_margin_of_what_is_not_known() {
        assert_eq!(rough_share(571, 1000, 5000, 0), (" 57.10%".trim().to_owned(), false));
        assert_eq!(rough_share(526, 1000, 5000, 200), ("53±6%".to_owned(), true));
        assert_eq!(rough_share(110, 1000, 5000, 3900), ("11±39%".to_owned(), true));
        assert_eq!(rough_share(500, 1000, 5000, 9000), ("50±50%".to_owned(), true));
        assert!(!rough_share(1000, 1000, 5000, 9000).1, "all is known to be all");
    }

    #[test]
    fn counts_and_rates_are_grouped() {
        assert_eq!([0, 999, 1851, 1_234_567].map(count), ["0", "999", "1 851", "1 234 567"]);
        assert_eq!([98.96, 999.94, 999.96, 8000.4].map(rate), ["99.0", "999.9", "1 000", "8 000"]);
        assert_eq!([10_101_010, 1_000_000, 2_000_000_000].map(hertz), ["99 Hz", "1 000 Hz", "0.5 Hz"]);
    }

    #[test]
    fn file_sizes_have_a_suitable_unit() {
        let all = [0, 1023, 1024, 14_541, 1024 * 1024 - 1, 1 << 31, u64::MAX];
        let words = all.map(bytes);
        assert_eq!(words, ["0 B", "1023 B", "1.0 KiB", "14.2 KiB", "1.0 MiB", "2.0 GiB", "16384.0 PiB"]);
    }
}
