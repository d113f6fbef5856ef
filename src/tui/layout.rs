//! Which panes are where at which size. Pure: the state uses it to know how far a page is, the screen to draw.

use ratatui::layout::Rect;

use super::emulator;

/// The smallest screen that shows more than one line (columns, rows).
pub const MIN_SIZE: (u16, u16) = (40, 8);
/// Columns from which on the callers stand beside the top list.
const CALLERS_FROM_COLUMNS: u16 = 96;
/// Columns that they have at least.
const CALLERS_COLUMNS: u16 = 40;
/// Rows from which on the flame lies below them.
const FLAME_FROM_ROWS: u16 = 24;
/// Rows from which on the dashboard has room for the target's last lines too.
const OUTPUT_FROM_ROWS: u16 = 36;
/// Columns from which on window and total stand side by side.
const BOTH_FROM_COLUMNS: u16 = 120;
/// Rows of the header, of the line over the footer and the footer, and of a pane's title.
const HEADER: u16 = 2;
const FOOT: u16 = 2;
const TITLE: u16 = 1;
/// Rows of the top list that are no rows of the table: its title and the heads of its columns.
const TOP_HEAD: u16 = 2;

/// A part of the screen that can have the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// The functions, by weight.
    Top,
    /// Who calls the selected function, and whom it calls.
    Callers,
    /// All stacks as boxes.
    Flame,
    /// The selected function, line by line.
    Source,
    /// Processes and threads.
    Threads,
    /// The target's terminal.
    Output,
}

impl Pane {
    /// All of them, in the order of Tab.
    pub const ALL: [Pane; 6] = [Pane::Top, Pane::Callers, Pane::Flame, Pane::Source, Pane::Threads, Pane::Output];

    /// The key that shows it alone.
    pub fn number(self) -> char {
        match self {
            Pane::Top => '1',
            Pane::Callers => '2',
            Pane::Flame => '3',
            Pane::Source => '4',
            Pane::Threads => '5',
            Pane::Output => '6',
        }
    }

    /// What its title says.
    pub fn name(self) -> &'static str {
        match self {
            Pane::Top => "Top",
            Pane::Callers => "Callers",
            Pane::Flame => "Flame",
            Pane::Source => "Source",
            Pane::Threads => "Threads",
            Pane::Output => "Output",
        }
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Every pane there is room for.
    Dashboard,
    /// One pane.
    Alone(Pane),
}

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Two lines of facts.
    pub header: Rect,
    /// What lies between header and foot.
    pub body: Rect,
    /// The panes in the body.
    pub panes: Vec<(Pane, Rect)>,
    /// The bar between panes that stand side by side.
    pub bar: Option<Rect>,
    /// One line of words: prompt, question, banner, ending, or the selected function.
    pub status: Rect,
    /// One line of keys.
    pub footer: Rect,
}

impl Layout {
    /// Lays out a screen (columns, rows); `None` when it is smaller than [`MIN_SIZE`].
    pub fn new((columns, rows): (u16, u16), view: View, has_output: bool) -> Option<Layout> {
        if columns < MIN_SIZE.0 || rows < MIN_SIZE.1 {
            return None;
        }
        let body = Rect::new(0, HEADER, columns, rows - HEADER - FOOT);
        let (panes, bar) = match view {
            View::Alone(pane) => (vec![(pane, body)], None),
            View::Dashboard => dashboard(body, has_output),
        };
        Some(Layout {
            header: Rect::new(0, 0, columns, HEADER),
            body,
            panes,
            bar,
            status: Rect::new(0, rows - 2, columns, 1),
            footer: Rect::new(0, rows - 1, columns, 1),
        })
    }

    /// Where a pane is, if it is shown.
    pub fn pane(&self, pane: Pane) -> Option<Rect> {
        self.panes.iter().find(|(shown, _)| *shown == pane).map(|(_, area)| *area)
    }

    /// The pane at a cell.
    pub fn at(&self, column: u16, row: u16) -> Option<(Pane, Rect)> {
        self.panes.iter().find(|(_, area)| area.contains((column, row).into())).copied()
    }
}

