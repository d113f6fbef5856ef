//! The key table with the changes of the config file. Actions have names, under which the config
//! file assigns other keys to them.

use std::borrow::Cow;
use std::fmt;

use crossterm::event::{KeyCode, KeyModifiers};

use super::action::{Action, Motion, StepSize, Subject};
use super::keys::{Binding, Key, KeyContext, TABLE};
use super::layout::Pane;
use crate::keyword::did_you_mean::did_you_mean;

/// Maximum number of keys of one action.
const MAX_KEYS: usize = 8;

/// A key table.
#[derive(Clone, Debug)]
pub struct Keymap(Vec<Binding>);

impl Default for Keymap {
    fn default() -> Keymap {
        Keymap(TABLE.to_vec())
    }
}

/// The reason why a key cannot be assigned to an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeymapError {
    /// No action has this name.
    UnknownAction {
        /// The name in the config file.
        name: String,
        /// A similar name.
        suggestion: Option<&'static str>,
    },
    /// No terminal sends this key.
    UnknownKey {
        /// The key in the config file.
        key: String,
        /// The mistake, or the syntax of keys.
        remedy: &'static str,
    },
    /// The key is a character, and the action is available where characters are typed.
    Character {
        /// The key in the config file.
        key: String,
    },
    /// Another action that is available at the same time has the key.
    Conflict {
        /// The key.
        key: String,
        /// The name of the other action.
        other: String,
    },
    /// There is no key, or there are more than eight.
    Count,
}

impl fmt::Display for KeymapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeymapError::UnknownAction { name, suggestion: Some(suggestion) } => {
                write!(f, "unknown action `{name}`; did you mean `{suggestion}`?")
            }
            KeymapError::UnknownAction { name, suggestion: None } => {
                write!(f, "unknown action `{name}`; man sigtop lists them")
            }
            KeymapError::UnknownKey { key, remedy } => write!(f, "invalid key `{key}`: {remedy}"),
            KeymapError::Character { key } => {
                write!(f, "`{key}` would be typed as a character there; use a key with Ctrl- or Alt-")
            }
            KeymapError::Conflict { key, other } => {
                write!(f, "`{key}` is already assigned to `{other}`; assign another key to that action too")
            }
            KeymapError::Count => write!(f, "an action needs 1 to {MAX_KEYS} keys"),
        }
    }
}

impl std::error::Error for KeymapError {}

impl Keymap {
    /// The rows, in the order of the table.
    pub fn bindings(&self) -> &[Binding] {
        &self.0
    }

    /// Replaces the keys of an action. Call [`Keymap::check_conflicts`] after all actions have
    /// their keys.
    ///
    /// # Errors
    /// The name or a key is unknown, or a key is not possible for this action.
    pub fn rebind(&mut self, action: &str, keys: &[&str]) -> Result<(), KeymapError> {
        let Some(row) = self.0.iter().position(|binding| action_name(binding) == Some(action)) else {
            let suggestion = did_you_mean(action, TABLE.iter().filter_map(action_name));
            return Err(KeymapError::UnknownAction { name: action.to_owned(), suggestion });
        };
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(KeymapError::Count);
        }
        let binding = &mut self.0[row];
        let keys = keys.iter().map(|text| parse_key(text)).collect::<Result<Vec<Key>, _>>()?;
        let is_character = |(code, modifiers): &&Key| matches!(code, KeyCode::Char(_)) && modifiers.is_empty();
        if let Some(key) = keys
            .iter()
            .find(is_character)
            .filter(|_| matches!(binding.context, KeyContext::Everywhere | KeyContext::Typing))
        {
            return Err(KeymapError::Character { key: format_key(*key) });
        }
        binding.label = Cow::Owned(keys.iter().map(|key| format_key(*key)).collect::<Vec<_>>().join(" "));
        binding.keys = Cow::Owned(keys);
        Ok(())
    }

    /// Checks that no other action that is available at the same time has a key of this action.
    ///
    /// # Errors
    /// A key that another action has too.
    pub fn check_conflicts(&self, action: &str) -> Result<(), KeymapError> {
        for own in self.0.iter().filter(|binding| action_name(binding) == Some(action)) {
            let others =
                self.0.iter().filter(|other| !std::ptr::eq(*other, own) && overlap(own.context, other.context));
            for other in others {
                if let Some(key) = own.keys.iter().find(|key| other.keys.contains(key)) {
                    let other = action_name(other).unwrap_or(other.help).to_owned();
                    return Err(KeymapError::Conflict { key: format_key(*key), other });
                }
            }
        }
        Ok(())
    }
}

