//! What somebody may have meant: the known word that is nearest to one that is not known.

/// Characters of a word that are compared, at most.
const MAX_WORD: usize = 40;

/// The word nearest to `typed`, if one is near enough to be meant: a third of its letters may be wrong.
pub fn nearest<'a>(typed: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = typed.chars().count().min(MAX_WORD) / 3;
    let near =
        words.into_iter().map(|word| (distance(typed, word), word)).filter(|(distance, _)| *distance <= far.max(1));
    near.min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// Letters to put in, leave out, change or swap with a neighbour until one word is the other.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.chars().take(MAX_WORD).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, wanted) in other.iter().enumerate() {
            let changed = last[column] + usize::from(letter != wanted);
            let mut least = changed.min(last[column + 1] + 1).min(next[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *wanted && *letter == other[column - 1] {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_guesses_are_not_made() {
        let words = ["window", "clock", "engine", "hz"];
        for (typed, meant) in [("widnow", "window"), ("cloc", "clock"), ("Engine", "engine"), ("hzz", "hz")] {
            assert_eq!(nearest(typed, words), Some(meant), "{typed}");
        }
        for typed in ["", "colour", "xyz", &"window".repeat(100_000)] {
            assert_eq!(nearest(typed, words), None);
        }
        assert_eq!(distance("", "hz"), 2);
    }
}
