//! println LINES FILE: prints a line every 10 ms (and burns 2 ms of CPU time before each), then
//! writes `done` to FILE. `println!` panics when its terminal is gone, so a target of this kind
//! tells whether somebody still listens.

use std::time::{Duration, Instant};

#[inline(never)]
fn burn(duration: Duration) -> u64 {
    let start = Instant::now();
    let mut sum = 1u64;
    while start.elapsed() < duration {
        for i in 0..1000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
    }
    sum
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let lines: u32 = arguments.next().and_then(|text| text.parse().ok()).expect("a number of lines");
    let file = arguments.next().expect("a file");
    for line in 0..lines {
        let sum = burn(Duration::from_millis(2));
        println!("line {line} of {lines} {}", sum & 1);
        std::thread::sleep(Duration::from_millis(8));
    }
    std::fs::write(file, "done").expect("the file can be written");
}
