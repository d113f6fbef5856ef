//! The walker thread: unwinds the copied stacks and speaks the wire of an agent for each process
//! image. It may wait for files and for the viewer; no thread of a target is stopped meanwhile.

mod frames;
mod image;

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::connection::ViewerAddress;
use super::events::{ImageId, SampledStack, TracerEvent, WalkerRequest};
use super::unwind::WalkEnd;
use crate::attach::proc;
use image::Image;

/// Longest wait for the tracer before the viewer's requests are read.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// The state of the walker thread.
pub(super) struct Walker {
    viewer: ViewerAddress,
    images: BTreeMap<ImageId, Image>,
    requests: Sender<WalkerRequest>,
    /// Gives stacks back to the tracer, which has allocated them.
    spare: Sender<SampledStack>,
    frames: Vec<u64>,
    /// CPU time of the sampler that was reported with any image, ns.
    reported_cpu_ns: u64,
}

impl Walker {
    pub(super) fn new(viewer: ViewerAddress, requests: Sender<WalkerRequest>, spare: Sender<SampledStack>) -> Walker {
        Walker { viewer, images: BTreeMap::new(), requests, spare, frames: Vec::new(), reported_cpu_ns: 0 }
    }

    /// Runs until the tracer has ended.
    pub(super) fn run(&mut self, events: &Receiver<(ImageId, TracerEvent)>) {
        loop {
            match events.recv_timeout(MAX_WAIT) {
                Ok(event) => {
                    self.handle(event);
                    // Messages that come together are sent together.
                    for event in events.try_iter().take(64) {
                        self.handle(event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.exchange();
        }
        self.exchange();
    }

    /// Sends what was written and reads requests.
    fn exchange(&mut self) {
        let images: Vec<ImageId> = self.images.keys().copied().collect();
        for id in images {
            let Some(image) = self.images.get_mut(&id) else { continue };
            if std::mem::take(&mut image.is_interpreter_news) {
                let cpython = image.interpreter.as_ref().and_then(|found| found.cpython);
                let _ = self.requests.send(WalkerRequest::Interpret { image: id, cpython });
            }
            match image.exchange(&self.requests) {
                Ok(true) => {}
                // The tracer sends what it has, and ends the image.
                Ok(false) => drop(self.requests.send(WalkerRequest::Leave(id))),
                Err(_) => self.drop_image(id, WalkerRequest::Reconnect(id)),
            }
        }
    }

    fn drop_image(&mut self, id: ImageId, request: WalkerRequest) {
        self.images.remove(&id);
        // The tracer has ended if it cannot be reached.
        let _ = self.requests.send(request);
    }

    fn handle(&mut self, (id, event): (ImageId, TracerEvent)) {
        if let TracerEvent::Started(start) = &event {
            match Image::open(&self.viewer, start) {
                Ok(image) => drop(self.images.insert(id, image)),
                Err(_) => self.drop_image(id, WalkerRequest::Reconnect(id)),
            }
            return;
        }
        let Some(image) = self.images.get_mut(&id) else { return };
        let done = match event {
            TracerEvent::Started(_) => Ok(()),
            TracerEvent::Thread { tid } => image.name_thread(tid, false),
            TracerEvent::ThreadEnded { tid } => image.end_thread(tid),
            TracerEvent::ThreadNamed { tid, name } => image.rename_thread(tid, &name),
            TracerEvent::Mapped => {
                image.has_mapped = true;
                Ok(())
            }
            TracerEvent::Sample(sample) => {
                let around = match image.walk(&sample, &mut self.frames) {
                    WalkEnd::WantsMoreStack => Some(None),
                    WalkEnd::WantsStackAt(address) => Some(Some(address)),
                    WalkEnd::Root | WalkEnd::Truncated => None,
                };
                if let Some(around) = around {
                    // If there is no room, the next stack asks again.
                    let _ = self.requests.try_send(WalkerRequest::CopyMore { image: id, tid: sample.tid, around });
                }
                let has_run = !matches!(sample.stack, SampledStack::Repeated);
                let named = image.name_thread(sample.tid, has_run);
                let sent = named.and_then(|()| image.send_wait(&sample)).and_then(|()| image.send_sample(&sample));
                let _ = self.spare.try_send(sample.stack);
                sent
            }
            TracerEvent::Counters(counters) => {
                // The viewer adds up what the images report.
                let cpu_ns = proc::cpu_ns(std::process::id()).unwrap_or(0).max(self.reported_cpu_ns);
                image.sampler_cpu_ns += cpu_ns - std::mem::replace(&mut self.reported_cpu_ns, cpu_ns);
                image.send_counters(&counters)
            }
            TracerEvent::Ended => {
                let _ = image.connection.flush();
                self.images.remove(&id);
                return;
            }
        };
        if done.is_err() {
            self.drop_image(id, WalkerRequest::Reconnect(id));
        }
    }
}
