//! The program: parse, run, exit status.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser};
use crossbeam_channel::{Receiver, bounded, never};
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sigtop::attach::AttachError;
use sigtop::attach::find::{self, Carrier};
use sigtop::attach::launch::{self, Stdio, launch};
use sigtop::attach::library::{Places, preload_value};
use sigtop::attach::survey::{Survey, named};
use sigtop::attach::{program, stand_in};
use sigtop::batch::{self, Sink};
use sigtop::cli::record::{Record, View};
use sigtop::cli::report::Symbolize;
use sigtop::cli::{self, Cli, Verb, Watch, Whom};
use sigtop::config::{self, Config};
use sigtop::demo;
use sigtop::link::aside::AsideError;
use sigtop::link::receive::{LONGEST_DIRECTORY, Listener};
use sigtop::link::record::About;
use sigtop::profile::module::ModuleFile;
use sigtop::record::{self, Found, Goal, GoalError};
use sigtop::report;
use sigtop::symbols::inquiry::{self, Inquiry};
use sigtop::symbols::source::Sources;
use sigtop::tally::query::Filters;
use sigtop::tally::saved::merge::Subtraction;
use sigtop::tally::{self, measure};
use sigtop::track::session::{ANSWER_NS, Session, Settings, Target};
use sigtop::track::{Ending, Notice, Opened, Question, Recording, Saved};
use sigtop::tui::nearest::nearest;
use sigtop::tui::{self, Departure, Device, Picked, Theme};
use sigtop::write::text::Limits;
use sigtop::write::{self, raw};

/// Batches of arrivals that wait for the desk, at most.
const BATCHES: usize = 64;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // A file that outgrows its limit (ulimit -f) is an error like others, and no reason to die. Nobody inherits this.
    let _ = signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::default());
    let result = match cli.verb {
        Some(Verb::Env { path, libprofiler, header }) => env(path, libprofiler.as_deref(), header),
        Some(Verb::Symbols { what }) => symbols(&what),
        Some(Verb::Demo(watch)) => configured(*watch)
            .and_then(|watch| Ok(Watch { command: own_demo()?, ..watch }))
            .and_then(|watch| watch_command(watch, true)),
        Some(Verb::Report(report)) => report_files(&report),
        Some(Verb::Record(asked)) => record(&asked),
        Some(Verb::View(asked)) => view(&asked),
        Some(Verb::DemoTarget { viewer, duration }) => {
            demo::run(duration, viewer);
            Ok(0)
        }
        None if !cli.watch.pid.is_empty() => configured(cli.watch).and_then(watch_named),
        None if cli.watch.command.is_empty() && !has_dashes() => {
            configured(cli.watch).and_then(|watch| if has_screen(&watch) { watch_chosen(watch) } else { overview() })
        }
        None if cli.watch.command.is_empty() => {
            Err(Failure { sentence: "nothing to start behind `--`; try: sigtop -- ./app".to_owned(), status: 2 })
        }
        None => configured(cli.watch).and_then(|watch| watch_command(watch, false)),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            complain(&failure.sentence);
            ExitCode::from(failure.status)
        }
    }
}

/// A sentence on stderr. If nobody reads there, nobody needs to know, and the exit status still says what happened.
fn complain(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "sigtop: {sentence}");
}

/// Why nothing came of it.
struct Failure {
    sentence: String,
    status: u8,
}

impl Failure {
    /// 125: sigtop itself failed.
    fn own(doing: &str, error: impl std::fmt::Display) -> Failure {
        Failure { sentence: format!("{doing}: {error}"), status: 125 }
    }
}

impl From<AsideError> for Failure {
    fn from(error: AsideError) -> Failure {
        Failure { sentence: error.to_string(), status: 125 }
    }
}

