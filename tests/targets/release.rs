//! release ROUNDS: a Rust program as people build it: generics, iterators, a hash map, a sort.
//! Spends most of its time in `count_words`.

use std::collections::HashMap;

#[inline(never)]
fn count_words(text: &str) -> HashMap<&str, u32> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[inline(never)]
fn most_frequent(counts: &HashMap<&str, u32>) -> Vec<(String, u32)> {
    let mut all: Vec<_> = counts.iter().map(|(word, count)| (word.to_string(), *count)).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(10);
    all
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("rounds");
    let text: String = (0..20_000u64).map(|i| format!("word{} ", i * i % 997)).collect();
    let mut length = 0;
    for _ in 0..rounds {
        length += most_frequent(&count_words(&text)).len();
    }
    println!("{length}");
}
