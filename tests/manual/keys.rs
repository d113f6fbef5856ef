//! The keys, the words for `:` and the settings, by the tables of the program.

use clap_mangen::roff::{bold, italic, roman};
use sigtop::app::config::SETTINGS;
use sigtop::tui::command::table;
use sigtop::tui::keymap;
use sigtop::tui::keys::{Binding, KeyContext, TABLE};
use sigtop::tui::layout::Pane;
use sigtop::tui::pane::help::lines::HelpLine;
use sigtop::tui::pane::help::pages::{self, HelpPage, PageFacts};

use crate::page::Manual;

const SCREEN: &[KeyContext] = &[KeyContext::Screen, KeyContext::Panes, KeyContext::Everywhere];
const OTHERS: [(&str, &[KeyContext]); 6] = [
    ("In prompts and on the command line", &[KeyContext::Prompt, KeyContext::Colon]),
    ("In the list of processes", &[KeyContext::Picker]),
    ("In the save dialog", &[KeyContext::Save]),
    ("Sampling by setitimer", &[KeyContext::Confirm]),
    ("After the end of a process", &[KeyContext::Successor]),
    ("Quitting with a launched program", &[KeyContext::Question, KeyContext::Ending]),
];

/// Headings, and the contexts whose keys are under them.
pub(crate) fn key_groups() -> Vec<(String, Vec<KeyContext>)> {
    let panes = Pane::ALL.map(|pane| (format!("In {}", pane.name()), KeyContext::of_pane(pane)));
    let others = OTHERS.map(|(heading, contexts)| (heading.to_owned(), contexts.to_vec()));
    let screen = ("On the screen".to_owned(), SCREEN.to_vec());
    [screen].into_iter().chain(panes).chain(others).collect()
}

pub(crate) fn keys(manual: &mut Manual) {
    manual.section("KEYS");
    manual.text(
        "The word beside a key is the action's name in the config file, which can assign other keys to it. \
         The mouse selects rows and boxes, and scrolls. With Shift it selects text.",
    );
    for (heading, places) in key_groups() {
        manual.part(&heading);
        for binding in TABLE.iter().filter(|binding| places.contains(&binding.context)) {
            key(manual, binding);
        }
    }
}

fn key(manual: &mut Manual, binding: &Binding) {
    let mut head = vec![bold(binding.label.replace(' ', "  "))];
    if let Some(name) = keymap::action_name(binding) {
        head.extend([roman("   "), italic(name)]);
    }
    manual.entry(head, binding.help);
}

pub(crate) fn words(manual: &mut Manual) {
    manual.section("WHAT COLUMNS AND WORDS MEAN");
    let facts = PageFacts {
        table: TABLE,
        facts: None,
        explanation: None,
        summary: None,
        thread: None,
        chain: Vec::new(),
        now_ns: 0,
    };
    // The text is wide enough that nothing is wrapped; the second column contains the descriptions.
    let columns = pages::columns(HelpPage::Help, &facts, 60_000);
    let words = columns.last().expect("keys and words");
    for line in words.iter().skip(1).take_while(|line| **line != HelpLine::Blank) {
        if let HelpLine::Entry(word, meaning) = line {
            manual.entry([bold(word)], meaning);
        }
    }
}

pub(crate) fn commands(manual: &mut Manual) {
    manual.section("COMMAND LINE");
    manual
        .text("The key : opens a line for commands in pprof's words. Tab completes a word, Up recalls earlier lines.");
    for command in &table::COMMANDS {
        manual.entry([bold(command.usage)], &command.help());
    }
}

pub(crate) fn settings(manual: &mut Manual) {
    manual.section("CONFIG FILE");
    manual.text(
        "A TOML file. The command line overrides it. A mistake is reported with line and column, and nothing starts.",
    );
    let mut tables: Vec<&str> = SETTINGS.iter().map(|setting| setting.table).collect();
    tables.dedup();
    for table in tables {
        if !table.is_empty() {
            manual.part(&format!("[{table}]"));
        }
        for setting in SETTINGS.iter().filter(|setting| setting.table == table) {
            manual.entry([bold(setting.name), roman(format!(" = {}", setting.example))], &setting.help());
        }
    }
    manual.part("[keys]");
    manual.text("An action's name, and the key or keys that replace those listed under KEYS. Keys are spelled as they are there.");
    manual.example(&["[keys]", "freeze = [\"Space\", \"F5\"]", "stop-typing = \"Ctrl-^\""]);
}
