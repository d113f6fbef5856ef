//! The language of comments and names: lines of comments fit into 100 columns, documentation is
//! made of sentences, a type has a name of its own, and what belongs to one processor is in `arch`.
//!
//! The first word of a line tells whether it is a sentence, as a guess. A sentence that is guessed
//! wrong is written another way.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{sources, test_sources};

/// Most columns of a line that holds a comment alone.
const COLUMNS: usize = 100;

/// First words of fragments: `/// How long it sleeps.` (`/// Whether it sleeps.` describes a flag.)
const QUESTION_WORDS: [&str; 8] = ["what", "who", "whose", "whoever", "which", "how", "why", "nobody"];

/// First words of clauses that need a main clause after a comma: `/// If the file is gone.`
const CONJUNCTIONS: [&str; 8] = ["if", "when", "where", "until", "since", "as", "while", "because"];

/// First words of phrases that need a verb: `/// Of the file.`
const PREPOSITIONS: [&str; 20] = [
    "of", "at", "by", "for", "from", "with", "without", "to", "on", "in", "into", "upon", "about", "against", "behind",
    "besides", "between", "before", "after", "likewise",
];

/// Verbs that make a phrase a sentence.
const VERBS: [&str; 34] = [
    "is", "are", "was", "were", "has", "have", "does", "do", "can", "cannot", "may", "must", "will", "would", "needs",
    "makes", "takes", "runs", "gives", "holds", "stays", "means", "counts", "ends", "shows", "reads", "writes", "says",
    "returns", "keeps", "sends", "calls", "belongs", "comes",
];

/// Names of types that several modules define, where the module says which is meant.
const SHARED_NAMES: [&str; 5] = ["Function", "Mapping", "Sample", "TagFilter", "Thread"];

/// Words of the processor: registers and instructions.
const PROCESSOR_WORDS: [&str; 11] =
    ["asm!", "naked_asm!", "global_asm!", "rsp", "rip", "rbp", "rax", "rdi", "rsi", "REG_RSP", "REG_RIP"];

/// The paragraphs of documentation in a file: the line of each, and its text.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut marker = "";
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let found = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or("");
        let words = line.trim_start_matches(found).trim();
        match all.last_mut() {
            _ if found.is_empty() => {}
            Some((_, paragraph)) if found == marker && !words.is_empty() => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            _ if words.is_empty() => {
                marker = "";
                continue;
            }
            _ => all.push((number, words.to_owned())),
        }
        marker = found;
    }
    all
}

/// Returns whether a paragraph begins with a fragment.
fn is_fragment(paragraph: &str) -> bool {
    let sentence = paragraph.split_inclusive(['.', ';', ':']).next().unwrap_or(paragraph).to_lowercase();
    let words: Vec<&str> = sentence
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let Some(first) = words.first() else { return false };
    if paragraph.starts_with(['`', '[', '*', '|', '#', '<', '-']) {
        return false;
    }
    QUESTION_WORDS.contains(first)
        || CONJUNCTIONS.contains(first) && !sentence.contains(',')
        || PREPOSITIONS.contains(first) && !words.iter().any(|word| VERBS.contains(word))
}

/// The names of types that a file defines, with their lines.
fn types(text: &str) -> Vec<(String, usize)> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !word.starts_with("pub")).collect();
        if let [kind, name, ..] = words.as_slice()
            && ["struct", "enum", "trait", "union"].contains(kind)
        {
            let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(name.len());
            all.push((name[..end].to_owned(), number));
        }
    }
    all
}

fn assert_none(found: &[String], what: &str) {
    assert!(found.is_empty(), "{} {what}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn comments_fit_into_their_columns() {
    // A drawing may be wider.
    let is_drawn = |line: &str| line.contains(['│', '┌', '└', '─', '`']);
    let is_long = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS;
    let mut found = Vec::new();
    for (path, text) in sources().into_iter().chain(test_sources()) {
        let long = (1..).zip(text.lines()).filter(|(_, line)| is_long(line) && !is_drawn(line));
        found.extend(long.map(|(number, line)| format!("{path}:{number}: {} columns", line.chars().count())));
    }
    assert_none(&found, "comments are too wide");
    assert!(is_long(&format!("    // {}", "x".repeat(COLUMNS))));
}

#[test]
fn documentation_is_made_of_sentences() {
    let mut found = Vec::new();
    for (path, text) in sources().into_iter().chain(test_sources()) {
        let fragments = paragraphs(&text).into_iter().filter(|(_, paragraph)| is_fragment(paragraph));
        found.extend(fragments.map(|(line, paragraph)| format!("{path}:{line}: {paragraph}")));
    }
    assert_none(&found, "paragraphs begin with a fragment");
}

#[test]
fn fragments_are_told_from_sentences() {
    for fragment in ["Of the file.", "How long it sleeps.", "If the file is gone.", "What is kept: all.", "By process."]
    {
        assert!(is_fragment(fragment), "{fragment}");
    }
    for sentence in [
        "The file's build id.",
        "If it is gone, returns `None`.",
        "In a fork child there is one thread.",
        "`of` is kept.",
    ] {
        assert!(!is_fragment(sentence), "{sentence}");
    }
    let text = "//! Head,\n//! which goes on.\n//!\n//! More.\n\n/// One.\nfn f() {}\n/// Two,\n/// three.\n";
    let all: Vec<(usize, String)> = paragraphs(text);
    let expected = [(1, "Head, which goes on."), (4, "More."), (6, "One."), (8, "Two, three.")];
    assert_eq!(all, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn a_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // The folders of two processors define the same names.
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.contains("aarch64")) {
        for (name, line) in types(&text) {
            places.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    let shared: BTreeSet<&str> = SHARED_NAMES.into_iter().collect();
    let twice = places.iter().filter(|(name, places)| places.len() > 1 && !shared.contains(name.as_str()));
    let found: Vec<String> = twice.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert_none(&found, "names of types are used more than once");
    assert_eq!(types("pub(crate) struct Row<'a> {\nenum Kind {"), [("Row".to_owned(), 1), ("Kind".to_owned(), 2)]);
}

#[test]
fn the_agent_names_the_processor_in_arch_alone() {
    let mut found = Vec::new();
    for (path, text) in sources() {
        if !path.starts_with("agent/") || path.starts_with("agent/arch/") {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let words: BTreeSet<&str> =
                line.split(|letter: char| !letter.is_alphanumeric() && !"_!".contains(letter)).collect();
            found.extend(
                PROCESSOR_WORDS
                    .iter()
                    .filter(|word| words.contains(**word))
                    .map(|word| format!("{path}:{number}: {word}")),
            );
        }
    }
    assert_none(&found, "words of one processor are outside of arch");
}
