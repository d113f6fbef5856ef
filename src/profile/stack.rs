//! Frames and stacks, each kept once: a table of frames, and a prefix tree of stacks that grows from the root.
//! It ends at addresses; names are `symbols`'.

use super::hash::IdMap;
use super::module::ModuleId;
use super::process::ProcessId;
use super::thread::ThreadId;

/// Index into the frames of a [`StackTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A node of the prefix tree: a stack, and every stack that begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The stack without frames: the root of the tree.
    pub const EMPTY: StackId = StackId(0);

    /// The stack at a position of [`StackTable::nodes`].
    pub fn of(index: usize) -> StackId {
        StackId(index as u32)
    }

    /// Position in the table, for side tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One frame of a stack, free of any process: the same code in two processes is one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frame {
    /// An address of a file (bias taken off, and 1 where it was a return address).
    Code {
        /// The file.
        module: ModuleId,
        /// The file's own address.
        address: u64,
    },
    /// An address in no file (code made at run time): as the process sees it.
    Unmapped(u64),
    /// The stack goes on towards its root, but could not be followed.
    Truncated,
    /// Frames between the leaf side and the root side of a deep stack, which were not kept.
    LeftOut,
    /// No code: a thread, as what lies at the root of its stacks. No stack of the table has it.
    Thread(ThreadId),
    /// The same of a process image.
    Process(ProcessId),
}

/// One more frame on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The stack without its leaf; its index is the lower one.
    pub parent: StackId,
    /// The leaf.
    pub frame: FrameId,
}

/// Frames kept, at most: the largest programs have some 100 000 addresses that are ever seen. Names cost most.
const MAX_FRAME_IDS: usize = 1 << 19;
/// Nodes of the tree kept, at most, at some 30 bytes each. Beyond, stacks are cut down to their leaf.
const MAX_NODES: usize = 1 << 22;
/// A cut stack takes one node for each frame, and one for the mark.
const _: () = assert!(MAX_NODES + MAX_FRAME_IDS + 2 < u32::MAX as usize);

/// All frames and stacks of a session. It only grows; ids stay valid.
pub struct StackTable {
    frames: Vec<Frame>,
    frame_ids: IdMap<Frame, FrameId>,
    nodes: Vec<Node>,
    /// Children that do not come right behind their parents: most stacks go on alone from where they part from the others.
    apart: IdMap<(StackId, FrameId), StackId>,
    max_frames: usize,
    max_nodes: usize,
    overflows: u64,
}

impl Default for StackTable {
    fn default() -> Self {
        StackTable::with_limits(MAX_FRAME_IDS, MAX_NODES)
    }
}

impl StackTable {
    fn with_limits(max_frames: usize, max_nodes: usize) -> Self {
        StackTable {
            frames: Vec::new(),
            frame_ids: IdMap::default(),
            nodes: vec![Node { parent: StackId::EMPTY, frame: FrameId(u32::MAX) }],
            apart: IdMap::default(),
            max_frames,
            max_nodes,
            overflows: 0,
        }
    }

    /// The id of a frame, new or known; [`Frame::Truncated`]'s when the table is full.
    pub fn frame_id(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frame_ids.get(&frame) {
            return id;
        }
        if self.frames.len() >= self.max_frames && frame != Frame::Truncated {
            self.overflows += 1;
            return self.frame_id(Frame::Truncated);
        }
        let id = FrameId(self.frames.len() as u32);
        self.frames.push(frame);
        self.frame_ids.insert(frame, id);
        id
    }

    /// The id of a frame that is known.
    pub fn find(&self, frame: Frame) -> Option<FrameId> {
        self.frame_ids.get(&frame).copied()
    }

    /// The stack that `frame` makes when called from `parent`. When the table is full, and this is a new one, it is the
    /// truncated stack with nothing but `frame`: its flat stays right, its callers are lost.
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if let Some(known) = self.child(parent, frame) {
            return known;
        }
        if self.nodes.len() < self.max_nodes {
            return self.insert(parent, frame);
        }
        self.overflows += 1;
        let mark = self.frame_id(Frame::Truncated);
        let cut = self.child(StackId::EMPTY, mark).unwrap_or_else(|| self.insert(StackId::EMPTY, mark));
        match frame == mark {
            true => cut,
            false => self.child(cut, frame).unwrap_or_else(|| self.insert(cut, frame)),
        }
    }

    fn child(&self, parent: StackId, frame: FrameId) -> Option<StackId> {
        let next = parent.index() + 1;
        match self.nodes.get(next) {
            Some(&node) if node == (Node { parent, frame }) => Some(StackId::of(next)),
            _ => self.apart.get(&(parent, frame)).copied(),
        }
    }

    fn insert(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let id = StackId::of(self.nodes.len());
        if id.index() != parent.index() + 1 {
            self.apart.insert((parent, frame), id);
        }
        self.nodes.push(Node { parent, frame });
        id
    }

    /// How often something new found the table full.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The frame behind an id.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.0 as usize]
    }

    /// All frames, by id.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// How many stacks there are, the empty one included: one past the largest [`StackId::index`].
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether only the empty stack is there.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Every stack as a step from another, by [`StackId::index`]; the empty stack, at 0, is its own parent and has no frame.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The frames of a stack, leaf first.
    pub fn leaf_first(&self, stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        let mut at = stack;
        std::iter::from_fn(move || {
            if at == StackId::EMPTY {
                return None;
            }
            let node = &self.nodes[at.index()];
            at = node.parent;
            Some(node.frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_all(table: &mut StackTable, addresses: &[u64]) -> StackId {
        addresses.iter().fold(StackId::EMPTY, |stack, &address| {
            let frame = table.frame_id(Frame::Unmapped(address));
            table.push(stack, frame)
        })
    }

    fn leaf_first(table: &StackTable, stack: StackId) -> Vec<Frame> {
        table.leaf_first(stack).map(|id| table.frame(id)).collect()
    }

    #[test]
    fn equal_stacks_are_one_and_prefixes_are_shared() {
        let mut table = StackTable::default();
        let deep = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(push_all(&mut table, &[1, 2, 3]), deep);
        assert_eq!(table.len(), 4);
        let other = push_all(&mut table, &[1, 2, 1]);
        assert_eq!(table.len(), 5);
        assert_eq!(leaf_first(&table, other), [1, 2, 1].map(Frame::Unmapped));
        assert_eq!(table.nodes()[other.index()].parent, table.nodes()[deep.index()].parent);
        assert!(table.nodes().iter().skip(1).enumerate().all(|(before, node)| node.parent.index() <= before));
    }

    #[test]
    fn a_full_table_keeps_the_leaf_and_counts() {
        let mut table = StackTable::with_limits(100, 4);
        let known = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(push_all(&mut table, &[1, 2, 3]), known);
        assert_eq!(table.overflows(), 0);
        let cut = push_all(&mut table, &[1, 2, 4, 5]);
        assert_eq!(leaf_first(&table, cut), [Frame::Unmapped(5), Frame::Truncated]);
        assert_eq!(table.overflows(), 2);
        // Whatever comes, a frame takes one node.
        let before = table.len();
        for root in 0..50 {
            push_all(&mut table, &[root, 4, 5]);
        }
        assert!(table.len() <= before + 50, "{}", table.len());
    }

    #[test]
    fn a_full_table_of_frames_says_truncated() {
        let mut table = StackTable::with_limits(2, 100);
        let stack = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(leaf_first(&table, stack), [Frame::Truncated, Frame::Unmapped(2), Frame::Unmapped(1)]);
        assert_eq!((table.frames().len(), table.overflows()), (3, 1));
    }
}