impl From<GoalError> for Failure {
    fn from(error: GoalError) -> Failure {
        Failure { sentence: error.to_string(), status: 125 }
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Failure {
        Failure { sentence: error.to_string(), status: error.exit_status() }
    }
}

/// Where names come from, of a file or of all that a process maps.
fn symbols(what: &OsStr) -> Result<u8, Failure> {
    let pid = what.to_str().and_then(|text| text.parse::<u32>().ok());
    let own = std::process::id();
    let inquiries: Vec<Inquiry> = match pid {
        Some(pid) => {
            let files = inquiry::files_of(pid).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    let sentence =
                        format!("there is no process {pid}; for a file of this name: sigtop symbols ./{pid}");
                    Failure { sentence, status: 127 }
                }
                _ => {
                    let sentence = format!("the maps of process {pid} cannot be read ({error}): be its user, or root");
                    Failure { sentence, status: 126 }
                }
            })?;
            if files.is_empty() {
                let sentence = format!("process {pid} has no files mapped: it has ended, or is a thread of the kernel");
                return Err(Failure { sentence, status: 126 });
            }
            files.iter().map(|file| inquiry::inquire(file, pid)).collect()
        }
        None => {
            let path = std::path::absolute(what).map_err(|error| Failure::own("cannot tell the folder", error))?;
            let file = ModuleFile { path, build_id: [].into(), device: 0, inode: 0 };
            let inquiry = inquiry::inquire(&file, own);
            if let Err(sentence) = inquiry.opened {
                let status = if file.path.exists() { 126 } else { 127 };
                return Err(Failure { sentence, status });
            }
            vec![inquiry]
        }
    };
    let text = write::inquiry::text(&inquiries);
    // A reader that has seen enough is no failure.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::own("cannot write to stdout", error)),
        _ => Ok(0),
    }
}

/// The command line, and what the config file says where it leaves things open.
fn configured(watch: Watch) -> Result<Watch, Failure> {
    let usual = || config::usual_path(|name| std::env::var_os(name));
    let config = match &watch.source.config {
        _ if watch.source.no_config => Ok(Config::default()),
        Some(path) => Config::read(path, true),
        None => usual().map_or_else(|| Ok(Config::default()), |path| Config::read(&path, false)),
    };
    config.map(|config| watch.or(config)).map_err(|error| Failure { sentence: error.to_string(), status: 2 })
}

/// The command that starts this very program as the demo's target.
fn own_demo() -> Result<Vec<OsString>, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::own("cannot find its own file for the demo", error))?;
    Ok(vec![own.into(), "demo-target".into(), format!("--viewer={}", std::process::id()).into()])
}

/// `sigtop report`
fn report_files(given: &cli::report::Report) -> Result<u8, Failure> {
    let is_diff = !given.diff_base.is_empty();
    let bases = if is_diff { &given.diff_base } else { &given.base };
    if given.normalize && bases.is_empty() {
        let sentence = "--normalize needs a profile to subtract: --base FILE or --diff-base FILE".to_owned();
        return Err(Failure { sentence, status: 2 });
    }
    let asked = report::Asked {
        files: &given.files,
        bases,
        how: Subtraction { is_diff, normalize: given.normalize },
        options: given.options(),
        output: given.output.as_deref(),
        symbolize: given.symbolize == Symbolize::Local,
        play: &play,
    };
    match report::run(&asked) {
        Ok(sentences) => sentences.iter().for_each(|sentence| complain(sentence)),
        // Whoever read it has seen enough.
        Err(error) if error.is_hangup() => {}
        Err(error) => return Err(Failure { sentence: error.to_string(), status: 125 }),
    }
    Ok(0)
}

/// A recording as a profile.
fn play(from: Box<dyn Read + Send>, name: &str) -> Result<tally::saved::Saved, String> {
    let opened = Opened::open(from).map_err(|fault| fault.to_string())?;
    let settings = played(&opened, name, settings(&Watch::default(), &[]));
    let session = Session::play(opened, false, settings).map_err(|error| format!("cannot be played: {error}"))?;
    record::played(session, complain)
}

/// Settings for what was recorded.
fn played(opened: &Opened, name: &str, settings: Settings) -> Settings {
    let About { command, clock, engine, period_ns, .. } = opened.about.clone();
    Settings { command, name: name.to_owned(), clock, engine, period_ns, ..settings }
}

/// `sigtop env`
fn env(path_only: bool, libprofiler: Option<&Path>, header: bool) -> Result<u8, Failure> {
    if header {
        print!("{}", include_str!("../assets/sigtop.h"));
        return Ok(0);
    }
    if let Some(directory) = libprofiler {
        let directory = stand_in::fill(directory)?;
        println!("{}", stand_in::line(&directory, std::env::var_os("LD_LIBRARY_PATH").as_deref()));
        return Ok(0);
    }
    let library = Places::of_user().library()?;
    if path_only {
        println!("{}", library.display());
    } else {
        let value = preload_value(std::env::var_os("LD_PRELOAD").as_deref(), &library);
        println!("export LD_PRELOAD={}", value.to_string_lossy());
    }
    Ok(0)
}

