//! The event loop: receives input, signals, notices and output, sends commands, and draws a frame
//! when something changed. It sleeps while nothing happens.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, Sender};
use crossterm::event::KeyCode;
use nix::sys::signal::Signal;

use super::action::{Action, Departure, Effect};
use super::app::App;
use super::frame_pacer::FramePacer;
use super::successor::SuccessorSearch;
use super::surface::Surface;
use super::term::clipboard::copy_to_tmux;
use super::term::error::TuiError;
use super::term::input::{self, Input};
use super::term::output_queue::OutputQueue;
use super::term::signals::{self, SignalEvent, SignalListener};
use super::term::terminal::Console;
use super::{LAST_LINES, Options, Outcome};
use crate::session::{Command, Notice};

/// Capacity of the channel for input events. The terminal buffers the rest.
const MAX_KEYS: usize = 256;
/// Maximum number of commands that wait for the session. Beyond it, input for the target is
/// dropped.
const MAX_COMMANDS: usize = 1024;
/// Maximum time to send each of the last commands to the session.
const LAST_COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Shows the screen until the user leaves.
///
/// # Errors
/// The terminal cannot be set up. If it goes away later, that is a [`Departure`].
pub fn run(
    options: Options,
    commands: Sender<Command>,
    notices: Receiver<Notice>,
    output: Option<Receiver<Vec<u8>>>,
) -> Result<Outcome, TuiError> {
    let (listener, signals) = SignalListener::start()?;
    let (mut console, keys) = Console::open(options.device, options.mouse)?;
    let failure = |cause| TuiError::Signals { cause };
    let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|cause| failure(cause.into()))?;
    let (sender, inputs) = crossbeam_channel::bounded(MAX_KEYS);
    let reader = thread::Builder::new().name("keys".to_owned());
    let reader = reader.spawn(move || input::read(keys, &stop, &sender)).map_err(failure)?;

    let mut app = App::new(options);
    let output = output.filter(|_| app.options.output);
    let (inputs, signals, notices) = (Some(inputs), Some(signals), Some(notices));
    let sources = EventSources { inputs, signals, notices, output, successor: None };
    let departure = run_loop(&mut console, &mut app, sources, &commands);
    if matches!(departure, Ok(Departure::Signal(signal)) if signal == Signal::SIGHUP as i32) {
        signals::ignore_hangups();
    }

    drop(stopper);
    // The reader ends because its channel is closed or `stop` is.
    let _ = reader.join();
    drop(console);
    drop(listener);
    let departure = departure?;
    Ok(Outcome {
        departure,
        answer: app.session.answer.take(),
        output: app.panes.emulator.last_lines(LAST_LINES),
        saved: app.saves.last_file.take(),
    })
}

/// The environment variable that makes `!` panic, to test that a panic restores the terminal.
const PANIC_VARIABLE: &str = "SIGTOP_TEST_PANIC";

fn panic_for_test(input: &Input) {
    if let Input::Key(key, _) = input
        && key.code == KeyCode::Char('!')
        && std::env::var_os(PANIC_VARIABLE).is_some()
    {
        panic!("{PANIC_VARIABLE} is set, and ! was typed");
    }
}

/// The channels that the loop receives from; `None` once one is closed.
pub struct EventSources {
    /// Input of the terminal.
    pub inputs: Option<Receiver<Input>>,
    /// Signals.
    pub signals: Option<Receiver<SignalEvent>>,
    /// Notices of the session.
    pub notices: Option<Receiver<Notice>>,
    /// Output of the target.
    pub output: Option<Receiver<Vec<u8>>>,
    /// The search for a new process with the name of the ended target.
    pub successor: Option<SuccessorSearch>,
}

/// A reason for the loop to wake up.
enum LoopEvent {
    Input(Input),
    Signal(SignalEvent),
    Notice(Notice),
    Output(Vec<u8>),
    Successor(u32),
    SessionOver,
    TimeToDraw,
    /// A command was sent, the deadline has passed, or a channel was closed.
    Nothing,
}

