//! The kinds of files that a watch can be saved as, and how each is made of what is known.

use std::path::Path;

use super::setting;
use crate::profile::Clock;
use crate::profile::loss::{Loss, Losses};
use crate::profile::window::Span;
use crate::tally::saved::{Label, LabelValue, Saved};
use crate::tally::table;
use crate::tally::tag::{Labels, Tag};
use crate::track::{Form, Taken};
use crate::write::formats::{FORMATS, Format};
use crate::write::live::{self, About};
use crate::write::text::{self, Heading, Limits};

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// Ends of file names that mean it; the first is given to new ones.
    pub endings: &'static [&'static str],
    /// What it is good for.
    pub words: &'static str,
    /// How it is made; `None` is a recording, which has everything.
    pub form: Option<Form>,
}

/// Every kind, in the order in which Tab goes through them.
pub fn kinds() -> impl Iterator<Item = Kind> {
    let recording =
        Kind { name: "sigtop", endings: &[".sigtop"], words: "a recording of everything, for sigtop view", form: None };
    let text = Form { name: "text", make: text_table };
    let text = Kind { name: "text", endings: &[".txt"], words: "pprof's table", form: Some(text) };
    // The text is the screen's own table, with its units.
    let files = FORMATS.iter().filter(|format| format.name != "text");
    let formats = files.map(|&Format { name, endings, words, .. }| {
        let form = Some(Form { name, make: saved_profile });
        Kind { name, endings, words, form }
    });
    [recording].into_iter().chain(formats).chain([text])
}

/// The kind that a file's name means, and the ending by which it does.
pub fn kind_of(path: &Path) -> Option<(Kind, &'static str)> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let is_end = |ending: &&&'static str| name.len() > ending.len() && name.ends_with(**ending);
    let found = kinds().flat_map(|kind| kind.endings.iter().map(move |ending| (kind, ending)));
    found
        .filter(|(_, ending)| is_end(ending))
        .max_by_key(|(_, ending)| ending.len())
        .map(|(kind, ending)| (kind, *ending))
}

/// The kind that is called so.
pub fn kind_called(name: &str) -> Option<Kind> {
    kinds().find(|kind| kind.name == name)
}

/// The first endings of all kinds, in a sentence.
pub fn endings() -> String {
    let all: Vec<&str> = kinds().map(|kind| kind.endings[0]).collect();
    setting::listed(&all)
}

/// Length of the time that is saved, ns.
fn duration_ns(taken: &Taken<'_>) -> u64 {
    let up_ns = (taken.facts.up.as_nanos() as u64).saturating_sub(taken.behind_ns);
    match taken.query.span {
        Span::Total => up_ns,
        Span::Last { ns, .. } => ns.min(up_ns),
    }
}

fn text_table(taken: &Taken<'_>, _: &str) -> Result<Vec<u8>, String> {
    let table = table::table(taken.profile, taken.names, &taken.query);
    let facts = taken.facts;
    let file = facts.command.split_whitespace().next().unwrap_or("");
    let heading = Heading {
        file: file.rsplit('/').next().unwrap_or(file),
        clock: taken.query.clock,
        duration_ns: (taken.query.clock != Clock::Virtual).then(|| duration_ns(taken)),
        lost_ticks: lost(taken, |losses| losses.lost_ticks),
        lost_ns: lost(taken, |losses| losses.lost_ns),
        filters: &taken.query.filters,
    };
    let mut out = String::new();
    text::top(&mut out, &heading, &table, &Limits::default());
    Ok(out.into_bytes())
}

/// What was lost by each cause.
type Lost = [u64; Loss::ALL.len()];

/// What was lost in the time that is saved: of a part of it nobody knows.
fn lost(taken: &Taken<'_>, of: fn(&Losses) -> Lost) -> Lost {
    match taken.query.span {
        Span::Total => of(&taken.facts.losses),
        Span::Last { .. } => Default::default(),
    }
}

fn saved_profile(taken: &Taken<'_>, name: &str) -> Result<Vec<u8>, String> {
    let format = FORMATS.iter().find(|format| format.name == name).ok_or("there is no such format")?;
    let saved = profile(taken)?;
    let value = saved.value_index("")?;
    let mut out = Vec::new();
    (format.write)(&mut out, &saved, value).map_err(|error| error.to_string())?;
    Ok(out)
}

/// A profile of what is taken.
///
/// # Errors
/// If it has no sample and may not be empty: a sentence.
pub fn profile(taken: &Taken<'_>) -> Result<Saved, String> {
    let duration_ns = duration_ns(taken);
    let about = About {
        clock: taken.query.clock,
        span: taken.query.span,
        time_ns: taken.unix_ns.saturating_sub(duration_ns) as i64,
        duration_ns: duration_ns as i64,
        period_ns: taken.facts.period_ns,
        lost_ticks: lost(taken, |losses| losses.lost_ticks),
        lost_ns: lost(taken, |losses| losses.lost_ns),
    };
    let mut saved = live::saved(taken.profile, taken.names, &about);
    let filters = &taken.query.filters;
    saved.filter(filters);
    filter_by_tags(&mut saved, &filters.tagfocus, &filters.tagignore);
    if saved.samples.is_empty() && !taken.may_be_empty {
        return Err("there is no sample to save: wait for one, or U clears the filters".to_owned());
    }
    Ok(saved)
}

/// tagfocus and tagignore, as on the screen.
fn filter_by_tags(saved: &mut Saved, focus: &[Tag], ignore: &[Tag]) {
    if focus.is_empty() && ignore.is_empty() {
        return;
    }
    let admits = |labels: &[Label]| {
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
        let labels = Labels {
            pid: number("pid").unwrap_or_default(),
            tid: number("tid").unwrap_or_default(),
            process: text("process").unwrap_or_default(),
            thread: text("thread").unwrap_or_default(),
        };
        let any = |tags: &[Tag]| tags.iter().any(|tag| tag.matches(&labels));
        (focus.is_empty() || any(focus)) && !any(ignore)
    };
    let admitted: Vec<bool> = saved.labels.iter().map(|labels| admits(labels)).collect();
    saved.samples.retain(|_, _, labels| admitted[*labels as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_is_the_format() {
        let name = |text: &str| kind_of(Path::new(text)).map(|(kind, _)| kind.name);
        assert_eq!(name("/tmp/a.sigtop"), Some("sigtop"));
        assert_eq!(name("a.pb.gz"), Some("proto"));
        assert_eq!(name("a.flame.svg"), Some("flame"));
        assert_eq!(name("a.txt"), Some("text"));
        assert_eq!([name("a"), name(".txt"), name("a.gz"), name("")], [None; 4]);
    }
}
