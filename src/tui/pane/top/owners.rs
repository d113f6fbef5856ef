//! The threads, processes and titles that rows belong to, as their column shows them. If one has no
//! room, all lose the words with which they begin alike: `UPDATE waiting` and `idle` of
//! `postgres: app shop (local) UPDATE waiting` and `postgres: app shop (local) idle`.

use crate::tui::text;

/// Fits the owners of visible rows into a column.
pub(super) fn fit_owners(owners: &[&str], room: usize) -> Vec<String> {
    let is_cut = owners.iter().any(|owner| text::columns(owner, room + 1) > room);
    let shared = if is_cut { shared_bytes(owners) } else { 0 };
    owners.iter().map(|owner| text::cut_middle(&owner[shared..], room).into_owned()).collect()
}

/// The length of the words with which all begin. What is left has a word at least.
fn shared_bytes(owners: &[&str]) -> usize {
    let Some((first, others)) = owners.split_first() else { return 0 };
    let ends = first.match_indices(' ').map(|(at, _)| at + 1);
    let is_shared = |&end: &usize| others.iter().all(|other| other.len() > end && other.starts_with(&first[..end]));
    // If all are the same, they have nothing to tell apart.
    if others.iter().all(|other| other == first) { 0 } else { ends.take_while(is_shared).last().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_titles_begin_with_is_cut_once() {
        let titles = ["postgres: app shop (local) UPDATE waiting", "postgres: app shop (local) idle"];
        assert_eq!(fit_owners(&titles, 14), ["UPDATE waiting", "idle"]);
        assert_eq!(fit_owners(&titles, 50), titles, "there is room");
        let different = ["postgres: checkpointer", "redis-server *:6379"];
        assert_eq!(fit_owners(&different, 40), different);
        let same = fit_owners(&titles[..1], 20);
        assert!(same[0].starts_with("postgr"), "{same:?}");
        assert_eq!(fit_owners(&["worker 1", "worker 12"], 7), ["1", "12"]);
        assert_eq!(fit_owners(&["a b", "a"], 1).len(), 2);
        assert!(fit_owners(&[], 9).is_empty());
    }
}
