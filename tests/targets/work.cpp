// work ROUNDS: a single-threaded program of shared_ptr, map, string and malloc: fixed work, a checksum at the end. libstdc++ leaves out its atomics
// while there is but one thread, so this program feels a profiler that makes another. `work ROUNDS CHUNKS` does the work again and again and
// prints the median CPU time of a chunk, of the thread and of the process, without those of the first second.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <time.h>
#include <vector>

struct Node {
    std::string name;
    std::shared_ptr<Node> next;
    uint64_t value = 0;
};

static uint64_t random_state = 88172645463325252ULL;
static uint64_t random_next() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

__attribute__((noinline)) uint64_t share(std::vector<std::shared_ptr<Node>> &nodes) {
    uint64_t sum = 0;
    for (int i = 0; i < 4000; i++) {
        std::shared_ptr<Node> one = nodes[random_next() % nodes.size()], other = nodes[random_next() % nodes.size()];
        std::shared_ptr<Node> kept = one->next;
        one->next = other == one ? nullptr : other->next ? nullptr : other;
        sum += one->value + (kept ? kept->value : 0) + one.use_count();
    }
    return sum;
}

__attribute__((noinline)) uint64_t index(std::map<std::string, uint64_t> &map) {
    uint64_t sum = 0;
    for (int i = 0; i < 300; i++) {
        std::string key = "key-" + std::to_string(random_next() % 5000) + "-of-the-map";
        sum += ++map[key];
        if (map.size() > 3000) map.erase(map.begin());
    }
    return sum;
}

__attribute__((noinline)) uint64_t allocate() {
    void *blocks[64] = {};
    uint64_t sum = 0;
    for (int i = 0; i < 2000; i++) {
        void *&block = blocks[random_next() % 64];
        std::free(block);
        size_t size = 16 + random_next() % 2000;
        block = std::malloc(size);
        *static_cast<volatile char *>(block) = static_cast<char>(i);
        sum += size;
    }
    for (void *block : blocks) std::free(block);
    return sum;
}

static uint64_t now_ns(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

static uint64_t median(std::vector<uint64_t> &values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

int main(int count, char **arguments) {
    long rounds = count > 1 ? std::atol(arguments[1]) : 100;
    std::vector<std::shared_ptr<Node>> nodes;
    for (uint64_t i = 0; i < 2000; i++) {
        nodes.push_back(std::make_shared<Node>());
        nodes.back()->value = i;
        nodes.back()->name = "node " + std::to_string(i);
    }
    std::map<std::string, uint64_t> map;
    uint64_t sum = 0;
    std::vector<uint64_t> thread_ns, process_ns;
    uint64_t begun = now_ns(CLOCK_MONOTONIC);
    for (long chunks = count > 2 ? std::atol(arguments[2]) : 1; chunks > 0;) {
        uint64_t thread = now_ns(CLOCK_THREAD_CPUTIME_ID), process = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (long i = 0; i < rounds; i++) sum += share(nodes) + index(map) + allocate();
        if (count > 2 && now_ns(CLOCK_MONOTONIC) - begun < 1'000'000'000) continue;
        thread_ns.push_back(now_ns(CLOCK_THREAD_CPUTIME_ID) - thread);
        process_ns.push_back(now_ns(CLOCK_PROCESS_CPUTIME_ID) - process);
        chunks--;
    }
    if (count > 2) {
        std::printf("thread %lu\nprocess %lu\n", (unsigned long)median(thread_ns), (unsigned long)median(process_ns));
        return 0;
    }
    std::printf("checksum %llu\n", static_cast<unsigned long long>(sum));
    for (auto &node : nodes) node->next = nullptr;
}
