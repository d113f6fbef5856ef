//! What was found out about files, as plain text.
//!
//! ```text
//! /usr/lib/x86_64-linux-gnu/libz.so.1
//!   build id    5d0e2b…
//!   names       only what it exports, 88 functions; it was stripped
//!   lines       none: it has no line tables
//!   debug file  none was found
//!               /usr/lib/debug/.build-id/5d/0e2b….debug: nothing
//!   to do       apt install zlib1g-dbgsym (from the archive debian-debug)
//! ```

use std::fmt::Write;

use crate::symbols::inquiry::Inquiry;

/// Columns of what is found, its gap included.
const HEAD_COLUMNS: usize = 12;

/// One file after another.
pub fn text(inquiries: &[Inquiry]) -> String {
    let mut out = String::new();
    for (index, inquiry) in inquiries.iter().enumerate() {
        let blank = if index > 0 { "\n" } else { "" };
        // A String takes everything.
        let _ = writeln!(out, "{blank}{}", inquiry.path);
        for (head, words) in inquiry.findings() {
            let _ = writeln!(out, "  {head:HEAD_COLUMNS$}{words}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::inquiry::{LineSource, NameSource};

    #[test]
    fn a_stripped_file_says_what_would_help() {
        let inquiry = Inquiry {
            path: "/opt/app".to_owned(),
            opened: Ok("/proc/7/root/opt/app".to_owned()),
            build_id: "12ab".to_owned(),
            functions: 1,
            names: NameSource::Exports,
            lines: LineSource::Nothing,
            debug_file: None,
            looked: vec![("/opt/app.debug".to_owned(), "another checksum".to_owned())],
            remedies: vec!["build it with -g".to_owned(), "or so".to_owned()],
        };
        let gone = Inquiry { opened: Err("it is gone".to_owned()), ..inquiry.clone() };
        let told = "\
/opt/app
  build id    12ab
  opened as   /proc/7/root/opt/app
  names       only what it exports, 1 function; it was stripped
  lines       none: it has no line tables
  debug file  none was found
              /opt/app.debug: another checksum
  to do       build it with -g
              or so

/opt/app
  build id    12ab
  names       none: it is gone
";
        assert_eq!(text(&[inquiry, gone]), told);
    }
}