/// Whether two contexts can be active at the same time, so that a key in one hides the key in the
/// other.
fn overlap(one: KeyContext, other: KeyContext) -> bool {
    let is_overlay = |context| has_fixed_keys(context) || context == KeyContext::Typing;
    let is_pane = |context| matches!(context, KeyContext::Pane(_));
    if one == other {
        return true;
    }
    match (is_overlay(one), is_overlay(other)) {
        (false, false) => !(is_pane(one) && is_pane(other)),
        // An overlay lets only the keys of `Everywhere` through, and typing lets none through.
        (true, false) => other == KeyContext::Everywhere && one != KeyContext::Typing,
        (false, true) => one == KeyContext::Everywhere && other != KeyContext::Typing,
        (true, true) => false,
    }
}

/// Whether the keys of a context cannot be changed.
fn has_fixed_keys(context: KeyContext) -> bool {
    matches!(
        context,
        KeyContext::Prompt
            | KeyContext::Colon
            | KeyContext::Save
            | KeyContext::Question
            | KeyContext::Confirm
            | KeyContext::Ending
            | KeyContext::Successor
            | KeyContext::Picker
    )
}

/// The name of an action in the config file; `None` if its keys are fixed (prompts, questions,
/// Ctrl-C).
pub fn action_name(binding: &Binding) -> Option<&'static str> {
    if has_fixed_keys(binding.context) {
        return None;
    }
    Some(match &binding.action {
        Action::NextPane(1) => "next-pane",
        Action::NextPane(_) => "previous-pane",
        Action::Dashboard => "dashboard",
        Action::Alone(pane) => pane.word(),
        Action::Zoom => "full",
        Action::Move(Motion::Rows(1)) => "down",
        Action::Move(Motion::Rows(_)) => "up",
        Action::Move(Motion::Columns(1)) => "right",
        Action::Move(Motion::Columns(_)) => "left",
        Action::Move(Motion::Pages(1)) => "page-down",
        Action::Move(Motion::Pages(_)) => "page-up",
        Action::Move(Motion::First) => "first",
        Action::Move(Motion::Last) => "last",
        Action::Enter => match binding.context {
            KeyContext::Pane(Pane::Top) => "callers-of",
            KeyContext::Pane(Pane::Callers) => "unfold",
            KeyContext::Pane(Pane::Flame) => "zoom-in",
            KeyContext::Pane(Pane::Source) => "into-call",
            KeyContext::Pane(Pane::Threads) => "filter-thread",
            _ => "type",
        },
        Action::Center => "centre",
        Action::Out if binding.context == KeyContext::Pane(Pane::Flame) => "zoom-out",
        Action::Out => "back",
        Action::Forward => "forward",
        Action::TurnListing => "source-or-assembly",
        Action::TurnFlame => "turn",
        Action::BottomUp => "bottom-up",
        Action::Colour => "colour",
        Action::StopTyping => "stop-typing",
        Action::Prompt(subject) => subject.word(),
        Action::Colon => "command",
        Action::Save => "save",
        Action::FilterSelected(Subject::Focus) => "focus-selected",
        Action::FilterSelected(Subject::Ignore) => "ignore-selected",
        Action::FilterSelected(Subject::Hide) => "hide-selected",
        Action::HideModule => "hide-module",
        Action::Group => "group",
        Action::GroupWaits => "group-waits",
        Action::Roots => "roots",
        Action::Undo => "undo",
        Action::Redo => "redo",
        Action::ClearFilters => "clear-filters",
        Action::FindNext(1) => "find-next",
        Action::FindNext(_) => "find-previous",
        Action::SortColumn(1) if binding.context == KeyContext::Pane(Pane::Threads) => "sort-threads-right",
        Action::SortColumn(_) if binding.context == KeyContext::Pane(Pane::Threads) => "sort-threads-left",
        Action::SortColumn(1) => "sort-right",
        Action::SortColumn(_) => "sort-left",
        Action::FlatOrCum => "flat-or-cum",
        Action::Sort(_) => "sort-by-latency",
        Action::Names => "names",
        Action::Base => "base",
        Action::Idle => "idle-threads",
        Action::Kernel => "kernel",
        Action::OwnCode => "own-code",
        Action::Card => "card",
        Action::Window(1) => "window-longer",
        Action::Window(_) => "window-shorter",
        Action::Clock(clock) => clock.names().action,
        Action::Engine => "engine",
        Action::Rate(1) => "rate-up",
        Action::Rate(_) => "rate-down",
        Action::Reset => "reset",
        Action::Freeze => "freeze",
        Action::Step { newer: false, size: StepSize::Tenth } => "older",
        Action::Step { newer: true, size: StepSize::Tenth } => "newer",
        Action::Step { newer: false, size: StepSize::Tick } => "older-finely",
        Action::Step { newer: true, size: StepSize::Tick } => "newer-finely",
        Action::Step { newer: false, size: StepSize::Window } => "older-window",
        Action::Step { newer: true, size: StepSize::Window } => "newer-window",
        Action::Mark => "mark",
        Action::Baseline => "baseline",
        Action::Losses => "losses",
        Action::Copy => "copy",
        Action::Why => "why",
        Action::Holder => "holder",
        Action::DeepestStack => "deepest-stack",
        Action::Redraw => "redraw",
        Action::Suspend => "suspend",
        Action::Help => "help",
        Action::Quit if binding.context == KeyContext::Screen => "quit",
        Action::Quit => "quit-anywhere",
        _ => return None,
    })
}

