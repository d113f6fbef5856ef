//! The names of rows as a pane shows them: fitted or scrolled, and with their owners.

use crate::tally::query::without_owner;
use crate::tui::fit_names::{self, NameToFit};
use crate::tui::pane::context::PaneContext;
use crate::tui::text;
use std::borrow::Cow;

/// The name of a row, with its thread or process if rows are grouped by thread or process:
/// `parse [worker-0 41280]`.
pub(super) fn name_with_owner<'a>(context: &PaneContext<'_>, name: &'a str, full: &str) -> Cow<'a, str> {
    let has_owners = context.answer.is_some_and(|answer| answer.question.group.owner().is_some());
    match full.get(without_owner(full).len()..) {
        Some(owner) if has_owners && !name.ends_with(owner) => format!("{name}{owner}").into(),
        _ => name.into(),
    }
}

/// Fits the names of visible rows in the style of the screen, or scrolls them.
pub(super) fn fit_names(context: &PaneContext<'_>, names: &[NameToFit<'_>]) -> Vec<String> {
    if context.panes.top.pan() == 0 {
        return fit_names::fit_names(names, context.screen.names);
    }
    names.iter().map(|name| fit_name(context, name.full, name.short, name.room).into_owned()).collect()
}

/// Fits one name in the style of the screen, or scrolls it.
pub(super) fn fit_name<'a>(context: &PaneContext<'_>, full: &'a str, short: &'a str, room: usize) -> Cow<'a, str> {
    match context.panes.top.pan() {
        0 => fit_names::fit_name(&NameToFit { full, short, room }, context.screen.names),
        pan => text::scroll(context.screen.names.pick(full, short), room, pan.into()).into(),
    }
}
