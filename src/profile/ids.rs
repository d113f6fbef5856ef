//! Indices of processes, threads, waits and titles in a profile.

/// Index of a process image in a [`Profile`](super::Profile).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// Index of a thread in a [`Profile`](super::Profile). Two threads that had the same tid one after
/// the other have two ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

/// Index of a merged recording in [`Profile::recordings`](super::Profile::recordings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordingId(pub u32);

/// Index of a wait in a [`WaitTable`](super::waits::WaitTable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitId(pub u32);

/// Index of a title in a [`TitleTable`](super::titles::TitleTable).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TitleId(pub u32);
