//! Rules for the source as a whole: allowed imports, no import cycles, the language of names and
//! comments, and references from pages to tests.

mod cycles;
mod language;
mod pages;
mod paths;
mod rules;
mod sources;
