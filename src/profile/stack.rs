//! Frames and stacks, each stored once: a table of frames, and a prefix tree of stacks that starts
//! at the root frame. For `main > a > b` and `main > a > c`, the nodes of `main` and `a` are
//! shared. Frames hold addresses; `symbols` resolves their names.

use super::hash::IdMap;
use super::ids::{ProcessId, RecordingId, ThreadId, TitleId, WaitId};
use super::module::ModuleId;
use super::script::ScriptFunctionId;

/// Index into the frames of a [`StackTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A node of the prefix tree, which stands for the stack from the root to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// The stack without frames, which is the root of the tree.
    pub const EMPTY: StackId = StackId(0);

    /// The stack with an index of [`StackTable::nodes`].
    pub fn from_index(index: usize) -> StackId {
        StackId(index as u32)
    }

    /// Index in [`StackTable::nodes`], for tables parallel to it.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One frame of a stack. Code in files does not depend on the process: the same code in two
/// processes is one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Frame {
    /// An address in a file, without the load bias, and less 1 if it was a return address.
    Code {
        /// The file.
        module: ModuleId,
        /// The address in the file.
        address: u64,
    },
    /// An address in no file, such as code generated at run time.
    Unmapped {
        /// The process image that has the code.
        process: ProcessId,
        /// Counts the pieces of code that were noticed at this address before.
        code_version: u16,
        /// The address as the process sees it.
        address: u64,
    },
    /// A function of an interpreter.
    Script {
        /// The function.
        function: ScriptFunctionId,
        /// The source line; 0 if unknown.
        line: u32,
    },
    /// The rest of the stack towards its root, which could not be unwound.
    Truncated,
    /// The frames in the middle of a deep stack, which were left out.
    LeftOut,
    /// Frames that were dropped to stay below the memory limit.
    MemoryLimit,
    /// A wait, at the leaf of the stack of a sleeping thread.
    Wait(WaitId),
    /// The title of the process, behind the code of a stack and before its wait. It is shown at the
    /// root.
    Title(TitleId),
    /// A thread, shown at the root of its stacks. No stack in the table has this frame.
    Thread(ThreadId),
    /// A process image, shown at the root of its stacks. No stack in the table has this frame.
    Process(ProcessId),
    /// A merged recording, shown at the root of its stacks. No stack in the table has this frame.
    Recording(RecordingId),
}

impl Frame {
    /// Whether it is code, as opposed to a thread, a wait or a gap in the stack.
    pub fn is_function(self) -> bool {
        matches!(self, Frame::Code { .. } | Frame::Unmapped { .. } | Frame::Script { .. })
    }
}

/// A stack as its parent and one more frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The stack without its leaf. Its index is lower than that of the node.
    pub parent: StackId,
    /// The leaf frame.
    pub frame: FrameId,
}

/// Maximum number of frames. The largest programs have some 100 000 addresses that are ever
/// sampled. Most of the memory of a frame is for its names.
const MAX_FRAME_IDS: usize = 1 << 19;
/// Maximum number of nodes, some 30 bytes each. Beyond it, new stacks are cut to their leaf frame.
const MAX_NODES: usize = 1 << 22;
// Cut stacks need one more node per frame, and one for the truncated frame.
const _: () = assert!(MAX_NODES + MAX_FRAME_IDS + 2 < u32::MAX as usize);

/// All frames and stacks of a session. Frame ids stay valid. Stack ids stay valid until
/// [`prune`](StackTable::prune), which changes [`version`](StackTable::version).
pub struct StackTable {
    frames: Vec<Frame>,
    frame_ids: IdMap<Frame, FrameId>,
    nodes: Vec<Node>,
    /// Children that are not stored right behind their parents. Most stacks, once they differ from
    /// all others, are chains of nodes in order and need no entry here.
    children: IdMap<(StackId, FrameId), StackId>,
    max_frames: usize,
    max_nodes: usize,
    overflows: u64,
    version: u64,
}

