//! The man page and the completions: made from the tables that the program itself reads, so they cannot say anything else.
//!
//! `SIGTOP_WRITE_MANUAL=1 cargo test --test manual` writes them to `assets/`; otherwise the test fails when what stands
//! there is not what the tables say. Installing needs nothing of this.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use clap_complete::{Generator, Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use sigtop::cli::Cli;
use sigtop::config::SETTINGS;
use sigtop::tui::keymap;
use sigtop::tui::keys::{Binding, Place, TABLE};
use sigtop::tui::page::{self, Line, Page};
use sigtop::tui::{setting, words};

const WRITE: &str = "SIGTOP_WRITE_MANUAL";

fn assets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}

/// What stands in `assets/` is this text; or is made so.
fn stands(name: &str, text: &str) {
    let path = assets(name);
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("in a directory")).expect("writable");
        fs::write(&path, text).expect("writable");
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_else(|error| panic!("assets/{name}: {error}"));
    let line = there.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = line.unwrap_or_else(|| there.lines().count().min(text.lines().count()));
    assert!(there == text, "assets/{name} is stale from line {}: {WRITE}=1 cargo test --test manual", line + 1);
}

/// A page being written.
#[derive(Default)]
struct Manual(Roff);

impl Manual {
    fn section(&mut self, heading: &str) {
        self.0.control("SH", [heading]);
    }

    fn part(&mut self, heading: &str) {
        self.0.control("SS", [heading]);
    }

    fn text(&mut self, text: &str) {
        self.0.control("PP", []).text([roman(text)]);
    }

    fn entry(&mut self, head: impl Into<Vec<Inline>>, text: &str) {
        self.0.control("TP", []).text(head).text([roman(text)]);
    }

    fn example(&mut self, lines: &[&str]) {
        self.0.control("PP", []).control("nf", []).control("RS", ["4"]);
        for line in lines {
            self.0.text([roman(*line)]);
        }
        self.0.control("RE", []).control("fi", []);
    }
}

const PLACES: [(&str, &[Place]); 12] = [
    ("On the screen", &[Place::Screen, Place::Panes, Place::Everywhere]),
    ("In Top", &[Place::Top]),
    ("In Callers", &[Place::Callers]),
    ("In Flame", &[Place::Flame]),
    ("In Source", &[Place::Source]),
    ("In Threads", &[Place::Threads]),
    ("In Output", &[Place::Output, Place::Typing]),
    ("In prompts and on the command line", &[Place::Prompt, Place::Colon]),
    ("In the list of processes", &[Place::Picker]),
    ("Saving", &[Place::Save]),
    ("Sampling by setitimer", &[Place::Confirm]),
    ("Quitting with a launched program", &[Place::Question, Place::Ending]),
];

fn keys(manual: &mut Manual) {
    manual.section("KEYS");
    manual.text(
        "The name behind a key is the action's name in the config file, where other keys can be given to it. \
         The mouse selects rows and boxes and scrolls; with Shift it selects text as everywhere.",
    );
    for (heading, places) in PLACES {
        manual.part(heading);
        for binding in TABLE.iter().filter(|binding| places.contains(&binding.place)) {
            key(manual, binding);
        }
    }
}

fn key(manual: &mut Manual, binding: &Binding) {
    let mut head = vec![bold(binding.label.replace(' ', "  "))];
    if let Some(name) = keymap::name(binding) {
        head.extend([roman("   "), italic(name)]);
    }
    manual.entry(head, binding.words);
}

fn words(manual: &mut Manual) {
    manual.section("WHAT COLUMNS AND WORDS MEAN");
    // Wide enough that nothing is wrapped; the second column holds the words.
    let columns = page::columns(Page::Help, TABLE, None, None, 60_000);
    let words = columns.last().expect("keys and words");
    for line in words.iter().skip(1).take_while(|line| **line != Line::Blank) {
        if let Line::Entry(word, meaning) = line {
            manual.entry([bold(word)], meaning);
        }
    }
}

fn commands(manual: &mut Manual) {
    manual.section("COMMAND LINE");
    manual.text(
        "The key : opens a line for commands in pprof's words. Tab goes on with a word, Up brings older lines back.",
    );
    for word in &words::WORDS {
        manual.entry([bold(word.form)], word.words);
    }
}

fn settings(manual: &mut Manual) {
    manual.section("CONFIG FILE");
    manual.text(
        "A TOML file. The command line wins over it. What is wrong in it is said with line and column, and nothing starts.",
    );
    let mut tables: Vec<&str> = SETTINGS.iter().map(|setting| setting.table).collect();
    tables.dedup();
    for table in tables {
        if !table.is_empty() {
            manual.part(&format!("[{table}]"));
        }
        for setting in SETTINGS.iter().filter(|setting| setting.table == table) {
            manual.entry([bold(setting.name), roman(format!(" = {}", setting.example))], setting.words);
        }
    }
    manual.part("[keys]");
    manual.text("An action's name, and its key or keys instead of those listed under KEYS. Keys are written as there.");
    manual.example(&["[keys]", "freeze = [\"Space\", \"F5\"]", "stop-typing = \"Ctrl-^\""]);
}

