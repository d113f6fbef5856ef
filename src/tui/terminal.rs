//! The terminal: taken over, drawn on, and given back as it was, from whatever way out.
//!
//! There is one terminal, so its state is one static. Everything that is written goes through [`Gate`], which writes only
//! while the screen is up: a frame that is half drawn when a panic gives the terminal back is not finished on it.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::ThreadId;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal};

use super::app::App;
use super::bounded::Bounded;
use super::{screen, signals};

/// Other screen, no cursor, clear, pastes marked.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[?2004h";
/// Buttons and wheel, in the form that has no limit of columns.
const MOUSE: &str = "\x1b[?1000h\x1b[?1006h";
/// All of it taken back; the other screen last.
const LEAVE: &str = "\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// Panics of other threads that are kept to be told later, at most.
const MAX_PANICS: usize = 10;

/// Where to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// On stdout; keys come from stdin.
    Stdout,
    /// On the terminal that controls this process; stdin and stdout are the target's.
    Tty,
}

/// What can go wrong with a screen.
#[derive(Debug)]
pub enum TuiError {
    /// Stdin or stdout is no terminal.
    NotATerminal {
        /// Which of them.
        what: &'static str,
    },
    /// The terminal belongs to another job.
    Background,
    /// The terminal refused something.
    Terminal {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// The system refused a signal handler or a thread.
    Signals {
        /// What it said.
        cause: io::Error,
    },
}

impl fmt::Display for TuiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuiError::NotATerminal { what } => {
                write!(f, "{what} is no terminal: use --tui to draw on /dev/tty, or run without a screen")
            }
            TuiError::Background => {
                write!(
                    f,
                    "the terminal belongs to another job: start sigtop in the foreground, or run without a screen"
                )
            }
            TuiError::Terminal { doing, cause } => {
                write!(f, "cannot {doing}: {cause}; run without a screen if this terminal has none")
            }
            TuiError::Signals { cause } => {
                write!(f, "cannot listen to signals: {cause}; check the limits of processes")
            }
        }
    }
}

impl std::error::Error for TuiError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TuiError::Terminal { cause, .. } | TuiError::Signals { cause } => Some(cause),
            TuiError::NotATerminal { .. } | TuiError::Background => None,
        }
    }
}

fn cannot(doing: &'static str) -> impl Fn(io::Error) -> TuiError {
    move |cause| TuiError::Terminal { doing, cause }
}

/// The terminal, and how it was before.
struct Taken {
    output: File,
    before: Termios,
    raw: Termios,
    mouse: bool,
    /// Whether the screen is up.
    up: bool,
    /// The thread that draws: its panic ends the screen.
    owner: ThreadId,
    /// What other threads said as they panicked.
    panics: Vec<String>,
}

static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

fn taken() -> MutexGuard<'static, Option<Taken>> {
    // Nothing under this lock leaves the state half changed.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Taken {
    fn raise(&mut self) -> io::Result<()> {
        tcsetattr(&self.output, SetArg::TCSANOW, &self.raw)?;
        self.up = true;
        self.output.write_all(ENTER.as_bytes())?;
        if self.mouse {
            self.output.write_all(MOUSE.as_bytes())?;
        }
        Ok(())
    }

    fn lower(&mut self) {
        if std::mem::replace(&mut self.up, false) {
            // A terminal that is gone needs no restoring, and there is nobody to tell.
            let _ = self.output.write_all(LEAVE.as_bytes());
            let _ = tcsetattr(&self.output, SetArg::TCSANOW, &self.before);
        }
    }
}

/// Gives the terminal back if it is taken. Can be called from anywhere, any number of times.
pub fn restore() {
    let panics = taken().as_mut().map(|taken| {
        taken.lower();
        std::mem::take(&mut taken.panics)
    });
    panics.into_iter().flatten().for_each(|words| eprintln!("{words}"));
}

/// Gives the terminal back unless somebody is just writing to it.
pub fn restore_if_free() {
    if let Ok(mut taken) = TAKEN.try_lock()
        && let Some(taken) = taken.as_mut()
    {
        taken.lower();
    }
}

/// A panic of the thread that draws gives the terminal back before it is told. That of another thread is told when the
/// screen is left: what it worked for notices its end, and the screen stays readable.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            {
                let mut taken = taken();
                if let Some(taken) = taken.as_mut().filter(|taken| taken.up) {
                    if taken.owner != std::thread::current().id() {
                        if taken.panics.len() < MAX_PANICS {
                            let thread = std::thread::current().name().unwrap_or("a thread").to_owned();
                            taken.panics.push(format!("{thread}: {panic}"));
                        }
                        return;
                    }
                    taken.lower();
                }
            }
            restore();
            tell(panic);
        }));
    });
}

/// Whether a screen can be drawn there now.
///
/// # Errors
/// Why not.
pub fn check(device: Device) -> Result<(), TuiError> {
    let (input, _) = open(device)?;
    match tcgetpgrp(&input) {
        Ok(job) if job != getpgrp() => Err(TuiError::Background),
        _ => Ok(()),
    }
}

