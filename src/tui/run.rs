//! The loop: keys, signals and notices come in, commands go out, and a frame is drawn when something changed. While nothing
//! comes it sleeps.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender};
use crossterm::event::KeyCode;
use nix::sys::signal::Signal;

use super::action::{Action, Departure, Effect};
use super::app::App;
use super::feed::Feed;
use super::input::{self, Input};
use super::pace::Pace;
use super::signals::{self, Heard, Listener};
use super::terminal::{Console, Surface, TuiError};
use super::{LAST_LINES, Options, Outcome};
use crate::track::{Command, Notice};

/// Keys that wait for the loop, at most; the terminal keeps the rest.
const MAX_KEYS: usize = 256;
/// Commands that wait for the session, at most. Beyond it keys for the target are thrown away.
const MAX_COMMANDS: usize = 1024;
/// How long a session may take for each of the last commands.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Shows the screen until the user leaves it.
///
/// # Errors
/// There is no terminal to draw on, or it refused. A terminal that goes away later is a [`Departure`].
pub fn run(
    options: Options,
    commands: Sender<Command>,
    notices: Receiver<Notice>,
    output: Option<Receiver<Vec<u8>>>,
) -> Result<Outcome, TuiError> {
    let (listener, heard) = Listener::start()?;
    let (mut console, keys) = Console::open(options.device, options.mouse)?;
    let cannot = |cause| TuiError::Signals { cause };
    let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|cause| cannot(cause.into()))?;
    let (sender, inputs) = crossbeam_channel::bounded(MAX_KEYS);
    let reader = thread::Builder::new().name("keys".to_owned());
    let reader = reader.spawn(move || input::read(keys, &stop, &sender)).map_err(cannot)?;

    let mut app = App::new(options);
    let output = output.filter(|_| app.options.output);
    let sources = Sources { inputs: Some(inputs), heard: Some(heard), notices: Some(notices), output };
    let departure = drive(&mut console, &mut app, sources, &commands);
    if matches!(departure, Ok(Departure::Signal(signal)) if signal == Signal::SIGHUP as i32) {
        signals::ignore_hangups();
    }

    drop(stopper);
    // A reader that waits for the loop to take a key has nobody to give it to any more, and ends by that.
    let _ = reader.join();
    drop(console);
    drop(listener);
    let departure = departure?;
    Ok(Outcome { departure, answer: app.answer().cloned(), output: app.last_lines(LAST_LINES) })
}

/// Lets a test see that a panic gives the terminal back: with this in the environment, `!` is a bug.
const PANIC_VARIABLE: &str = "SIGTOP_TEST_PANIC";

fn panic_if_asked(input: &Input) {
    if let Input::Key(key, _) = input
        && key.code == KeyCode::Char('!')
        && std::env::var_os(PANIC_VARIABLE).is_some()
    {
        panic!("{PANIC_VARIABLE} is set, and ! was typed");
    }
}

/// Where things come from; `None` once nothing comes any more.
pub struct Sources {
    /// Keys, pastes, clicks.
    pub inputs: Option<Receiver<Input>>,
    /// Signals.
    pub heard: Option<Receiver<Heard>>,
    /// The session.
    pub notices: Option<Receiver<Notice>>,
    /// What the target writes.
    pub output: Option<Receiver<Vec<u8>>>,
}

/// Something that came.
enum Came {
    Input(Input),
    Heard(Heard),
    Notice(Notice),
    Output(Vec<u8>),
    SessionOver,
    TimeToDraw,
    /// A command was taken, a frame is due, or a source has dried up.
    Nothing,
}

/// Drives `app` on `surface` until it is left.
///
/// # Errors
/// The surface cannot tell its size at the start.
pub fn drive(
    surface: &mut impl Surface,
    app: &mut App,
    mut sources: Sources,
    commands: &Sender<Command>,
) -> Result<Departure, TuiError> {
    let mut outbox = Outbox::default();
    let mut pace = Pace::default();
    let mut feed = Feed::default();
    let (columns, rows) = surface.size()?;
    let mut effects = app.update(Action::Resize(columns, rows));
    effects.extend(app.start());
    pace.changed(Instant::now());
    loop {
        for effect in std::mem::take(&mut effects) {
            let done = match effect {
                Effect::Send(command) => {
                    outbox.push(command);
                    Ok(())
                }
                Effect::Copy(text) => surface.copy(&text),
                Effect::Redraw => surface.renew(),
                Effect::Suspend => {
                    // The signal comes back as a word of its own, and stops this process there.
                    if !signals::suspend_job() {
                        app.say("there is no shell here to come back from a stop");
                    }
                    Ok(())
                }
                Effect::Leave(departure) => {
                    finish(app, &mut feed, &sources);
                    outbox.flush(commands);
                    return Ok(departure);
                }
            };
            if done.is_err() {
                return Ok(abandon(app, outbox, commands));
            }
        }
        let came = match pace.take(Instant::now()) {
            true => Came::TimeToDraw,
            false if feed.is_busy() => wait(&mut sources, &mut outbox, commands, &feed, Some(Instant::now())),
            false => wait(&mut sources, &mut outbox, commands, &feed, pace.due()),
        };
        match came {
            Came::Nothing | Came::TimeToDraw => {}
            Came::Input(_) => pace.touched(Instant::now()),
            _ => pace.changed(Instant::now()),
        }
        let done = match came {
            Came::Nothing if feed.is_busy() => {
                let start = Instant::now();
                let effects = app.update(Action::Output(feed.slice()));
                feed.spend(start.elapsed());
                pace.changed(Instant::now());
                Ok(effects)
            }
            Came::Nothing | Came::Heard(Heard::Resize) => Ok(Vec::new()),
            Came::TimeToDraw => {
                feed.drawn();
                frame(surface, app)
            }
            Came::Input(input) => {
                panic_if_asked(&input);
                Ok(app.input(input))
            }
            Came::Heard(Heard::Leave(signal)) => Ok(app.signalled(signal)),
            Came::Heard(Heard::Suspend) => surface.stop().map(|()| Vec::new()),
            Came::Heard(Heard::Continue) => surface.renew().map(|()| Vec::new()),
            Came::Notice(Notice::Answer(answer)) => Ok(app.update(Action::Answer(answer))),
            Came::Output(bytes) => {
                feed.take(bytes);
                Ok(Vec::new())
            }
            Came::Notice(Notice::Banner(words)) => Ok(app.update(Action::Banner(words))),
            Came::Notice(Notice::Why(found)) => Ok(app.update(Action::Found(found))),
            Came::Notice(Notice::Ended(ending)) => Ok(app.update(Action::Ended(ending))),
            Came::Notice(Notice::Played) => Ok(Vec::new()),
            Came::Notice(Notice::Saved(saved)) => Ok(app.update(Action::Saved(saved))),
            Came::SessionOver => Ok(app.update(Action::SessionOver)),
        };
        match done {
            Ok(more) => effects = more,
            Err(_) => return Ok(abandon(app, outbox, commands)),
        }
    }
}

