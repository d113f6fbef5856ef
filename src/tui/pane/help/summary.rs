//! Text of the page that says in sentences where the time goes.

use crate::explain::{Evidence, Sentence, explain};
use crate::session::Answer;
use crate::tui::pane::help::lines::HelpLine;
use crate::tui::text;

/// The sentences about what was shown when they were asked for.
#[derive(Clone, Debug)]
pub struct TimeSummary {
    sentences: Vec<Sentence>,
    /// Number of less important sentences.
    omitted: usize,
}

impl TimeSummary {
    /// Makes the sentences from the answer to [`question`](crate::explain::question), and from that
    /// about the last part of the same time.
    pub fn new(answer: &Answer, recent: Option<&Answer>) -> TimeSummary {
        let (sentences, omitted) = explain(&Evidence { answer, recent });
        TimeSummary { sentences, omitted }
    }
}

/// The lines of the page.
pub fn lines(summary: Option<&TimeSummary>, width: u16) -> Vec<HelpLine> {
    let Some(TimeSummary { sentences, omitted }) = summary else {
        return vec![HelpLine::Text("reading the samples …".to_owned())];
    };
    let room = usize::from(width.saturating_sub(6)).max(16);
    let mut lines = Vec::new();
    for (number, sentence) in (1..).zip(sentences) {
        let words = format!("{} [{}]", sentence.text, sentence.row);
        for (index, line) in text::wrap(&words, room).into_iter().enumerate() {
            let head = if index == 0 { format!("{number:2}. ") } else { " ".repeat(4) };
            lines.push(HelpLine::Text(head + &line));
        }
    }
    if sentences.is_empty() {
        lines.push(HelpLine::Text("there are no samples to explain".to_owned()));
    }
    if *omitted > 0 {
        lines.push(HelpLine::Text(format!("    {omitted} less important sentences are left out")));
    }
    lines
}
