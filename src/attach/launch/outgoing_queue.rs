//! The packets that the keeper holds for the viewer, and how long the target waits for a viewer
//! that does not read them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::protocol::{KeeperReport, MAX_OUTPUT, MAX_PACKET};

/// Maximum size of the packets that wait for the viewer before the target has to wait, in bytes.
pub(super) const MAX_WAITING: usize = 4 * MAX_OUTPUT;
/// Minimum interval between packets of output, so that small pieces travel together.
const GATHER: Duration = Duration::from_millis(4);
/// Maximum time that a target waits for a viewer that does not read.
const MAX_TARGET_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of bytes read after the target's end and before it is reported: more than a
/// terminal holds.
pub(super) const MAX_LAST_OUTPUT: usize = 2 * MAX_OUTPUT;
/// Maximum number of bytes that wait at all: past [`MAX_WAITING`] a read in progress, and the last
/// output.
const MAX_QUEUE: usize = MAX_WAITING + MAX_PACKET + OVERHEAD + MAX_LAST_OUTPUT + 4 * OVERHEAD;
/// Bytes counted for each waiting packet, so that many empty ones have a limit too.
const OVERHEAD: usize = 64;

/// The queue of packets for the viewer, oldest first.
#[derive(Default)]
pub(super) struct OutgoingQueue {
    packets: VecDeque<Vec<u8>>,
    /// The size of all packets in bytes, with [`OVERHEAD`] for each.
    pub(super) size: usize,
    /// Number of bytes of output dropped before the first packet.
    lost: u64,
    /// The time at which the viewer last accepted a packet, while some wait.
    since: Option<Instant>,
    /// The time at which the last packet was sent.
    sent: Option<Instant>,
}

