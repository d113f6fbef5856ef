//! Saving: the requests to the session, and the messages about their results.

use std::path::PathBuf;

use sigtop::keyword::Keyword;
use sigtop::session::{Command, SavedFile};
use sigtop::tui::action::Action;

use crate::stage::Stage;

const UP: &str = "\x1b[A";
const TAB: &str = "\t";

/// Returns the one request to save that these keys cause: the path, the format, and whether only
/// the shown samples are saved.
fn asked(keys: &str) -> Option<(String, &'static str, bool)> {
    let mut stage = Stage::usual((100, 30));
    stage.press(keys);
    let saves = stage.session.heard.iter().filter_map(|command| match command {
        Command::Save(save) => Some(save),
        _ => None,
    });
    let saves: Vec<_> = saves.collect();
    assert!(saves.len() < 2);
    saves.first().map(|save| (save.path.display().to_string(), save.format.name(), save.is_shown))
}

#[test]
fn the_name_is_offered_and_its_ending_is_the_format() {
    assert_eq!(asked("e\r"), Some(("server-2m14s.sigtop".to_owned(), "sigtop", false)));
    assert_eq!(asked(&format!("e{TAB}\r")), Some(("server-2m14s.pb.gz".to_owned(), "proto", false)));
    assert_eq!(asked("e\x15/tmp/a.txt\r"), Some(("/tmp/a.txt".to_owned(), "text", false)));
    assert_eq!(asked("e\x15/tmp/a\r"), None, "no format, no file");
    assert_eq!(asked("e\x1b"), None);
}

#[test]
fn what_is_shown_alone_can_be_saved() {
    let (_, _, is_shown) = asked(&format!("e{TAB}{UP}\r")).expect("something is saved");
    assert!(is_shown);
    let (_, _, is_shown) = asked(&format!("e{TAB}{UP}{UP}\r")).expect("something is saved");
    assert!(!is_shown);
    let mut stage = Stage::usual((140, 45));
    stage.press(&format!("e{TAB}{UP}"));
    assert!(stage.text().contains("· last 10 s"), "{}", stage.text());
    stage.press("\x1b");
    stage.press(" []mm");
    stage.press(&format!("e{TAB}{UP}"));
    assert!(stage.text().contains("· span of 100 ms"), "{}", stage.text());
}

#[test]
fn the_last_format_is_offered_again() {
    let mut stage = Stage::usual((100, 30));
    stage.press("e\x15a.txt\re");
    assert!(stage.text().contains("save: server-2m14s.txt"), "{}", stage.text());
}

#[test]
fn what_came_of_it_is_said() {
    let mut stage = Stage::usual((100, 30));
    stage.press("e\r");
    assert!(stage.text().contains("saving server-2m14s.sigtop"), "{}", stage.text());
    stage.act(Action::Saved(Ok(SavedFile { path: Some(PathBuf::from("a.sigtop")), bytes: 14_541 })));
    assert!(stage.text().contains("saved: a.sigtop (14.2 KiB)"), "{}", stage.text());
    stage.press("j");
    assert!(!stage.text().contains("saved:"), "it goes with the next key");
    let sentence = "cannot write a.sigtop: no space left on device; make room, or write to another file system";
    stage.act(Action::Saved(Err(sentence.to_owned())));
    stage.press("j");
    assert!(stage.text().contains("cannot write a.sigtop: no space left"), "an error stays");
}