/// The terminal to read from and the terminal to draw on.
fn open(device: Device) -> Result<(File, File), TuiError> {
    let copy = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from).map_err(cannot("copy a descriptor"));
    match device {
        Device::Tty => {
            let tty = File::options().read(true).write(true).open("/dev/tty").map_err(cannot("open /dev/tty"))?;
            Ok((copy(tty.as_fd().try_clone_to_owned())?, tty))
        }
        Device::Stdout => {
            let (stdin, stdout) = (io::stdin(), io::stdout());
            if !stdin.is_terminal() {
                return Err(TuiError::NotATerminal { what: "stdin" });
            }
            if !stdout.is_terminal() {
                return Err(TuiError::NotATerminal { what: "stdout" });
            }
            Ok((copy(stdin.as_fd().try_clone_to_owned())?, copy(stdout.as_fd().try_clone_to_owned())?))
        }
    }
}

/// What is written waits here for a flush, and is thrown away if the screen is not up then.
pub struct Gate(Vec<u8>);

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut taken = taken();
        let result = match taken.as_mut().filter(|taken| taken.up) {
            Some(taken) => taken.output.write_all(&self.0),
            None => Ok(()),
        };
        self.0.clear();
        result
    }
}

/// The screen while it is up; given back when dropped.
pub struct Console {
    terminal: Terminal<Bounded>,
}

impl Console {
    /// Takes the terminal over; also returns where its keys come from.
    ///
    /// # Errors
    /// It is no terminal, or refused.
    pub fn open(device: Device, mouse: bool) -> Result<(Console, File), TuiError> {
        let (input, output) = open(device)?;
        let before = tcgetattr(&output).map_err(|cause| cannot("read the terminal's modes")(cause.into()))?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        install_hook();
        let owner = std::thread::current().id();
        let state = Taken { output, before, raw, mouse, up: false, owner, panics: Vec::new() };
        taken().insert(state).raise().map_err(cannot("take the terminal over")).inspect_err(|_| restore())?;
        let backend = Bounded(CrosstermBackend::new(Gate(Vec::new())));
        let terminal = Terminal::new(backend).map_err(cannot("draw on the terminal")).inspect_err(|_| restore())?;
        Ok((Console { terminal }, input))
    }

    /// Draws a frame that is no [`App`]'s.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), TuiError> {
        self.terminal.draw(draw).map_err(cannot("draw on the terminal"))?;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), TuiError> {
        let size = self.terminal.size().map_err(cannot("ask for the terminal's size"))?;
        // Not `Terminal::clear`, which asks the terminal where its cursor is and waits for the answer among the keys.
        self.terminal
            .resize(Rect::from((ratatui::layout::Position::ORIGIN, size)))
            .map_err(cannot("clear the terminal"))
    }
}

/// What the loop draws on.
pub trait Surface {
    /// Columns and rows.
    ///
    /// # Errors
    /// The terminal does not say.
    fn size(&mut self) -> Result<(u16, u16), TuiError>;

    /// Draws the state.
    ///
    /// # Errors
    /// The terminal is gone.
    fn draw(&mut self, app: &App) -> Result<(), TuiError>;

    /// Puts text on the clipboard of whoever looks at the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    fn copy(&mut self, text: &str) -> Result<(), TuiError>;

    /// The next frame is drawn on a clear screen, in the terminal's modes set anew.
    ///
    /// # Errors
    /// The terminal is gone.
    fn renew(&mut self) -> Result<(), TuiError>;

    /// Gives the terminal back, stops, and takes the terminal again when continued.
    ///
    /// # Errors
    /// The terminal is gone.
    fn stop(&mut self) -> Result<(), TuiError>;
}

impl Surface for Console {
    fn size(&mut self) -> Result<(u16, u16), TuiError> {
        let size = self.terminal.backend().size().map_err(cannot("ask for the terminal's size"))?;
        Ok((size.width, size.height))
    }

    fn draw(&mut self, app: &App) -> Result<(), TuiError> {
        self.terminal.draw(|frame| screen::draw(frame, app)).map_err(cannot("draw on the terminal"))?;
        Ok(())
    }

    fn copy(&mut self, text: &str) -> Result<(), TuiError> {
        let gate = &mut self.terminal.backend_mut().0;
        let words = format!("\x1b]52;c;{}\x07", base64(text.as_bytes()));
        gate.write_all(words.as_bytes()).and_then(|()| Write::flush(gate)).map_err(cannot("write to the terminal"))
    }

    fn renew(&mut self) -> Result<(), TuiError> {
        if let Some(taken) = taken().as_mut() {
            taken.raise().map_err(cannot("take the terminal over"))?;
        }
        self.clear()
    }

    fn stop(&mut self) -> Result<(), TuiError> {
        restore();
        signals::stop();
        if let Some(taken) = taken().as_mut() {
            // The shell may have changed them meanwhile; what is there now is what it wants back.
            taken.before =
                tcgetattr(&taken.output).map_err(|cause| cannot("read the terminal's modes")(cause.into()))?;
        }
        self.renew()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        restore();
        *taken() = None;
    }
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit) & 63) as usize;
            text.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        let told = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(told, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn the_way_out_takes_back_what_the_way_in_set() {
        for mode in ["?1049", "?2004", "?1000", "?1006"] {
            assert!([ENTER, MOUSE].concat().contains(&format!("\x1b[{mode}h")), "{mode}");
            assert!(LEAVE.contains(&format!("\x1b[{mode}l")), "{mode}");
        }
        assert!(LEAVE.ends_with("\x1b[?1049l"));
    }
}
