//! Layout of the panes for a screen size. The state uses it to know the length of a page, the
//! screen to draw.

use ratatui::layout::Rect;

use super::term::emulator;

/// Minimum screen size (columns, rows). Smaller screens show a single line.
pub const MIN_SIZE: (u16, u16) = (40, 8);
/// Minimum columns to show the callers beside the top pane.
const CALLERS_FROM_COLUMNS: u16 = 96;
/// Minimum rows to show the flame graph below them.
const FLAME_FROM_ROWS: u16 = 24;
/// Minimum rows of the flame graph, and of those that it may take if it has more levels.
const FLAME_ROWS: (u16, u16) = (4, 8);
/// Minimum rows to show the target's output on the dashboard too.
const OUTPUT_FROM_ROWS: u16 = 36;
/// Rows of the header, of status line and footer, and of a pane's title.
const HEADER: u16 = 2;
const FOOT: u16 = 2;
const TITLE: u16 = 1;
/// Rows of the top pane above the table: the title and the column titles.
pub const TOP_HEAD: u16 = 2;

/// A pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Functions by weight.
    Top,
    /// Callers and callees of the selected function.
    Callers,
    /// The flame graph.
    Flame,
    /// Source and assembly of the selected function.
    Source,
    /// Processes and threads.
    Threads,
    /// The target's terminal.
    Output,
}

impl Pane {
    /// All panes, in Tab order.
    pub const ALL: [Pane; 6] = [Pane::Top, Pane::Callers, Pane::Flame, Pane::Source, Pane::Threads, Pane::Output];

    /// The key that maximizes the pane.
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

    /// The name of the action that shows the pane alone, in the config file.
    pub fn word(self) -> &'static str {
        match self {
            Pane::Top => "top",
            Pane::Callers => "callers",
            Pane::Flame => "flame",
            Pane::Source => "source",
            Pane::Threads => "threads",
            Pane::Output => "output",
        }
    }

    /// The pane's title.
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

/// The set of visible panes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Every pane that fits.
    Dashboard,
    /// A single pane.
    Alone(Pane),
}

/// The rows that the target's output takes on the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRows {
    /// It takes none: the target has its own terminal.
    None,
    /// It takes its title only, because nothing was written yet.
    Title,
    /// It takes its title and as many of these lines as may be shown.
    Lines(u16),
}

impl OutputRows {
    /// The rows for a target that has sigtop's terminal or not, and has written this many lines to
    /// it. All rows are shown while the user types.
    pub fn new(has_terminal: bool, is_typing: bool, lines: u16) -> OutputRows {
        match (has_terminal, lines) {
            (false, _) => OutputRows::None,
            (true, _) if is_typing => OutputRows::Lines(u16::MAX),
            (true, 0) => OutputRows::Title,
            (true, lines) => OutputRows::Lines(lines),
        }
    }
}

/// Areas of everything on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Two lines about target and sampling.
    pub header: Rect,
    /// The area between header and status line.
    pub body: Rect,
    /// The panes in the body.
    pub panes: Vec<(Pane, Rect)>,
    /// The bar between panes that are side by side.
    pub bar: Option<Rect>,
    /// The status line: prompt, question, message, exit status, or the selected function.
    pub status: Rect,
    /// The keys that apply.
    pub footer: Rect,
}

