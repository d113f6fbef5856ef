//! The titles of processes: their command lines, over which servers write what they do. Each is
//! stored once.

use std::collections::HashMap;

pub use super::ids::TitleId;

/// Maximum number of titles. Further ones share the last.
const MAX_TITLES: usize = 4096;
/// The title that stands for those beyond [`MAX_TITLES`].
const OTHER_TITLES: &str = "[other titles]";

/// All titles of a session.
#[derive(Default)]
pub struct TitleTable {
    titles: Vec<String>,
    ids: HashMap<String, TitleId>,
}

impl TitleTable {
    /// Returns the id of a title, given as words, and adds it if it is new.
    pub(super) fn intern(&mut self, words: &[String]) -> TitleId {
        let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
        let mut title = words.join(" ");
        if self.titles.len() >= MAX_TITLES && !self.ids.contains_key(&title) {
            title = OTHER_TITLES.to_owned();
        }
        *self.ids.entry(title).or_insert_with_key(|title| {
            self.titles.push(title.clone());
            TitleId(self.titles.len() as u32 - 1)
        })
    }

    /// The title with an id.
    pub fn get(&self, id: TitleId) -> &str {
        &self.titles[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_titles_are_one_and_their_number_is_limited() {
        let mut table = TitleTable::default();
        let mut intern = |title: String| table.intern(&[title]);
        let first = intern("postgres:  app UPDATE ".to_owned());
        assert_eq!(intern("postgres: app UPDATE".to_owned()), first);
        let ids: Vec<TitleId> = (0..MAX_TITLES + 9).map(|number| intern(format!("job {number}"))).collect();
        assert_eq!(ids[MAX_TITLES..].iter().filter(|id| **id == ids[MAX_TITLES + 8]).count(), 9);
        assert_eq!((table.titles.len(), table.get(first)), (MAX_TITLES + 1, "postgres: app UPDATE"));
        assert_eq!(table.get(ids[MAX_TITLES]), OTHER_TITLES);
    }
}
