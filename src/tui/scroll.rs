//! Cursor and visible range of a scrolled list. They change on keys only.

use super::action::Motion;

/// Cursor and visible range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    row: usize,
    offset: usize,
    height: usize,
    length: usize,
}

impl Scroll {
    /// The cursor's row.
    pub fn row(&self) -> usize {
        self.row
    }

    /// The first visible row.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Number of visible rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Sets the number of visible rows. The first call centers the cursor.
    pub fn fit(&mut self, height: usize) {
        let is_first = self.height == 0;
        if self.height != height {
            self.height = height;
            self.reveal();
        }
        if is_first {
            self.centre(self.row);
        }
    }

    /// Sets the length of the list.
    pub fn set_length(&mut self, length: usize) {
        self.length = length;
        self.row = self.row.min(length.saturating_sub(1));
        self.offset = self.offset.min(length.saturating_sub(self.height.max(1)));
    }

    /// Moves the cursor to a row and scrolls by the least amount that makes it visible.
    pub fn stand(&mut self, row: usize) {
        self.row = row.min(self.length.saturating_sub(1));
        self.reveal();
    }

    /// Moves the cursor to a row and centers it.
    pub fn centre(&mut self, row: usize) {
        self.stand(row);
        self.offset = self.row.saturating_sub(self.height / 2).min(self.length.saturating_sub(self.height.max(1)));
    }

    /// Updates row and length after rows were inserted; the cursor keeps its position on the
    /// screen.
    pub fn follow(&mut self, row: usize, length: usize) {
        let above = self.row.saturating_sub(self.offset);
        self.set_length(length);
        self.row = row.min(length.saturating_sub(1));
        self.offset = self.row.saturating_sub(above).min(length.saturating_sub(self.height.max(1)));
    }

    fn reveal(&mut self) {
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(self.height.max(1)));
    }

    /// Moves the cursor.
    pub fn go(&mut self, motion: Motion) {
        let page = self.height.saturating_sub(1).max(1) as isize;
        self.stand(match motion {
            Motion::Rows(rows) => self.row.saturating_add_signed(rows.into()),
            Motion::Pages(pages) => self.row.saturating_add_signed(isize::from(pages) * page),
            Motion::First => 0,
            Motion::Last => self.length,
            Motion::Columns(_) => return,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_scrolls_as_little_as_it_takes() {
        let mut scroll = Scroll::default();
        scroll.set_length(100);
        scroll.fit(10);
        scroll.centre(50);
        assert_eq!((scroll.row(), scroll.offset()), (50, 45));
        scroll.go(Motion::Rows(4));
        assert_eq!(scroll.offset(), 45);
        scroll.go(Motion::Rows(1));
        assert_eq!((scroll.row(), scroll.offset()), (55, 46));
        scroll.go(Motion::Last);
        assert_eq!((scroll.row(), scroll.offset()), (99, 90));
        scroll.go(Motion::Pages(-1));
        assert_eq!(scroll.row(), 90);
        scroll.centre(2);
        assert_eq!(scroll.offset(), 0);
    }

    #[test]
    fn rows_that_come_between_do_not_move_the_cursor_on_the_screen() {
        let mut scroll = Scroll::default();
        scroll.set_length(100);
        scroll.fit(10);
        scroll.centre(50);
        scroll.follow(70, 140);
        assert_eq!((scroll.row(), scroll.offset()), (70, 65));
        scroll.follow(0, 0);
        assert_eq!((scroll.row(), scroll.offset()), (0, 0));
    }
}
