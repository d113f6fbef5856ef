//! The rules of a check: limits for the growth of functions (`--fail-on 'parse>+3%'`) and of the
//! total (`--total '+2%'`).

use crate::tally::query::Pattern;

/// The growth that a check without rules is to find, as a fraction, and in functions of this share
/// or more.
pub const DEFAULT_GROWTH: f64 = 0.05;
/// See [`DEFAULT_GROWTH`].
pub const LARGE_SHARE: f64 = 0.10;

/// A rule for functions: a growth by more than a limit fails.
#[derive(Clone, Debug)]
pub struct GrowthRule {
    /// The functions, or all.
    pub pattern: Option<Pattern>,
    /// The limit as a fraction, such as 0.03.
    pub limit: f64,
}

impl GrowthRule {
    /// The rule of a check without others: any growth that chance does not explain.
    pub fn any_growth() -> GrowthRule {
        GrowthRule { pattern: None, limit: 0.0 }
    }

    /// Parses `PATTERN>+3%`.
    ///
    /// # Errors
    /// A sentence that says what is expected.
    pub fn parse(text: &str) -> Result<GrowthRule, String> {
        let Some((pattern, limit)) = text.rsplit_once('>') else {
            return Err("expected a pattern and a limit, such as 'parse>+3%'".to_owned());
        };
        let pattern = Pattern::parse(pattern.trim())?;
        Ok(GrowthRule { pattern: Some(pattern), limit: parse_limit(limit)? })
    }

    /// Whether it is about a function.
    pub fn matches(&self, function: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(function))
    }

    /// The growth that the check has to be able to find.
    pub fn growth_to_find(&self) -> f64 {
        if self.limit > 0.0 { self.limit } else { DEFAULT_GROWTH }
    }
}

/// Parses a limit in percent: `+3%`, `3%`, `0.5 %`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_limit(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_start_matches('+');
    let percent = digits.strip_suffix('%').map(str::trim).and_then(|digits| digits.parse::<f64>().ok());
    let limit = percent.filter(|percent| (0.0..=10_000.0).contains(percent)).map(|percent| percent / 100.0);
    limit.ok_or_else(|| "expected a growth in percent, such as '+3%'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_a_pattern_and_a_limit() {
        let rule = GrowthRule::parse("parse>+3%").unwrap();
        assert!((rule.limit - 0.03).abs() < 1e-12 && rule.matches("json::parse") && !rule.matches("hash"));
        assert!((GrowthRule::parse("operator->>0.5 %").unwrap().limit - 0.005).abs() < 1e-12);
        assert!(GrowthRule::parse("operator->>2%").unwrap().matches("T::operator->"));
        for wrong in ["parse", "parse>", "parse>-3%", "parse>3", "(>3%", "parse>NaN%"] {
            assert!(GrowthRule::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((GrowthRule::any_growth().growth_to_find(), parse_limit("+2%")), (0.05, Ok(0.02)));
    }
}
