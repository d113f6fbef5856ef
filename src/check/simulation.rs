//! Tests on generated samples: the rate of alarms between equal builds, and of planted growths that
//! are found. Time is virtual: the samples of an hour are drawn in milliseconds.

use std::time::Instant;

use super::compare::Measure;
use super::rules::GrowthRule;
use super::series::{BLOCKS, Series, UnitKind};
use super::verdict::{CheckResult, CheckRules, Finding, Verdict, check};
use crate::tally::query::Pattern;
use crate::tally::random::SplitMix64;

/// Number of comparisons of each kind.
const COMPARISONS: usize = 200;

/// A program: the CPU time of each function in a unit of work, and how it is sampled.
#[derive(Clone)]
struct SimulatedProgram {
    costs: Vec<f64>,
    /// Mean number of neighboring samples in one function.
    burst: f64,
    /// The standard deviation of a run's time, relative to it.
    noise: f64,
}

impl SimulatedProgram {
    /// A program with a function of 10 %, and others of falling size.
    fn with_functions(count: usize, burst: f64) -> SimulatedProgram {
        let others: Vec<f64> = (1..count).map(|index| 1.0 / (3.0 + index as f64)).collect();
        let sum: f64 = others.iter().sum();
        let costs = [0.1].into_iter().chain(others.iter().map(|cost| 0.9 * cost / sum)).collect();
        SimulatedProgram { costs, burst, noise: 0.0 }
    }

    /// The program with a function that is slower by 5 %.
    fn with_growth_of(&self, function: usize) -> SimulatedProgram {
        let mut slower = self.clone();
        slower.costs[function] *= 1.05;
        slower
    }

    /// Draws the samples of a side in so many units; `samples` is the mean number of all of the
    /// base.
    fn draw(&self, random: &mut SplitMix64, samples: f64, units: usize) -> Series {
        let mut series = Series { totals: vec![0.0; units], ..Series::default() };
        let mut counts = vec![vec![0.0; units]; self.costs.len()];
        for unit in 0..units {
            let speed = 1.0 + self.noise * draw_normal(random);
            for (cost, counts) in self.costs.iter().zip(&mut counts) {
                // Bursts come independently, and each has a geometric number of samples.
                let bursts = draw_poisson(random, cost * speed * samples / units as f64 / self.burst);
                let spread = (bursts * self.burst * (self.burst - 1.0)).sqrt();
                counts[unit] = (bursts * self.burst + spread * draw_normal(random)).round().max(0.0);
                series.totals[unit] += counts[unit];
            }
        }
        series.samples = series.totals.iter().sum();
        series.functions =
            counts.into_iter().enumerate().map(|(index, counts)| (format!("f{index}"), counts)).collect();
        series
    }
}

