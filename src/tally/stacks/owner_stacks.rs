//! The stacks that a query is answered from. Without owners they are the profile's own. A query
//! with owners needs copies: stacks with a thread or process at their root, one tree for each
//! owner.
//!
//! A title of a process is such an owner, too; a stack of the profile has it behind its code.
//!
//! A stack of the profile that was seen in several threads has a copy for each. Copies are made
//! when their stack is first seen in the queried totals.

use crate::profile::change_log::LogPosition;
use crate::profile::hash::IdMap;
use crate::profile::stack::{Frame, FrameId, Node, StackId};
use crate::profile::thread::ThreadId;
use crate::profile::totals::{Span, ThreadStack};
use crate::profile::{Generation, Profile};
use crate::tally::query::{Owner, Query};
use crate::tally::rows::OwnedFrame;
use crate::wire::Clock;

/// The tree of one owner.
#[derive(Clone, Copy)]
struct OwnerTree {
    /// The id of the thread or process. Threads with the same id share a tree. Those of waits and
    /// titles are counted down from the largest number.
    id: u32,
    /// The stack that has no frames but those of owners.
    root: StackId,
    owner: Option<FrameId>,
}

/// The stacks of one choice of owners.
#[derive(Default)]
pub(crate) struct OwnerStacks {
    /// The owners at the root of every stack, from the root on.
    owners: &'static [Owner],
    /// The owner whose rows are kept apart.
    row_owner: Option<Owner>,
    nodes: Vec<Node>,
    /// Maximum number of nodes. Beyond it, a stack is reduced to its leaf: its flat remains
    /// correct, its owner and callers are lost.
    max_nodes: usize,
    roots: IdMap<(StackId, FrameId), StackId>,
    /// The tree of each thread.
    trees: Vec<Option<OwnerTree>>,
    /// The trees of each thread by what it waits for, where that is the root.
    wait_trees: IdMap<(u32, FrameId), OwnerTree>,
    /// The tree of each title, where that is the owner.
    title_trees: IdMap<FrameId, OwnerTree>,
    /// The copies, by tree and stack of the profile.
    copies: IdMap<(u32, StackId), StackId>,
    /// All frames, where rows have owners.
    frames: Vec<OwnedFrame>,
    frame_ids: IdMap<(FrameId, FrameId), FrameId>,
    /// The totals that were read, and up to where.
    source: Option<(Generation, Clock)>,
    position: LogPosition,
    pending: Vec<StackId>,
}

impl OwnerStacks {
    /// Returns empty stacks if the query needs other owners than these stacks have.
    pub(crate) fn for_other_owners(&self, query: &Query) -> Option<OwnerStacks> {
        let (owners, row_owner) = (query.owners(), query.group.owner());
        let same = self.owners == owners && self.row_owner == row_owner;
        (!same).then(|| {
            let nodes = if owners.is_empty() { Vec::new() } else { vec![ROOT] };
            OwnerStacks { owners, row_owner, nodes, ..OwnerStacks::default() }
        })
    }

    /// Copies the stacks that are new in the queried totals.
    pub(crate) fn update(&mut self, profile: &Profile, query: &Query) {
        if self.owners.is_empty() {
            return;
        }
        self.max_nodes = profile.max_stacks();
        let log = profile.change_log(query.generation, query.clock);
        let source = Some((query.generation, query.clock));
        match log.and_then(|log| log.since(self.position)).filter(|_| self.source == source) {
            Some(new) => new.for_each(|entered| self.copy_stack(profile, entered.key)),
            None => profile
                .visit_generation(query.generation, query.clock, Span::Total, |key, _| self.copy_stack(profile, key)),
        }
        (self.source, self.position) = (source, log.map(|log| log.position()).unwrap_or_default());
    }

    /// All stacks, in the form of [`StackTable::nodes`](crate::profile::stack::StackTable::nodes).
    pub(crate) fn nodes<'a>(&'a self, profile: &'a Profile) -> &'a [Node] {
        if self.owners.is_empty() { profile.stacks.nodes() } else { &self.nodes }
    }

    /// The number of frames.
    pub(crate) fn frame_count(&self, profile: &Profile) -> usize {
        if self.row_owner.is_none() { profile.stacks.frames().len() } else { self.frames.len() }
    }

    /// The frame of the profile behind a frame, and its owner.
    pub(crate) fn frame(&self, frame: FrameId) -> OwnedFrame {
        match self.row_owner {
            None => OwnedFrame { frame, owner: None },
            Some(_) => self.frames[frame.0 as usize],
        }
    }

    /// The stack of an entry of the queried totals.
    pub(crate) fn stack(&self, (thread, stack): ThreadStack) -> StackId {
        if self.owners.is_empty() {
            return stack;
        }
        let tree = self.trees.get(thread.0 as usize).copied().flatten();
        tree.and_then(|tree| self.copies.get(&(tree.id, stack)).copied()).unwrap_or(StackId::EMPTY)
    }

    fn copy_stack(&mut self, profile: &Profile, (thread, stack): ThreadStack) {
        let mut tree = self.tree(profile, thread);
        if self.row_owner == Some(Owner::Title) {
            self.copy_titled(profile, tree, (thread, stack));
            return;
        }
        let wait = profile.stacks.wait(stack).filter(|_| self.owners.contains(&Owner::Wait));
        let Some(wait) = wait else {
            self.copy_frames(profile, tree, stack);
            return;
        };
        let known = (tree.id, stack);
        if !self.copies.contains_key(&known) {
            tree = self.wait_tree(tree, wait);
            let copy = self.copy_frames(profile, tree, profile.stacks.code(stack));
            self.copies.insert(known, copy);
        }
    }