/// Runs `app` on `surface` until the user leaves.
///
/// # Errors
/// The size of the surface cannot be read at the start.
pub fn run_loop(
    surface: &mut impl Surface,
    app: &mut App,
    mut sources: EventSources,
    commands: &Sender<Command>,
) -> Result<Departure, TuiError> {
    let mut outbox = Outbox::default();
    let mut pacer = FramePacer::default();
    let mut queue = OutputQueue::default();
    let (columns, rows) = surface.size()?;
    let mut effects = app.start((columns, rows));
    pacer.schedule(Instant::now());
    loop {
        for effect in std::mem::take(&mut effects) {
            let done = match effect {
                Effect::Send(command) => {
                    outbox.push(command);
                    Ok(())
                }
                Effect::Copy(text) if copy_to_tmux(&text) => {
                    app.screen.note("copied to tmux's buffer, and by it to the clipboard");
                    Ok(())
                }
                Effect::Copy(text) => surface.copy(&text),
                Effect::FindSuccessor(name) => {
                    sources.successor = Some(SuccessorSearch::start(name));
                    Ok(())
                }
                Effect::Redraw => surface.redraw(),
                Effect::Suspend => {
                    // The signal arrives as an event, and this process stops then.
                    if !signals::suspend_job() {
                        app.screen.note("cannot suspend: there is no shell to resume sigtop");
                    }
                    Ok(())
                }
                Effect::Leave(departure) => {
                    drain_output(app, &mut queue, &sources);
                    outbox.flush(commands);
                    return Ok(departure);
                }
            };
            if done.is_err() {
                return Ok(abandon(app, outbox, commands));
            }
        }
        let event = match pacer.take_due(Instant::now()) {
            true => LoopEvent::TimeToDraw,
            false if queue.is_busy() => {
                wait_for_event(&mut sources, &mut outbox, commands, &queue, Some(Instant::now()))
            }
            false => wait_for_event(&mut sources, &mut outbox, commands, &queue, pacer.due()),
        };
        match event {
            LoopEvent::Nothing | LoopEvent::TimeToDraw => {}
            LoopEvent::Input(_) => pacer.schedule_input(Instant::now()),
            _ => pacer.schedule(Instant::now()),
        }
        let done = match event {
            LoopEvent::Nothing if queue.is_busy() => {
                let start = Instant::now();
                let effects = app.update(Action::Output(queue.pop_slice()));
                queue.add_work(start.elapsed());
                pacer.schedule(Instant::now());
                Ok(effects)
            }
            LoopEvent::Nothing | LoopEvent::Signal(SignalEvent::Resize) => Ok(Vec::new()),
            LoopEvent::TimeToDraw => {
                queue.start_frame();
                draw_frame(surface, app)
            }
            LoopEvent::Input(input) => {
                panic_for_test(&input);
                Ok(app.input(input))
            }
            LoopEvent::Signal(SignalEvent::Leave(signal)) => Ok(app.handle_signal(signal)),
            LoopEvent::Signal(SignalEvent::Suspend) => surface.suspend().map(|()| Vec::new()),
            LoopEvent::Signal(SignalEvent::Continue) => surface.redraw().map(|()| Vec::new()),
            LoopEvent::Notice(Notice::Answer(answer)) => Ok(app.update(Action::Answer(answer))),
            LoopEvent::Output(bytes) => {
                queue.push(bytes);
                Ok(Vec::new())
            }
            LoopEvent::Notice(Notice::Banner(words)) => Ok(app.update(Action::Banner(words))),
            LoopEvent::Notice(Notice::Why(found)) => Ok(app.update(Action::Found(found))),
            LoopEvent::Notice(Notice::Answers(answers)) => Ok(app.update(Action::Answers(answers))),
            LoopEvent::Notice(Notice::Ended(ending)) => Ok(app.update(Action::Ended(ending))),
            LoopEvent::Notice(Notice::Played | Notice::Concluded | Notice::Increment(_)) => Ok(Vec::new()),
            LoopEvent::Notice(Notice::Saved(saved)) => Ok(app.update(Action::Saved(saved))),
            LoopEvent::Successor(pid) => Ok(app.update(Action::Successor(pid))),
            LoopEvent::SessionOver => Ok(app.update(Action::SessionOver)),
        };
        match done {
            Ok(more) => effects = more,
            Err(_) => return Ok(abandon(app, outbox, commands)),
        }
    }
}

