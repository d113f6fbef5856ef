//! The verdict: which functions have grown, whether that fails the check, and whether it would have
//! found what it looks for.

use std::collections::{HashMap, HashSet};

use super::compare::{ComparedRow, Comparison, Measure};
use super::power::{Needed, needed};
use super::rules::{GrowthRule, LARGE_SHARE};
use super::series::{MIN_FILES, Series, UnitKind};
use super::significance::accept;
use crate::tally::measure;

/// The part of false ones among the functions that are found to have changed. If nothing has
/// changed, it is the probability of any alarm.
pub const FALSE_ALARMS: f64 = 0.002;

/// The name of all functions together that only one side has.
const EXCHANGED: &str = "[new or gone]";

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing has grown beyond the limits.
    Fine,
    /// Something has.
    Regression,
    /// There are too few samples to tell.
    Inconclusive,
}

impl Verdict {
    /// The exit status.
    pub fn status(self) -> u8 {
        match self {
            Verdict::Fine => 0,
            Verdict::Regression => 1,
            Verdict::Inconclusive => 3,
        }
    }

    /// The word in text and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Regression => "regression",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// The finding on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It has grown beyond a limit.
    Regression,
    /// It has grown within the limits.
    Growth,
    /// Its share has grown because other functions have shrunk.
    Shifted,
    /// It is new, and has no more time than functions that are gone.
    Moved,
    /// It has shrunk.
    Improvement,
    /// Chance explains the change.
    Same,
    /// Nothing tells how much it varies.
    Unknown,
}

impl Finding {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Finding::Regression => "regression",
            Finding::Growth => "growth",
            Finding::Shifted => "shifted",
            Finding::Moved => "moved",
            Finding::Improvement => "improvement",
            Finding::Same => "same",
            Finding::Unknown => "unknown",
        }
    }
}

/// The rules of a check.
#[derive(Clone, Debug)]
pub struct CheckRules {
    /// The rules for functions.
    pub functions: Vec<GrowthRule>,
    /// The limit of the total's growth.
    pub total: Option<f64>,
}

/// A check with its verdict.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The verdict.
    pub verdict: Verdict,
    /// The comparison.
    pub comparison: Comparison,
    /// The finding on each row.
    pub findings: Vec<Finding>,
    /// The finding on the total.
    pub total: Finding,
    /// One sentence for each rule that fails or, if none does, that is not decided.
    pub reasons: Vec<String>,
    /// The need of more samples, if the check is inconclusive for lack of them.
    pub needed: Option<Needed>,
    /// Whether a row is named by a rule.
    pub is_named: Vec<bool>,
}

/// Compares both sides and applies the rules. `files` are the numbers of files.
pub fn check(
    [base, new]: [&Series; 2],
    kind: UnitKind,
    measure: Measure,
    rules: &CheckRules,
    files: [usize; 2],
) -> CheckResult {
    let comparison = Comparison::new(base, new, kind, measure, files);
    let named =
        |row: &ComparedRow| rules.functions.iter().any(|rule| rule.pattern.is_some() && rule.matches(&row.name));
    let mut result = CheckResult {
        verdict: Verdict::Fine,
        findings: find_all(&comparison, [base, new], rules, files),
        total: Finding::Same,
        reasons: Vec::new(),
        needed: None,
        is_named: comparison.rows.iter().map(named).collect(),
        comparison,
    };
    let mut doubts = Vec::new();
    if result.comparison.rows.is_empty() {
        doubts.push("no function has enough samples to be compared".to_owned());
    }
    if result.comparison.sums.iter().any(|&sum| sum <= 0.0) {
        doubts.push("a side has no samples".to_owned());
    }
    doubts.extend(result.judge_functions(rules));
    result.total = find_total(&result.comparison.total, rules.total);
    doubts.extend(rules.total.and_then(|limit| result.judge_total(limit)));
    if !result.reasons.is_empty() {
        (result.verdict, result.needed) = (Verdict::Regression, None);
    } else if !doubts.is_empty() {
        (result.verdict, result.reasons) = (Verdict::Inconclusive, doubts);
    }
    result
}

