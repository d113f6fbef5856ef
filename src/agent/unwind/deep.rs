//! Stacks with more frames than a record holds: both ends are kept, and the frames between them are
//! omitted.

use crate::agent::unwind::step::Walk;
use crate::wire::{FRAMES_LEFT_OUT, MAX_FRAMES};

/// Number of frames kept next to the root.
const ROOT_FRAMES: usize = 128;
/// Number of frames kept next to the leaf. The rest of the room is for frames that may be next to
/// the root.
const LEAF_FRAMES: usize = 320;
/// Index of the first frame after those next to the leaf and the mark.
const ROOT_SIDE: usize = LEAF_FRAMES + 1;
/// Maximum number of omitted frames. A walk through that many takes some 100 µs, a hundredth of the
/// time between two ticks at 99 Hz.
const MAX_LEFT_OUT: usize = 1024;

const _: () = assert!(ROOT_SIDE + 3 * ROOT_FRAMES / 2 <= MAX_FRAMES + 1);

/// Makes room for the next frame. Of the frames after those next to the leaf, only the last ones
/// are kept. Returns false if too many have been omitted already.
#[cold]
pub(crate) fn make_room(frames: &mut [u64; MAX_FRAMES], walk: &mut Walk) -> bool {
    if walk.left_out >= MAX_LEFT_OUT {
        return false;
    }
    keep_last(frames, walk);
    true
}

/// Ends a walk. A stack of any depth keeps the same number of frames next to its root, so that its
/// frames there are the same in every sample. A stack without its root keeps only the frames next
/// to the leaf.
pub(crate) fn finish(frames: &mut [u64; MAX_FRAMES], walk: &mut Walk, is_whole: bool) {
    match (walk.left_out, is_whole) {
        (0, _) => {}
        (_, true) => keep_last(frames, walk),
        (_, false) => walk.depth = LEAF_FRAMES,
    }
}

fn keep_last(frames: &mut [u64; MAX_FRAMES], walk: &mut Walk) {
    let first = walk.depth - ROOT_FRAMES;
    frames.copy_within(first..walk.depth, ROOT_SIDE);
    frames[LEAF_FRAMES] = FRAMES_LEFT_OUT;
    walk.left_out += first - ROOT_SIDE;
    walk.depth = ROOT_SIDE + ROOT_FRAMES;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of a walk through so many, numbered from 1 on.
    fn walked(count: u64, is_whole: bool) -> Vec<u64> {
        let mut frames = [0; MAX_FRAMES];
        let mut walk = Walk { depth: 0, flags: 0, uncovered: false, left_out: 0 };
        for frame in 1..=count {
            if walk.depth == MAX_FRAMES && !make_room(&mut frames, &mut walk) {
                finish(&mut frames, &mut walk, false);
                return frames[..walk.depth].to_vec();
            }
            frames[walk.depth] = frame;
            walk.depth += 1;
        }
        finish(&mut frames, &mut walk, is_whole);
        frames[..walk.depth].to_vec()
    }

    #[test]
    fn deep_stack_keeps_both_ends() {
        assert_eq!(walked(512, true), (1..=512).collect::<Vec<u64>>());
        for count in [513, 600, 640, 641, 1_000, 1_472] {
            let expected: Vec<u64> = (1..=320).chain([FRAMES_LEFT_OUT]).chain(count - 127..=count).collect();
            assert_eq!(walked(count, true), expected, "{count} frames");
            assert_eq!(walked(count, false), (1..=320).collect::<Vec<u64>>(), "{count} frames without a root");
        }
        assert_eq!(walked(1_000_000, true), (1..=320).collect::<Vec<u64>>(), "the root is too far away");
    }
}