/// Shares out a body: the top list always, beside it its callers, below them the flame and the target's last lines, as far
/// as there is room; and the bar between what stands side by side.
fn dashboard(body: Rect, has_output: bool) -> (Vec<(Pane, Rect)>, Option<Rect>) {
    let rows = HEADER + body.height + FOOT;
    let output = match rows {
        _ if !has_output => 0,
        0..OUTPUT_FROM_ROWS => 0,
        _ => (rows / 10).clamp(3, 8),
    };
    let flame = if rows >= FLAME_FROM_ROWS { ((body.height - output) * 4 / 9).max(8) } else { 0 };
    let above = Rect { height: body.height - output - flame, ..body };
    let (mut panes, mut bar) = (Vec::new(), None);
    if body.width >= CALLERS_FROM_COLUMNS {
        let top = Rect {
            width: (body.width / 50 * 31 + body.width % 50 * 31 / 50).min(body.width - CALLERS_COLUMNS),
            ..above
        };
        let callers = Rect { x: top.right() + 1, width: above.width - top.width - 1, ..above };
        panes.extend([(Pane::Top, top), (Pane::Callers, callers)]);
        bar = Some(Rect { x: top.right(), width: 1, ..above });
    } else {
        panes.push((Pane::Top, above));
    }
    let mut y = above.bottom();
    for (pane, height) in [(Pane::Flame, flame), (Pane::Output, output)] {
        if height > 0 {
            panes.push((pane, Rect { y, height, ..body }));
            y += height;
        }
    }
    (panes, bar)
}

/// Rows of words that fit on a page over the panes of a screen (columns, rows).
pub fn page_rows((_, rows): (u16, u16)) -> usize {
    rows.saturating_sub(HEADER + FOOT + TITLE).into()
}

/// Rows of the table that fit into the top list's area.
pub fn top_rows(area: Rect) -> usize {
    area.height.saturating_sub(TOP_HEAD).into()
}

/// The row of the table at a row of the screen, counted from the first in view.
pub fn top_row(area: Rect, row: u16) -> Option<usize> {
    row.checked_sub(area.y + TOP_HEAD).map(usize::from)
}

/// Whether the top list shows window and total side by side.
pub fn shows_both(columns: u16, window_ns: Option<u64>) -> bool {
    columns >= BOTH_FROM_COLUMNS && window_ns.is_some()
}

/// The size of the target's terminal (columns, rows) on a screen of this size: that of the output pane alone, however much
/// of it is shown, so that the target is told of a new size only when the screen got one.
pub fn target_size((columns, rows): (u16, u16)) -> (u16, u16) {
    let (least, most) = (emulator::MIN_SIZE, emulator::MAX_SIZE);
    let rows = rows.saturating_sub(HEADER + FOOT + TITLE);
    (columns.clamp(least.0, most.0), rows.clamp(least.1, most.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_layout_or_is_too_small() {
        for columns in 0..200 {
            for rows in 0..80 {
                for view in [View::Dashboard, View::Alone(Pane::Flame)] {
                    let Some(layout) = Layout::new((columns, rows), view, true) else {
                        assert!(columns < 40 || rows < 8);
                        continue;
                    };
                    let areas = layout.panes.iter().map(|(_, area)| *area).chain(layout.bar);
                    let cells: u32 = areas.clone().map(Rect::area).sum();
                    assert_eq!(cells, layout.body.area(), "{columns}×{rows}: every cell has one owner");
                    assert!(areas.clone().all(|area| area.height >= 2 && area.intersection(layout.body) == area));
                    for (index, area) in areas.clone().enumerate() {
                        assert!(areas.clone().skip(index + 1).all(|other| !area.intersects(other)));
                    }
                    assert_eq!(layout.body.bottom(), layout.status.y);
                    assert_eq!(layout.footer.bottom(), rows);
                }
            }
        }
    }

    #[test]
    fn panes_go_in_order() {
        let shown = |size| {
            let layout = Layout::new(size, View::Dashboard, true).unwrap();
            layout.panes.iter().map(|(pane, _)| pane.number()).collect::<String>()
        };
        assert_eq!(shown((140, 45)), "1236");
        assert_eq!(shown((100, 30)), "123");
        assert_eq!(shown((80, 24)), "13");
        assert_eq!(shown((140, 20)), "12");
        assert_eq!(shown((60, 12)), "1");
    }

    #[test]
    fn the_target_keeps_its_size_whatever_is_shown() {
        let alone = Layout::new((100, 30), View::Alone(Pane::Output), true).unwrap();
        assert_eq!(target_size((100, 30)), (100, alone.body.height - TITLE));
        assert_eq!(target_size((1, 1)), emulator::MIN_SIZE);
    }
}
