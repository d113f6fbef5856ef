//! The messages between the viewer and its keeper. Each is one packet over a `SOCK_SEQPACKET` pair:
//! a byte for the kind, then numbers (little-endian) or bytes. Both ends are one program and its
//! fork, so there is no version; a packet that does not parse still decodes as `None`.

/// Maximum number of bytes of terminal output in one packet.
pub(super) const MAX_OUTPUT: usize = 64 * 1024;
/// Maximum number of bytes of terminal input in one packet.
pub(super) const MAX_INPUT: usize = 4096;
/// Size of the largest packet in bytes.
pub(super) const MAX_PACKET: usize = 1 + MAX_OUTPUT;

const _: () = assert!(MAX_INPUT < MAX_PACKET);

/// The kind of the report that carries output.
const OUTPUT: u8 = 3;

/// Messages from the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeeperReport {
    /// The target runs. This is the first report.
    Started { pid: u32 },
    /// The target could not be executed or (`ours`) not even be prepared. This is the only report.
    Failed { errno: i32, ours: bool },
    /// The target wrote to its terminal.
    Output(Vec<u8>),
    /// This number of bytes of output was dropped, because the viewer did not read.
    OutputLost(u64),
    /// This number of bytes of input was dropped, because the target did not read.
    InputLost(u64),
    /// A signal stopped the target.
    Stopped { signal: i32 },
    /// The target continues.
    Continued,
    /// The target ended: its wait status, its CPU time with that of the children it waited for, and
    /// its own alone, in ns.
    Ended { status: i32, user_ns: u64, system_ns: u64, own_ns: u64 },
}

/// Messages from the viewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeeperCommand {
    /// The user typed into the target's terminal.
    Input(Vec<u8>),
    /// The terminal has a new size.
    Resize { rows: u16, columns: u16 },
    /// Send a signal to the target's process group.
    Signal { signal: i32 },
    /// The viewer's terminal is gone: hang up the target's.
    HangUp,
}

impl KeeperReport {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            KeeperReport::Started { pid } => packet(1, &[&pid.to_le_bytes()]),
            KeeperReport::Failed { errno, ours } => packet(2, &[&errno.to_le_bytes(), &[u8::from(*ours)]]),
            KeeperReport::Output(bytes) => packet(OUTPUT, &[bytes]),
            KeeperReport::OutputLost(count) => packet(4, &[&count.to_le_bytes()]),
            KeeperReport::InputLost(count) => packet(5, &[&count.to_le_bytes()]),
            KeeperReport::Stopped { signal } => packet(6, &[&signal.to_le_bytes()]),
            KeeperReport::Continued => packet(7, &[]),
            KeeperReport::Ended { status, user_ns, system_ns, own_ns } => {
                let [user, system, own] = [user_ns, system_ns, own_ns].map(|ns| ns.to_le_bytes());
                packet(8, &[&status.to_le_bytes(), &user, &system, &own])
            }
        }
    }

    /// Returns whether an encoded packet is output, which is joined and dropped without decoding.
    pub(super) fn is_output(packet: &[u8]) -> bool {
        packet.first() == Some(&OUTPUT)
    }

    pub(super) fn decode(packet: &[u8]) -> Option<KeeperReport> {
        let (kind, mut rest) = packet.split_first()?;
        let report = match kind {
            1 => KeeperReport::Started { pid: u32::from_le_bytes(take(&mut rest)?) },
            2 => {
                KeeperReport::Failed { errno: i32::from_le_bytes(take(&mut rest)?), ours: take::<1>(&mut rest)? == [1] }
            }
            &OUTPUT => return Some(KeeperReport::Output(rest.to_vec())),
            4 => KeeperReport::OutputLost(u64::from_le_bytes(take(&mut rest)?)),
            5 => KeeperReport::InputLost(u64::from_le_bytes(take(&mut rest)?)),
            6 => KeeperReport::Stopped { signal: i32::from_le_bytes(take(&mut rest)?) },
            7 => KeeperReport::Continued,
            8 => KeeperReport::Ended {
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

impl KeeperCommand {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            KeeperCommand::Input(bytes) => packet(1, &[bytes]),
            KeeperCommand::Resize { rows, columns } => packet(2, &[&rows.to_le_bytes(), &columns.to_le_bytes()]),
            KeeperCommand::Signal { signal } => packet(3, &[&signal.to_le_bytes()]),
            KeeperCommand::HangUp => packet(4, &[]),
        }
    }

    pub(super) fn decode(packet: &[u8]) -> Option<KeeperCommand> {
        let (kind, mut rest) = packet.split_first()?;
        let order = match kind {
            1 => return Some(KeeperCommand::Input(rest.to_vec())),
            2 => KeeperCommand::Resize {
                rows: u16::from_le_bytes(take(&mut rest)?),
                columns: u16::from_le_bytes(take(&mut rest)?),
            },
            3 => KeeperCommand::Signal { signal: i32::from_le_bytes(take(&mut rest)?) },
            4 => KeeperCommand::HangUp,
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
            KeeperReport::Started { pid: 70_000 },
            KeeperReport::Failed { errno: 8, ours: true },
            KeeperReport::Failed { errno: 2, ours: false },
            KeeperReport::Output(b"hello\r\n".to_vec()),
            KeeperReport::OutputLost(1 << 40),
            KeeperReport::InputLost(3),
            KeeperReport::Stopped { signal: 20 },
            KeeperReport::Continued,
            KeeperReport::Ended { status: 3 << 8, user_ns: 5, system_ns: 7, own_ns: 11 },
        ];
        for report in reports {
            let packet = report.encode();
            assert_eq!(KeeperReport::decode(&packet), Some(report.clone()));
            if !matches!(report, KeeperReport::Output(_)) {
                assert_eq!(KeeperReport::decode(&packet[..packet.len() - 1]), None);
                assert_eq!(KeeperReport::decode(&[&packet[..], b"!"].concat()), None);
            }
        }
        let resize = KeeperCommand::Resize { rows: 24, columns: 80 };
        for order in
            [KeeperCommand::Input(b"q".to_vec()), resize, KeeperCommand::Signal { signal: 15 }, KeeperCommand::HangUp]
        {
            assert_eq!(KeeperCommand::decode(&order.encode()), Some(order));
        }
        assert_eq!((KeeperReport::decode(b""), KeeperCommand::decode(b"\xff")), (None, None));
    }
}
