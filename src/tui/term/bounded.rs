//! A ratatui backend that limits the size of the drawn area.
//!
//! A frame's buffers take memory for each cell, and ratatui computes areas in `u16`; a terminal may
//! report 65,535 × 65,535 cells.

use std::io;

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

use super::tty::TtyWriter;

/// Maximum size that is drawn, in columns and rows. Cells to the right of it or below it stay
/// blank.
pub const MAX_DRAWN: (u16, u16) = (1000, 500);

/// A crossterm backend whose size is at most [`MAX_DRAWN`].
pub struct BoundedBackend(pub CrosstermBackend<TtyWriter>);

fn clamp(size: Size) -> Size {
    Size { width: size.width.min(MAX_DRAWN.0), height: size.height.min(MAX_DRAWN.1) }
}

impl Backend for BoundedBackend {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.0.draw(content)
    }

    fn append_lines(&mut self, count: u16) -> io::Result<()> {
        self.0.append_lines(count)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size().map(clamp)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = self.0.window_size()?;
        Ok(WindowSize { columns_rows: clamp(size.columns_rows), ..size })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_larger_sizes_are_clamped() {
        let clamped = |width, height| clamp(Size { width, height });
        assert_eq!(clamped(80, 24), Size { width: 80, height: 24 });
        assert_eq!(clamped(80, 65535), Size { width: 80, height: MAX_DRAWN.1 });
        assert_eq!(clamped(65535, 24), Size { width: MAX_DRAWN.0, height: 24 });
    }
}
