//! Encodes a session in a file format: as a saved profile, or as the table on the screen.

use super::save::SaveInput;
use crate::keyword::Keyword;
use crate::pprof::format::SaveFormat;
use crate::pprof::live::{self, ConvertedTotals, LiveProfileInfo};
use crate::pprof::live_top::{TopHeader, TopLimits, write_top};
use crate::pprof::profile::{Label, LabelValue, RecordingFacts, SavedLoss, SavedProfile};
use crate::pprof::report;
use crate::profile::Clock;
use crate::profile::loss::{LossCause, Losses};
use crate::profile::totals::Span;
use crate::symbols::sanitize::sanitize;
use crate::tally::query::tags::{TagFilter, ThreadTags};
use crate::tally::tallier::Tallier;
use crate::tally::text::Text;

/// A number for each cause of loss.
type LossArray = [u64; LossCause::ALL.len()];

/// Encodes the input in a format other than a recording.
///
/// # Errors
/// If there are no samples, or the format cannot hold them; a message for the user.
pub(super) fn encode(input: &SaveInput<'_>, format: SaveFormat) -> Result<Vec<u8>, String> {
    if format == SaveFormat::Text {
        return Ok(text_table(input).into_bytes());
    }
    let profile = to_saved_profile(input)?;
    let value = profile.value_index("")?;
    let mut out = Vec::new();
    report::export(&mut out, profile, value, format).map_err(|error| error.to_string())?;
    Ok(out)
}

/// The table on the screen, with its units.
fn text_table(input: &SaveInput<'_>) -> String {
    let table = Tallier::default().table(input.profile, input.names, &input.part.query);
    let program = input.facts.command.split_whitespace().next().unwrap_or("");
    let header = TopHeader {
        file: program.rsplit('/').next().unwrap_or(program),
        clock: input.part.query.clock,
        duration_ns: (input.part.query.clock != Clock::Virtual).then(|| duration_ns(input)),
        lost_ticks: losses(input, |losses| losses.lost_ticks),
        lost_ns: losses(input, |losses| losses.lost_weight(input.part.query.clock)),
        filters: &input.part.query.filters,
        own: &input.part.query.own,
        sort: input.part.query.sort,
    };
    let mut out = String::new();
    write_top(&mut out, &header, &table, &TopLimits::default());
    out
}

/// Converts the input to a saved profile.
///
/// # Errors
/// If it has no samples and may not be empty; a message for the user.
pub fn to_saved_profile(input: &SaveInput<'_>) -> Result<SavedProfile, String> {
    let info = live_profile_info(input);
    let mut profile = live::to_saved(input.profile, input.names, &info);
    profile.recordings = vec![recording_facts(input, &info)];
    let filters = &input.part.query.filters;
    profile.filter(filters);
    filter_by_tags(&mut profile, &filters.tagfocus, &filters.tagignore);
    if profile.samples.is_empty() && !input.part.may_be_empty {
        return Err("no samples to save: wait for one, or clear the filters with U".to_owned());
    }
    Ok(profile)
}

/// Converts what is new since the last call with the same `converted`.
pub(super) fn to_increment(input: &SaveInput<'_>, converted: &mut ConvertedTotals) -> SavedProfile {
    live::to_increment(input.profile, input.names, &live_profile_info(input), converted)
}

/// The facts that the profile does not hold itself.
fn live_profile_info(input: &SaveInput<'_>) -> LiveProfileInfo {
    let duration_ns = duration_ns(input);
    LiveProfileInfo {
        clock: input.part.query.clock,
        span: input.part.query.span,
        time_ns: input.part.unix_ns.saturating_sub(duration_ns) as i64,
        duration_ns: duration_ns as i64,
        period_ns: shortest_period(input),
        lost_ticks: losses(input, |losses| losses.lost_ticks),
        lost_ns: losses(input, |losses| losses.lost_weight(input.part.query.clock)),
    }
}

/// The facts about the sampling that a report prints.
fn recording_facts(input: &SaveInput<'_>, info: &LiveProfileInfo) -> RecordingFacts {
    let facts = input.facts;
    let engine = if facts.origin.is_some() { "" } else { facts.sampler.unwrap_or(facts.engine).word().name };
    RecordingFacts {
        command: sanitize(&facts.command).into(),
        host: Text::default(),
        kernel: Text::default(),
        engine: engine.into(),
        losses: SavedLoss::list(&info.lost_ticks, &info.lost_ns),
    }
}

