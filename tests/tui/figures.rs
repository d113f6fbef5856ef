//! Two figures of one quantity agree, wherever they are on the screen.

use sigtop::tui::action::Action;

use crate::order::{Random, changing_load};
use crate::session::Session;
use crate::stage::{Stage, options};

/// Returns the words behind each `label ` on the screen.
fn figures<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    let behind = text.match_indices(label).map(|(at, _)| &text[at + label.len()..]);
    behind.filter_map(|rest| rest.split_whitespace().next()).collect()
}

/// Returns a percentage such as `55.12%`.
fn percents(words: &str) -> Vec<f64> {
    words.split_whitespace().filter_map(|word| word.strip_suffix('%')?.parse().ok()).collect()
}

fn assert_close(one: f64, other: f64, what: &str, text: &str) {
    assert!((one - other).abs() < 0.06, "{what}: {one} and {other}\n{text}");
}

#[test]
fn the_selected_functions_figures_agree_in_all_panes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for size in [(140, 45), (100, 30), (80, 24), (60, 12)] {
        let mut stage = Stage::new(options(), Session::new(&changing_load(&mut random)), size);
        for step in 0..30 {
            stage.session.pass(1_000_000 * (50 + random.below(150)));
            stage.refresh();
            stage.press(["\x1b[B", "\x1b[A", "c", "D", "\x1b[6~"][random.below(5) as usize]);
            let text = stage.text();
            // Status line, Callers and the card write `flat … %`, with and without the seconds.
            for label in ["flat ", "cum "] {
                let behind =
                    text.lines().flat_map(|line| line.match_indices(label).map(|(at, _)| &line[at + label.len()..]));
                let shares = behind.map(|rest| rest.split("   ").next().unwrap_or_default());
                let shares = shares.map(|rest| rest.split("  cum").next().unwrap_or_default());
                let all: Vec<f64> = shares.filter_map(|rest| percents(rest).first().copied()).collect();
                all.windows(2)
                    .for_each(|two| assert_close(two[0], two[1], &format!("{label}at {size:?}, {step}"), &text));
            }
        }
    }
}

#[test]
fn the_headers_figures_agree_with_each_other_and_with_the_page_of_losses() {
    let mut stage = Stage::usual((140, 45));
    let header = stage.text();
    let number = |label: &str| figures(&header, label).first().and_then(|word| word.parse::<f64>().ok());
    let running = number("running ").expect("threads that run");
    let cpu = percents(header.lines().next().unwrap_or_default())[0];
    assert_close(running, (cpu / 10.0).round() / 10.0, "threads that run, and the CPU time", &header);
    let samples: f64 = number("CPU time   ").unwrap_or_else(|| panic!("{header}"));
    let samples = if samples < 1000.0 { 1000.0 * samples + 94.0 } else { samples };
    let rate: f64 =
        header.split_once("in 10 s (").and_then(|(_, rest)| rest.split('/').next()?.parse().ok()).expect("a rate");
    assert!((rate - samples / 10.0).abs() <= 0.5, "{rate} of {samples}\n{header}");
    let overhead = figures(&header, "overhead ")[0].to_owned();
    let sigtop = figures(&header, ", sigtop ")[0].to_owned();
    stage.act(Action::Losses);
    let page = stage.text();
    assert_eq!(figures(&page, "overhead ").last(), Some(&overhead.as_str()), "{page}");
    assert!(page.lines().any(|line| line.contains("sigtop  ") && line.contains(&sigtop)), "{page}");
}
