//! A page in the language of man.

use clap_mangen::roff::{Inline, Roff, roman};

/// A page being written.
#[derive(Default)]
pub(crate) struct Manual(pub(crate) Roff);

impl Manual {
    pub(crate) fn section(&mut self, heading: &str) {
        self.0.control("SH", [heading]);
    }

    pub(crate) fn part(&mut self, heading: &str) {
        self.0.control("SS", [heading]);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.control("PP", []).text([roman(text)]);
    }

    pub(crate) fn entry(&mut self, head: impl Into<Vec<Inline>>, text: &str) {
        self.0.control("TP", []).text(head).text([roman(text)]);
    }

    pub(crate) fn example(&mut self, lines: &[&str]) {
        self.0.control("PP", []).control("nf", []).control("RS", ["4"]);
        for line in lines {
            self.0.text([roman(*line)]);
        }
        self.0.control("RE", []).control("fi", []);
    }
}
