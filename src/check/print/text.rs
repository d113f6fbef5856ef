//! A check as text, as Markdown, and as workflow commands of GitHub.

use super::table::{CheckReport, TableRow};
use crate::check::verdict::Verdict;
use crate::symbols::sanitize::sanitize;
use crate::tally::measure::count;

/// Minimum width of a column.
const COLUMN: usize = 9;

impl CheckReport {
    /// The text: the verdict and its reasons, both sides, and the table.
    pub fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        lines.extend(self.result.reasons.iter().chain(&self.needed_words()).map(|reason| format!("  {reason}")));
        lines.push(format!("base: {}", self.side_words(0)));
        lines.push(format!("new:  {}", self.side_words(1)));
        lines.extend(self.warnings().into_iter().map(|warning| format!("note: {warning}")));
        lines.push(String::new());
        let heads = self.heads().into_iter().map(str::to_owned).collect();
        let (listed, others) = self.listed();
        let mut rows = vec![TableRow { columns: heads, name: "function".to_owned() }];
        rows.extend(listed.into_iter().map(|row| self.row_words(row)));
        rows.push(self.total_words());
        let width = |column: usize| rows.iter().map(|row| row.columns[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].columns.len()).map(|column| width(column).max(COLUMN)).collect();
        for TableRow { columns, name } in &rows {
            let columns: Vec<String> =
                columns.iter().zip(&widths).map(|(text, width)| format!("{text:>width$}")).collect();
            lines.push(format!("{}  {name}", columns.join(" ")));
        }
        lines.extend(self.rest_words(others));
        lines.iter().map(|line| sanitize(line) + "\n").collect()
    }

    /// A sentence about the functions that the table leaves out.
    fn rest_words(&self, others: usize) -> Option<String> {
        let omitted = self.result.comparison.omitted.len();
        let mut parts = Vec::new();
        if others > 0 {
            parts.push(format!("{} more functions whose changes chance explains", count(others as u64)));
        }
        if omitted > 0 {
            parts.push(format!("{} functions with fewer than 10 samples", count(omitted as u64)));
        }
        (!parts.is_empty()).then(|| format!("not shown: {}", parts.join(", ")))
    }

    /// Markdown, as comments on pull requests show it.
    pub fn markdown(&self) -> String {
        let cell = |text: &str| format!("`{}`", sanitize(text).replace('`', "'").replace('|', "\\|"));
        let line = |text: &str| sanitize(text).replace('<', "&lt;");
        let mut out = format!("### sigtop check: {}\n\n", line(&self.headline()));
        for reason in self.result.reasons.iter().chain(&self.needed_words()) {
            out += &format!("* {}\n", line(reason));
        }
        let heads = self.heads();
        out += &format!("\n| {} | function |\n|{} --- |\n", heads.join(" | "), " ---: |".repeat(heads.len()));
        let (listed, others) = self.listed();
        let rows = listed.into_iter().map(|row| self.row_words(row)).chain([self.total_words()]);
        for TableRow { columns, name } in rows {
            out += &format!("| {} | {} |\n", columns.join(" | "), cell(&name));
        }
        out += "\n";
        out += &self.rest_words(others).map_or_else(String::new, |rest| format!("{rest}\n\n"));
        out += &format!("base: {}  \nnew: {}\n", line(&self.side_words(0)), line(&self.side_words(1)));
        for warning in self.warnings() {
            out += &format!("\n> {}\n", line(&warning));
        }
        out
    }

    /// Workflow commands of GitHub Actions, which annotate a run, and the text.
    pub fn github(&self) -> String {
        let escape = |text: &str| sanitize(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let level = match self.result.verdict {
            Verdict::Fine => "notice",
            Verdict::Regression => "error",
            Verdict::Inconclusive => "warning",
        };
        let mut out = format!("::{level} title=sigtop check::{}\n", escape(&self.headline()));
        for reason in self.result.reasons.iter().chain(&self.needed_words()) {
            out += &format!("::{level} title=sigtop check::{}\n", escape(reason));
        }
        for warning in self.warnings() {
            out += &format!("::notice title=sigtop check::{}\n", escape(&warning));
        }
        out + &self.text()
    }
}
