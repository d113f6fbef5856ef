//! The text in a box of the flame graph: a name, or the names of a folded chain.

use std::borrow::Cow;

use crate::tui::fit_names::{self, NameToFit};
use crate::tui::name_style::NameStyle;
use crate::tui::text;

/// Minimum columns for a truncated name.
const LEAST_CUT: usize = 8;
/// The text between two names of a chain.
const NEXT: &str = " › ";

/// Returns as much of a name as fits.
pub(super) fn fit_name(name: &str, room: usize) -> Cow<'_, str> {
    match fit_names::fit_name(&NameToFit { full: name, short: name, room }, NameStyle::Full) {
        cut if room < LEAST_CUT && cut.ends_with('…') => Cow::Borrowed(""),
        name => name,
    }
}

/// Returns the names of a folded chain as far as they fit: `⋯ main › … › run › worker (17)`.
/// `focus` is the name that is kept longest; then come the ends of the chain, then the names before
/// the focus.
pub(super) fn fit_chain(names: &[&str], focus: usize, room: usize) -> String {
    let count = format!(" ({})", names.len());
    let mut shown = vec![focus];
    let longest = |shown: &[usize]| write_chain(names, shown) + &count;
    let fits = |shown: &[usize]| text::columns(&longest(shown), room) <= room;
    if !fits(&shown) {
        let name = fit_name(names[focus], room.saturating_sub(2));
        let with_count = format!("⋯ {name}{count}");
        return match () {
            () if name.is_empty() => if room > 0 { "⋯" } else { "" }.to_owned(),
            () if text::columns(&with_count, room) <= room => with_count,
            () => format!("⋯ {name}"),
        };
    }
    let inner = (0..focus).rev().chain(focus + 1..names.len());
    for index in [names.len() - 1, 0].into_iter().chain(inner) {
        let mut more = shown.clone();
        if let Err(at) = more.binary_search(&index) {
            more.insert(at, index);
        }
        if !fits(&more) {
            break;
        }
        shown = more;
    }
    longest(&shown)
}

/// Writes the names at these positions, with an ellipsis where others are left out.
fn write_chain(names: &[&str], shown: &[usize]) -> String {
    let mut text = String::from("⋯ ");
    let mut next = 0;
    for (position, &index) in shown.iter().enumerate() {
        if position > 0 {
            text.push_str(NEXT);
        }
        if position > 0 && index > next {
            text.push('…');
            text.push_str(NEXT);
        }
        text.push_str(names[index]);
        next = index + 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["_start", "__libc_start_main", "std::rt::lang_start", "rg::main", "rg::run"];

    #[test]
    fn chains_lose_names_from_the_middle() {
        assert_eq!(
            fit_chain(&NAMES, 4, 99),
            "⋯ _start › __libc_start_main › std::rt::lang_start › rg::main › rg::run (5)"
        );
        assert_eq!(fit_chain(&NAMES, 4, 50), "⋯ _start › … › rg::main › rg::run (5)");
        assert_eq!(fit_chain(&NAMES, 4, 30), "⋯ _start › … › rg::run (5)");
        assert_eq!(fit_chain(&NAMES, 4, 15), "⋯ rg::run (5)");
        assert_eq!(fit_chain(&NAMES, 4, 9), "⋯ rg::run");
        assert_eq!(fit_chain(&NAMES, 4, 5), "⋯ run");
        assert_eq!((fit_chain(&NAMES, 4, 1), fit_chain(&NAMES, 4, 0)), ("⋯".to_owned(), String::new()));
    }

    #[test]
    fn name_under_the_cursor_is_kept() {
        assert_eq!(fit_chain(&NAMES, 2, 30), "⋯ std::rt::lang_start (5)");
        assert_eq!(fit_chain(&NAMES, 0, 30), "⋯ _start › … › rg::run (5)");
    }

    #[test]
    fn every_label_fits() {
        let names = ["漢字漢字", "a::b::c", "x", "{{closure}}"];
        for room in 0..60 {
            for focus in 0..names.len() {
                assert!(text::columns(&fit_chain(&names, focus, room), 99) <= room, "{room} {focus}");
                assert!(text::columns(&fit_name(names[focus], room), 99) <= room);
            }
        }
    }
}
