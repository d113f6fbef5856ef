//! What is taken away: one file a format. The numbers are `tally`'s; here they only get their form.

pub mod raw;
pub mod text;
