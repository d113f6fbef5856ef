//! The event loop of the list of processes. A thread surveys the processes once a second.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::keymap::Keymap;
use super::pane;
use super::theme::Theme;
use crate::attach::proc;
use crate::attach::survey::{Survey, SurveyedProcess};
use crate::tui::pane::picker::state::{Choice, Picker};
use crate::tui::term::error::TuiError;
use crate::tui::term::input::{self, Input};
use crate::tui::term::signals::{self, SignalEvent, SignalListener};
use crate::tui::term::terminal::{Console, Device};

/// Time between two surveys.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);
/// Time between the first two surveys. CPU shares need two of them.
const FIRST_SURVEY_INTERVAL: Duration = Duration::from_millis(300);
/// Capacity of the channel for input events.
const MAX_KEYS: usize = 256;

/// The choice of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Watch these processes.
    Processes(Vec<u32>),
    /// Watch nothing.
    Nothing,
    /// A signal closed the list.
    Signal(i32),
}

impl Picked {
    /// The exit status of sigtop after this choice.
    pub fn exit_status(&self) -> u8 {
        match self {
            Picked::Signal(signal) => 128u8.saturating_add(*signal as u8),
            Picked::Processes(_) | Picked::Nothing => 0,
        }
    }
}

/// Shows the list of processes until the user chooses some or leaves. `filter` is the initial
/// filter; `follows` says that the children of a process are watched with it.
///
/// # Errors
/// The terminal cannot be set up, or is gone.
pub fn pick(
    (filter, follows): (&str, bool),
    device: Device,
    theme: Theme,
    keys: &Keymap,
    mouse: bool,
) -> Result<Picked, TuiError> {
    let (listener, signals) = SignalListener::start()?;
    let (mut console, terminal) = Console::open(device, mouse)?;
    let failure = |cause| TuiError::Signals { cause };
    let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|cause| failure(cause.into()))?;
    let (sender, inputs) = bounded(MAX_KEYS);
    let reader = thread::Builder::new().name("keys".to_owned());
    let reader = reader.spawn(move || input::read(terminal, &stop, &sender)).map_err(failure)?;
    let (sender_of_surveys, surveys) = bounded(1);
    let (running, stopped) = bounded::<()>(0);
    let surveyor = thread::Builder::new().name("processes".to_owned());
    let surveyor = surveyor.spawn(move || survey_processes(&sender_of_surveys, &stopped)).map_err(failure)?;

    let mut picker = Picker::new(filter, proc::hides_others(), follows);
    let picked = run_loop(&mut console, &mut picker, theme, keys, &inputs, &signals, &surveys);

    drop((stopper, running, surveys, inputs));
    let _ = (reader.join(), surveyor.join());
    drop(console);
    drop(listener);
    picked
}

fn survey_processes(surveys: &Sender<Vec<SurveyedProcess>>, stopped: &Receiver<()>) {
    let mut survey = Survey::default();
    let mut pause = FIRST_SURVEY_INTERVAL;
    while surveys.send(survey.look()).is_ok() {
        // Nothing is ever sent on this channel: it is closed, or the timeout expires.
        if stopped.recv_timeout(pause) == Err(crossbeam_channel::RecvTimeoutError::Disconnected) {
            return;
        }
        pause = SURVEY_INTERVAL;
    }
}

fn run_loop(
    console: &mut Console,
    picker: &mut Picker,
    theme: Theme,
    keys: &Keymap,
    inputs: &Receiver<Input>,
    signals: &Receiver<SignalEvent>,
    surveys: &Receiver<Vec<SurveyedProcess>>,
) -> Result<Picked, TuiError> {
    loop {
        let (_, rows) = console.size()?;
        picker.fit(pane::picker::draw::rows(rows));
        console.draw(|frame| pane::picker::draw::draw(frame, picker, theme, keys.bindings()))?;
        let mut choice = None;
        select! {
            recv(inputs) -> input => {
                let first_row = pane::picker::draw::HEAD;
                let more = inputs.try_iter().take(MAX_KEYS);
                for input in std::iter::once(input.unwrap_or(Input::Gone)).chain(more) {
                    choice = choice.or_else(|| picker.input(keys.bindings(), input, first_row));
                }
            }
            recv(surveys) -> candidates => if let Ok(candidates) = candidates { picker.set_processes(candidates) },
            recv(signals) -> event => match event {
                Ok(SignalEvent::Leave(signal)) => return Ok(Picked::Signal(signal)),
                Ok(SignalEvent::Suspend) => console.suspend()?,
                Ok(SignalEvent::Continue) => console.redraw()?,
                Ok(SignalEvent::Resize) => {}
                Err(_) => return Ok(Picked::Nothing),
            },
        }
        match choice {
            Some(Choice::Watch(pids)) => return Ok(Picked::Processes(pids)),
            Some(Choice::Leave) => return Ok(Picked::Nothing),
            Some(Choice::Redraw) => console.redraw()?,
            // Without a shell that could resume sigtop, the key does nothing.
            Some(Choice::Suspend) => drop(signals::suspend_job()),
            None => {}
        }
    }
}