/// `sigtop` alone, without a screen: what can be watched, and how to begin.
fn overview() -> Result<u8, Failure> {
    let carriers = find::carriers();
    if carriers.is_empty() {
        println!("No process of yours carries the agent.");
    } else {
        println!("Processes that carry the agent:");
        for Carrier { pid, comm, .. } in &carriers {
            println!("  {pid:>8}  {comm}");
        }
    }
    println!(
        "\nBegin with one of:\n  sigtop -- ./app              start a program and watch it\n  \
         sigtop --pid {}        watch one that carries the agent\n  \
         sigtop demo                  see what the screen says\n\nsigtop --help tells the rest.",
        carriers.first().map_or("PID   ".to_owned(), |carrier| format!("{:<6}", carrier.pid))
    );
    Ok(0)
}

/// Whether the arguments had a `--`: then what follows is a command, whatever it looks like.
fn has_dashes() -> bool {
    std::env::args_os().any(|argument| argument == "--")
}

/// Without `--`, a word is a command only if it is a file that can be run.
fn check_bare_word(word: &OsString) -> Result<(), Failure> {
    let runnable = std::fs::metadata(Path::new(word))
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
    if runnable || has_dashes() {
        return Ok(());
    }
    let word = word.to_string_lossy();
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let verb = nearest(&word, verbs).map_or(String::new(), |verb| format!("sigtop {verb}, or "));
    Err(Failure { sentence: format!("`{word}` is no subcommand; did you mean: {verb}sigtop -- {word}?"), status: 2 })
}

/// Whether the screen can be shown.
fn has_screen(watch: &Watch) -> bool {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    let wanted = !watch.batch && watch.table.is_none() && watch.interval.is_none() && watch.count.is_none();
    watch.screen.tui || (terminal && able && wanted)
}

/// `sigtop -- COMMAND`
fn watch_command(watch: Watch, is_demo: bool) -> Result<u8, Failure> {
    if !is_demo {
        check_bare_word(&watch.command[0])?;
    }
    let sink = sink(&watch, Sink::Stderr)?;
    let screen = has_screen(&watch);
    let recording = recording(&watch, screen)?;
    // The screen says what size its pane has as soon as it is there.
    let stdio = if screen { Stdio::Terminal { rows: 24, columns: 80 } } else { Stdio::Inherit };
    let mut begun = start_command(&watch, stdio)?;
    if is_demo {
        begun.settings.command = "demo".to_owned();
        begun.settings.name = "demo".to_owned();
        begun.settings.sources.embedded = demo::SOURCES;
    }
    run(begun, &watch, screen, sink, recording)
}

/// `sigtop --pid PID|NAME,...`
fn watch_named(watch: Watch) -> Result<u8, Failure> {
    match carriers(&watch)? {
        Chosen::These(carriers) => watch_carriers(&watch, carriers),
        Chosen::Nobody(status) => Ok(status),
    }
}

/// `sigtop` alone
fn watch_chosen(watch: Watch) -> Result<u8, Failure> {
    match choose(&watch, "")? {
        Picked::Process(pid) => {
            let carrier = find::check(pid)?;
            watch_carriers(&watch, vec![carrier])
        }
        other => Ok(other.exit_status()),
    }
}

fn watch_carriers(watch: &Watch, carriers: Vec<Carrier>) -> Result<u8, Failure> {
    let sink = sink(watch, Sink::Stdout)?;
    let screen = has_screen(watch);
    let recording = recording(watch, screen)?;
    run(attach(watch, carriers)?, watch, screen, sink, recording)
}

/// Who is meant by `--pid`.
enum Chosen {
    These(Vec<Carrier>),
    /// The user was asked, and left with this exit status.
    Nobody(u8),
}

fn carriers(watch: &Watch) -> Result<Chosen, Failure> {
    let mut carriers: Vec<Carrier> = Vec::new();
    let mut survey = None;
    for whom in &watch.pid {
        let pid = match whom {
            Whom::Pid(pid) => *pid,
            Whom::Name(name) => match named(name, survey.get_or_insert_with(|| Survey::default().look())) {
                Err(AttachError::ManyNames { watchable: true, .. }) if has_screen(watch) => {
                    match choose(watch, name)? {
                        Picked::Process(pid) => pid,
                        other => return Ok(Chosen::Nobody(other.exit_status())),
                    }
                }
                found => found?,
            },
        };
        let carrier = find::check(pid)?;
        if !carriers.contains(&carrier) {
            carriers.push(carrier);
        }
    }
    Ok(Chosen::These(carriers))
}

