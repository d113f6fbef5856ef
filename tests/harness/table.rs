//! Parser of a batch table, the text that pprof's `-top` prints.

/// A row, as printed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Flat value in seconds.
    pub(crate) flat: f64,
    /// Flat value in percent of the total.
    pub(crate) flat_percent: f64,
    /// Running sum of `flat_percent`.
    pub(crate) sum_percent: f64,
    /// Cumulative value in seconds.
    pub(crate) cum: f64,
    /// Cumulative value in percent of the total.
    pub(crate) cum_percent: f64,
    /// Share of the wall-clock time in percent, in a table that is sorted by it.
    pub(crate) latency: Option<f64>,
    /// Name as printed, marks included.
    pub(crate) name: String,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Lines above the column heads.
    pub(crate) head: Vec<String>,
    /// The rows, in the order printed.
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Parses every table of a file.
    pub(crate) fn all(text: &str) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        let (mut head, mut has_latency) = (Vec::new(), false);
        for line in text.lines() {
            let heads = line.strip_suffix("lat%").unwrap_or(line);
            if heads.split_whitespace().eq(["flat", "flat%", "sum%", "cum", "cum%"]) {
                has_latency = heads != line;
                tables.push(Table { head: std::mem::take(&mut head), rows: Vec::new() });
            } else if let (Some(row), Some(table)) = (row(line, has_latency), tables.last_mut()) {
                table.rows.push(row);
            } else {
                head.push(line.to_owned());
            }
        }
        tables
    }

    /// Parses the last table of a file.
    pub(crate) fn last(text: &str) -> Option<Table> {
        Table::all(text).pop()
    }

    /// Returns the first row whose name contains `part`.
    pub(crate) fn row(&self, part: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name.contains(part))
    }
}

fn row(line: &str, has_latency: bool) -> Option<Row> {
    let mut rest = line;
    let mut word = || {
        let (word, after) = rest.trim_start().split_once(' ')?;
        rest = after;
        Some(word)
    };
    let (flat, flat_percent, sum_percent) = (seconds(word()?)?, percent(word()?)?, percent(word()?)?);
    let (cum, cum_percent) = (seconds(word()?)?, percent(word()?)?);
    // Of few samples, it has its margin: 80±3%.
    let latency = match has_latency {
        true => Some(word()?.trim_end_matches('%').split('±').next()?.parse().ok()?),
        false => None,
    };
    Some(Row { flat, flat_percent, sum_percent, cum, cum_percent, latency, name: rest.trim_start().to_owned() })
}

fn percent(word: &str) -> Option<f64> {
    word.strip_suffix('%')?.parse().ok()
}

/// Parses a value with pprof's unit.
fn seconds(word: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] =
        [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("mins", 60.0), ("hrs", 3600.0)];
    if word == "0" {
        return Some(0.0);
    }
    let digits = word.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &word[digits.len()..])?;
    Some(digits.parse::<f64>().ok()? * factor)
}