fn draw_normal(random: &mut SplitMix64) -> f64 {
    let (radius, angle) = (random.next(), random.next());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

fn draw_poisson(random: &mut SplitMix64, mean: f64) -> f64 {
    if mean > 40.0 {
        return (mean + mean.sqrt() * draw_normal(random)).round().max(0.0);
    }
    let (mut count, mut product, limit) = (0.0, random.next(), (-mean).exp());
    while product > limit {
        product *= random.next();
        count += 1.0;
    }
    count
}

/// One setting of the simulation.
struct SimulatedCheck {
    name: &'static str,
    program: SimulatedProgram,
    kind: UnitKind,
    measure: Measure,
    units: usize,
    samples: f64,
    /// The function that grows.
    function: usize,
    rules: fn() -> CheckRules,
}

fn any_growth() -> CheckRules {
    CheckRules { functions: vec![GrowthRule::any_growth()], total: None }
}

fn named_function() -> CheckRules {
    let pattern = Some(Pattern::new("^f200$").unwrap());
    CheckRules { functions: vec![GrowthRule { pattern, limit: 0.0 }], total: None }
}

fn settings() -> Vec<SimulatedCheck> {
    let blocks = |name, program, function, rules| SimulatedCheck {
        name,
        program,
        kind: UnitKind::Blocks,
        measure: Measure::Share,
        units: BLOCKS,
        samples: 40_000.0,
        function,
        rules,
    };
    let few = || SimulatedProgram::with_functions(12, 1.0);
    vec![
        blocks("blocks, 12 functions", few(), 0, any_growth),
        blocks("blocks, 400 functions", SimulatedProgram::with_functions(400, 1.0), 0, any_growth),
        blocks("blocks, 400 functions, bursts of 25", SimulatedProgram::with_functions(400, 25.0), 0, any_growth),
        blocks("blocks, one of 400, bursts of 25", SimulatedProgram::with_functions(400, 25.0), 200, named_function),
        SimulatedCheck {
            kind: UnitKind::Counts,
            units: 1,
            ..blocks("counts, 400 functions", SimulatedProgram::with_functions(400, 1.0), 0, any_growth)
        },
        SimulatedCheck {
            kind: UnitKind::Runs,
            units: 10,
            ..blocks("10 runs, shares, bursts of 25", SimulatedProgram::with_functions(40, 25.0), 0, any_growth)
        },
        SimulatedCheck {
            kind: UnitKind::Runs,
            measure: Measure::Time,
            units: 10,
            ..blocks(
                "10 runs, time ±1 %",
                SimulatedProgram { noise: 0.01, ..SimulatedProgram::with_functions(40, 5.0) },
                0,
                any_growth,
            )
        },
    ]
}

impl SimulatedCheck {
    fn check(
        &self,
        base: &SimulatedProgram,
        new: &SimulatedProgram,
        random: &mut SplitMix64,
        samples: f64,
        units: usize,
    ) -> CheckResult {
        let [base, new] = [base, new].map(|program| program.draw(random, samples, units));
        let files = if self.kind == UnitKind::Runs { units } else { 1 };
        check([&base, &new], self.kind, self.measure, &(self.rules)(), [files, files])
    }

    /// Returns the length that checks ask for, samples and units: each is as long as the one before
    /// it asked for, until one says a length that would do.
    fn asked_length(&self, random: &mut SplitMix64) -> (f64, usize) {
        let (mut samples, mut units) = (self.samples, self.units);
        loop {
            let check = self.check(&self.program, &self.program, random, samples, units);
            let Some(needed) = check.needed else { return (samples, units) };
            (samples, units) = (samples * needed.factor, needed.units.unwrap_or(units));
            if !needed.at_least {
                return (samples, units);
            }
        }
    }
}

#[test]
fn equal_builds_alarm_in_at_most_1_percent_of_200_comparisons() {
    for (index, setting) in settings().iter().enumerate() {
        let (started, mut random) = (Instant::now(), SplitMix64(index as u64 + 1));
        let alarms = (0..COMPARISONS).filter(|_| {
            let same = setting.check(&setting.program, &setting.program, &mut random, setting.samples, setting.units);
            same.verdict == Verdict::Regression
        });
        let alarms = alarms.count();
        println!("{}: {alarms} alarms in {COMPARISONS} ({:.0?})", setting.name, started.elapsed());
        // The probability of one alarm is 0.1 %, because only growth is one. A check that is right
        // has more than 2 of 200 once in a thousand times.
        assert!(alarms * 100 <= COMPARISONS, "{}: {alarms} alarms", setting.name);
    }
}

#[test]
fn a_growth_of_5_percent_is_found_in_95_percent_of_checks_of_the_length_that_is_asked_for() {
    for (index, setting) in settings().iter().enumerate() {
        let (started, mut random) = (Instant::now(), SplitMix64(index as u64 + 101));
        let slower = setting.program.with_growth_of(setting.function);
        let name = format!("f{}", setting.function);
        let mut lengths = Vec::new();
        let found = (0..COMPARISONS).filter(|_| {
            let (samples, units) = setting.asked_length(&mut random);
            lengths.push(samples);
            let result = setting.check(&setting.program, &slower, &mut random, samples, units);
            let mut findings = result.comparison.rows.iter().zip(&result.findings);
            result.verdict == Verdict::Regression
                && findings.any(|(row, finding)| row.name == name && *finding == Finding::Regression)
        });
        let found = found.count();
        lengths.sort_by(f64::total_cmp);
        let median = lengths[lengths.len() / 2];
        println!(
            "{}: found {found} of {COMPARISONS} with {median:.0} samples ({:.0?})",
            setting.name,
            started.elapsed()
        );
        assert!(found * 100 >= 95 * COMPARISONS, "{}: {found} found", setting.name);
    }
}

/// Divides the function `f0` into two.
fn divide(mut series: Series) -> Series {
    let whole = series.functions.remove("f0").expect("a function");
    let part = |share: f64| whole.iter().map(|value| value * share).collect();
    series.functions.extend([("left".to_owned(), part(0.7)), ("right".to_owned(), part(0.3))]);
    series
}

#[test]
fn a_divided_function_has_grown_only_if_its_parts_take_more() {
    for (index, setting) in settings().iter().enumerate().filter(|(_, setting)| setting.function == 0) {
        let mut random = SplitMix64(index as u64 + 201);
        let mut slower = setting.program.clone();
        slower.costs[0] *= 1.5;
        let (mut alarms, mut found) = (0, 0);
        for _ in 0..COMPARISONS {
            let mut check = |new: &SimulatedProgram| {
                let [base, new] = [&setting.program, new]
                    .map(|program| program.draw(&mut random, 10.0 * setting.samples, setting.units));
                check([&base, &divide(new)], setting.kind, setting.measure, &any_growth(), [setting.units; 2])
            };
            let same = check(&setting.program);
            alarms += usize::from(same.verdict == Verdict::Regression);
            let moved = same.findings.iter().filter(|finding| **finding == Finding::Moved).count();
            assert!(moved == 2 || same.verdict == Verdict::Regression, "{}: {:?}", setting.name, same.findings);
            found += usize::from(check(&slower).verdict == Verdict::Regression);
        }
        println!("{}: {alarms} alarms, {found} found in {COMPARISONS}", setting.name);
        assert!(alarms * 100 <= COMPARISONS && found * 100 >= 95 * COMPARISONS, "{}: {alarms}, {found}", setting.name);
    }
}

/// The negative control: a check that takes neighboring samples as independent alarms all the time.
#[test]
fn equal_builds_alarm_if_bursts_are_taken_as_independent_samples() {
    let bursts = SimulatedProgram::with_functions(400, 25.0);
    let careless = SimulatedCheck {
        name: "bursts as counts",
        program: bursts,
        kind: UnitKind::Counts,
        measure: Measure::Share,
        units: 1,
        samples: 40_000.0,
        function: 0,
        rules: any_growth,
    };
    let mut random = SplitMix64(1);
    let alarms = (0..COMPARISONS).filter(|_| {
        let same = careless.check(&careless.program, &careless.program, &mut random, careless.samples, 1);
        same.verdict == Verdict::Regression
    });
    let alarms = alarms.count();
    println!("{}: {alarms} alarms in {COMPARISONS}", careless.name);
    assert!(alarms * 2 > COMPARISONS, "{alarms} alarms");
}