impl OutgoingQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.lost == 0
    }

    /// Returns how long the target still has to wait when the queue is full.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        self.since.map_or(MAX_TARGET_WAIT, |since| MAX_TARGET_WAIT.saturating_sub(now.duration_since(since)))
    }

    /// Returns how long a single piece of output still waits for more.
    pub(super) fn gathering(&self, now: Instant) -> Option<Duration> {
        let lone = self.packets.front().filter(|_| self.packets.len() == 1 && self.lost == 0)?;
        let left = GATHER.checked_sub(now.duration_since(self.sent?)).filter(|left| !left.is_zero())?;
        (KeeperReport::is_output(lone) && lone.len() < MAX_OUTPUT / 2).then_some(left)
    }

    pub(super) fn push(&mut self, packet: Vec<u8>, now: Instant) {
        self.since.get_or_insert(now);
        self.size += packet.len() + OVERHEAD;
        self.packets.push_back(packet);
        self.trim();
    }

    /// Drops output to make room. All packets but the last may go: the end of the target comes
    /// last, and is reported once.
    fn trim(&mut self) {
        while self.size > MAX_QUEUE {
            let at =
                self.packets.iter().take(self.packets.len() - 1).position(|packet| KeeperReport::is_output(packet));
            let Some(packet) = self.packets.remove(at.unwrap_or(0)) else { break };
            self.size -= packet.len() + OVERHEAD;
            self.lost += if KeeperReport::is_output(&packet) { packet.len() as u64 - 1 } else { 0 };
        }
    }

    /// Joins small pieces of output.
    pub(super) fn output(&mut self, bytes: &[u8], now: Instant) {
        match self.packets.back_mut() {
            Some(last) if KeeperReport::is_output(last) && last.len() + bytes.len() <= MAX_PACKET => {
                last.extend_from_slice(bytes);
                self.size += bytes.len();
                self.trim();
            }
            _ => self.push(KeeperReport::Output(bytes.to_vec()).encode(), now),
        }
    }

    /// Returns the packet to send next.
    pub(super) fn first(&mut self) -> Option<&[u8]> {
        if self.lost > 0 {
            let packet = KeeperReport::OutputLost(std::mem::take(&mut self.lost)).encode();
            self.size += packet.len() + OVERHEAD;
            self.packets.push_front(packet);
        }
        self.packets.front().map(Vec::as_slice)
    }

    pub(super) fn sent(&mut self, now: Instant) {
        if let Some(packet) = self.packets.pop_front() {
            self.size -= packet.len() + OVERHEAD;
        }
        self.since = if self.packets.is_empty() { None } else { Some(now) };
        self.sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(waiting: &mut OutgoingQueue, now: Instant) -> Vec<KeeperReport> {
        let mut reports = Vec::new();
        while let Some(packet) = waiting.first() {
            reports.extend(KeeperReport::decode(packet));
            waiting.sent(now);
        }
        reports
    }

    #[test]
    fn output_keeps_its_order_and_small_pieces_travel_together() {
        let (mut waiting, now) = (OutgoingQueue::default(), Instant::now());
        waiting.output(b"one ", now);
        waiting.output(b"two", now);
        waiting.push(KeeperReport::Continued.encode(), now);
        waiting.output(b"three", now);
        let expected = [
            KeeperReport::Output(b"one two".to_vec()),
            KeeperReport::Continued,
            KeeperReport::Output(b"three".to_vec()),
        ];
        assert_eq!(taken(&mut waiting, now), expected);
        assert!(waiting.is_empty() && waiting.size == 0 && waiting.since.is_none());
    }

    #[test]
    fn the_viewer_has_so_long_from_its_last_sign_of_life() {
        let (mut waiting, start) = (OutgoingQueue::default(), Instant::now());
        assert_eq!(waiting.patience(start), MAX_TARGET_WAIT);
        waiting.output(b"x", start);
        waiting.push(KeeperReport::Continued.encode(), start + MAX_TARGET_WAIT / 2);
        assert_eq!(waiting.patience(start + MAX_TARGET_WAIT / 2), MAX_TARGET_WAIT / 2);
        assert_eq!(waiting.patience(start + 2 * MAX_TARGET_WAIT), Duration::ZERO);
        waiting.sent(start + MAX_TARGET_WAIT / 2);
        assert_eq!(waiting.patience(start + MAX_TARGET_WAIT), MAX_TARGET_WAIT / 2);
    }

    #[test]
    fn small_pieces_are_sent_a_while_apart_and_the_end_at_once() {
        let (mut waiting, start) = (OutgoingQueue::default(), Instant::now());
        waiting.output(b"echo", start);
        assert_eq!(waiting.gathering(start), None, "the first goes at once");
        waiting.sent(start);
        waiting.output(b"more", start);
        assert_eq!(waiting.gathering(start), Some(GATHER));
        assert_eq!(waiting.gathering(start + GATHER), None);
        waiting.push(KeeperReport::Ended { status: 0, user_ns: 0, system_ns: 0, own_ns: 0 }.encode(), start);
        assert_eq!(waiting.gathering(start), None);
        let mut waiting = OutgoingQueue { sent: Some(start), ..OutgoingQueue::default() };
        waiting.output(&[b'x'; MAX_OUTPUT], start);
        assert_eq!(waiting.gathering(start), None, "a large piece too");
    }

    #[test]
    fn past_the_limit_the_oldest_output_goes_and_is_counted() {
        let (mut waiting, now) = (OutgoingQueue::default(), Instant::now());
        waiting.push(KeeperReport::Stopped { signal: 19 }.encode(), now);
        let total = 2 * (MAX_QUEUE as u64).next_multiple_of(1024);
        for piece in 0..total / 1024 {
            waiting.output(&[piece as u8; 1024], now);
            assert!(waiting.size <= MAX_QUEUE);
        }
        let end = KeeperReport::Ended { status: 0, user_ns: 0, system_ns: 0, own_ns: 0 };
        waiting.push(end.encode(), now);
        let reports = taken(&mut waiting, now);
        assert_eq!(reports.last(), Some(&end));
        let (mut lost, mut kept) = (0, 0);
        for report in &reports {
            match report {
                KeeperReport::OutputLost(count) => lost += count,
                KeeperReport::Output(bytes) => kept += bytes.len() as u64,
                _ => {}
            }
        }
        assert_eq!(lost + kept, total);
        assert!(lost > 0 && kept > 0);
    }
}
