//! The roles of texts on the screen.

/// The role of a text, which determines its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Numbers and names.
    Text,
    /// Less important text: zeros, units, hints.
    Dim,
    /// The name of the program, the clock.
    Strong,
    /// Rules between panes.
    Rule,
    /// The title of a pane.
    Title,
    /// The title of the focused pane.
    TitleActive,
    /// Column headers.
    Column,
    /// The header of the sort column.
    ColumnSorted,
    /// A good state: sampling is running.
    Good,
    /// A notable state: waiting, frozen, symbolizing.
    Notable,
    /// A bad state: losses, refusals, errors.
    Bad,
    /// An active filter.
    Chip,
    /// A key in the footer.
    Key,
    /// A question or a prompt.
    Prompt,
    /// A match of a search.
    Match,
}
