//! Events that wait for the walker. While that stands still, as the viewer may, samples are lost
//! first, then what later events replace, then all of processes that have come and gone meanwhile.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use crossbeam_channel::{SendTimeoutError, TrySendError};

use super::{MAX_QUEUED_BYTES, Tracer};
use crate::sampler::events::{ImageId, SampledStack, TracerEvent, UnwalkedSample};
use crate::wire::LossCause;

/// Number of events from which on samples are lost.
const MAX_EVENTS: usize = 4096;

/// Events, each about one image.
type Outbox = VecDeque<(ImageId, TracerEvent)>;

impl Tracer {
    /// Sends events as far as the walker has room. Samples that find none are lost.
    pub(super) fn flush(&mut self) {
        while let Some(event) = self.outbox.pop_front() {
            let Err(TrySendError::Full(event)) = self.links.events.try_send(event) else { continue };
            self.outbox.push_front(event);
            break;
        }
        let bytes = |event: &(ImageId, TracerEvent)| match &event.1 {
            TracerEvent::Sample(UnwalkedSample { stack: SampledStack::Copied(_, copy, _), .. }) => copy.len(),
            _ => 0,
        };
        if self.outbox.iter().map(bytes).sum::<usize>() <= MAX_QUEUED_BYTES / 2 && self.outbox.len() < MAX_EVENTS {
            return;
        }
        let (processes, period_ns) = (&mut self.processes, self.config.period_ns);
        self.outbox.retain(|(image, event)| {
            let TracerEvent::Sample(sample) = event else { return true };
            if let Some(process) = processes.values_mut().find(|process| process.image == *image) {
                if let Some(thread) = process.threads.get_mut(&sample.tid) {
                    thread.is_stack_known = false;
                }
                process.lose(LossCause::SocketFull, sample.weight_ns);
                process.counters.lost_ticks[LossCause::SocketFull as usize] +=
                    sample.weight_ns.div_ceil(period_ns.max(1)).max(1);
            }
            false
        });
        if self.outbox.len() >= MAX_EVENTS {
            self.dropped_ns += drop_outdated(&mut self.outbox);
        }
        // Any process may tell of it.
        if let Some(process) = self.processes.values_mut().next() {
            process.lose(LossCause::SocketFull, std::mem::take(&mut self.dropped_ns));
        }
    }

    /// Sends events, and waits for the walker where it has no room. No thread may stand still.
    pub(super) fn flush_within(&mut self, longest: Duration) {
        let until = Instant::now() + longest;
        while self.asked.is_empty()
            && let Some(event) = self.outbox.pop_front()
        {
            if let Err(SendTimeoutError::Timeout(event)) = self.links.events.send_deadline(event, until) {
                self.outbox.push_front(event);
                break;
            }
        }
        self.flush();
    }
}

/// Drops events that later ones replace, those of threads that have come and gone, and those of
/// images that have. Returns the CPU time of such images, ns.
fn drop_outdated(events: &mut Outbox) -> u64 {
    // From the last event to the first.
    let (mut replaced, mut ended, mut gone) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut used_ns: HashMap<ImageId, u64> = HashMap::new();
    let mut dropped_ns = 0;
    let is_kept: Vec<bool> = events
        .iter()
        .rev()
        .map(|(image, event)| match event {
            TracerEvent::Ended => ended.insert((*image, None)),
            TracerEvent::ThreadEnded { tid } => ended.insert((*image, Some(*tid))),
            TracerEvent::Counters(counters) => {
                used_ns.entry(*image).or_insert(counters.process_cpu_ns);
                replaced.insert((*image, false))
            }
            TracerEvent::Mapped => replaced.insert((*image, true)),
            TracerEvent::Started(start) => {
                let is_gone = ended.contains(&(*image, None)) && gone.insert((*image, None));
                let used_ns = used_ns.get(image).filter(|_| is_gone);
                dropped_ns += used_ns.map_or(0, |used_ns| used_ns.saturating_sub(start.cpu_ns));
                !is_gone
            }
            TracerEvent::Thread { tid } => {
                !(ended.contains(&(*image, Some(*tid))) && gone.insert((*image, Some(*tid))))
            }
            TracerEvent::ThreadNamed { .. } | TracerEvent::Sample(_) => true,
        })
        .collect();
    let mut is_kept = is_kept.into_iter().rev();
    events.retain(|(image, event)| {
        let tid = match event {
            TracerEvent::ThreadEnded { tid } | TracerEvent::ThreadNamed { tid, .. } => Some(*tid),
            _ => None,
        };
        let is_gone = gone.contains(&(*image, None)) || tid.is_some() && gone.contains(&(*image, tid));
        is_kept.next().unwrap_or(true) && !is_gone
    });
    dropped_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::events::{ImageStart, TracerCounters};
    use crate::wire::Engine;

    fn started(image: u32, cpu_ns: u64) -> (ImageId, TracerEvent) {
        let (pid, parent, start_ticks, engine) = (image, 1, 1, Engine::Events);
        (ImageId(image), TracerEvent::Started(ImageStart { pid, parent, start_ticks, cpu_ns, engine, maker: None }))
    }

    fn counted(image: u32, process_cpu_ns: u64) -> (ImageId, TracerEvent) {
        (ImageId(image), TracerEvent::Counters(TracerCounters { process_cpu_ns, ..TracerCounters::default() }))
    }

    /// Regression test: while the viewer stood still, events were kept without a limit.
    #[test]
    fn what_has_come_and_gone_is_dropped_and_counted() {
        let event = |image, event| (ImageId(image), event);
        let mut events = Outbox::new();
        // This image goes on, with one thread, a name, and its last counters.
        events.push_back(started(1, 0));
        for tid in 10..1000 {
            events.push_back(event(1, TracerEvent::Thread { tid }));
            events.push_back(event(1, TracerEvent::ThreadNamed { tid, name: b"a".to_vec() }));
            events.push_back(event(1, TracerEvent::Mapped));
            events.push_back(counted(1, tid.into()));
            if tid > 10 {
                events.push_back(event(1, TracerEvent::ThreadEnded { tid }));
            }
        }
        // Those have ended; the last began before all others.
        for image in 2..1000 {
            events.extend([started(image, 500), event(image, TracerEvent::Thread { tid: image }), counted(image, 700)]);
            events.push_back(event(image, TracerEvent::Ended));
        }
        events.extend([event(0, TracerEvent::Mapped), event(0, TracerEvent::Ended)]);
        assert_eq!(drop_outdated(&mut events), 998 * 200);
        let kinds: Vec<String> = events.iter().map(|(image, event)| format!("{} {event:?}", image.0)).collect();
        let starts =
            ["1 Started", "1 Thread { tid: 10 }", "1 ThreadNamed", "1 Mapped", "1 Counters", "0 Mapped", "0 Ended"];
        assert_eq!(kinds.len(), starts.len(), "{kinds:?}");
        assert!(kinds.iter().zip(starts).all(|(kind, start)| kind.starts_with(start)), "{kinds:?}");
        assert!(kinds[4].contains("process_cpu_ns: 999"), "{}", kinds[4]);
        assert_eq!((drop_outdated(&mut events), events.len()), (0, starts.len()));
    }
}