/// Before leaving: what the target wrote and the emulator has not seen yet.
fn finish(app: &mut App, feed: &mut Feed, sources: &Sources) {
    // One piece waits, and while it is taken one more may be put in its place.
    for bytes in sources.output.iter().flat_map(|output| output.try_iter().take(2)) {
        feed.take(bytes);
    }
    app.update(Action::Output(feed.rest()));
}

/// Draws a frame in the size that the terminal has now.
fn frame(surface: &mut impl Surface, app: &mut App) -> Result<Vec<Effect>, TuiError> {
    let (columns, rows) = surface.size()?;
    let effects = app.update(Action::Resize(columns, rows));
    surface.draw(app)?;
    Ok(effects)
}

/// The terminal is gone: as if it had said so by a signal.
fn abandon(app: &mut App, mut outbox: Outbox, commands: &Sender<Command>) -> Departure {
    let mut departure = Departure::Signal(Signal::SIGHUP as i32);
    for effect in app.input(Input::Gone) {
        match effect {
            Effect::Send(command) => outbox.push(command),
            Effect::Leave(how) => departure = how,
            _ => {}
        }
    }
    outbox.flush(commands);
    departure
}

/// Sleeps until something comes, a command is taken, or it is time to draw.
fn wait(
    sources: &mut Sources,
    outbox: &mut Outbox,
    commands: &Sender<Command>,
    feed: &Feed,
    due: Option<Instant>,
) -> Came {
    let mut select = Select::new();
    let inputs = sources.inputs.as_ref().map(|source| select.recv(source));
    let heard = sources.heard.as_ref().map(|source| select.recv(source));
    let notices = sources.notices.as_ref().map(|source| select.recv(source));
    let output = sources.output.as_ref().filter(|_| feed.is_open()).map(|source| select.recv(source));
    let taken = outbox.first().map(|_| select.send(commands));
    let operation = match due {
        Some(due) => match select.select_deadline(due) {
            Ok(operation) => operation,
            Err(_) => return Came::Nothing,
        },
        None => select.select(),
    };
    let index = Some(operation.index());
    if let (true, Some(command)) = (index == taken, outbox.first().cloned()) {
        // A session that is gone says so through its notices.
        let _ = operation.send(commands, command);
        outbox.pop();
        return Came::Nothing;
    }
    if let (true, Some(source)) = (index == inputs, &sources.inputs) {
        return operation.recv(source).map(Came::Input).unwrap_or_else(|_| {
            sources.inputs = None;
            Came::Nothing
        });
    }
    if let (true, Some(source)) = (index == heard, &sources.heard) {
        return operation.recv(source).map(Came::Heard).unwrap_or_else(|_| {
            sources.heard = None;
            Came::Nothing
        });
    }
    if let (true, Some(source)) = (index == notices, &sources.notices) {
        return operation.recv(source).map(Came::Notice).unwrap_or_else(|_| {
            sources.notices = None;
            Came::SessionOver
        });
    }
    if let (true, Some(source)) = (index == output, &sources.output) {
        return operation.recv(source).map(Came::Output).unwrap_or_else(|_| {
            sources.output = None;
            Came::Nothing
        });
    }
    Came::Nothing
}

/// Commands that the session has not taken yet.
#[derive(Debug, Default)]
struct Outbox(VecDeque<Command>);

impl Outbox {
    /// Adds a command. One that makes the last one needless takes its place.
    fn push(&mut self, command: Command) {
        let replaces = matches!(
            (self.0.back(), &command),
            (Some(Command::Ask(_)), Command::Ask(_)) | (Some(Command::Resize(..)), Command::Resize(..))
        );
        if replaces {
            self.0.pop_back();
        }
        if self.0.len() < MAX_COMMANDS || !matches!(command, Command::Input(_)) {
            self.0.push_back(command);
        }
    }

    fn first(&self) -> Option<&Command> {
        self.0.front()
    }

    fn pop(&mut self) {
        self.0.pop_front();
    }

    /// Hands out what is left, as far as the session takes it.
    fn flush(&mut self, commands: &Sender<Command>) {
        while let Some(command) = self.0.pop_front() {
            if commands.send_timeout(command, LAST_WORDS).is_err() {
                return;
            }
        }
    }
}
