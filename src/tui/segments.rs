//! A line of facts that fits: what matters least is shortened first, then left out.

use ratatui::style::Style;
use ratatui::text::Span;

use super::text;

/// Columns that any line may take; text beyond is not measured.
const MAX_COLUMNS: usize = 1000;

/// One fact.
pub struct Segment {
    /// Ways to say it, the longest first.
    ways: Vec<Vec<Span<'static>>>,
    /// How much it matters; 0 is least.
    rank: u8,
    /// Columns that it keeps while it is said the long way, so that what follows stands still.
    columns: usize,
    /// Columns before it, unless it comes first.
    gap: usize,
}

impl Segment {
    /// A fact that matters so much.
    pub fn new(rank: u8) -> Segment {
        Segment { ways: Vec::new(), rank, columns: 0, gap: 3 }
    }

    /// Another, shorter way to say it. An empty one lets it be left out.
    pub fn or(mut self, spans: Vec<Span<'static>>) -> Segment {
        self.ways.push(spans);
        self
    }

    /// Another, shorter way, of one piece.
    pub fn or_text(self, text: impl Into<String>, style: Style) -> Segment {
        self.or(vec![Span::styled(text.into(), style)])
    }

    /// It may be left out.
    pub fn or_nothing(self) -> Segment {
        self.or(Vec::new())
    }

    /// It keeps so many columns while it is said the long way.
    pub fn columns(mut self, columns: usize) -> Segment {
        self.columns = columns;
        self
    }

    /// No more than so many columns before it.
    pub fn gap_at_most(self, gap: usize) -> Segment {
        let gap = gap.min(self.gap);
        self.gap(gap)
    }

    /// So many columns before it.
    pub fn gap(mut self, gap: usize) -> Segment {
        self.gap = gap;
        self
    }
}

/// Columns that spans take.
pub fn width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| text::columns(&span.content, MAX_COLUMNS)).sum()
}

/// The segments on a line of `room` columns.
pub fn fit(segments: &[Segment], room: usize) -> Vec<Span<'static>> {
    let mut chosen = vec![0_usize; segments.len()];
    loop {
        let line = join(segments, &chosen);
        if width(&line) <= room {
            return line;
        }
        let shorter = |index: &usize| chosen[*index] + 1 < segments[*index].ways.len();
        // Of those that matter equally the last one goes first: a line is read from its beginning.
        let least = (0..segments.len()).rev().filter(shorter).min_by_key(|&index| segments[index].rank);
        match least {
            Some(index) => chosen[index] += 1,
            None => return line,
        }
    }
}

fn join(segments: &[Segment], chosen: &[usize]) -> Vec<Span<'static>> {
    let mut line: Vec<Span<'static>> = Vec::new();
    let mut padding = 0;
    for (segment, &way) in segments.iter().zip(chosen) {
        let Some(spans) = segment.ways.get(way).filter(|spans| !spans.is_empty()) else { continue };
        if !line.is_empty() {
            line.push(" ".repeat(padding + segment.gap).into());
        }
        padding = if way == 0 { segment.columns.saturating_sub(width(spans)) } else { 0 };
        line.extend(spans.iter().cloned());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(spans: Vec<Span<'_>>) -> String {
        spans.into_iter().map(|span| span.content.into_owned()).collect()
    }

    #[test]
    fn the_least_goes_first() {
        let plain = Style::new();
        let segments = [
            Segment::new(9).or_text("PROF (cpu)", plain).or_text("PROF", plain),
            Segment::new(1).or_text("timer_create", plain).or_nothing().gap(2),
            Segment::new(5).or_text("7 samples", plain).or_text("7", plain).columns(11),
            Segment::new(4).or_text("lost 0", plain).or_nothing(),
        ];
        let line = |room| text(fit(&segments, room));
        assert_eq!(line(80), "PROF (cpu)  timer_create   7 samples     lost 0");
        assert_eq!(line(40), "PROF (cpu)   7 samples     lost 0");
        assert_eq!(line(30), "PROF (cpu)   7 samples");
        assert_eq!(line(20), "PROF (cpu)   7");
        assert_eq!(line(10), "PROF   7");
        assert_eq!(line(1), "PROF   7", "what cannot be shortened is clipped by the canvas");
    }
}