/// Keys that are written by name.
const NAMED_KEYS: &[(&str, KeyCode)] = &[
    ("Space", KeyCode::Char(' ')),
    ("Tab", KeyCode::Tab),
    ("Shift-Tab", KeyCode::BackTab),
    ("Enter", KeyCode::Enter),
    ("Backspace", KeyCode::Backspace),
    ("Del", KeyCode::Delete),
    ("Ins", KeyCode::Insert),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("PgUp", KeyCode::PageUp),
    ("PgDn", KeyCode::PageDown),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
];

/// Parses a key: `f`, `Space`, `F5`, `Ctrl-x`, `Alt-Left`.
fn parse_key(text: &str) -> Result<Key, KeymapError> {
    let unknown = |remedy| Err(KeymapError::UnknownKey { key: text.to_owned(), remedy });
    const EXAMPLES: &str = "keys are written f, F, Space, Tab, PgUp, F5, Ctrl-x, Alt-x";
    let (modifiers, rest) = match text.split_once('-').filter(|(_, rest)| !rest.is_empty()) {
        Some((word, rest)) if word.eq_ignore_ascii_case("ctrl") => (KeyModifiers::CONTROL, rest),
        Some((word, rest)) if word.eq_ignore_ascii_case("alt") => (KeyModifiers::ALT, rest),
        _ => (KeyModifiers::NONE, text),
    };
    let named = NAMED_KEYS.iter().find(|(name, _)| name.eq_ignore_ascii_case(rest)).map(|(_, code)| *code);
    let function = || rest.strip_prefix(['F', 'f'])?.parse().ok().filter(|number| (1..=12).contains(number));
    let mut characters = rest.chars();
    let code = match (named, characters.next(), characters.next()) {
        (Some(code), ..) => code,
        (None, Some(c), None) if !c.is_control() => KeyCode::Char(c),
        _ => match function() {
            Some(number) => KeyCode::F(number),
            None => return unknown(EXAMPLES),
        },
    };
    let code = match code {
        KeyCode::Char(c) if modifiers == KeyModifiers::CONTROL => KeyCode::Char(c.to_ascii_lowercase()),
        code => code,
    };
    match code {
        KeyCode::Char('h' | 'i' | 'j' | 'm' | '[') if modifiers == KeyModifiers::CONTROL => {
            unknown("terminals send it as Backspace, Tab, Enter or Esc")
        }
        KeyCode::Char('c') if modifiers == KeyModifiers::CONTROL => unknown("Ctrl-C always quits"),
        KeyCode::Char(c)
            if modifiers == KeyModifiers::CONTROL
                && !(c.is_ascii_lowercase() || [' ', '\\', ']', '^', '_'].contains(&c)) =>
        {
            unknown("terminals send Ctrl- with letters, Space and \\ ] ^ _ only")
        }
        code => Ok((code, modifiers)),
    }
}

