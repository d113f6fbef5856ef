//! The output of `perf script`: for each sample a header line, its frames with the leaf first, and
//! an empty line.
//!
//! ```text
//! sh 30907 13507.567529:   10101010 cpu-clock:
//!             16d855 __memmove_avx512_unaligned_erms+0x55 (/usr/lib/libc.so.6)
//!               ae77 [unknown] (/usr/bin/dash)
//! ```
//!
//! Without call chains, a sample is one line: the only frame stands behind the header.
//!
//! ```text
//!   sh 30907 13507.567529:   10101010 cpu-clock:      55d1367d2180 main+0x17 (/usr/bin/dash)
//! ```

mod frame;
mod header;
mod read;

pub(super) use read::{find_start, read};
