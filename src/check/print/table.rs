//! The report on a check as a value, with its rows in words.

use std::collections::BTreeSet;

use crate::check::compare::{ComparedRow, Measure};
use crate::check::power::Needed;
use crate::check::series::{MIN_FILES, UnitKind};
use crate::check::verdict::{CheckResult, Finding};
use crate::pprof::profile::SavedProfile;
use crate::pprof::units::label;
use crate::tally::measure;

/// Number of the largest functions that are listed even if chance explains their change.
const LARGEST: usize = 10;

/// Maximum length of a host, a kernel or a build id in a line of text.
const MAX_FACT: usize = 40;

/// The facts about a side.
#[derive(Clone, Debug, Default)]
pub struct SideFacts {
    /// The names of the files, or the command that was run.
    pub files: Vec<String>,
    /// The commands.
    pub commands: BTreeSet<String>,
    /// The hosts.
    pub hosts: BTreeSet<String>,
    /// The kernels.
    pub kernels: BTreeSet<String>,
    /// The build ids of the programs.
    pub build_ids: BTreeSet<String>,
    /// The sampling periods.
    pub periods: BTreeSet<i64>,
    /// The weight of lost ticks.
    pub lost: f64,
}

impl SideFacts {
    /// Collects the facts of the profiles of a side.
    pub fn new(files: Vec<String>, profiles: &[SavedProfile]) -> SideFacts {
        let mut facts = SideFacts { files, ..SideFacts::default() };
        let add = |into: &mut BTreeSet<String>, text: &str| {
            if !text.is_empty() {
                into.insert(text.to_owned());
            }
        };
        for profile in profiles {
            for recording in &profile.recordings {
                add(&mut facts.commands, &recording.command);
                add(&mut facts.hosts, &recording.host);
                add(&mut facts.kernels, &recording.kernel);
                facts.lost += recording.losses.iter().map(|loss| loss.weight as f64).sum::<f64>();
            }
            if let Some(main) = profile.mappings.first() {
                add(&mut facts.build_ids, &main.build_id);
            }
            if profile.period > 0 {
                facts.periods.insert(profile.period);
            }
        }
        facts
    }
}

/// A check and what it was made from.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The result.
    pub result: CheckResult,
    /// The sample type, such as `cpu`.
    pub value_name: String,
    /// The unit of the values.
    pub unit: String,
    /// The base and the new build.
    pub sides: [SideFacts; 2],
}

/// A row of the table in words.
pub(super) struct TableRow {
    /// The texts of all columns before the name.
    pub(super) columns: Vec<String>,
    pub(super) name: String,
}

impl CheckReport {
    /// The sentence with the verdict and the counts.
    pub(super) fn headline(&self) -> String {
        let result = &self.result;
        let count = |finding: Finding| result.findings.iter().filter(|own| **own == finding).count();
        let grown = count(Finding::Regression);
        let mut text = format!(
            "{}: {grown} of {} functions {} beyond the limits",
            result.verdict.word(),
            measure::count(result.findings.len() as u64),
            if grown == 1 { "has grown" } else { "have grown" }
        );
        for (finding, words) in [
            (Finding::Growth, "within the limits"),
            (Finding::Shifted, "only because others have shrunk"),
            (Finding::Moved, "new instead of others that are gone"),
            (Finding::Improvement, "smaller"),
        ] {
            let count = count(finding);
            if count > 0 {
                text += &format!(", {count} {words}");
            }
        }
        if result.total == Finding::Regression {
            text += ", and the total has grown";
        }
        text
    }

    /// A sentence that says how many samples an inconclusive check needs.
    pub(super) fn needed_words(&self) -> Option<String> {
        let Needed { factor, at_least, units } = self.result.needed?;
        let about = if at_least { "at least" } else { "about" };
        let comparison = &self.result.comparison;
        Some(match (units, comparison.kind) {
            (Some(units), UnitKind::Runs) => format!("{about} {units} runs a side would do: --runs {units}"),
            (Some(units), _) => format!("{about} {units} files a side would do"),
            (None, _) => {
                let samples = comparison.samples[0].max(comparison.samples[1]) * factor;
                let digits = 10f64.powf(samples.log10().floor() - 1.0).max(1.0);
                let samples = measure::count(((samples / digits).ceil() * digits) as u64);
                format!("{about} {samples} samples a side would do, {factor:.1} times as many")
            }
        })
    }

