//! The generated code of a process by address. Names stay in the file that lists them: an entry
//! says where, so that a map of a long run takes little memory.

use std::collections::BTreeMap;

/// Maximum number of pieces of code. Large Java programs have some 100 000.
const MAX_PIECES: usize = 1 << 21;

/// A piece of generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodePiece {
    /// The first address.
    pub(super) start: u64,
    /// The first address after it.
    pub(super) end: u64,
    /// The position of its name in the file.
    pub(super) name_at: u64,
    /// The position of its line table in the file, if it has one.
    pub(super) lines_at: Option<u64>,
    /// The distance by which the code has moved since its line table was written (wrapping).
    pub(super) moved: u64,
}

/// Pieces of code without overlaps.
#[derive(Default)]
pub(super) struct CodeMap {
    by_start: BTreeMap<u64, CodePiece>,
}

impl CodeMap {
    /// Adds a piece. What it overlaps is replaced; the rest of an older piece stays.
    pub(super) fn insert(&mut self, piece: CodePiece) {
        if piece.start >= piece.end {
            return;
        }
        self.remove(piece.start, piece.end);
        if self.by_start.len() < MAX_PIECES {
            self.by_start.insert(piece.start, piece);
        }
    }

    /// Removes the code in a range of addresses.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if let Some((_, &before)) = self.by_start.range(..start).next_back()
            && before.end > start
        {
            self.by_start.insert(before.start, CodePiece { end: start, ..before });
            if before.end > end {
                self.by_start.insert(end, CodePiece { start: end, ..before });
            }
        }
        while let Some((&first, &inside)) = self.by_start.range(start..end).next() {
            self.by_start.remove(&first);
            if inside.end > end {
                self.by_start.insert(end, CodePiece { start: end, ..inside });
            }
        }
    }

    /// The piece that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<CodePiece> {
        let (_, &piece) = self.by_start.range(..=address).next_back()?;
        (address < piece.end).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u64, end: u64, name_at: u64) -> CodePiece {
        CodePiece { start, end, name_at, lines_at: None, moved: 0 }
    }

    fn found(map: &CodeMap, addresses: impl IntoIterator<Item = u64>) -> Vec<Option<u64>> {
        addresses.into_iter().map(|address| map.find(address).map(|piece| piece.name_at)).collect()
    }

    #[test]
    fn the_newest_piece_counts_and_the_rest_of_older_ones_stays() {
        let mut map = CodeMap::default();
        [piece(10, 20, 1), piece(30, 40, 2), piece(15, 35, 3)].into_iter().for_each(|piece| map.insert(piece));
        assert_eq!(
            found(&map, [9, 10, 14, 15, 34, 35, 39, 40]),
            [None, Some(1), Some(1), Some(3), Some(3), Some(2), Some(2), None]
        );
        map.insert(piece(12, 13, 4));
        assert_eq!(found(&map, [11, 12, 13, 14]), [Some(1), Some(4), Some(1), Some(1)]);
        map.remove(0, 100);
        assert_eq!(found(&map, [11, 12, 15, 35]), [None; 4]);
        map.insert(piece(5, 5, 5));
        map.insert(piece(7, 6, 6));
        assert_eq!(found(&map, [5, 6]), [None; 2]);
    }

    #[test]
    fn the_map_agrees_with_a_list_that_is_searched_from_its_end() {
        // A linear congruential generator: the same pieces in every run.
        let mut seed = 1u64;
        let mut random = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit
        };
        let (mut map, mut list) = (CodeMap::default(), Vec::new());
        for name in 0..2_000 {
            let start = random(500);
            let new = piece(start, start + random(40), name);
            map.insert(new);
            list.push(new);
            let address = random(540);
            let newest = list.iter().rev().find(|piece| (piece.start..piece.end).contains(&address));
            assert_eq!(map.find(address).map(|piece| piece.name_at), newest.map(|piece| piece.name_at));
        }
    }
}