/// Asks which process is meant.
fn choose(watch: &Watch, filter: &str) -> Result<Picked, Failure> {
    tui::pick(filter, device(watch), theme(watch), &watch.screen.keys, !watch.screen.no_mouse)
        .map_err(|error| Failure { sentence: error.to_string(), status: 125 })
}

fn device(watch: &Watch) -> Device {
    if watch.screen.tui { Device::Tty } else { Device::Stdout }
}

fn theme(watch: &Watch) -> Theme {
    Theme::from_environment(watch.screen.theme, |name| std::env::var(name).ok())
}

/// A watch that can begin: its target, and where the agents call.
struct Begun {
    target: Target,
    settings: Settings,
    listener: Listener,
}

fn start_command(watch: &Watch, stdio: Stdio) -> Result<Begun, Failure> {
    let program = program::of_command(&watch.command)?;
    if !watch.screen.quiet {
        program.warnings.iter().for_each(|warning| complain(warning));
    }
    let places = Places::of_user();
    let library = places.library()?;
    let settings = settings(watch, &watch.command);
    let listener = listen(&places)?;
    let link = listener.link(settings.clock, settings.period_ns);
    let command = launch::Command { program: &program, words: &watch.command, library: &library, link: &link };
    let target = Target::Launched(launch(&command, stdio)?);
    Ok(Begun { target, settings, listener })
}

fn attach(watch: &Watch, carriers: Vec<Carrier>) -> Result<Begun, Failure> {
    let mut words: Vec<OsString> = Vec::new();
    for carrier in &carriers {
        words.extend((!words.is_empty()).then(|| "+".into()));
        words.extend(carrier.command_line.iter().cloned());
    }
    let settings = settings(watch, &words);
    let listener = listen(&Places::of_user())?;
    Ok(Begun { target: Target::Attached(carriers), settings, listener })
}

/// What is recorded along with a watch: what a screen may save later, and what goes to a file at once, and what that becomes.
fn recording(watch: &Watch, screen: bool) -> Result<(Goal, Recording), Failure> {
    let saved = watch.save.as_deref().map(|path| Goal::of_file(path, watch.format)).transpose()?;
    let (goal, output) = saved.unwrap_or((Goal::Recording, None));
    Ok((goal, Recording { output, names: watch.symbols, keep: screen }))
}

