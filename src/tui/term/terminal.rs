//! The terminal while the screen is shown on it.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use data_encoding::BASE64;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::layout::{Position, Rect};
use ratatui::{Frame, Terminal};

use super::background;
use super::bounded::BoundedBackend;
use super::error::TuiError;
use super::signals;
use super::tty::{self, TtyWriter, restore};

/// The device that the screen is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Stdout; keys are read from stdin.
    Stdout,
    /// The controlling terminal; stdin and stdout belong to the target.
    Tty,
}

/// Opens the device for reading and for drawing.
fn open(device: Device) -> Result<(File, File), TuiError> {
    let file = |fd: io::Result<std::os::fd::OwnedFd>| {
        fd.map(File::from).map_err(TuiError::terminal("duplicate a file descriptor"))
    };
    match device {
        Device::Tty => {
            let tty = File::options().read(true).write(true).open("/dev/tty");
            let tty = tty.map_err(TuiError::terminal("open /dev/tty"))?;
            Ok((file(tty.as_fd().try_clone_to_owned())?, tty))
        }
        Device::Stdout => {
            let (stdin, stdout) = (io::stdin(), io::stdout());
            if !stdin.is_terminal() {
                return Err(TuiError::NotATerminal { what: "stdin" });
            }
            if !stdout.is_terminal() {
                return Err(TuiError::NotATerminal { what: "stdout" });
            }
            Ok((file(stdin.as_fd().try_clone_to_owned())?, file(stdout.as_fd().try_clone_to_owned())?))
        }
    }
}

/// Whether the terminal's background is light; `None` if it does not say.
pub fn is_background_light(device: Device) -> Option<bool> {
    background::is_light(|| open(device).ok())
}

/// The screen on the terminal. Dropping it restores the terminal.
pub struct Console {
    terminal: Terminal<BoundedBackend>,
}

impl Console {
    /// Switches the terminal to the screen. Also returns the file that keys are read from.
    ///
    /// # Errors
    /// The device is not a terminal, or an operation on it failed.
    pub fn open(device: Device, mouse: bool) -> Result<(Console, File), TuiError> {
        let (input, output) = open(device)?;
        tty::enter(output, mouse)?;
        let backend = BoundedBackend(CrosstermBackend::new(TtyWriter::default()));
        let terminal = Terminal::new(backend).map_err(TuiError::terminal("draw on the terminal"));
        Ok((Console { terminal: terminal.inspect_err(|_| restore())? }, input))
    }

    /// The size in columns and rows.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn size(&mut self) -> Result<(u16, u16), TuiError> {
        let size = self.terminal.backend().size().map_err(TuiError::terminal("read the terminal's size"))?;
        Ok((size.width, size.height))
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), TuiError> {
        self.terminal.draw(draw).map_err(TuiError::terminal("draw on the terminal"))?;
        Ok(())
    }

    /// Copies text to the clipboard of the terminal (OSC 52).
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn copy(&mut self, text: &str) -> Result<(), TuiError> {
        let writer = &mut self.terminal.backend_mut().0;
        let sequence = format!("\x1b]52;c;{}\x07", BASE64.encode(text.as_bytes()));
        let written = writer.write_all(sequence.as_bytes()).and_then(|()| Write::flush(writer));
        written.map_err(TuiError::terminal("write to the terminal"))
    }

    /// Sets the terminal's modes again and clears it, so that the next frame is drawn in full.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn redraw(&mut self) -> Result<(), TuiError> {
        tty::reenter(false)?;
        self.clear()
    }

    /// Restores the terminal, stops this process, and shows the screen again when it is continued.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspend(&mut self) -> Result<(), TuiError> {
        restore();
        signals::stop();
        tty::reenter(true)?;
        self.clear()
    }

    fn clear(&mut self) -> Result<(), TuiError> {
        let size = self.terminal.size().map_err(TuiError::terminal("read the terminal's size"))?;
        // `Terminal::clear` is not used: it queries the cursor's position and waits for the answer
        // among the keys.
        let area = Rect::from((Position::ORIGIN, size));
        self.terminal.resize(area).map_err(TuiError::terminal("clear the terminal"))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        tty::close();
    }
}

/// The number of columns of sigtop's terminal, if it has one.
pub fn terminal_columns() -> Option<usize> {
    crossterm::terminal::size().ok().map(|(columns, _)| columns.into())
}
