//! Merges the frames of an interpreter into a native stack.
//!
//! Each call of the interpreter's loop is one native frame and evaluates one or more of the
//! interpreter's frames, which are put right before it. So the number of native frames of the loop
//! has to be the number of its calls that the interpreter knows of. It may be one more if the
//! thread is interrupted in the first instructions of the loop, before its frames are in the list.
//! Any other difference means that one of the two was not read as a whole, or that the functions
//! are those of a coroutine with a list of its own (greenlet), which lacks the functions that have
//! started it. Then nothing is merged: a frame is never put where it does not belong.

use super::frames::FrameList;
use crate::wire::{FRAMES_LEFT_OUT, MAX_FRAMES};

/// Number of bytes at the start of the loop in which its frames may not be in the list yet. The
/// first instruction that dispatches is 240 to 550 bytes behind the start.
const ENTRY_BYTES: u64 = 256;

/// Merges a list into the first `depth` frames of a native stack. `is_whole` says that the stack
/// reaches the thread's first frame and nothing was left out. `offset` returns how far a frame is
/// behind the start of the loop, if it is one of the loop. Returns the new depth; `None` if they do
/// not match, and leaves the frames unchanged.
pub(crate) fn merge(
    frames: &mut [u64; MAX_FRAMES],
    depth: usize,
    is_whole: bool,
    list: &FrameList,
    offset: impl Fn(u64) -> Option<u64>,
) -> Option<usize> {
    let is_loop = |frame: u64| offset(frame).is_some();
    let native = &frames[..depth];
    let gap = native.iter().position(|&frame| frame == FRAMES_LEFT_OUT).unwrap_or(depth);
    let loops = native[..gap].iter().filter(|&&frame| is_loop(frame)).count();
    let leaf_offset = native.first().and_then(|&frame| offset(frame));
    let starts_in_loop = leaf_offset.is_some();
    let may_be_entering = leaf_offset.is_some_and(|offset| offset < ENTRY_BYTES);
    let entering = match (is_whole, loops) {
        (true, loops) if loops == list.loops => 0,
        (true, loops) if loops == list.loops + 1 && may_be_entering => 1,
        // The outer frames of the stack are not known: the inner ones match from the leaf on, where
        // it is certain that the innermost call of the loop has its frames.
        (false, loops) if loops <= list.loops && !starts_in_loop => 0,
        _ => return None,
    };
    let outermost = native.iter().rposition(|&frame| is_loop(frame)).unwrap_or(0);
    let mut merged = MergedStack { words: [0; MAX_FRAMES], length: 0 };
    let mut groups = list.frames().split(Option::is_none);
    // The frames of a call of the loop that is not followed by its end were cut.
    let complete = list.frames().iter().filter(|frame| frame.is_none()).count();
    let mut passed = 0;
    for (index, &frame) in native.iter().enumerate() {
        if index < gap && is_loop(frame) {
            passed += 1;
            if passed > entering {
                let is_complete = passed - entering <= complete;
                // There has to remain room for the rest of the native stack.
                let fits = groups.next().is_some_and(|group| {
                    group.iter().flatten().all(|sighting| merged.push(&sighting.pack(), depth - index + 1))
                });
                if !is_complete || !fits {
                    merged.push(&[FRAMES_LEFT_OUT], 0);
                    merged.push(&native[outermost + 1..], 0);
                    break;
                }
            }
        }
        merged.push(&[frame], 0);
    }
    frames[..merged.length].copy_from_slice(&merged.words[..merged.length]);
    Some(merged.length)
}

struct MergedStack {
    words: [u64; MAX_FRAMES],
    length: usize,
}

