//! Fits a line of segments into a width: the least important segments are shortened first, then
//! omitted.

use ratatui::style::Style;
use ratatui::text::Span;

use super::text;

/// Maximum number of columns that are measured.
const MAX_COLUMNS: usize = 1000;

/// A part of a line.
pub struct Segment {
    /// Its variants, the longest first. An empty one omits the segment.
    variants: Vec<Vec<Span<'static>>>,
    /// Its importance; 0 is the lowest.
    importance: u8,
    /// Minimum number of columns of the longest variant, so that what follows does not move.
    columns: usize,
    /// Number of blank columns before it, unless it comes first.
    gap: usize,
}

impl Segment {
    /// An empty segment of this importance.
    pub fn new(importance: u8) -> Segment {
        Segment { variants: Vec::new(), importance, columns: 0, gap: 3 }
    }

    /// Adds a shorter variant. An empty one allows the segment to be omitted.
    pub fn or(mut self, spans: Vec<Span<'static>>) -> Segment {
        self.variants.push(spans);
        self
    }

    /// Adds a shorter variant with a single style.
    pub fn or_text(self, text: impl Into<String>, style: Style) -> Segment {
        self.or(vec![Span::styled(text.into(), style)])
    }

    /// Allows the segment to be omitted.
    pub fn or_nothing(self) -> Segment {
        self.or(Vec::new())
    }

    /// Sets the minimum number of columns of the longest variant.
    pub fn columns(mut self, columns: usize) -> Segment {
        self.columns = columns;
        self
    }

    /// Reduces the gap before it to at most this.
    pub fn gap_at_most(self, gap: usize) -> Segment {
        let gap = gap.min(self.gap);
        self.gap(gap)
    }

    /// Sets the gap before it.
    pub fn gap(mut self, gap: usize) -> Segment {
        self.gap = gap;
        self
    }
}

/// The width of spans in columns.
pub fn width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| text::columns(&span.content, MAX_COLUMNS)).sum()
}

/// Joins the segments into a line of at most `room` columns, if their shortest variants fit.
pub fn fit(segments: &[Segment], room: usize) -> Vec<Span<'static>> {
    let mut chosen = vec![0_usize; segments.len()];
    loop {
        let line = join(segments, &chosen);
        if width(&line) <= room {
            return line;
        }
        let shorter = |index: &usize| chosen[*index] + 1 < segments[*index].variants.len();
        // Among equally important segments the last one is shortened first.
        let least_important = (0..segments.len()).rev().filter(shorter).min_by_key(|&index| segments[index].importance);
        match least_important {
            Some(index) => chosen[index] += 1,
            None => return line,
        }
    }
}

fn join(segments: &[Segment], chosen: &[usize]) -> Vec<Span<'static>> {
    let mut line: Vec<Span<'static>> = Vec::new();
    let mut padding = 0;
    for (segment, &variant) in segments.iter().zip(chosen) {
        let Some(spans) = segment.variants.get(variant).filter(|spans| !spans.is_empty()) else { continue };
        if !line.is_empty() {
            line.push(" ".repeat(padding + segment.gap).into());
        }
        padding = if variant == 0 { segment.columns.saturating_sub(width(spans)) } else { 0 };
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
    fn least_important_segment_is_shortened_first() {
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
        assert_eq!(line(1), "PROF   7", "the canvas clips the rest");
    }
}