/// The period that counts of samples stand for. The rate may have been halved during the run, and a
/// count has to mean the same all the time: so it is the shortest period, not the last.
fn shortest_period(input: &SaveInput<'_>) -> u64 {
    let clock = input.part.query.clock;
    let shortest = input.profile.shortest_period(clock).filter(|_| !clock.is_memory());
    shortest.unwrap_or(input.facts.period_ns)
}

/// The length of the time span, ns.
fn duration_ns(input: &SaveInput<'_>) -> u64 {
    let up_ns = (input.facts.up.as_nanos() as u64).saturating_sub(input.part.behind_ns);
    match input.part.query.span {
        Span::Total => up_ns,
        Span::Last { ns, .. } => ns.min(up_ns),
    }
}

/// The losses of the time span. They are known for the whole session only and 0 for a part of it.
fn losses(input: &SaveInput<'_>, select: impl Fn(&Losses) -> LossArray) -> LossArray {
    match input.part.query.span {
        Span::Total => select(&input.facts.losses),
        Span::Last { .. } => Default::default(),
    }
}

/// Applies `tagfocus` and `tagignore` with the meaning that they have on the screen.
fn filter_by_tags(profile: &mut SavedProfile, focus: &[TagFilter], ignore: &[TagFilter]) {
    if focus.is_empty() && ignore.is_empty() {
        return;
    }
    let is_kept = |labels: &[Label]| {
        let number = |key: &str| {
            labels.iter().find_map(|label| match label.value {
                LabelValue::Number(number, _) if *label.key == *key => u32::try_from(number).ok(),
                _ => None,
            })
        };
        let text = |key: &str| {
            labels.iter().find_map(|label| match &label.value {
                LabelValue::Text(text) if *label.key == *key => Some(&**text),
                _ => None,
            })
        };
        let tags = ThreadTags {
            pid: number("pid").unwrap_or_default(),
            tid: number("tid").unwrap_or_default(),
            process: text("process").unwrap_or_default(),
            thread: text("thread").unwrap_or_default(),
            source: text("source"),
            wait: text("wait"),
            holder: text("holder"),
        };
        let matches_any = |filters: &[TagFilter]| filters.iter().any(|filter| filter.matches(&tags));
        (focus.is_empty() || matches_any(focus)) && !matches_any(ignore)
    };
    let kept: Vec<bool> = profile.labels.iter().map(|labels| is_kept(labels)).collect();
    profile.samples.retain(|_, _, labels| kept[*labels as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::header_facts::Facts;
    use crate::session::model::Model;
    use crate::session::protocol::Question;
    use crate::symbols::scenario::scenario;
    use crate::wire::{Arrival, ConnectionEvent, Engaged, Engine, EngineState, Message};

    /// Regression test: all weights were divided by the last period, also those of before the rate
    /// was halved.
    #[test]
    fn a_halved_rate_does_not_change_the_unit_of_counts() {
        let played = scenario(
            "process 7 ./app\nat 0s..1s prof 1ms main;work x 1000\nat 1s..4s prof 4ms main;work x 750\nnow 4s\n",
        );
        let played = played.unwrap();
        let mut model = Model::new(Clock::Prof, Question::default());
        (model.profile, model.names) = (played.profile, played.names);
        let source = model.profile.processes()[0].source;
        for (period_ns, state) in
            [(1_000, EngineState::TimerRefused), (1_000_000, EngineState::Running), (4_000_000, EngineState::Running)]
        {
            let engaged = Engaged { clock: Clock::Prof, engine: Engine::Threads, state, period_ns, signal: 23 };
            let event = ConnectionEvent::Received(Message::Engaged(engaged));
            model.profile.apply(Arrival { source, pid: 7, at_ns: 1, event });
        }
        let facts = Facts { period_ns: 4_000_000, ..Facts::unknown(Clock::Prof) };
        let encoded = model.save_all(SaveFormat::Folded, (4_000_000_000, 0), &facts).unwrap();
        assert_eq!(String::from_utf8(encoded).unwrap(), "main;work 4000\n");
    }
}
