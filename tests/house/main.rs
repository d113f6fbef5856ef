//! Rules for the source as a whole: allowed imports, no import cycles, and the language of names
//! and comments.

mod cycles;
mod language;
mod paths;
mod rules;
mod sources;
