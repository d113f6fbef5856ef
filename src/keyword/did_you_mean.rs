//! Suggestions for misspelled words.

/// Maximum number of characters that are compared, so that the cost has a bound.
const MAX_CHARACTERS: usize = 40;

/// Returns the candidate closest to `typed`, if at most a third of the characters differ (one
/// character in words of up to five).
pub fn did_you_mean<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (typed.chars().count().min(MAX_CHARACTERS) / 3).max(1);
    let distances = candidates.into_iter().map(|candidate| (edit_distance(typed, candidate), candidate));
    let similar = distances.filter(|(distance, _)| *distance <= limit);
    similar.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// The optimal string alignment distance, without regard to case: the number of insertions,
/// deletions, substitutions and swaps of adjacent characters between two words.
fn edit_distance(one: &str, other: &str) -> usize {
    let characters = |word: &str| word.chars().take(MAX_CHARACTERS).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (one, other) = (characters(one), characters(other));
    let mut before_previous: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=other.len()).collect();
    for (row, character) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, expected) in other.iter().enumerate() {
            let substituted = previous[column] + usize::from(character != expected);
            let mut least = substituted.min(previous[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && one[row - 1] == *expected && *character == other[column - 1] {
                least = least.min(before_previous[column - 1] + 1);
            }
            current.push(least);
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_similar_words() {
        let words = ["window", "clock", "engine", "hz"];
        for (typed, expected) in [("widnow", "window"), ("cloc", "clock"), ("Engine", "engine"), ("hzz", "hz")] {
            assert_eq!(did_you_mean(typed, words), Some(expected), "{typed}");
        }
        for typed in ["", "colour", "xyz", &"window".repeat(100_000)] {
            assert_eq!(did_you_mean(typed, words), None);
        }
        assert_eq!(edit_distance("", "hz"), 2);
    }
}