impl MergedStack {
    /// Appends words, if there is room for them and for so many more. Returns whether there is.
    fn push(&mut self, words: &[u64], more: usize) -> bool {
        let end = self.length + words.len();
        if end + more > MAX_FRAMES {
            return false;
        }
        self.words[self.length..end].copy_from_slice(words);
        self.length = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::cpython::sighting::Sighting;

    /// The loop's native frame, and its first instruction.
    const LOOP: u64 = 0x1800;
    const LOOP_START: u64 = 0x1000;

    /// A list from text: `a b | c |` are two calls of the loop.
    fn list(text: &str) -> FrameList {
        let mut list = FrameList::new();
        for word in text.split_whitespace() {
            match word {
                "|" => list.end_loop(),
                word => list.push(Sighting { code: 8 * u64::from(word.as_bytes()[0]), offset: 0, identity: 1 }),
            }
        }
        list
    }

    /// The merged stack as text: `L` is the loop, digits are native frames, `…` are left out.
    /// `E` is the entry of the loop.
    fn merged(native: &str, is_whole: bool, list: &FrameList) -> Option<String> {
        let mut frames = [0; MAX_FRAMES];
        for (frame, word) in frames.iter_mut().zip(native.split_whitespace()) {
            *frame = match word {
                "L" => LOOP,
                "E" => LOOP_START,
                "…" => FRAMES_LEFT_OUT,
                word => word.parse().expect("a number"),
            };
        }
        let depth = native.split_whitespace().count();
        let depth = merge(&mut frames, depth, is_whole, list, |frame| {
            (LOOP_START..=LOOP).contains(&frame).then(|| frame - LOOP_START)
        })?;
        let mut rest = &frames[..depth];
        let mut words = Vec::new();
        while let Some((&first, others)) = rest.split_first() {
            if let Some(sighting) = Sighting::unpack(rest) {
                words.push(char::from((sighting.code / 8) as u8).to_string());
                rest = &rest[2..];
                continue;
            }
            words.push(match first {
                LOOP => "L".to_owned(),
                LOOP_START => "E".to_owned(),
                FRAMES_LEFT_OUT => "…".to_owned(),
                native => native.to_string(),
            });
            rest = others;
        }
        Some(words.join(" "))
    }

    #[test]
    fn frames_come_before_the_loop_that_evaluates_them() {
        let list = list("a b | c |");
        assert_eq!(merged("1 L 2 3 L 4", true, &list).as_deref(), Some("1 a b L 2 3 c L 4"));
        assert_eq!(merged("L 2 3 L 4", true, &list).as_deref(), Some("a b L 2 3 c L 4"));
    }

    #[test]
    fn a_loop_that_was_just_entered_has_no_frames_yet() {
        assert_eq!(merged("E 2 L 3 L 4", true, &list("a b | c |")).as_deref(), Some("E 2 a b L 3 c L 4"));
        assert_eq!(merged("E 2", true, &list("|")).as_deref(), Some("E 2"));
    }

    /// Regression test: the functions of a greenlet were put before the loop of the function that
    /// had started it, as if the greenlet's own loop had just been entered.
    #[test]
    fn the_functions_of_a_coroutine_are_not_those_of_its_starter() {
        assert_eq!(merged("L 2 L 3", true, &list("a b |")), None);
        assert_eq!(merged("1 L 2 L 3", true, &list("a b |")), None);
    }

    #[test]
    fn what_does_not_match_is_not_merged() {
        let list = list("a b | c |");
        for native in ["1 L 2", "1 L 2 L 3 L 4", "1 2", "L L L L", "1"] {
            assert_eq!(merged(native, true, &list), None, "{native}");
        }
    }

    #[test]
    fn of_a_stack_without_its_root_the_leaf_side_matches() {
        let list = list("a | b | c | d |");
        assert_eq!(merged("1 L 2 L 3", false, &list).as_deref(), Some("1 a L 2 b L 3"));
        assert_eq!(merged("1 L 2 … 3 L 4", false, &list).as_deref(), Some("1 a L 2 … 3 L 4"));
        assert_eq!(merged("L 2 L 3", false, &list), None, "the innermost loop may just have been entered");
        assert_eq!(merged("1 L L L L L", false, &list), None);
    }

    #[test]
    fn deep_recursion_keeps_the_leaf_side_and_the_root() {
        let inner: Vec<String> = (0..180).map(|index| char::from(b'a' + index % 26).to_string()).collect();
        let mut long = list(&inner.join(" "));
        (0..400).for_each(|_| long.push(Sighting { code: 8, offset: 0, identity: 1 }));
        long.end_loop();
        assert!(long.is_cut && long.loops == 1);
        let text = merged("1 L 2 3", true, &long).expect("they match");
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[..4], ["1", "a", "b", "c"]);
        assert_eq!(words[words.len() - 3..], ["…", "2", "3"]);
        assert!(words.len() > 180);
    }

    #[test]
    fn a_full_stack_keeps_the_native_frames_at_its_root() {
        let native = format!("1 L {}", vec!["7"; 400].join(" "));
        let names: Vec<&str> = std::iter::repeat_n("a", 150).collect();
        let list = list(&format!("{} |", names.join(" ")));
        let text = merged(&native, true, &list).expect("they match");
        let count = |word: &str| text.split(' ').filter(|&other| other == word).count();
        assert_eq!((count("7"), count("…")), (400, 1));
        assert!((40..60).contains(&count("a")), "{}", count("a"));
    }
}