/// The finding on each row.
fn find_all(comparison: &Comparison, sides: [&Series; 2], rules: &CheckRules, files: [usize; 2]) -> Vec<Finding> {
    // A function that was renamed or divided is another name of the same.
    let exchanged = find_exchanged(comparison, sides[0].is_cum);
    let [base, new] = Comparison::as_one(sides, &exchanged.iter().map(String::as_str).collect(), EXCHANGED);
    let whole = Comparison::new(&base, &new, comparison.kind, comparison.measure, files);
    let has_changed = find_significant(&whole);
    let shifted = find_shifted(&whole, &has_changed, [&base, &new], files);
    let changed = whole.rows.iter().zip(has_changed).filter(|(_, has_changed)| *has_changed);
    let changed: HashMap<&str, &ComparedRow> = changed.map(|(row, _)| (row.name.as_str(), row)).collect();
    let more = changed.get(EXCHANGED).copied().filter(|row| row.has_grown());
    let find = |row: &ComparedRow| {
        let matching = || rules.functions.iter().filter(|rule| rule.matches(&row.name));
        let is_exchanged = exchanged.contains(&row.name) && !matching().any(|rule| rule.pattern.is_some());
        let judged = more.filter(|_| is_exchanged).unwrap_or(row);
        let exceeds = |rule: &GrowthRule| judged.change().is_none_or(|change| change > rule.limit);
        let is_significant = exchanged.contains(&row.name) || changed.contains_key(row.name.as_str());
        match (is_significant, row.has_grown()) {
            (false, _) => Finding::Same,
            (true, false) => Finding::Improvement,
            (true, true) if is_exchanged && more.is_none() => Finding::Moved,
            (true, true) if shifted.contains(judged.name.as_str()) => Finding::Shifted,
            (true, true) if matching().any(exceeds) => Finding::Regression,
            (true, true) => Finding::Growth,
        }
    };
    comparison.rows.iter().map(find).collect()
}

/// Whether chance does not explain the change of each row.
fn find_significant(comparison: &Comparison) -> Vec<bool> {
    let probabilities: Vec<f64> = comparison.rows.iter().map(|row| row.p).collect();
    accept(&probabilities, FALSE_ALARMS)
}

/// Returns the functions whose shares have grown only because others have shrunk: without those,
/// their shares are the same. If the opposite explains as much, the fewer functions are the cause.
fn find_shifted(
    comparison: &Comparison,
    is_significant: &[bool],
    sides: [&Series; 2],
    files: [usize; 2],
) -> HashSet<String> {
    let changed = comparison.rows.iter().zip(is_significant).filter(|(_, is_significant)| **is_significant);
    let (grown, shrunk): (Vec<&ComparedRow>, Vec<&ComparedRow>) =
        changed.map(|(row, _)| row).partition(|row| row.has_grown());
    // Cumulative values overlap: they cannot be taken from a total.
    if comparison.measure == Measure::Time || shrunk.is_empty() || sides[0].is_cum {
        return HashSet::new();
    }
    // The functions that have changed even without some others.
    let changed_without = |others: &[&ComparedRow], is_growth: bool| -> HashSet<String> {
        let others = others.iter().map(|row| row.name.as_str()).collect();
        let [base, new] = Comparison::without(sides, &others);
        let rest = Comparison::new(&base, &new, comparison.kind, comparison.measure, files);
        let changed = rest.rows.iter().zip(find_significant(&rest));
        let changed = changed.filter(|(row, is_changed)| *is_changed && row.has_grown() == is_growth);
        changed.map(|(row, _)| row.name.clone()).collect()
    };
    let still_grown = changed_without(&shrunk, true);
    if changed_without(&grown, false).is_empty() && shrunk.len() >= grown.len() {
        return HashSet::new();
    }
    grown.iter().map(|row| row.name.clone()).filter(|name| !still_grown.contains(name)).collect()
}

/// Returns the functions that only one side has, if both sides have such: new ones may be what
/// became of those that are gone. Cumulative values overlap, so they have no sum.
fn find_exchanged(comparison: &Comparison, is_cum: bool) -> HashSet<String> {
    let changed =
        comparison.rows.iter().zip(find_significant(comparison)).filter(|(_, is_significant)| *is_significant);
    let alone = changed.map(|(row, _)| row).filter(|row| row.measured.contains(&0.0));
    let (new, gone): (Vec<&ComparedRow>, Vec<&ComparedRow>) = alone.partition(|row| row.has_grown());
    if is_cum || new.is_empty() || gone.is_empty() {
        return HashSet::new();
    }
    new.into_iter().chain(gone).map(|row| row.name.clone()).collect()
}

