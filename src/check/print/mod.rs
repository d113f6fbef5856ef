//! Prints a check: as text, as Markdown, as annotations of GitHub and as JSON. All read the same
//! [`CheckReport`].

mod json;
mod table;
mod text;

pub use table::{CheckReport, SideFacts};
