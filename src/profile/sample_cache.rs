//! Remembers how samples of one process image were resolved, because most stacks are sampled again
//! and again: frames by address, and whole stacks by their hash. All entries belong to one module
//! generation (the number of module changes that the agent had seen).

use std::hash::BuildHasher;

use super::hash::IdMap;
use super::ids::{ThreadId, TitleId, WaitId};
use super::module::Mappings;
use super::stack::{Frame, FrameId, StackId, StackTable};
use super::totals::TotalsIndex;
use crate::wire::{Clock, StackHash};

/// Maximum number of cached addresses, about as many as the samples of a large program have.
const MAX_FRAMES: usize = 65_536;
/// Maximum number of cached stacks, 20 to 40 bytes each.
const MAX_STACKS: usize = 458_752;

/// The identity of a stack among the stacks of its process.
#[derive(Clone, Copy, Hash)]
pub(super) enum StackIdentity {
    /// The hash of its frames.
    Hash(StackHash),
    /// Its number in the recording that is played.
    Number(u32),
}

/// The stack of a sample, as it was received.
#[derive(Clone, Copy)]
pub(super) struct ReceivedStack<'a> {
    pub(super) identity: StackIdentity,
    /// Packed frames, leaf first.
    pub(super) frames: &'a [u64],
    /// Whether it ends before its root.
    pub(super) is_truncated: bool,
    /// The wait of the thread.
    pub(super) wait: Option<WaitId>,
    /// The title of the process, if it has changed its title.
    pub(super) title: Option<TitleId>,
}

/// The destination of samples of one thread with the same stack.
#[derive(Clone, Copy)]
pub(super) struct ResolvedSample {
    pub(super) stack: StackId,
    /// The index in the totals of the sample's clock.
    pub(super) index: TotalsIndex,
}

/// A hash of thread, clock and stack identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SampleKey(u64);

/// Resolved frames and samples of one process image in one module generation.
#[derive(Default)]
pub(super) struct SampleCache {
    module_generation: u32,
    frames: IdMap<u64, FrameId>,
    /// Frames of addresses on stacks that are not shown as they are.
    locations: IdMap<u64, Frame>,
    samples: IdMap<SampleKey, ResolvedSample>,
}

impl SampleCache {
    /// Clears the cache, as when mappings change.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.locations.clear();
        self.samples.clear();
    }

    /// Selects the module generation of the next samples. The cache is cleared if that is another
    /// one, or if the cache is full.
    pub(super) fn select_generation(&mut self, module_generation: u32) {
        let addresses = self.frames.len() + self.locations.len();
        let is_full = addresses > MAX_FRAMES || self.samples.len() > MAX_STACKS;
        if self.module_generation != module_generation || is_full {
            self.clear();
            self.module_generation = module_generation;
        }
    }

    /// The cache key of a sample. It is computed without looking at frames.
    pub(super) fn key(&self, thread: ThreadId, clock: Clock, stack: &ReceivedStack<'_>) -> SampleKey {
        let behind = (stack.title, stack.wait);
        SampleKey(self.samples.hasher().hash_one((thread, clock as u8, stack.is_truncated, behind, stack.identity)))
    }

    /// Returns where an equal sample was added.
    pub(super) fn find(&self, key: SampleKey) -> Option<ResolvedSample> {
        self.samples.get(&key).copied()
    }

    /// Remembers where a sample was added.
    pub(super) fn insert(&mut self, key: SampleKey, resolved: ResolvedSample) {
        self.samples.insert(key, resolved);
    }

    /// Forgets where samples were added, as when the totals are reset.
    pub(super) fn clear_samples(&mut self) {
        self.samples.clear();
    }

    /// Returns the frame of an address of the process. `unmapped` makes the frame of an address in
    /// no file.
    pub(super) fn frame(
        &mut self,
        address: u64,
        mappings: &Mappings,
        stacks: &mut StackTable,
        unmapped: impl FnOnce(u64) -> Frame,
    ) -> FrameId {
        *self.frames.entry(address).or_insert_with(|| {
            stacks.frame_id(match mappings.find(self.module_generation, address) {
                Some((module, address)) => Frame::Code { module, address },
                None => unmapped(address),
            })
        })
    }

    /// Returns the frame of an address of the process without adding it to the stacks. `unmapped`
    /// makes the frame of an address in no file.
    pub(super) fn locate(&mut self, address: u64, mappings: &Mappings, unmapped: impl FnOnce(u64) -> Frame) -> Frame {
        let generation = self.module_generation;
        *self.locations.entry(address).or_insert_with(|| match mappings.find(generation, address) {
            Some((module, address)) => Frame::Code { module, address },
            None => unmapped(address),
        })
    }
}