impl Layout {
    /// Lays out a screen (columns, rows); `None` when it is smaller than [`MIN_SIZE`]. `levels` is
    /// the number of levels of the flame graph.
    pub fn new((columns, rows): (u16, u16), view: View, output: OutputRows, levels: u16) -> Option<Layout> {
        if columns < MIN_SIZE.0 || rows < MIN_SIZE.1 {
            return None;
        }
        let body = Rect::new(0, HEADER, columns, rows - HEADER - FOOT);
        let (panes, bar) = match view {
            View::Alone(pane) => (vec![(pane, body)], None),
            View::Dashboard => dashboard(body, output, levels),
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

    /// The area of a pane, if it is visible.
    pub fn pane(&self, pane: Pane) -> Option<Rect> {
        self.panes.iter().find(|(shown, _)| *shown == pane).map(|(_, area)| *area)
    }

    /// The pane at a cell.
    pub fn at(&self, column: u16, row: u16) -> Option<(Pane, Rect)> {
        self.panes.iter().find(|(_, area)| area.contains((column, row).into())).copied()
    }
}

/// Lays out the dashboard: always the top pane, and as far as they fit the callers beside it and
/// the flame graph and the target's output below. Also returns the bar between panes side by side.
fn dashboard(body: Rect, output: OutputRows, levels: u16) -> (Vec<(Pane, Rect)>, Option<Rect>) {
    let rows = HEADER + body.height + FOOT;
    let output = match output {
        _ if rows < OUTPUT_FROM_ROWS => 0,
        OutputRows::None => 0,
        OutputRows::Title => TITLE,
        OutputRows::Lines(lines) => (rows / 10).clamp(3, 8).min(lines.saturating_add(TITLE)),
    };
    let most = ((body.height - output) * 4 / 9).max(FLAME_ROWS.1);
    let flame = levels.saturating_add(TITLE).clamp(FLAME_ROWS.0, most);
    let flame = if rows >= FLAME_FROM_ROWS { flame } else { 0 };
    let above = Rect { height: body.height - output - flame, ..body };
    let (mut panes, mut bar) = (Vec::new(), None);
    if body.width >= CALLERS_FROM_COLUMNS {
        let callers = body.width / 20 * 9;
        let top = Rect { width: body.width - callers - 1, ..above };
        let callers = Rect { x: top.right() + 1, width: callers, ..above };
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

/// Rows of a help page on a screen of this size (columns, rows).
pub fn page_rows((_, rows): (u16, u16)) -> usize {
    rows.saturating_sub(HEADER + FOOT + TITLE).into()
}

/// Rows of the table that fit into the top pane's area.
pub fn top_rows(area: Rect) -> usize {
    area.height.saturating_sub(TOP_HEAD).into()
}

/// The visible row of the table at a row of the screen, counted from the first visible row.
pub fn top_row(area: Rect, row: u16) -> Option<usize> {
    row.checked_sub(area.y + TOP_HEAD).map(usize::from)
}

/// The size of the target's terminal (columns, rows) on a screen of this size. It is the size of
/// the maximized output pane, however much of it is visible, so that the target receives SIGWINCH
/// only when the screen is resized.
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
                let views = [
                    (View::Dashboard, OutputRows::Lines(1)),
                    (View::Dashboard, OutputRows::Lines(u16::MAX)),
                    (View::Dashboard, OutputRows::Title),
                    (View::Alone(Pane::Flame), OutputRows::Lines(3)),
                ];
                for (view, output) in views {
                    let Some(layout) = Layout::new((columns, rows), view, output, rows) else {
                        assert!(columns < 40 || rows < 8);
                        continue;
                    };
                    let areas = layout.panes.iter().map(|(_, area)| *area).chain(layout.bar);
                    let cells: u32 = areas.clone().map(Rect::area).sum();
                    assert_eq!(cells, layout.body.area(), "{columns}×{rows}: every cell has one owner");
                    let is_title = |area: Rect| output == OutputRows::Title && layout.pane(Pane::Output) == Some(area);
                    assert!(areas.clone().all(|area| area.height >= 2 || is_title(area)));
                    assert!(areas.clone().all(|area| area.intersection(layout.body) == area));
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
            let layout = Layout::new(size, View::Dashboard, OutputRows::Lines(9), 9).unwrap();
            layout.panes.iter().map(|(pane, _)| pane.number()).collect::<String>()
        };
        assert_eq!(shown((140, 45)), "1236");
        assert_eq!(shown((100, 30)), "123");
        assert_eq!(shown((80, 24)), "13");
        assert_eq!(shown((140, 20)), "12");
        assert_eq!(shown((60, 12)), "1");
    }

    #[test]
    fn a_pane_takes_the_rows_that_it_has() {
        let height = |pane, lines, levels| {
            let output = OutputRows::new(true, false, lines);
            let layout = Layout::new((140, 45), View::Dashboard, output, levels).unwrap();
            layout.pane(pane).unwrap().height
        };
        assert_eq!([0, 1, 2, 3, 99].map(|lines| height(Pane::Output, lines, 9)), [1, 2, 3, 4, 4]);
        assert_eq!([0, 3, 4, 9, 99].map(|levels| height(Pane::Flame, 0, levels)), [4, 4, 5, 10, 17]);
        assert_eq!(height(Pane::Top, 0, 9), 41 - 1 - 10);
    }

    #[test]
    fn the_target_keeps_its_size_whatever_is_shown() {
        let alone = Layout::new((100, 30), View::Alone(Pane::Output), OutputRows::Lines(9), 0).unwrap();
        assert_eq!(target_size((100, 30)), (100, alone.body.height - TITLE));
        assert_eq!(target_size((1, 1)), emulator::MIN_SIZE);
    }
}
