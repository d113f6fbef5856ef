//! Groups the mappings of `/proc/PID/maps` by the loaded image that they are part of.

use alloc::vec::Vec;

use crate::arch::page_size;
use crate::process::maps::MapsEntry;

/// Largest gap between two segments of one image: linkers align segments to 2 MiB at most. A
/// mapping of the same file further away is not part of the image (a program may map its own code
/// once more).
const MAX_GAP: u64 = 4 << 20;

/// The mappings of one image.
pub(crate) struct MappedImage<'a> {
    pub(crate) first: MapsEntry<'a>,
    pub(crate) end: u64,
    /// The first executable one.
    pub(crate) code: Option<MapsEntry<'a>>,
    /// The last mapping that is no inaccessible gap.
    last: MapsEntry<'a>,
    /// End of the anonymous code that follows the image. A program moves its code there for huge
    /// pages; if the file goes on behind it, it is the image's.
    anonymous_end: u64,
}

impl MappedImage<'_> {
    fn continues_with(&self, entry: &MapsEntry<'_>) -> bool {
        let same_file = (self.first.device, self.first.inode) == (entry.device, entry.inode);
        let belongs = entry.offset != 0 || self.shares_first_page_with(entry);
        let is_near = entry.start.wrapping_sub(self.end) <= MAX_GAP || self.goes_on_behind_anonymous_code(entry);
        entry.inode != 0 && belongs && same_file && is_near
    }

    /// Returns whether a mapping continues the file behind anonymous code: it has the offset that
    /// its distance from the last one demands.
    fn goes_on_behind_anonymous_code(&self, entry: &MapsEntry<'_>) -> bool {
        let distance = entry.start.wrapping_sub(self.last.start);
        entry.start == self.anonymous_end && entry.offset.checked_sub(self.last.offset) == Some(distance)
    }

    /// Whether a mapping of offset 0 is a further segment of this image. A linker that does not
    /// pad segments to whole pages puts several into the first page of a small file, and the page
    /// is mapped once for each of them, with other rights each time. The writable segments come
    /// last, so a mapping that follows them is the first one of another image.
    fn shares_first_page_with(&self, entry: &MapsEntry<'_>) -> bool {
        let last = &self.last;
        let is_first_page = last.offset == 0 && last.end - last.start == page_size() as u64;
        let same_rights = (last.writable, last.executable) == (entry.writable, entry.executable);
        is_first_page && !same_rights && !last.writable
    }
}

/// Adds a mapping to the last image if it continues that image; otherwise it opens an image of its
/// own. The mappings must come in the order of their addresses.
pub(crate) fn add<'a>(images: &mut Vec<MappedImage<'a>>, entry: &MapsEntry<'a>) {
    let code = entry.executable.then_some(*entry);
    match images.last_mut() {
        Some(image) if image.continues_with(entry) => {
            (image.end, image.anonymous_end) = (entry.end, entry.end);
            image.code = image.code.or(code);
            if entry.readable || entry.executable {
                image.last = *entry;
            }
        }
        _ if entry.inode != 0 || entry.path == b"[vdso]" => {
            let end = entry.end;
            images.push(MappedImage { first: *entry, end, code, last: *entry, anonymous_end: end });
        }
        Some(image) if entry.executable && entry.start == image.anonymous_end => image.anonymous_end = entry.end,
        _ => {}
    }
}

