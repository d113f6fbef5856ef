//! The loop of the list of what can be watched: keys and signals come in, a thread looks at the processes once a second.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select};

use super::input::{self, Input};
use super::keymap::Keymap;
use super::pane;
use super::picker::{Choice, Picker};
use super::signals::{self, Heard, Listener};
use super::terminal::{Console, Device, Surface, TuiError};
use super::theme::Theme;
use crate::attach::survey::{Candidate, Survey};

/// Between two looks at the processes.
const LOOK: Duration = Duration::from_secs(1);
/// The second look comes sooner: shares of a CPU need two.
const SECOND_LOOK: Duration = Duration::from_millis(300);
/// Keys that wait for the loop, at most.
const MAX_KEYS: usize = 256;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picked {
    /// This process is to be watched.
    Process(u32),
    /// Nothing is.
    Nothing,
    /// A signal ended it.
    Signal(i32),
}

impl Picked {
    /// Of a program that ends with it.
    pub fn exit_status(self) -> u8 {
        match self {
            Picked::Signal(signal) => 128u8.saturating_add(signal as u8),
            Picked::Process(_) | Picked::Nothing => 0,
        }
    }
}

/// Shows what can be watched, until one is chosen or the list is left. `filter` is as if it had been typed.
///
/// # Errors
/// There is no terminal to draw on, or it refused.
pub fn pick(filter: &str, device: Device, theme: Theme, keys: &Keymap, mouse: bool) -> Result<Picked, TuiError> {
    let (listener, heard) = Listener::start()?;
    let (mut console, terminal) = Console::open(device, mouse)?;
    let cannot = |cause| TuiError::Signals { cause };
    let (stop, stopper) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|cause| cannot(cause.into()))?;
    let (sender, inputs) = bounded(MAX_KEYS);
    let reader = thread::Builder::new().name("keys".to_owned());
    let reader = reader.spawn(move || input::read(terminal, &stop, &sender)).map_err(cannot)?;
    // One list waits: whoever is busy drawing gets the newest soon enough.
    let (tell, lists) = bounded(1);
    let (enough, over) = bounded::<()>(0);
    let looker = thread::Builder::new().name("processes".to_owned());
    let looker = looker.spawn(move || look(&tell, &over)).map_err(cannot)?;

    let mut picker = Picker::new(filter);
    let picked = drive(&mut console, &mut picker, theme, keys, &inputs, &heard, &lists);

    drop((stopper, enough, lists, inputs));
    let _ = (reader.join(), looker.join());
    drop(console);
    drop(listener);
    picked
}

fn look(tell: &Sender<Vec<Candidate>>, over: &Receiver<()>) {
    let mut survey = Survey::default();
    let mut pause = SECOND_LOOK;
    while tell.send(survey.look()).is_ok() {
        // Nothing is ever sent there: it ends, or the time is over.
        if over.recv_timeout(pause) == Err(crossbeam_channel::RecvTimeoutError::Disconnected) {
            return;
        }
        pause = LOOK;
    }
}

fn drive(
    console: &mut Console,
    picker: &mut Picker,
    theme: Theme,
    keys: &Keymap,
    inputs: &Receiver<Input>,
    heard: &Receiver<Heard>,
    lists: &Receiver<Vec<Candidate>>,
) -> Result<Picked, TuiError> {
    loop {
        let (_, rows) = console.size()?;
        picker.fit(pane::picker::rows(rows));
        console.show(|frame| pane::picker::draw(frame, picker, theme, keys.bindings()))?;
        let mut choice = None;
        select! {
            recv(inputs) -> input => {
                let first_row = pane::picker::HEAD;
                let more = inputs.try_iter().take(MAX_KEYS);
                for input in std::iter::once(input.unwrap_or(Input::Gone)).chain(more) {
                    choice = choice.or_else(|| picker.input(keys.bindings(), input, first_row));
                }
            }
            recv(lists) -> list => if let Ok(list) = list { picker.hear(list) },
            recv(heard) -> word => match word {
                Ok(Heard::Leave(signal)) => return Ok(Picked::Signal(signal)),
                Ok(Heard::Suspend) => console.stop()?,
                Ok(Heard::Continue) => console.renew()?,
                Ok(Heard::Resize) => {}
                Err(_) => return Ok(Picked::Nothing),
            },
        }
        match choice {
            Some(Choice::Watch(pid)) => return Ok(Picked::Process(pid)),
            Some(Choice::Leave) => return Ok(Picked::Nothing),
            Some(Choice::Redraw) => console.renew()?,
            // Without a shell there is nobody to come back from a stop to.
            Some(Choice::Suspend) => drop(signals::suspend_job()),
            None => {}
        }
    }
}