/// What cannot be made from a table.
fn prose(manual: &mut Manual) {
    manual.section("EXIT STATUS");
    for (status, meaning) in [
        ("n", "the launched program's own status; 128+n if signal n ended it"),
        ("0", "with --pid; or q left a launched program running"),
        ("2", "wrong arguments, or a wrong config file"),
        ("125", "sigtop itself failed"),
        ("126", "the program cannot be run, or the process cannot be watched"),
        ("127", "the program or the process was not found"),
    ] {
        manual.entry([bold(status)], meaning);
    }
    manual.section("ENVIRONMENT");
    for (name, meaning) in [
        ("NO_COLOR", "if set, no colours: bold, dim and reverse only"),
        ("TERM, COLORTERM", "how many colours the terminal has: 24 bits, 256, 16 or none"),
        ("COLORFGBG", "a light background, where the terminal says so: the theme light is taken by itself"),
        ("LC_ALL, LC_CTYPE, LANG", "the first that is set must name UTF-8, or only ASCII is written"),
        ("XDG_CONFIG_HOME", "where the config file is: its directory sigtop"),
        ("XDG_RUNTIME_DIR, XDG_CACHE_HOME", "where the agent's library and the socket are kept"),
        ("LD_PRELOAD", "the agent is put before what is in it"),
    ] {
        manual.entry([bold(name)], meaning);
    }
    manual.section("FILES");
    for (name, meaning) in [
        ("$XDG_CONFIG_HOME/sigtop/config.toml", "settings; without the variable ~/.config/sigtop/config.toml"),
        (
            "$XDG_RUNTIME_DIR/sigtop/, ~/.cache/sigtop/, root's /var/cache/sigtop/, /tmp/sigtop-UID/",
            "the agent's library and the socket, in the first of them that is private and may hold programs",
        ),
    ] {
        manual.entry([italic(name)], meaning);
    }
    manual.section("WHAT IT CANNOT DO");
    for text in [
        "The agent is preloaded, so a program must be linked dynamically, for 64 bits, and without setuid or file \
         capabilities; and a process that runs already can be watched only if it was started with the agent.",
        "Only Linux on x86-64. Code made at run time (JIT) has no names.",
        "A sample is a tick of a timer: what takes less than a tick is seen by chance, and a share of few samples is \
         uncertain. Time in the kernel is counted with the function that called it.",
        "Stacks are walked by unwind tables. Where a program has none, a stack ends early and is counted as cut.",
        "If a program uses the signal or the timer itself, the agent leaves it alone and takes another, or none.",
    ] {
        manual.text(text);
    }
    in_gperftools_place(manual);
    manual.section("EXAMPLES");
    for (words, lines) in [
        ("Start a program and watch it:", &["sigtop -- ./server --port 8080"][..]),
        ("Start one with the agent, and watch it later:", &["eval $(sigtop env); ./server &", "sigtop --pid $!"]),
        ("Where it waits, not only where it computes:", &["sigtop --clock real -- ./server"]),
        (
            "A profile in a file, without a viewer, for pprof or sigtop report:",
            &["LD_PRELOAD=$(sigtop env --path) CPUPROFILE=out.prof ./server", "sigtop report --top out.prof"],
        ),
        ("A table every ten seconds, into a file:", &["sigtop --interval 10s --table top.txt -- ./server"]),
    ] {
        manual.text(words);
        manual.example(lines);
    }
    manual.section("SEE ALSO");
    manual.0.text([bold("pprof"), roman("(1), "), bold("perf"), roman("(1), "), bold("setitimer"), roman("(2), ")]);
    manual.0.text([bold("timer_create"), roman("(2), "), bold("ld.so"), roman("(8)")]);
}

/// The variables of gperftools' CPU profiler, as the agent understands them.
fn in_gperftools_place(manual: &mut Manual) {
    manual.section("IN GPERFTOOLS' PLACE");
    manual.text(
        "A program that carries the agent, by LD_PRELOAD or because it is linked with -lprofiler and finds the agent there \
         (sigtop env --libprofiler DIR), understands gperftools' variables and functions, and writes gperftools' CPU profiles. \
         They are valid at every moment: a program that is killed leaves what was sampled until half a second before.",
    );
    for (name, words) in [
        (
            "CPUPROFILE=FILE",
            "Profile the whole run into this file. A child that was started by another program of the same name, or \
          forked and used CPU time, writes FILE_PID. Where it cannot be written, one sentence says so and the program runs.",
        ),
        (
            "CPUPROFILESIGNAL=N",
            "Profile from one signal N to the next, into FILE.0, FILE.1, … ; the first that is not there yet.",
        ),
        ("CPUPROFILE_FREQUENCY=N", "Samples a second of CPU time; 100, and 4000 at most."),
        (
            "CPUPROFILE_REALTIME=1",
            "By the wall clock: where the first thread is, asleep or not. Nothing is woken for it.",
        ),
        (
            "CPUPROFILE_PER_THREAD_TIMERS=1",
            "With CPUPROFILE_REALTIME: where every thread is. CPU time is always by a timer for each thread.",
        ),
        (
            "CPUPROFILE_TIMER_SIGNAL=N",
            "The signal that ticks come by, where it is free. (Without it, one that the program does not use is taken.)",
        ),
    ] {
        manual.entry([bold(name)], words);
    }
    manual.text(
        "The functions are ProfilerStart, ProfilerStop, ProfilerFlush and the others of gperftools/profiler.h; sigtop_sample() takes a \
         sample by hand, and sigtop_start_by_hand() a profile of those alone. sigtop env --header prints their header.",
    );
}

