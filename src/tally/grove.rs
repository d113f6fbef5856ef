//! The stacks of the profile, or, where a question wants them by their owners, those stacks anew: with a thread or process at the root
//! of each, and a tree for every owner. What is concluded about stacks does not know the difference.
//!
//! A stack of the profile that several threads were seen on becomes one for each. They are made when they are first seen in the books.

use super::query::{Owner, Query};
use crate::link::wire::Clock;
use crate::profile::hash::IdMap;
use crate::profile::journal::Mark;
use crate::profile::stack::{Frame, FrameId, Node, StackId};
use crate::profile::thread::ThreadId;
use crate::profile::window::{Key, Span};
use crate::profile::{Era, Profile};

/// Stacks made anew, at most. Beyond, a stack is cut down to its leaf: its flat stays right, its owner and callers are lost.
const MAX_NODES: usize = 1 << 22;

/// A frame as it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sight {
    /// In the profile.
    pub(super) frame: FrameId,
    /// The frame of its owner, where its rows are that one's alone.
    pub(super) owner: Option<FrameId>,
}

/// Whose stacks are of their own.
#[derive(Clone, Copy)]
struct Tree {
    /// The owner's number: those of one number have one tree.
    number: u32,
    /// The stack without frames but for owners.
    root: StackId,
    owner: Option<FrameId>,
}

/// The tree of stacks that a question is answered by.
#[derive(Default)]
pub(super) struct Grove {
    owners: &'static [Owner],
    /// Who has rows alone.
    alone: Option<Owner>,
    nodes: Vec<Node>,
    roots: IdMap<(StackId, FrameId), StackId>,
    /// By thread.
    trees: Vec<Option<Tree>>,
    /// By tree and stack of the profile.
    planted: IdMap<(u32, StackId), StackId>,
    /// Where rows are owners' alone: what each frame is.
    sights: Vec<Sight>,
    sight_ids: IdMap<(FrameId, FrameId), FrameId>,
    /// Up to where books are known, and which.
    known: Option<(Era, Clock)>,
    mark: Mark,
    pending: Vec<StackId>,
}

impl Grove {
    /// An empty one, if this question is not answered by the stacks that are there.
    pub(super) fn for_another(&self, query: &Query) -> Option<Grove> {
        let (owners, alone) = (query.owners(), query.group.owner());
        let same = self.owners == owners && self.alone == alone;
        (!same).then(|| {
            let nodes = if owners.is_empty() { Vec::new() } else { vec![ROOT] };
            Grove { owners, alone, nodes, ..Grove::default() }
        })
    }

    /// Takes in what was entered into the books that are asked about.
    pub(super) fn catch_up(&mut self, profile: &Profile, query: &Query) {
        if self.owners.is_empty() {
            return;
        }
        let journal = profile.journal(query.era, query.clock);
        let of = Some((query.era, query.clock));
        match journal.and_then(|journal| journal.since(self.mark)).filter(|_| self.known == of) {
            Some(new) => new.for_each(|entered| self.plant(profile, entered.key)),
            None => profile.visit_era(query.era, query.clock, Span::Total, |key, _| self.plant(profile, key)),
        }
        (self.known, self.mark) = (of, journal.map(|journal| journal.end()).unwrap_or_default());
    }

    /// All stacks, as [`StackTable::nodes`](crate::profile::stack::StackTable::nodes) has them.
    pub(super) fn nodes<'a>(&'a self, profile: &'a Profile) -> &'a [Node] {
        if self.owners.is_empty() { profile.stacks.nodes() } else { &self.nodes }
    }

    /// How many frames there are.
    pub(super) fn frames(&self, profile: &Profile) -> usize {
        if self.alone.is_none() { profile.stacks.frames().len() } else { self.sights.len() }
    }

    /// What a frame is.
    pub(super) fn sight(&self, frame: FrameId) -> Sight {
        match self.alone {
            None => Sight { frame, owner: None },
            Some(_) => self.sights[frame.0 as usize],
        }
    }

    /// The stack that an entry of the books stands for.
    pub(super) fn stack(&self, (thread, stack): Key) -> StackId {
        if self.owners.is_empty() {
            return stack;
        }
        let tree = self.trees.get(thread.0 as usize).copied().flatten();
        tree.and_then(|tree| self.planted.get(&(tree.number, stack)).copied()).unwrap_or(StackId::EMPTY)
    }

    fn plant(&mut self, profile: &Profile, (thread, stack): Key) {
        let tree = self.tree(profile, thread);
        let mut at = stack;
        let mut here = loop {
            if at == StackId::EMPTY {
                self.planted.insert((tree.number, at), tree.root);
                break tree.root;
            }
            if let Some(&known) = self.planted.get(&(tree.number, at)) {
                break known;
            }
            self.pending.push(at);
            at = profile.stacks.nodes()[at.index()].parent;
        };
        while let Some(next) = self.pending.pop() {
            let frame = self.seen(profile.stacks.nodes()[next.index()].frame, tree.owner);
            here = self.push(here, frame);
            self.planted.insert((tree.number, next), here);
        }
    }

    fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if self.nodes.len() >= MAX_NODES {
            return self.root(StackId::EMPTY, frame);
        }
        self.nodes.push(Node { parent, frame });
        StackId::of(self.nodes.len() - 1)
    }

    /// A stack that there is once.
    fn root(&mut self, parent: StackId, frame: FrameId) -> StackId {
        *self.roots.entry((parent, frame)).or_insert_with(|| {
            self.nodes.push(Node { parent, frame });
            StackId::of(self.nodes.len() - 1)
        })
    }

    fn seen(&mut self, frame: FrameId, owner: Option<FrameId>) -> FrameId {
        if self.alone.is_none() {
            return frame;
        }
        let key = (frame, owner.unwrap_or(FrameId(u32::MAX)));
        *self.sight_ids.entry(key).or_insert_with(|| {
            self.sights.push(Sight { frame, owner });
            FrameId(self.sights.len() as u32 - 1)
        })
    }

    fn tree(&mut self, profile: &Profile, thread: ThreadId) -> Tree {
        let index = thread.0 as usize;
        if let Some(Some(tree)) = self.trees.get(index) {
            return *tree;
        }
        let process = profile.thread(thread).process;
        let frame = |owner: Owner| {
            profile.stacks.find(match owner {
                Owner::Thread => Frame::Thread(thread),
                Owner::Process => Frame::Process(process),
            })
        };
        let mut root = StackId::EMPTY;
        for label in self.owners.iter().filter_map(|&owner| frame(owner)) {
            let label = self.seen(label, None);
            root = self.root(root, label);
        }
        let is_threads = self.owners.contains(&Owner::Thread) || self.alone == Some(Owner::Thread);
        let number = if is_threads { thread.0 } else { process.0 };
        let tree = Tree { number, root, owner: self.alone.and_then(frame) };
        self.trees.resize(self.trees.len().max(index + 1), None);
        self.trees[index] = Some(tree);
        tree
    }
}

/// The stack without frames.
const ROOT: Node = Node { parent: StackId::EMPTY, frame: FrameId(u32::MAX) };
