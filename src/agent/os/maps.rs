//! Reads `/proc/thread-self/maps`. (`/proc/self/maps` is empty once the first thread has ended.)

use alloc::vec::Vec;

use crate::agent::os::syscall::File;
use crate::process::maps::MAX_MAPS_BYTES;

/// Reads the whole file; empty if it cannot be read.
pub(crate) fn read() -> Vec<u8> {
    let Some(file) = File::open(b"/proc/thread-self/maps\0", 0) else { return Vec::new() };
    // Zeroed memory takes pages as it is written, and is given back where it is a large block.
    let mut text = alloc::vec![0; 24 * 1024];
    let mut length = 0;
    while length < MAX_MAPS_BYTES {
        // The kernel gives at most a page at a time.
        if text.len() - length < 4096 {
            text.resize(2 * text.len(), 0);
        }
        let read = file.read(&mut text[length..]);
        if read == 0 {
            break;
        }
        length += read;
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::maps::entries;

    #[test]
    fn own_maps_hold_this_function() {
        let text = read();
        let here = own_maps_hold_this_function as *const () as u64;
        assert!(entries(&text).any(|entry| entry.executable && entry.contains(here)));
    }
}
