//! The channels of the tracer: commands of the viewer, requests of the walker, and reports.

use crossbeam_channel::{Receiver, Sender};

use crate::attach::proc::ProcessIdentity;
use crate::sampler::events::{ImageId, SampledStack, TracerEvent, WalkerRequest};
use crate::sampler::scope::WatchScope;
use crate::sampler::stack_copy::StackCopy;

/// A command of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sampler) enum TracerCommand {
    /// Watch this process.
    Watch { process: ProcessIdentity, scope: WatchScope },
    /// Open the events of a process that is about to execute a program, and let it go on.
    Prepare { pid: u32 },
}

/// A message to the viewer that is no message of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sampler) enum TracerReport {
    /// The kernel does not let this process be sampled.
    Refused { pid: u32 },
    /// This process has too many threads for events.
    TooManyThreads { pid: u32 },
    /// Not all threads of this process have events at a time.
    TakeTurns { pid: u32 },
    /// The kernel takes fewer samples than it is asked for, because they cost too much.
    Throttled,
    /// System calls of this process wait for a supervisor.
    Supervised { pid: u32 },
}

/// The channels and settings of the tracer.
pub(in crate::sampler) struct TracerLinks {
    pub(in crate::sampler) commands: Receiver<TracerCommand>,
    pub(in crate::sampler) requests: Receiver<WalkerRequest>,
    /// Stacks that are walked. Their memory is used again: an allocator has locks, and while the
    /// walker waits for a CPU with one of them, threads would stand still.
    pub(in crate::sampler) spare: Receiver<SampledStack>,
    pub(in crate::sampler) events: Sender<(ImageId, TracerEvent)>,
    /// Receives the reports to the viewer.
    pub(in crate::sampler) reports: Sender<TracerReport>,
    /// Whether child processes are watched, too.
    pub(in crate::sampler) follow: bool,
}

impl TracerLinks {
    /// Returns a copy of a stack, without unused buffers.
    pub(super) fn copy_of(&self, stack: &StackCopy) -> StackCopy {
        let mut copy = self.spare_copy();
        stack.copy_to(&mut copy);
        copy
    }

    /// Returns an empty copy whose buffers were used before, if there is one.
    pub(super) fn spare_copy(&self) -> StackCopy {
        match self.spare.try_recv() {
            Ok(SampledStack::Copied(_, mut spare, _)) => {
                spare.clear();
                spare
            }
            _ => StackCopy::default(),
        }
    }
}
