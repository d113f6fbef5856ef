// server SECONDS: four workers answer made-up requests, and take a cache's lock that a compactor holds for long. From SIGUSR1 on,
// answers are rendered with more markup.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

std::mutex cache_mutex;
static std::map<unsigned, std::string> cache;
static std::atomic<int> markup{1};
static std::atomic<bool> ended{false};

struct Request {
    unsigned user;
    std::vector<std::string> words;
};

NOINLINE static Request parse(unsigned seed) {
    Request request{seed % 4096, {}};
    for (unsigned word = 0; word < 24; word++) {
        std::string text;
        for (unsigned value = seed * 31 + word; value; value /= 7) text += char('a' + value % 26);
        request.words.push_back(text);
    }
    return request;
}

NOINLINE static unsigned score(const Request &request) {
    unsigned total = 0;
    for (unsigned round = 0; round < 40; round++)
        for (const std::string &word : request.words)
            for (char letter : word)
                total = total * 33 + (letter ^ round) % 61;
    return total;
}

NOINLINE static std::string look_up(const Request &request, unsigned value) {
    std::lock_guard<std::mutex> hold(cache_mutex);
    std::string &entry = cache[request.user];
    if (entry.size() > 64) entry.clear();
    return entry += char('a' + value % 26);
}

NOINLINE static size_t render(const Request &request, const std::string &entry) {
    std::string page;
    for (int layer = 0; layer < 6 * markup; layer++)
        for (const std::string &word : request.words) page += "<b>" + word + entry + "</b>";
    return page.size();
}

NOINLINE static void compact() {
    std::lock_guard<std::mutex> hold(cache_mutex);
    for (int pass = 0; pass < 40; pass++)
        for (auto &[user, entry] : cache) entry = std::string(entry.rbegin(), entry.rend());
}

static void work(unsigned seed) {
    size_t sent = 0;
    while (!ended) {
        for (int request = 0; request < 40; request++) {
            Request parsed = parse(seed = seed * 1664525 + 1013904223);
            sent += render(parsed, look_up(parsed, score(parsed)));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2 + sent % 3));
    }
}

static void compact_often() {
    while (!ended) {
        compact();
        std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
}

template <class Body> static std::thread start(const char *name, Body body) {
    std::thread thread(body);
    pthread_setname_np(thread.native_handle(), name);
    return thread;
}

int main(int count, char **arguments) {
    std::signal(SIGUSR1, [](int) { markup = 3; });
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < 4; number++)
        threads.push_back(start(("worker-" + std::to_string(number)).c_str(), [=] { work(number); }));
    threads.push_back(start("compactor", compact_often));
    std::this_thread::sleep_for(std::chrono::seconds(count > 1 ? std::atoi(arguments[1]) : 60));
    ended = true;
    for (std::thread &thread : threads) thread.join();
}
