//! Formats the values of saved profiles as pprof does (google/pprof: `measurement.go`): values of
//! any unit and sign. The screen shows only times and uses [`measure`](crate::tally::measure).

use crate::tally::measure::percent;

struct ScaledUnit {
    name: &'static str,
    aliases: &'static [&'static str],
    factor: f64,
}

const fn unit(name: &'static str, aliases: &'static [&'static str], factor: f64) -> ScaledUnit {
    ScaledUnit { name, aliases, factor }
}

/// Units that convert into each other (google/pprof: `UnitType`).
struct UnitType {
    units: &'static [ScaledUnit],
    /// Name and factor of the unit for values that no unit in the table fits.
    default: (&'static str, f64),
}

const UNIT_TYPES: [UnitType; 3] = [
    UnitType {
        units: &[
            unit("B", &["b", "byte"], 1.0),
            unit("kB", &["kb", "kbyte", "kilobyte"], 1024.0),
            unit("MB", &["mb", "mbyte", "megabyte"], 1048576.0),
            unit("GB", &["gb", "gbyte", "gigabyte"], 1073741824.0),
            unit("TB", &["tb", "tbyte", "terabyte"], 1099511627776.0),
            unit("PB", &["pb", "pbyte", "petabyte"], 1125899906842624.0),
        ],
        default: ("B", 1.0),
    },
    UnitType {
        units: &[
            unit("ns", &["ns", "nanosecond"], 1.0),
            unit("us", &["μs", "us", "microsecond"], 1e3),
            unit("ms", &["ms", "millisecond"], 1e6),
            unit("s", &["s", "sec", "second"], 1e9),
            unit("hrs", &["hour", "hr"], 3600e9),
        ],
        default: ("s", 1e9),
    },
    UnitType {
        units: &[
            unit("n*GCU", &["nanogcu"], 1e-9),
            unit("u*GCU", &["microgcu"], 1e-6),
            unit("m*GCU", &["milligcu"], 1e-3),
            unit("GCU", &["gcu"], 1.0),
            unit("k*GCU", &["kilogcu"], 1e3),
            unit("M*GCU", &["megagcu"], 1e6),
            unit("G*GCU", &["gigagcu"], 1e9),
            unit("T*GCU", &["teragcu"], 1e12),
            unit("P*GCU", &["petagcu"], 1e15),
        ],
        default: ("GCU", 1.0),
    },
];

impl UnitType {
    fn find(&self, name: &str) -> Option<&ScaledUnit> {
        let lower = name.to_lowercase();
        let alias = if lower.len() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
        self.units.iter().find(|unit| unit.aliases.contains(&alias))
    }

    fn convert(&self, value: i64, from: &str, to: &str) -> Option<(f64, &'static str)> {
        let base = value as f64 * self.find(from)?.factor;
        if is_automatic(to) {
            let mut best: Option<&ScaledUnit> = None;
            for unit in self.units {
                if unit.factor >= best.map_or(0.0, |best| best.factor) && base / unit.factor >= 1.0 {
                    best = Some(unit);
                }
            }
            return Some(match best {
                Some(unit) => (base / unit.factor, unit.name),
                None => (base / self.default.1, self.default.0),
            });
        }
        Some(match self.find(to) {
            Some(unit) => (base / unit.factor, unit.name),
            None => (base / self.default.1, self.default.0),
        })
    }
}

/// The unit of counts that have fractions.
pub const MILLIONTHS: &str = "millionths";
/// The number of [`MILLIONTHS`] in one.
pub const MILLION: i64 = 1_000_000;

/// Returns whether the unit is to be chosen for the value.
fn is_automatic(unit: &str) -> bool {
    matches!(unit, "minimum" | "auto")
}

/// Returns whether two units convert into each other, such as bytes and kilobytes.
pub fn are_compatible(one: &str, other: &str) -> bool {
    one == other || UNIT_TYPES.iter().any(|unit_type| unit_type.find(one).is_some() && unit_type.find(other).is_some())
}

/// Converts a value to another unit and returns that unit's name. `minimum` and `auto` choose a
/// unit for the value. The name of a count is empty.
pub fn scale(value: i64, from: &str, to: &str) -> (f64, String) {
    if value < 0 && value != i64::MIN {
        let (scaled, unit) = scale(-value, from, to);
        return (-scaled, unit);
    }
    if let Some((scaled, unit)) = UNIT_TYPES.iter().find_map(|unit_type| unit_type.convert(value, from, to)) {
        return (scaled, unit.to_owned());
    }
    if from == MILLIONTHS && (is_automatic(to) || to == MILLIONTHS) {
        return (value as f64 / MILLION as f64, String::new());
    }
    let has_no_name = matches!(to, "count" | "sample" | "unit" | "minimum" | "auto");
    (value as f64, if has_no_name { String::new() } else { to.to_owned() })
}

/// Formats a value in a unit, with two decimals unless they are 0. A value that rounds to 0 is `0`
/// without unit.
pub fn scaled_label(value: i64, from: &str, to: &str) -> String {
    let (scaled, unit) = scale(value, from, to);
    let decimal = format!("{scaled:.2}");
    match decimal.strip_suffix(".00").unwrap_or(&decimal) {
        "0" | "-0" => "0".to_owned(),
        digits => format!("{digits}{unit}"),
    }
}

/// Formats a value in a unit that fits it.
pub fn label(value: i64, unit: &str) -> String {
    scaled_label(value, unit, "auto")
}

/// Formats the share of `part` in `total` in percent, without sign and padded to six characters.
pub fn percentage(part: i64, total: i64) -> String {
    percent(percent_of(part, total).abs())
}

/// The share of `part` in `total` in percent; 0 of nothing.
pub fn percent_of(part: i64, total: i64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 / total as f64 * 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_a_fitting_unit() {
        assert_eq!(label(1_760_000_000, "nanoseconds"), "1.76s");
        assert_eq!(label(-10_000_000, "nanoseconds"), "-10ms");
        assert_eq!(label(2048, "bytes"), "2kB");
        assert_eq!(label(7, "count"), "7");
        assert_eq!(scaled_label(5, "count", "s"), "5s");
        assert_eq!(scaled_label(5_000_000_000, "nanoseconds", "bytes"), "5s");
        assert_eq!(scaled_label(-1, "nanoseconds", "s"), "0");
        assert_eq!(label(0, "nanoseconds"), "0");
        assert_eq!(scale(1, "ms", "ns"), (1e6, "ns".to_owned()));
    }

    #[test]
    fn percentages_have_no_sign() {
        assert_eq!(percentage(-1, 2), "50.00%");
        assert_eq!(percentage(1, 0), "    0%");
        assert_eq!(percentage(9995, 10_000), "  100%");
    }
}
