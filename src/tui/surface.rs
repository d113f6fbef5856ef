//! The surface that the event loop draws on: the terminal, or a stand-in for it in tests.

use super::app::App;
use super::screen;
use super::term::error::TuiError;
use super::term::terminal::Console;

/// A screen.
pub trait Surface {
    /// The size in columns and rows.
    ///
    /// # Errors
    /// The terminal is gone.
    fn size(&mut self) -> Result<(u16, u16), TuiError>;

    /// Draws the state.
    ///
    /// # Errors
    /// The terminal is gone.
    fn draw(&mut self, app: &App) -> Result<(), TuiError>;

    /// Copies text to the clipboard.
    ///
    /// # Errors
    /// The terminal is gone.
    fn copy(&mut self, text: &str) -> Result<(), TuiError>;

    /// Clears the screen, so that the next frame is drawn in full.
    ///
    /// # Errors
    /// The terminal is gone.
    fn redraw(&mut self) -> Result<(), TuiError>;

    /// Restores the terminal, stops this process, and shows the screen again when it is continued.
    ///
    /// # Errors
    /// The terminal is gone.
    fn suspend(&mut self) -> Result<(), TuiError>;
}

impl Surface for Console {
    fn size(&mut self) -> Result<(u16, u16), TuiError> {
        Console::size(self)
    }

    fn draw(&mut self, app: &App) -> Result<(), TuiError> {
        Console::draw(self, |frame| screen::draw(frame, app))
    }

    fn copy(&mut self, text: &str) -> Result<(), TuiError> {
        Console::copy(self, text)
    }

    fn redraw(&mut self) -> Result<(), TuiError> {
        Console::redraw(self)
    }

    fn suspend(&mut self) -> Result<(), TuiError> {
        Console::suspend(self)
    }
}
