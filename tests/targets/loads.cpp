// loads FIRST SECOND MILLISECONDS: loads both libraries in turn, each time the same, calls `labour` of each for a while, and unloads it; four
// threads load, throw through and unload copies of their own all the while when there are more arguments (their files). Prints the CPU time spent
// in each, ns, how often both lay at one address, and how many exceptions came through.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <stdexcept>
#include <thread>
#include <vector>

static int64_t used_ns() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static std::atomic<bool> over;
static std::atomic<long> caught;

static void storm(const char *file) {
    while (!over) {
        void *library = dlopen(file, RTLD_NOW);
        if (!library) {
            printf("%s\n", dlerror());
            return;
        }
        auto thrower = reinterpret_cast<void (*)(int)>(dlsym(library, "throw_deep"));
        for (int i = 0; i < 50; i++) try {
                thrower(20);
            } catch (const std::runtime_error &) {
                caught++;
            }
        dlclose(library);
    }
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    std::vector<std::thread> threads;
    for (int i = 4; i < count; i++) threads.emplace_back(storm, arguments[i]);
    int64_t spent[2] = {0, 0}, wanted = atoll(arguments[3]) * 1000000;
    void *places[2] = {nullptr, nullptr};
    int same = 0;
    for (int turn = 0; spent[1] < wanted; turn ^= 1) {
        int64_t start = used_ns();
        void *library = dlopen(arguments[1 + turn], RTLD_NOW);
        if (!library) {
            printf("%s\n", dlerror());
            return 3;
        }
        auto labour = reinterpret_cast<long (*)(long)>(dlsym(library, "labour"));
        places[turn] = reinterpret_cast<void *>(labour);
        same += places[0] == places[1];
        while (used_ns() - start < 60000000) labour(100000);
        dlclose(library);
        spent[turn] += used_ns() - start;
    }
    over = true;
    for (auto &thread : threads) thread.join();
    printf("first %ld\nsecond %ld\nsame %d\ncaught %d\n", (long)spent[0], (long)spent[1], same > 0, caught > 0 || count == 4);
}