    /// Sentences about what makes the comparison doubtful.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let [base, new] = &self.sides;
        let kind = self.result.comparison.kind;
        let join = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<String>>().join(", ");
        let facts = [
            ("machines", &base.hosts, &new.hosts),
            ("kernels", &base.kernels, &new.kernels),
            ("commands", &base.commands, &new.commands),
        ];
        for (what, base, new) in facts {
            let is_chosen = kind == UnitKind::Runs && what == "commands";
            if base != new && !is_chosen && !(base.is_empty() && new.is_empty()) {
                let known = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
                warnings.push(format!("the {what} differ: base {}; new {}", known(join(base)), known(join(new))));
            }
        }
        for (side, facts) in [("base", base), ("new", new)] {
            if facts.build_ids.len() > 1 {
                warnings.push(format!("{side} has several builds: {}", join(&facts.build_ids)));
            }
        }
        if !base.build_ids.is_empty() && base.build_ids == new.build_ids {
            warnings.push(format!("both sides are the same build: {}", join(&base.build_ids)));
        }
        if base.periods != new.periods {
            warnings.push("the sampling periods differ".to_owned());
        }
        for (side, name) in ["base", "new"].into_iter().enumerate() {
            let (lost, sum) = (self.sides[side].lost, self.result.comparison.sums[side]);
            if lost * 100.0 >= sum && lost > 0.0 {
                warnings.push(format!("{:.1} % of {name} was lost", lost / (lost + sum) * 100.0));
            }
        }
        match kind {
            UnitKind::Runs | UnitKind::Files => {}
            UnitKind::Blocks => warnings
                .push(format!("differences between runs are not counted: {MIN_FILES} files a side would show them")),
            UnitKind::Counts => warnings.push(format!(
                "the files do not say when samples were taken, so bursts are not counted: use recordings (.sigtop), or \
                 {MIN_FILES} files a side"
            )),
        }
        warnings
    }

    /// One line about a side.
    pub(super) fn side_words(&self, side: usize) -> String {
        let comparison = &self.result.comparison;
        let facts = &self.sides[side];
        let samples = measure::count(comparison.samples[side].round() as u64);
        let units = comparison.units[side];
        let from = match comparison.kind {
            UnitKind::Runs => format!("{units} runs of {}", facts.files.join(" ")),
            UnitKind::Files => format!("{units} files"),
            UnitKind::Blocks => format!("{units} blocks of time of {}", facts.files.join(", ")),
            UnitKind::Counts => facts.files.join(", "),
        };
        let mut text = format!("{samples} samples in {from}");
        for (word, set) in [("", &facts.hosts), ("", &facts.kernels), ("build ", &facts.build_ids)] {
            for own in set {
                text += &format!(" · {word}{}", own.chars().take(MAX_FACT).collect::<String>());
            }
        }
        text
    }

    /// The heads of the columns before the name.
    pub(super) fn heads(&self) -> Vec<&'static str> {
        match self.result.comparison.measure {
            Measure::Share => vec!["base", "new", "change"],
            Measure::Time => vec!["base", "new", "base%", "new%", "change"],
        }
    }

    /// The rows that are listed: changed ones first, then named ones and the largest. The number of
    /// others follows.
    pub(super) fn listed(&self) -> (Vec<usize>, usize) {
        let (rows, findings) = (&self.result.comparison.rows, &self.result.findings);
        let mut listed: Vec<usize> = (0..rows.len()).filter(|&row| findings[row] != Finding::Same).collect();
        let change = |row: usize| (rows[row].shares[1] - rows[row].shares[0]).abs();
        let order = |row: usize| u8::from(findings[row] != Finding::Regression);
        listed.sort_by(|&a, &b| order(a).cmp(&order(b)).then(change(b).total_cmp(&change(a))));
        let is_shown = |&row: &usize| row < LARGEST || self.result.is_named[row];
        listed.extend((0..rows.len()).filter(|&row| findings[row] == Finding::Same).filter(is_shown));
        let others = rows.len() - listed.len();
        (listed, others)
    }

    /// The words of a listed row.
    pub(super) fn row_words(&self, row: usize) -> TableRow {
        self.words(&self.result.comparison.rows[row], self.result.findings[row], self.result.comparison.measure)
    }

    /// The words of the total, which is compared by its value.
    pub(super) fn total_words(&self) -> TableRow {
        let mut words = self.words(&self.result.comparison.total, self.result.total, Measure::Time);
        if self.result.comparison.measure == Measure::Share {
            words.columns.drain(2..4);
        }
        let per = match self.result.comparison.kind {
            UnitKind::Runs => " per run",
            UnitKind::Files | UnitKind::Blocks | UnitKind::Counts => " per file",
        };
        TableRow { name: format!("total{per}"), ..words }
    }

    fn words(&self, row: &ComparedRow, finding: Finding, measure: Measure) -> TableRow {
        let share = |side: usize| measure::percent(row.shares[side] * 100.0).trim().to_owned();
        let value = |side: usize| label(row.values[side].round() as i64, &self.unit);
        let margin = row.margin().map_or_else(String::new, |margin| format!(" ±{:.1}", margin * 100.0));
        let change = match (finding, row.change()) {
            (Finding::Same, _) => format!("~{margin}"),
            (Finding::Unknown, _) => "?".to_owned(),
            (_, None) => "new".to_owned(),
            (Finding::Shifted, Some(change)) => format!("({:+.1}%)", change * 100.0),
            (_, Some(change)) => format!("{:+.1}%{margin}", change * 100.0),
        };
        let columns = match measure {
            Measure::Share => vec![share(0), share(1), change],
            Measure::Time => vec![value(0), value(1), share(0), share(1), change],
        };
        TableRow { columns, name: row.name.clone() }
    }
}
