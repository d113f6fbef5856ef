// sanitized [PERCENT]: four threads that burn 150 ms each in maps and strings, and main, which burns 200 ms, or so many per cent of that.
// Correct, so that a sanitizer's runtime has nothing to say.
#include <atomic>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

static std::atomic<long> sum;

__attribute__((noinline)) void burn(long ms) {
    std::map<int, std::string> map;
    timespec now;
    do {
        for (int i = 0; i < 1000; i++) map[i * 7919 % 997] = std::string(i % 50, 'x');
        sum += map.size();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < ms);
}

int main(int count, char **arguments) {
    int percent = count > 1 ? std::stoi(arguments[1]) : 100;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) threads.emplace_back(burn, 150 * percent / 100);
    for (auto &thread : threads) thread.join();
    burn(200 * percent / 100);
    std::printf("done %d\n", sum > 0);
}
