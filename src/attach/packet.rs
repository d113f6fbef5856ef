//! What the viewer and its keeper say to each other, one packet each over a `SOCK_SEQPACKET` pair: a byte for the kind, then
//! its numbers (little-endian) or bytes. The two ends are one program and its fork, so there is no version; a packet that
//! does not parse is `None` all the same.

/// Bytes of terminal output in one packet.
pub(super) const MAX_OUTPUT: usize = 64 * 1024;
/// Bytes of terminal input in one packet.
pub(super) const MAX_INPUT: usize = 4096;
/// Bytes of the largest packet.
pub(super) const MAX_PACKET: usize = 1 + MAX_OUTPUT;

const _: () = assert!(MAX_INPUT < MAX_PACKET);

/// Kind of the one report that is long.
const OUTPUT: u8 = 3;

/// From the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// First of all: the target runs.
    Started { pid: u32 },
    /// First and last: the target could not be executed, or (`ours`) not even be prepared.
    Failed { errno: i32, ours: bool },
    /// The target's terminal was written to.
    Output(Vec<u8>),
    /// Output dropped, in bytes, because the viewer did not read.
    OutputLost(u64),
    /// Input dropped, in bytes, because the target did not read.
    InputLost(u64),
    /// The target was stopped by a signal.
    Stopped { signal: i32 },
    /// The target goes on.
    Continued,
    /// The target ended: its wait status, its CPU time with that of the children it waited for, and
    /// its own alone.
    Ended { status: i32, user_ns: u64, system_ns: u64, own_ns: u64 },
}

/// From the viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Typed into the target's terminal.
    Input(Vec<u8>),
    /// The terminal's new size.
    Resize { rows: u16, columns: u16 },
    /// A signal for the target's process group.
    Signal { signal: i32 },
    /// The viewer's terminal is gone: hang up on the target.
    HangUp,
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Report::Started { pid } => packet(1, &[&pid.to_le_bytes()]),
            Report::Failed { errno, ours } => packet(2, &[&errno.to_le_bytes(), &[u8::from(*ours)]]),
            Report::Output(bytes) => packet(OUTPUT, &[bytes]),
            Report::OutputLost(count) => packet(4, &[&count.to_le_bytes()]),
            Report::InputLost(count) => packet(5, &[&count.to_le_bytes()]),
            Report::Stopped { signal } => packet(6, &[&signal.to_le_bytes()]),
            Report::Continued => packet(7, &[]),
            Report::Ended { status, user_ns, system_ns, own_ns } => {
                let [user, system, own] = [user_ns, system_ns, own_ns].map(|ns| ns.to_le_bytes());
                packet(8, &[&status.to_le_bytes(), &user, &system, &own])
            }
        }
    }

    /// Whether an encoded packet is output: to join and to drop without decoding.
    pub(super) fn is_output(packet: &[u8]) -> bool {
        packet.first() == Some(&OUTPUT)
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Report> {
        let (kind, mut rest) = packet.split_first()?;
        let report = match kind {
            1 => Report::Started { pid: u32::from_le_bytes(take(&mut rest)?) },
            2 => Report::Failed { errno: i32::from_le_bytes(take(&mut rest)?), ours: take::<1>(&mut rest)? == [1] },
            &OUTPUT => return Some(Report::Output(rest.to_vec())),
            4 => Report::OutputLost(u64::from_le_bytes(take(&mut rest)?)),
            5 => Report::InputLost(u64::from_le_bytes(take(&mut rest)?)),
            6 => Report::Stopped { signal: i32::from_le_bytes(take(&mut rest)?) },
            7 => Report::Continued,
            8 => Report::Ended {
                status: i32::from_le_bytes(take(&mut rest)?),
                user_ns: u64::from_le_bytes(take(&mut rest)?),
                system_ns: u64::from_le_bytes(take(&mut rest)?),
                own_ns: u64::from_le_bytes(take(&mut rest)?),
            },
            _ => return None,
        };
        rest.is_empty().then_some(report)
    }
}

impl Order {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Order::Input(bytes) => packet(1, &[bytes]),
            Order::Resize { rows, columns } => packet(2, &[&rows.to_le_bytes(), &columns.to_le_bytes()]),
            Order::Signal { signal } => packet(3, &[&signal.to_le_bytes()]),
            Order::HangUp => packet(4, &[]),
        }
    }

    pub(super) fn decode(packet: &[u8]) -> Option<Order> {
        let (kind, mut rest) = packet.split_first()?;
        let order = match kind {
            1 => return Some(Order::Input(rest.to_vec())),
            2 => Order::Resize {
                rows: u16::from_le_bytes(take(&mut rest)?),
                columns: u16::from_le_bytes(take(&mut rest)?),
            },
            3 => Order::Signal { signal: i32::from_le_bytes(take(&mut rest)?) },
            4 => Order::HangUp,
            _ => return None,
        };
        rest.is_empty().then_some(order)
    }
}

fn packet(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    packet.push(kind);
    parts.iter().for_each(|part| packet.extend_from_slice(part));
    packet
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_reads_back() {
        let reports = [
            Report::Started { pid: 70_000 },
            Report::Failed { errno: 8, ours: true },
            Report::Failed { errno: 2, ours: false },
            Report::Output(b"hello\r\n".to_vec()),
            Report::OutputLost(1 << 40),
            Report::InputLost(3),
            Report::Stopped { signal: 20 },
            Report::Continued,
            Report::Ended { status: 3 << 8, user_ns: 5, system_ns: 7, own_ns: 11 },
        ];
        for report in reports {
            let packet = report.encode();
            assert_eq!(Report::decode(&packet), Some(report.clone()));
            if !matches!(report, Report::Output(_)) {
                assert_eq!(Report::decode(&packet[..packet.len() - 1]), None);
                assert_eq!(Report::decode(&[&packet[..], b"!"].concat()), None);
            }
        }
        let resize = Order::Resize { rows: 24, columns: 80 };
        for order in [Order::Input(b"q".to_vec()), resize, Order::Signal { signal: 15 }, Order::HangUp] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        assert_eq!((Report::decode(b""), Order::decode(b"\xff")), (None, None));
    }
}