/// `sigtop record`
fn record(asked: &Record) -> Result<u8, Failure> {
    let watch = configured(asked.watch())?;
    if let Some(word) = watch.command.first() {
        check_bare_word(word)?;
    }
    let is_stream = asked.output == Path::new("-");
    let (goal, output) = match is_stream {
        true => Goal::of_stream(own_stdout()?, asked.format),
        false => Goal::of_file(&asked.output, asked.format)?,
    };
    let recording = Recording { output, names: watch.symbols || is_stream, keep: false };
    let mut begun = if watch.pid.is_empty() {
        start_command(&watch, Stdio::Inherit)?
    } else {
        match carriers(&Watch { batch: true, ..watch.clone() })? {
            Chosen::These(carriers) => attach(&watch, carriers)?,
            Chosen::Nobody(status) => return Ok(status),
        }
    };
    begun.settings.answer_ns = record::PROGRESS_NS;
    let launched = matches!(begun.target, Target::Launched(_));
    let session = begin(begun, recording)?;
    let options = record::Options {
        launched,
        names: watch.symbols || is_stream || goal.needs_names(),
        duration: asked.duration,
        interrupt: interrupts()?,
        progress: !asked.quiet && std::io::stderr().is_terminal(),
        quiet: asked.quiet,
    };
    let done = record::run(&session, &options);
    let finished = session.finish();
    match finished.map_or(Ok(None), |finished| goal.reach(finished)) {
        Ok(Some(saved)) if !asked.quiet && !is_stream => complain(&record::summary(&done, &saved)),
        // Whoever read it has seen enough.
        Err(error) if is_stream && error.is_hangup() => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    Ok(match (done.ending, done.interrupted) {
        (Some(ending), _) if launched => ending.exit_status(),
        (None, Some(signal)) if launched => 128u8.saturating_add(signal as u8),
        _ => 0,
    })
}

/// Stdout for the recording alone: from here on what the target writes goes to stderr.
fn own_stdout() -> Result<File, Failure> {
    if std::io::stdout().is_terminal() {
        let sentence = "a recording is not for a terminal: -o FILE, or pipe it into sigtop view -".to_owned();
        return Err(Failure { sentence, status: 2 });
    }
    let cannot = |error: std::io::Error| Failure::own("cannot keep stdout for the recording", error);
    let own = std::io::stdout().as_fd().try_clone_to_owned().map_err(cannot)?;
    nix::unistd::dup2_stdout(std::io::stderr()).map_err(|error| cannot(error.into()))?;
    Ok(File::from(own))
}

/// `sigtop view`
fn view(asked: &View) -> Result<u8, Failure> {
    let watch = configured(asked.watch())?;
    let is_live = asked.file == Path::new("-");
    let name = if is_live { "stdin".to_owned() } else { asked.file.display().to_string() };
    let from: Box<dyn Read + Send> = if is_live {
        Box::new(std::io::stdin())
    } else {
        let cannot = |error| Failure::own(&format!("cannot read {name}"), error);
        Box::new(std::io::BufReader::new(File::open(&asked.file).map_err(cannot)?))
    };
    let Found { opened, is_recording } =
        record::open(from, &name).map_err(|fault| Failure { sentence: format!("{name} {fault}"), status: 125 })?;
    let mut settings = played(&opened, &name, settings(&watch, &[]));
    if !is_recording && watch.shown.window.is_none() {
        // It is a whole, and few say when its parts were.
        settings.question.window_ns = None;
    }
    let screen = has_screen(&watch);
    let given = settings.clone();
    let mut session = Session::play(opened, is_live && is_recording, settings)
        .map_err(|error| Failure::own("cannot start a thread", error))?;
    if screen {
        let shown = show(&mut session, &watch, given, false, Some(name))?;
        session.finish();
        return Ok(if let Shown::Signalled(signal) = shown { 128u8.saturating_add(signal as u8) } else { 0 });
    }
    print(&session, &watch, Sink::Stdout)?;
    session.finish();
    Ok(0)
}

fn listen(places: &Places) -> Result<Listener, Failure> {
    let directory = places.directory(LONGEST_DIRECTORY)?;
    Listener::bind(&directory).map_err(|error| Failure::own("cannot listen for the agent", error))
}

fn sink(watch: &Watch, default: Sink) -> Result<Sink, Failure> {
    let Some(path) = &watch.table else { return Ok(default) };
    if path.as_os_str() == "-" {
        return Ok(Sink::Stdout);
    }
    File::create(path).map(Sink::File).map_err(|error| Failure::own(&format!("cannot write {}", path.display()), error))
}

fn settings(watch: &Watch, command: &[OsString]) -> Settings {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    // A script on the command line is many lines: here it is one.
    let command: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    Settings {
        command: command.join(" "),
        name: words.join(" "),
        answer_ns: ANSWER_NS,
        clock: watch.clock(),
        engine: watch.engine(),
        period_ns: watch.period_ns(),
        question: Question {
            window_ns: watch.window_ns(),
            filters: Filters {
                focus: watch.shown.focus.clone(),
                ignore: watch.shown.ignore.clone(),
                tagfocus: watch.shown.tagfocus.clone(),
                tagignore: watch.shown.tagignore.clone(),
                ..Filters::default()
            },
            sort: watch.sort(),
            ..Question::default()
        },
        follow: !watch.no_follow,
        sources: Sources {
            directories: watch.shown.source_path.clone(),
            current: std::env::current_dir().ok(),
            embedded: &[],
        },
        budget: watch.budget(),
    }
}

fn begin(begun: Begun, recording: Recording) -> Result<Session, Failure> {
    let Begun { target, settings, listener } = begun;
    let (tell, arrivals) = bounded(BATCHES);
    let only = (!settings.follow).then(|| target.pids());
    let cannot = |error| Failure::own("cannot start a thread", error);
    let agents = listener.start(tell, settings.request(), only).map_err(cannot)?;
    Session::start(target, settings, agents, arrivals, recording).map_err(cannot)
}

fn run(
    begun: Begun,
    watch: &Watch,
    screen: bool,
    sink: Sink,
    (goal, recording): (Goal, Recording),
) -> Result<u8, Failure> {
    let launched = matches!(begun.target, Target::Launched(_));
    let given = begun.settings.clone();
    let mut session = begin(begun, recording)?;
    let shown = if screen {
        show(&mut session, watch, given, launched, None)?
    } else {
        print(&session, watch, sink)?.map_or(Shown::Left, Shown::Ended)
    };
    if let Some(mut finished) = session.finish() {
        if let Some(path) = &watch.raw {
            let (profile, names) = (&finished.desk.profile, &finished.desk.names);
            std::fs::write(path, raw::raw(profile, names))
                .map_err(|error| Failure::own(&format!("cannot write {}", path.display()), error))?;
        }
        finished.desk.thaw();
        match goal.reach(finished)? {
            Some(Saved { path: Some(path), bytes }) if !watch.screen.quiet => {
                complain(&format!("recorded: {} ({})", path.display(), measure::bytes(bytes)));
            }
            _ => {}
        }
    }
    Ok(match shown {
        Shown::Ended(ending) if launched => ending.exit_status(),
        Shown::Signalled(signal) => 128u8.saturating_add(signal as u8),
        _ => 0,
    })
}

fn print(session: &Session, watch: &Watch, sink: Sink) -> Result<Option<Ending>, Failure> {
    // Ctrl-C under a launched target is the target's; a watch of somebody else's process ends by it, with its table.
    let interrupt = if watch.command.is_empty() { interrupts()? } else { never() };
    let options =
        batch::Options { interval: watch.interval, count: watch.count, sink, interrupt, quiet: watch.screen.quiet };
    batch::run(session, options).map_err(|error| Failure::own("cannot write a table", error))
}

/// Told when the user wants the watch to end.
fn interrupts() -> Result<Receiver<i32>, Failure> {
    let cannot = |error| Failure::own("cannot listen for signals", error);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(cannot)?;
    let (tell, told) = bounded(1);
    let listen = move || {
        for signal in signals.forever() {
            let _ = tell.try_send(signal);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(cannot)?;
    Ok(told)
}

/// The screen, and what is left on the terminal after it. Returns how the target ended, if that decides the exit status.
fn show(
    session: &mut Session,
    watch: &Watch,
    settings: Settings,
    launched: bool,
    recording: Option<String>,
) -> Result<Shown, Failure> {
    let device = device(watch);
    let options = tui::Options {
        command: settings.command.clone(),
        launched,
        recording,
        output: launched,
        on_quit: watch.on_quit.unwrap_or_default(),
        mouse: !watch.screen.no_mouse,
        device,
        theme: theme(watch),
        keys: watch.screen.keys.clone(),
        names: watch.shown.names.unwrap_or_default(),
        question: settings.question,
        clock: settings.clock,
        engine: settings.engine,
        period_ns: settings.period_ns,
    };
    let outcome = tui::run(options, session.commands.clone(), session.notices.clone(), session.output.take())
        .map_err(|error| Failure { sentence: error.to_string(), status: 125 })?;
    if !watch.screen.quiet {
        let words = farewell(&outcome);
        // Where the screen was: with --tui, stdout is the target's. A terminal that is gone needs no farewell.
        let _ = match device {
            Device::Stdout => std::io::stdout().write_all(words.as_bytes()),
            Device::Tty => {
                File::options().write(true).open("/dev/tty").and_then(|mut tty| tty.write_all(words.as_bytes()))
            }
        };
    }
    let ended = || outcome.answer.as_ref().and_then(|answer| answer.facts.ended).map(|(ending, _)| ending);
    Ok(match outcome.departure {
        Departure::Signal(signal) => Shown::Signalled(signal),
        Departure::Left => Shown::Left,
        Departure::Over => ended().map_or(Shown::Left, Shown::Ended),
        Departure::Ended => ended().or_else(|| await_end(session)).map_or(Shown::Left, Shown::Ended),
    })
}

/// How a watch with a screen ended.
enum Shown {
    /// With the target.
    Ended(Ending),
    /// The target runs on.
    Left,
    /// A signal told us to go.
    Signalled(i32),
}

/// How long a target that was told to end may take: it is killed after two seconds.
const END_WITHIN: Duration = Duration::from_secs(10);

fn await_end(session: &Session) -> Option<Ending> {
    let deadline = Instant::now() + END_WITHIN;
    while let Ok(notice) = session.notices.recv_deadline(deadline) {
        if let Notice::Ended(ending) = notice {
            return Some(ending);
        }
    }
    None
}

/// The target's last lines and the five functions at the top.
fn farewell(outcome: &tui::Outcome) -> String {
    const LINES: usize = 10;
    const ROWS: usize = 5;
    let first = outcome.output.len().saturating_sub(LINES);
    let mut out: String = outcome.output[first..].iter().flat_map(|line| [line, "\n"]).collect();
    if let Some(answer) = &outcome.answer {
        let nodecount = Some(ROWS);
        out += &batch::table(answer, &answer.total, &Limits { nodecount, ..Limits::default() });
    }
    out
}