/// Removes images without code, and copies of code whose image is not among them: memory that a
/// run-time compiler fills may be thousands of mappings of one file.
#[cfg(any(feature = "agent", test))]
pub(crate) fn retain_code(images: &mut Vec<MappedImage<'_>>) {
    let file = |image: &MappedImage<'_>| (image.first.device, image.first.inode);
    let is_whole = |image: &MappedImage<'_>| image.first.offset == 0;
    images.retain(|image| image.code.is_some());
    let mut whole: Vec<(u64, u64)> = images.iter().filter(|image| is_whole(image)).map(file).collect();
    whole.sort_unstable();
    images.retain(|image| is_whole(image) || whole.binary_search(&file(image)).is_ok());
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::*;
    use crate::process::maps;

    /// Start, end and executability of every image.
    fn images(text: &str) -> Vec<(u64, u64, bool)> {
        let mut images = Vec::new();
        maps::entries(text.as_bytes()).for_each(|entry| add(&mut images, &entry));
        images.iter().map(|image| (image.first.start, image.end, image.code.is_some())).collect()
    }

    #[test]
    fn segments_that_share_the_first_page_of_a_file_are_one_image() {
        let text = "10000-11000 r--p 00000000 08:01 7 /opt/small\n\
            11000-12000 r-xp 00000000 08:01 7 /opt/small\n\
            12000-13000 r--p 00000000 08:01 7 /opt/small\n\
            13000-14000 rw-p 00000000 08:01 7 /opt/small\n\
            14000-20000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(images(text), [(0x10000, 0x14000, true)]);
        let aligned_to_64_kib = "10000-11000 r--p 00000000 08:01 7 /opt/small\n\
            11000-20000 ---p 00001000 08:01 7 /opt/small\n\
            20000-22000 r-xp 00000000 08:01 7 /opt/small\n\
            30000-31000 rw-p 00001000 08:01 7 /opt/small\n";
        assert_eq!(images(aligned_to_64_kib), [(0x10000, 0x31000, true)]);
    }

    /// Regression test: code that a program had moved to huge pages was code outside of modules.
    #[test]
    fn anonymous_code_between_two_mappings_of_a_file_is_the_files() {
        let moved = |end: u64, offset: u64| {
            format!(
                "400000-600000 r--p 00000000 08:01 7 /opt/node\n\
                 600000-800000 r-xp 00200000 08:01 7 /opt/node\n\
                 800000-2000000 r-xp 00000000 00:00 0\n\
                 2000000-{end:x} r-xp 00000000 00:00 0\n\
                 3000000-3200000 r-xp {offset:08x} 08:01 7 /opt/node\n"
            )
        };
        assert_eq!(images(&moved(0x300_0000, 0x2c0_0000)), [(0x40_0000, 0x320_0000, true)]);
        let apart = [(0x40_0000, 0x80_0000, true), (0x300_0000, 0x320_0000, true)];
        assert_eq!(images(&moved(0x300_0000, 0x2c0_1000)), apart, "the file does not go on");
        assert_eq!(images(&moved(0x2ff_f000, 0x2c0_0000)), apart, "there is a hole");
    }

    #[test]
    fn two_images_of_one_file_stay_apart() {
        // A library that was loaded into two namespaces.
        let small = "10000-11000 r--p 00000000 08:01 7 /opt/small\n\
            11000-12000 r-xp 00000000 08:01 7 /opt/small\n\
            12000-13000 rw-p 00000000 08:01 7 /opt/small\n\
            13000-14000 r--p 00000000 08:01 7 /opt/small\n\
            14000-15000 r-xp 00000000 08:01 7 /opt/small\n";
        assert_eq!(images(small), [(0x10000, 0x13000, true), (0x13000, 0x15000, true)]);
        // The whole file was mapped below its image, to be read.
        let large = "10000-18000 r--p 00000000 08:01 7 /opt/large\n\
            18000-19000 r--p 00000000 08:01 7 /opt/large\n\
            19000-1f000 r-xp 00001000 08:01 7 /opt/large\n";
        assert_eq!(images(large), [(0x10000, 0x18000, false), (0x18000, 0x1f000, true)]);
    }

    #[test]
    fn a_copy_stays_with_its_image_alone() {
        let text = "10000-11000 r--p 00000000 08:01 7 /opt/node\n\
            11000-18000 r-xp 00001000 08:01 7 /opt/node\n\
            7f0000000000-7f0000002000 r-xp 00002000 08:01 7 /opt/node\n\
            7f0000002000-7f0000003000 r-xp 00004000 00:01 9 /memfd:code (deleted)\n\
            7f1000000000-7f1000002000 r--p 00000000 08:01 8 /opt/data\n";
        let mut images = Vec::new();
        maps::entries(text.as_bytes()).for_each(|entry| add(&mut images, &entry));
        retain_code(&mut images);
        let starts: Vec<u64> = images.iter().map(|image| image.first.start).collect();
        assert_eq!(starts, [0x10000, 0x7f00_0000_0000]);
    }
}
