//! Sentences about samples that are lost, cut or without a name, and how to mend that.

use super::evidence::{Evidence, Sentence};
use crate::tally::measure;
use crate::wire::LossCause;

/// Losses and cut stacks are mentioned from these percentages on.
const LOST_PERCENT: f64 = 1.0;
const TRUNCATED_PERCENT: f64 = 5.0;
const NAMELESS_PERCENT: f64 = 5.0;
/// Fewer samples than these give uncertain shares.
const FEW_SAMPLES: u64 = 200;

/// The CPU time without samples, by cause.
pub(super) fn unsampled(evidence: &Evidence<'_>) -> Option<Sentence> {
    let facts = &evidence.answer.facts;
    if let Some(unsampled) = &facts.unsampled {
        return Some(Sentence::new(105, ("losses", ""), format!("{unsampled}.")));
    }
    let (lost, ticks) = (facts.losses.lost(), facts.losses.ticks);
    let cause = LossCause::ALL.into_iter().max_by_key(|&cause| facts.losses.lost_ticks[cause as usize])?;
    let share = measure::percentage(lost, ticks);
    let text = format!(
        "{} of the samples were lost, most because of: {}; a lower --hz loses fewer.",
        share.trim(),
        cause.long()
    );
    (measure::percent_of(lost, ticks) >= LOST_PERCENT).then(|| Sentence::new(104, ("losses", cause.long()), text))
}

/// The stacks that do not reach their root.
pub(super) fn truncated(evidence: &Evidence<'_>) -> Option<Sentence> {
    let stacks = &evidence.answer.facts.stacks;
    let share = measure::percentage(stacks.truncated, stacks.samples);
    let text = format!(
        "{} of the stacks do not reach their root ([truncated]): the code there has no unwind tables; build it without \
         -fno-asynchronous-unwind-tables.",
        share.trim()
    );
    let is_notable = measure::percent_of(stacks.truncated, stacks.samples) >= TRUNCATED_PERCENT;
    is_notable.then(|| Sentence::new(78, ("Top", "[truncated]"), text))
}

/// The file whose functions have no names.
pub(super) fn nameless(evidence: &Evidence<'_>) -> Option<Sentence> {
    let coverage = &evidence.answer.facts.coverage;
    let total: u64 = coverage.iter().map(|file| file.total_ns()).sum();
    let worst = coverage.iter().max_by_key(|file| file.nameless_ns)?;
    let share = measure::percentage(worst.nameless_ns, total);
    let target = evidence.answer.facts.pids.first().map_or_else(|| worst.module.clone(), u32::to_string);
    let text = format!(
        "{} of the samples are in functions of {} that have no name: sigtop symbols {target} says how to get them.",
        share.trim(),
        worst.module
    );
    let is_notable = measure::percent_of(worst.nameless_ns, total) >= NAMELESS_PERCENT;
    is_notable.then(|| Sentence::new(79, ("symbols", &worst.module), text))
}

/// The uncertainty of few samples.
pub(super) fn few_samples(evidence: &Evidence<'_>) -> Option<Sentence> {
    let samples = evidence.answer.window.samples;
    if samples == 0 {
        let text = format!("{}.", evidence.answer.facts.explain_no_samples());
        return Some(Sentence::new(106, ("header", "samples"), text));
    }
    let margin = format!("{:.0} points", 98.0 / (samples as f64).sqrt());
    let text = format!(
        "There are only {samples} samples: shares are uncertain by up to {margin}; sample longer or at a higher --hz."
    );
    (samples < FEW_SAMPLES).then(|| Sentence::new(92, ("header", "samples"), text))
}