/// The finding on the total, which fails only if it has a limit.
fn find_total(total: &ComparedRow, limit: Option<f64>) -> Finding {
    let exceeds = |limit: f64| total.change().is_none_or(|change| change > limit);
    match (total.p <= FALSE_ALARMS, total.has_grown()) {
        _ if total.error.is_none() => Finding::Unknown,
        (false, _) => Finding::Same,
        (true, false) => Finding::Improvement,
        (true, true) if limit.is_some_and(exceeds) => Finding::Regression,
        (true, true) => Finding::Growth,
    }
}

impl CheckResult {
    /// Says which rules fail. Returns one sentence for each that is not decided.
    fn judge_functions(&mut self, rules: &CheckRules) -> Vec<String> {
        let mut doubts = Vec::new();
        let rows = &self.comparison.rows;
        for rule in &rules.functions {
            let matching: Vec<usize> = (0..rows.len()).filter(|&row| rule.matches(&rows[row].name)).collect();
            let exceeds = |&&row: &&usize| {
                let is_beyond = rows[row].change().is_none_or(|change| change > rule.limit);
                self.findings[row] == Finding::Regression && is_beyond
            };
            self.reasons.extend(matching.iter().filter(exceeds).map(|&row| explain_growth(&rows[row], rule.limit)));
            if let Some(pattern) = rule.pattern.as_ref().filter(|_| matching.is_empty()) {
                let omitted = self.comparison.omitted.iter().find(|name| rule.matches(name));
                doubts.push(match omitted {
                    Some(name) => format!("{name} has too few samples to be compared"),
                    None => format!("no function matches {}", pattern.text()),
                });
                self.needed = self.needed.or(omitted.map(|_| Needed::MUCH_MORE));
            }
            // The largest function of a rule has to be decided, and all that are large.
            let is_large = |row: usize| rows[row].shares[0] >= LARGE_SHARE;
            let decided = matching.iter().enumerate().filter(|(index, row)| *index == 0 || is_large(**row));
            for (_, &row) in decided.filter(|(_, row)| self.findings[**row] == Finding::Same) {
                let name = &rows[row].name;
                if rows[row].error.is_none() {
                    doubts.push(format!("{name} has all samples, so its share cannot grow: compare --by time"));
                } else if let Some(missing) = needed(&self.comparison, &rows[row], rule, (rows.len(), FALSE_ALARMS)) {
                    let growth = percents(rule.growth_to_find());
                    doubts.push(format!("a growth of {name} by {growth} % might have been missed"));
                    self.needed = Some(self.needed.map_or(missing, |other| other.max(missing)));
                }
            }
        }
        doubts
    }

    /// Says whether the total fails. Returns a sentence if that is not decided.
    fn judge_total(&mut self, limit: f64) -> Option<String> {
        let row = &self.comparison.total;
        if row.error.is_none() {
            return Some(format!("the total of one run varies: {MIN_FILES} files a side tell by how much"));
        }
        if self.total == Finding::Regression {
            self.reasons.push(explain_growth(row, limit));
        }
        let rule = GrowthRule { pattern: None, limit };
        let missing = needed(&self.comparison, row, &rule, (1, FALSE_ALARMS));
        let missing = missing.filter(|_| self.total == Finding::Same)?;
        self.needed = Some(self.needed.map_or(missing, |other| other.max(missing)));
        Some(format!("a growth of the total by {} % might have been missed", percents(rule.growth_to_find())))
    }
}

fn percents(fraction: f64) -> String {
    measure::significant(fraction * 100.0, 3)
}

/// One sentence about a growth beyond a limit.
fn explain_growth(row: &ComparedRow, limit: f64) -> String {
    let limit = if limit > 0.0 { format!(", more than {} %", percents(limit)) } else { String::new() };
    match row.change() {
        None => format!("{} is new", row.name),
        Some(change) => {
            let margin = row.margin().map_or_else(String::new, |margin| format!(" ±{:.1}", margin * 100.0));
            format!("{} has grown by {:.1}{margin} %{limit}", row.name, change * 100.0)
        }
    }
}