/// Formats a key as [`parse_key`] reads it.
fn format_key((code, modifiers): Key) -> String {
    let named = NAMED_KEYS.iter().find(|(_, named)| *named == code).map(|(name, _)| (*name).to_owned());
    let name = named.unwrap_or_else(|| match code {
        KeyCode::Char(c) => c.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::Esc => "Esc".to_owned(),
        other => format!("{other:?}"),
    });
    let before = match modifiers {
        KeyModifiers::CONTROL => "Ctrl-",
        KeyModifiers::ALT => "Alt-",
        _ => "",
    };
    format!("{before}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keys;
    use crossterm::event::KeyEvent;
    use std::collections::HashSet;

    #[test]
    fn action_names_are_unique() {
        let mut seen = HashSet::new();
        for binding in TABLE {
            let fixed = has_fixed_keys(binding.context) || matches!(binding.action, Action::Back | Action::Interrupt);
            match action_name(binding) {
                Some(name) => assert!(seen.insert(name), "{name} twice"),
                None => assert!(fixed, "{:?} has no name", binding.action),
            }
        }
    }

    #[test]
    fn keys_of_the_table_survive_formatting_and_parsing() {
        for (code, modifiers) in TABLE.iter().flat_map(|binding| binding.keys.iter()) {
            let written = format_key((*code, *modifiers));
            if *code != KeyCode::Esc && written != "Ctrl-c" {
                assert_eq!(parse_key(&written), Ok((*code, *modifiers)), "{written}");
            }
        }
    }

    #[test]
    fn rebound_keys_trigger_the_action() {
        let mut keymap = Keymap::default();
        keymap.rebind("freeze", &["Ctrl-S", "F5"]).unwrap();
        keymap.check_conflicts("freeze").unwrap();
        let action = |code, modifiers| {
            keys::find_action(keymap.bindings(), &[KeyContext::Screen], KeyEvent::new(code, modifiers))
        };
        assert!(matches!(action(KeyCode::Char('s'), KeyModifiers::CONTROL), Some(Action::Freeze)));
        assert!(matches!(action(KeyCode::F(5), KeyModifiers::NONE), Some(Action::Freeze)));
        assert!(action(KeyCode::Char(' '), KeyModifiers::NONE).is_none());
        assert!(keymap.bindings().iter().any(|binding| binding.label == "Ctrl-s F5"));
    }

    #[test]
    fn impossible_keys_are_refused_with_a_reason() {
        let refused = |name: &str, keys: &[&str]| {
            let mut keymap = Keymap::default();
            let rebound = keymap.rebind(name, keys).map_err(|error| error.to_string());
            rebound.and_then(|()| keymap.check_conflicts(name).map_err(|error| error.to_string())).unwrap_err()
        };
        assert!(refused("freze", &["a"]).contains("did you mean `freeze`?"));
        assert!(refused("freeze", &["Hyper-x"]).contains("keys are written"));
        assert!(refused("freeze", &["Ctrl-i"]).contains("Tab"));
        assert!(refused("freeze", &["Ctrl-ß"]).contains("letters"));
        assert!(refused("freeze", &["\u{7}"]).contains("keys are written"));
        assert!(refused("freeze", &["f"]).contains("`focus`"));
        assert!(refused("freeze", &["c"]).contains("`centre`"), "an inner context would hide it");
        assert!(refused("freeze", &[]).contains("1 to"));
        assert!(refused("stop-typing", &["x"]).contains("Ctrl-"));
        assert!(refused("redraw", &["Ctrl-w"]).contains("already assigned"));
    }

    #[test]
    fn keys_can_be_swapped() {
        let mut keymap = Keymap::default();
        keymap.rebind("focus", &["i"]).unwrap();
        assert!(keymap.check_conflicts("focus").is_err());
        keymap.rebind("ignore", &["f"]).unwrap();
        keymap.check_conflicts("focus").and_then(|()| keymap.check_conflicts("ignore")).unwrap();
    }
}
