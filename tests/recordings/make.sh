#!/bin/sh
# Records real programs for tests/tui/recorded.rs. Run it in this directory; it needs g++, python3, redis, rustc
# and ripgrep with line tables: CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo install ripgrep --locked.
# Usage: make.sh SIGTOP
set -eu
sigtop=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

record() {
    name=$1
    shift
    "$sigtop" record --symbols --quiet --hz 200 --duration 4s -o "$name.sigtop" -- "$@" > /dev/null 2>&1 || true
}

cat > "$work/lambdas.cc" <<'C'
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {
struct Document {
    std::map<std::string, std::vector<int>> words;
};
}

static std::shared_ptr<Document> index(int pages) {
    auto document = std::make_shared<Document>();
    auto add = [&](int page) {
        for (int word = 0; word < 400; word++) document->words["word" + std::to_string(word * 7919 % 97)].push_back(page);
    };
    for (int page = 0; page < pages; page++) add(page);
    return document;
}

int main() {
    std::function<long(Document&)> weigh = [](Document& document) {
        long sum = 0;
        for (auto& [word, pages] : document.words) {
            std::sort(pages.begin(), pages.end(), [](int a, int b) { return a % 31 > b % 31; });
            sum += pages.front();
        }
        return sum;
    };
    volatile long sum = 0;
    for (;;) sum = sum + weigh(*index(100));
}
C
g++ -std=c++17 -g -O1 "$work/lambdas.cc" -o "$work/lambdas"
record lambdas "$work/lambdas"
record g++ g++ -std=c++17 -O2 -c "$work/lambdas.cc" -o "$work/lambdas.o"
record python python3 -c 'import json
while True: json.loads(json.dumps([{"name": str(n), "values": list(range(9))} for n in range(2000)]))'

"$sigtop" record --symbols --quiet --hz 200 --duration 5s -o redis.sigtop -- redis-server --port 0 --unixsocket "$work/redis.sock" --save '' > /dev/null 2>&1 &
recorder=$!
while [ ! -S "$work/redis.sock" ]; do sleep 0.1; done
redis-benchmark -s "$work/redis.sock" -n 400000 -q -t set,get,lpush,zadd > /dev/null 2>&1 || true
redis-cli -s "$work/redis.sock" shutdown nosave || true
wait "$recorder" || true

cat > "$work/main.rs" <<'R'
use std::collections::HashMap;
fn main() {
    let mut counts: HashMap<String, Vec<usize>> = HashMap::new();
    for line in 0..1000usize { counts.entry(format!("{}", line % 7)).or_default().push(line); }
    let mut all: Vec<_> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
    println!("{all:?}");
}
R
set -- rg --no-ignore -j2 -ci '(license|warranty|copyright)\s+\w+' /usr/share /usr/include /usr/lib/python3
"$@" > /dev/null || true
record ripgrep "$@"

record rustc "$(rustc --print sysroot)/bin/rustc" -C opt-level=3 "$work/main.rs" -o "$work/main"
ls -l ./*.sigtop