fn report(manual: &mut Manual, command: &clap::Command) {
    let report = command.find_subcommand("report").expect("a verb");
    manual.section("REPORTS");
    manual.text(
        "sigtop report prints saved profiles in pprof's words and to its letter: profile.proto of any maker, gperftools' \
         CPU profiles, and folded stacks. Every option means what it means to pprof.",
    );
    for argument in report.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let mut head = Vec::new();
        if let Some(long) = argument.get_long() {
            let short = argument.get_short().map_or(String::new(), |short| format!("-{short}, "));
            head.push(bold(format!("{short}--{long}")));
        }
        if let Some([name, ..]) = value {
            head.extend([roman(if head.is_empty() { "" } else { " " }), italic(name.to_string())]);
        }
        manual.entry(head, &argument.get_help().map(ToString::to_string).unwrap_or_default());
    }
}

fn man_page() -> String {
    let command = Cli::command();
    let man = Man::new(command.clone()).section("1").manual("User Commands");
    let mut out = Vec::new();
    man.render_title(&mut out).expect("memory");
    man.render_name_section(&mut out).expect("memory");
    let mut synopsis = Manual::default();
    synopsis.section("SYNOPSIS");
    for (words, rest) in [
        ("sigtop", " [OPTIONS] -- COMMAND [ARGUMENTS]..."),
        ("sigtop", " [OPTIONS] --pid PID"),
        ("sigtop report", " [OPTIONS] FILE..."),
        ("sigtop demo", " [OPTIONS]"),
        ("sigtop env", " [--path|--libprofiler DIR|--header]"),
        ("sigtop symbols", " PID|FILE"),
    ] {
        synopsis.0.text([bold(words), roman(rest)]).control("br", []);
    }
    synopsis.section("DESCRIPTION");
    synopsis.text(
        "Samples the stacks of a running program and shows, live, where its time goes: a list of functions, callers and \
         callees, and a flame graph. It needs no privilege and no rebuild: an agent is preloaded into the program, walks \
         the stack at every tick of a timer, and sends it over a socket.",
    );
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        synopsis.entry([bold(format!("sigtop {}", verb.get_name()))], &about);
    }
    out.extend(synopsis.0.to_roff().into_bytes());
    man.render_options_section(&mut out).expect("memory");
    let mut rest = Manual::default();
    report(&mut rest, &command);
    keys(&mut rest);
    words(&mut rest);
    commands(&mut rest);
    settings(&mut rest);
    prose(&mut rest);
    out.extend(rest.0.to_roff().into_bytes());
    String::from_utf8(out).expect("text")
}

#[test]
fn the_man_page_says_what_the_program_does() {
    stands("sigtop.1", &man_page());
}

fn completions(shell: impl Generator) -> String {
    let mut out = Vec::new();
    generate(shell, &mut Cli::command(), "sigtop", &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn the_completions_know_every_option() {
    stands("completions/sigtop.bash", &completions(Shell::Bash));
    stands("completions/_sigtop", &completions(Shell::Zsh));
    stands("completions/sigtop.fish", &completions(Shell::Fish));
}

#[test]
fn every_option_key_and_word_is_in_the_man_page() {
    let page = man_page().replace('\\', "");
    let command = Cli::command();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        if let Some(long) = option.get_long() {
            assert!(page.contains(&format!("--{long}")), "--{long}");
        }
    }
    for binding in TABLE {
        assert!(PLACES.iter().any(|(_, places)| places.contains(&binding.place)), "{:?}", binding.place);
    }
    for theme in &setting::THEMES {
        assert!(page.contains(theme.word), "{}", theme.word);
    }
}

/// groff finds nothing to complain about, where there is one.
#[test]
fn the_man_page_renders_without_a_warning() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sigtop.1");
    fs::write(&path, man_page()).expect("writable");
    let groff = Command::new("groff").args(["-man", "-Tutf8", "-K", "utf8", "-ww", "-z"]).arg(&path).output();
    let Ok(groff) = groff else { return };
    assert_eq!(String::from_utf8_lossy(&groff.stderr), "");
    assert!(groff.status.success());
}
