//! The state of the terminal: its modes before and during the screen, and how it is restored on
//! every exit path.
//!
//! There is one terminal, so its state is one static. All output goes through [`TtyWriter`], which
//! writes only while the screen is shown: a frame that is half drawn when a panic restores the
//! terminal is not completed on it.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::ThreadId;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use super::background;
use super::error::TuiError;

/// Alternate screen, cursor off, clear, bracketed paste.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[?2004h";
/// Mouse buttons and wheel, with SGR coordinates, which have no maximum column.
const MOUSE: &str = "\x1b[?1000h\x1b[?1006h";
/// Undoes [`ENTER`] and [`MOUSE`]; the alternate screen last.
const LEAVE: &str = "\x1b[?1006l\x1b[?1000l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// Maximum number of panics of other threads that are kept until the screen closes.
const MAX_PANICS: usize = 10;

/// The terminal and its modes.
struct TtyState {
    output: File,
    /// The modes to restore.
    original: Termios,
    raw: Termios,
    mouse: bool,
    /// Whether the screen is shown.
    is_active: bool,
    /// The thread that draws. Its panic closes the screen.
    owner: ThreadId,
    /// Panics of other threads.
    panics: Vec<String>,
}

static STATE: Mutex<Option<TtyState>> = Mutex::new(None);

fn lock_state() -> MutexGuard<'static, Option<TtyState>> {
    // No code that holds this lock leaves the state inconsistent when it panics.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TtyState {
    fn enter(&mut self) -> io::Result<()> {
        tcsetattr(&self.output, SetArg::TCSANOW, &self.raw)?;
        self.is_active = true;
        self.output.write_all(ENTER.as_bytes())?;
        if self.mouse {
            self.output.write_all(MOUSE.as_bytes())?;
        }
        Ok(())
    }

    fn leave(&mut self) {
        if std::mem::replace(&mut self.is_active, false) {
            // If the terminal is gone, there is nothing to restore.
            let _ = self.output.write_all(LEAVE.as_bytes());
            // A reply that has not arrived yet is not to reach the shell.
            let how = if background::is_reply_awaited() { SetArg::TCSAFLUSH } else { SetArg::TCSANOW };
            let _ = tcsetattr(&self.output, how, &self.original);
        }
    }
}

/// Switches the terminal to the screen.
pub(super) fn enter(output: File, mouse: bool) -> Result<(), TuiError> {
    let original = read_modes(&output)?;
    let mut raw = original.clone();
    cfmakeraw(&mut raw);
    install_panic_hook();
    let owner = std::thread::current().id();
    let state = TtyState { output, original, raw, mouse, is_active: false, owner, panics: Vec::new() };
    let entered = lock_state().insert(state).enter();
    entered.map_err(TuiError::terminal("set up the terminal")).inspect_err(|_| restore())
}

/// Switches the terminal to the screen again. With `read_original`, the modes that it has now are
/// the ones to restore later: the shell may have changed them.
pub(super) fn reenter(read_original: bool) -> Result<(), TuiError> {
    if let Some(state) = lock_state().as_mut() {
        if read_original {
            state.original = read_modes(&state.output)?;
        }
        state.enter().map_err(TuiError::terminal("set up the terminal"))?;
    }
    Ok(())
}

/// Restores the terminal for good.
pub(super) fn close() {
    restore();
    *lock_state() = None;
}

fn read_modes(output: &File) -> Result<Termios, TuiError> {
    tcgetattr(output).map_err(|cause| TuiError::terminal("read the terminal's modes")(cause.into()))
}

/// Restores the terminal if the screen is shown, and prints the panics of other threads. May be
/// called from anywhere, any number of times.
pub fn restore() {
    let panics = lock_state().as_mut().map(|state| {
        state.leave();
        std::mem::take(&mut state.panics)
    });
    panics.into_iter().flatten().for_each(|panic| eprintln!("{panic}"));
}

/// Restores the terminal, unless another thread is writing to it.
pub fn restore_if_free() {
    if let Ok(mut state) = STATE.try_lock()
        && let Some(state) = state.as_mut()
    {
        state.leave();
    }
}

/// Installs a panic hook that restores the terminal before the panic of the drawing thread is
/// printed. Panics of other threads are printed when the screen closes: the screen stays readable,
/// and the code that depends on such a thread notices its end.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print_panic = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            {
                let mut state = lock_state();
                if let Some(state) = state.as_mut().filter(|state| state.is_active) {
                    if state.owner != std::thread::current().id() {
                        if state.panics.len() < MAX_PANICS {
                            let thread = std::thread::current().name().unwrap_or("a thread").to_owned();
                            state.panics.push(format!("{thread}: {panic}"));
                        }
                        return;
                    }
                    state.leave();
                }
            }
            restore();
            print_panic(panic);
        }));
    });
}

/// A writer that buffers until it is flushed. If the screen is not shown then, the buffer is
/// discarded.
#[derive(Default)]
pub struct TtyWriter(Vec<u8>);

impl Write for TtyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = lock_state();
        let result = match state.as_mut().filter(|state| state.is_active) {
            Some(state) => state.output.write_all(&self.0),
            None => Ok(()),
        };
        self.0.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_that_is_set_is_reset() {
        for mode in ["?1049", "?2004", "?1000", "?1006"] {
            assert!([ENTER, MOUSE].concat().contains(&format!("\x1b[{mode}h")), "{mode}");
            assert!(LEAVE.contains(&format!("\x1b[{mode}l")), "{mode}");
        }
        assert!(LEAVE.ends_with("\x1b[?1049l"));
    }
}