/// The stacks of a table after some were dropped, by their former ids.
pub(super) struct Renumbering {
    /// The former nodes.
    nodes: Vec<Node>,
    /// The new id of each former node, or of its nearest ancestor that was kept.
    nearest: Vec<StackId>,
    is_kept: Vec<bool>,
}

impl Renumbering {
    /// The new id of a stack. If it was dropped, it is cut to its leaf, the mark
    /// [`Frame::MemoryLimit`], and the ancestors that were kept.
    pub(super) fn stack(&self, former: StackId, table: &mut StackTable) -> StackId {
        let nearest = self.nearest[former.index()];
        if self.is_kept[former.index()] || former == StackId::EMPTY {
            return nearest;
        }
        let mark = table.frame_id(Frame::MemoryLimit);
        let Node { parent, frame: leaf } = self.nodes[former.index()];
        if matches!(table.frame(leaf), Frame::Wait(_) | Frame::Title(_)) && parent != StackId::EMPTY {
            // The leaf of the code keeps the flat weight.
            let waiting = self.stack(parent, table);
            return table.push(waiting, leaf);
        }
        let is_marked = nearest != StackId::EMPTY && table.nodes[nearest.index()].frame == mark;
        let cut = if is_marked { nearest } else { table.push(nearest, mark) };
        if leaf == mark { cut } else { table.push(cut, leaf) }
    }
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
            children: IdMap::default(),
            max_frames,
            max_nodes,
            overflows: 0,
            version: 0,
        }
    }

    /// Allows for this many stacks.
    pub(super) fn set_max_nodes(&mut self, max_nodes: usize) {
        self.max_nodes = max_nodes.min(u32::MAX as usize - 2 - self.max_frames);
    }

    /// Drops all stacks but those that `is_kept` has by their [`StackId::index`]. It must have the
    /// ancestors of each. Returns the new ids.
    pub(super) fn prune(&mut self, is_kept: Vec<bool>) -> Renumbering {
        let root = vec![Node { parent: StackId::EMPTY, frame: FrameId(u32::MAX) }];
        let nodes = std::mem::replace(&mut self.nodes, root);
        self.children = IdMap::default();
        self.version += 1;
        let mut nearest = vec![StackId::EMPTY; nodes.len()];
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let parent = nearest[node.parent.index()];
            nearest[index] = if is_kept[index] { self.insert(parent, node.frame) } else { parent };
        }
        Renumbering { nodes, nearest, is_kept }
    }

    /// Counts how often stack ids became invalid.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the id of a frame and adds the frame if it is new. When the table is full, a new
    /// frame gets the id of [`Frame::Truncated`].
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

    /// The id of a frame, if the table has it.
    pub fn find(&self, frame: Frame) -> Option<FrameId> {
        self.frame_ids.get(&frame).copied()
    }

    /// Returns the stack of `frame` called by `parent`, and adds it if it is new. When the table is
    /// full, a new stack becomes the truncated stack of `frame` alone: the flat weight of `frame`
    /// stays right, its callers are lost.
    pub fn push(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if let Some(stack) = self.child(parent, frame) {
            return stack;
        }
        if self.nodes.len() < self.max_nodes {
            return self.insert(parent, frame);
        }
        self.overflows += 1;
        let truncated = self.frame_id(Frame::Truncated);
        let root = self.child(StackId::EMPTY, truncated).unwrap_or_else(|| self.insert(StackId::EMPTY, truncated));
        match frame == truncated {
            true => root,
            false => self.child(root, frame).unwrap_or_else(|| self.insert(root, frame)),
        }
    }

    fn child(&self, parent: StackId, frame: FrameId) -> Option<StackId> {
        let next = parent.index() + 1;
        match self.nodes.get(next) {
            Some(&node) if node == (Node { parent, frame }) => Some(StackId::from_index(next)),
            _ => self.children.get(&(parent, frame)).copied(),
        }
    }

    fn insert(&mut self, parent: StackId, frame: FrameId) -> StackId {
        let id = StackId::from_index(self.nodes.len());
        if id.index() != parent.index() + 1 {
            self.children.insert((parent, frame), id);
        }
        self.nodes.push(Node { parent, frame });
        id
    }

    /// Number of times that a new frame or stack did not fit.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// The frame with an id.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.0 as usize]
    }

    /// All frames in order of their ids.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Number of stacks, including the empty one: the largest [`StackId::index`] plus one.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the table has no stack but the empty one.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Every stack by [`StackId::index`]. The empty stack, at 0, is its own parent and has no
    /// frame.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The frame of what the thread of a stack waits for.
    pub fn wait(&self, stack: StackId) -> Option<FrameId> {
        self.leaf_if(stack, |frame| matches!(frame, Frame::Wait(_)))
    }

    /// The frame of the title that the process of a stack had, if it had changed its title.
    pub fn title(&self, stack: StackId) -> Option<FrameId> {
        self.leaf_if(self.without_wait(stack), |frame| matches!(frame, Frame::Title(_)))
    }

    /// A stack without what its thread waits for and without the title of its process.
    pub fn code(&self, stack: StackId) -> StackId {
        let stack = self.without_wait(stack);
        if self.title(stack).is_some() { self.nodes[stack.index()].parent } else { stack }
    }

    fn without_wait(&self, stack: StackId) -> StackId {
        if self.wait(stack).is_some() { self.nodes[stack.index()].parent } else { stack }
    }

    fn leaf_if(&self, stack: StackId, is_wanted: impl Fn(&Frame) -> bool) -> Option<FrameId> {
        let leaf = self.nodes.get(stack.index())?.frame;
        self.frames.get(leaf.0 as usize).is_some_and(is_wanted).then_some(leaf)
    }

    /// Iterates over the frames of a stack, leaf first.
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

    fn unmapped(address: u64) -> Frame {
        Frame::Unmapped { process: ProcessId(0), code_version: 0, address }
    }

    fn push_all(table: &mut StackTable, addresses: &[u64]) -> StackId {
        addresses.iter().fold(StackId::EMPTY, |stack, &address| {
            let frame = table.frame_id(unmapped(address));
            table.push(stack, frame)
        })
    }

    fn leaf_first(table: &StackTable, stack: StackId) -> Vec<Frame> {
        table.leaf_first(stack).map(|id| table.frame(id)).collect()
    }

    #[test]
    fn equal_stacks_have_one_id_and_prefixes_are_shared() {
        let mut table = StackTable::default();
        let deep = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(push_all(&mut table, &[1, 2, 3]), deep);
        assert_eq!(table.len(), 4);
        let other = push_all(&mut table, &[1, 2, 1]);
        assert_eq!(table.len(), 5);
        assert_eq!(leaf_first(&table, other), [1, 2, 1].map(unmapped));
        assert_eq!(table.nodes()[other.index()].parent, table.nodes()[deep.index()].parent);
        assert!(table.nodes().iter().skip(1).enumerate().all(|(before, node)| node.parent.index() <= before));
    }

    #[test]
    fn a_full_table_keeps_the_leaf_and_counts_overflows() {
        let mut table = StackTable::with_limits(100, 4);
        let known = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(push_all(&mut table, &[1, 2, 3]), known);
        assert_eq!(table.overflows(), 0);
        let cut = push_all(&mut table, &[1, 2, 4, 5]);
        assert_eq!(leaf_first(&table, cut), [unmapped(5), Frame::Truncated]);
        assert_eq!(table.overflows(), 2);
        // A frame takes at most one more node.
        let before = table.len();
        for root in 0..50 {
            push_all(&mut table, &[root, 4, 5]);
        }
        assert!(table.len() <= before + 50, "{}", table.len());
    }

    #[test]
    fn a_full_table_of_frames_returns_the_truncated_frame() {
        let mut table = StackTable::with_limits(2, 100);
        let stack = push_all(&mut table, &[1, 2, 3]);
        assert_eq!(leaf_first(&table, stack), [Frame::Truncated, unmapped(2), unmapped(1)]);
        assert_eq!((table.frames().len(), table.overflows()), (3, 1));
    }
}