    /// Copies a stack into the tree of its title, or of the first title of its process.
    fn copy_titled(&mut self, profile: &Profile, of_process: OwnerTree, (thread, stack): ThreadStack) {
        let known = (of_process.id, stack);
        if self.copies.contains_key(&known) {
            return;
        }
        let first = || profile.process(profile.thread(thread).process).first_title;
        let title = profile.stacks.title(stack).or_else(|| profile.stacks.find(Frame::Title(first()?)));
        let Some(title) = title else { return };
        let tree = match self.title_trees.get(&title) {
            Some(&tree) => tree,
            None => {
                let frame = self.intern_frame(title, None);
                let root = self.intern_root(StackId::EMPTY, frame);
                let id = self.unused_id();
                *self.title_trees.entry(title).or_insert(OwnerTree { id, root, owner: Some(title) })
            }
        };
        let mut copy = self.copy_frames(profile, tree, profile.stacks.code(stack));
        if let Some(wait) = profile.stacks.wait(stack) {
            let wait = self.intern_frame(wait, tree.owner);
            copy = self.push(copy, wait);
        }
        self.copies.insert(known, copy);
    }

    /// A number that no thread or process has.
    fn unused_id(&self) -> u32 {
        u32::MAX - (self.wait_trees.len() + self.title_trees.len()) as u32
    }

    /// Copies a stack into a tree, as far as it is not there yet.
    fn copy_frames(&mut self, profile: &Profile, tree: OwnerTree, stack: StackId) -> StackId {
        let mut at = stack;
        let mut copy = loop {
            if at == StackId::EMPTY {
                self.copies.insert((tree.id, at), tree.root);
                break tree.root;
            }
            if let Some(&known) = self.copies.get(&(tree.id, at)) {
                break known;
            }
            self.pending.push(at);
            at = profile.stacks.nodes()[at.index()].parent;
        };
        while let Some(next) = self.pending.pop() {
            let frame = self.intern_frame(profile.stacks.nodes()[next.index()].frame, tree.owner);
            copy = self.push(copy, frame);
            self.copies.insert((tree.id, next), copy);
        }
        copy
    }

    /// Returns the tree for a wait of the thread of another tree, and adds it if it is new.
    fn wait_tree(&mut self, of_thread: OwnerTree, wait: FrameId) -> OwnerTree {
        if let Some(tree) = self.wait_trees.get(&(of_thread.id, wait)) {
            return *tree;
        }
        let frame = self.intern_frame(wait, None);
        let root = self.intern_root(of_thread.root, frame);
        let tree = OwnerTree { id: self.unused_id(), root, owner: of_thread.owner };
        self.wait_trees.insert((of_thread.id, wait), tree);
        tree
    }

    fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if self.nodes.len() >= self.max_nodes {
            return self.intern_root(StackId::EMPTY, frame);
        }
        self.nodes.push(Node { parent, frame });
        StackId::from_index(self.nodes.len() - 1)
    }

    /// Returns the node of an owner, or the only frame of a reduced stack. There is one for each
    /// parent and frame.
    fn intern_root(&mut self, parent: StackId, frame: FrameId) -> StackId {
        *self.roots.entry((parent, frame)).or_insert_with(|| {
            self.nodes.push(Node { parent, frame });
            StackId::from_index(self.nodes.len() - 1)
        })
    }

    fn intern_frame(&mut self, frame: FrameId, owner: Option<FrameId>) -> FrameId {
        if self.row_owner.is_none() {
            return frame;
        }
        let key = (frame, owner.unwrap_or(FrameId(u32::MAX)));
        *self.frame_ids.entry(key).or_insert_with(|| {
            self.frames.push(OwnedFrame { frame, owner });
            FrameId(self.frames.len() as u32 - 1)
        })
    }

    /// Returns the tree of a thread, and adds it if it is new.
    fn tree(&mut self, profile: &Profile, thread: ThreadId) -> OwnerTree {
        let index = thread.0 as usize;
        if let Some(Some(tree)) = self.trees.get(index) {
            return *tree;
        }
        let process = profile.thread(thread).process;
        let frame = |owner: Owner| match owner {
            Owner::Thread => profile.stacks.find(Frame::Thread(thread)),
            Owner::Process => profile.stacks.find(Frame::Process(process)),
            Owner::Recording => profile.stacks.find(Frame::Recording(profile.process(process).recording?)),
            Owner::Wait | Owner::Title => None,
        };
        let mut root = StackId::EMPTY;
        for owner in self.owners.iter().filter_map(|&owner| frame(owner)) {
            let owner = self.intern_frame(owner, None);
            root = self.intern_root(root, owner);
        }
        let by_thread = self.owners.contains(&Owner::Thread) || self.row_owner == Some(Owner::Thread);
        let id = if by_thread { thread.0 } else { process.0 };
        let tree = OwnerTree { id, root, owner: self.row_owner.and_then(frame) };
        self.trees.resize(self.trees.len().max(index + 1), None);
        self.trees[index] = Some(tree);
        tree
    }
}

/// The stack without frames.
const ROOT: Node = Node { parent: StackId::EMPTY, frame: FrameId(u32::MAX) };