/// Gives the emulator the output that it has not processed yet, before the screen closes.
fn drain_output(app: &mut App, queue: &mut OutputQueue, sources: &EventSources) {
    // The channel contains one piece, and another may arrive while it is received.
    for bytes in sources.output.iter().flat_map(|output| output.try_iter().take(2)) {
        queue.push(bytes);
    }
    app.update(Action::Output(queue.drain()));
}

/// Draws a frame in the current size of the terminal.
fn draw_frame(surface: &mut impl Surface, app: &mut App) -> Result<Vec<Effect>, TuiError> {
    let (columns, rows) = surface.size()?;
    let effects = app.update(Action::Resize(columns, rows));
    surface.draw(app)?;
    Ok(effects)
}

/// Leaves because the terminal is gone, as after SIGHUP.
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

/// Sleeps until an event arrives, a command can be sent, or the deadline has passed.
fn wait_for_event(
    sources: &mut EventSources,
    outbox: &mut Outbox,
    commands: &Sender<Command>,
    queue: &OutputQueue,
    deadline: Option<Instant>,
) -> LoopEvent {
    let mut select = Select::new();
    let inputs = sources.inputs.as_ref().map(|source| select.recv(source));
    let signals = sources.signals.as_ref().map(|source| select.recv(source));
    let notices = sources.notices.as_ref().map(|source| select.recv(source));
    let output = sources.output.as_ref().filter(|_| queue.is_open()).map(|source| select.recv(source));
    let successor = sources.successor.as_ref().map(|search| select.recv(&search.found));
    let taken = outbox.first().map(|_| select.send(commands));
    let operation = match deadline {
        Some(deadline) => match select.select_deadline(deadline) {
            Ok(operation) => operation,
            Err(_) => return LoopEvent::Nothing,
        },
        None => select.select(),
    };
    let index = Some(operation.index());
    if let (true, Some(command)) = (index == taken, outbox.first().cloned()) {
        // If the session is gone, its channel of notices is closed too.
        let _ = operation.send(commands, command);
        outbox.pop();
        return LoopEvent::Nothing;
    }
    if let (true, Some(source)) = (index == inputs, &sources.inputs) {
        return operation.recv(source).map(LoopEvent::Input).unwrap_or_else(|_| {
            sources.inputs = None;
            LoopEvent::Nothing
        });
    }
    if let (true, Some(source)) = (index == signals, &sources.signals) {
        return operation.recv(source).map(LoopEvent::Signal).unwrap_or_else(|_| {
            sources.signals = None;
            LoopEvent::Nothing
        });
    }
    if let (true, Some(source)) = (index == notices, &sources.notices) {
        return operation.recv(source).map(LoopEvent::Notice).unwrap_or_else(|_| {
            sources.notices = None;
            LoopEvent::SessionOver
        });
    }
    if let (true, Some(source)) = (index == output, &sources.output) {
        return operation.recv(source).map(LoopEvent::Output).unwrap_or_else(|_| {
            sources.output = None;
            LoopEvent::Nothing
        });
    }
    if let (true, Some(search)) = (index == successor, &sources.successor) {
        let found = operation.recv(&search.found).map_or(LoopEvent::Nothing, LoopEvent::Successor);
        sources.successor = None;
        return found;
    }
    LoopEvent::Nothing
}

/// Commands that the session has not received yet.
#[derive(Debug, Default)]
struct Outbox(VecDeque<Command>);

impl Outbox {
    /// Adds a command. It replaces the previous one if that is obsolete.
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

    /// Sends all commands, until one times out.
    fn flush(&mut self, commands: &Sender<Command>) {
        while let Some(command) = self.0.pop_front() {
            if commands.send_timeout(command, LAST_COMMAND_TIMEOUT).is_err() {
                return;
            }
        }
    }
}
