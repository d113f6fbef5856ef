// allocates_unevenly ROUNDS: in each round, three sites allocate by turns, each at a speed of its own: some eight gigabytes per
// second, one, and a tenth. The first keeps every 64th allocation. Prints what it has allocated and kept.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t kept, kept_objects, bytes[3], random_state = 88172645463325252ull;

static size_t random_size(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return 64 + (random_state >> 20) % 4096;
}

// Allocates megabytes, with a pause of a millisecond after each so many kilobytes.
#define SITE(name, index, keep)                                                                                        \
    __attribute__((noinline)) void name(int megabytes, int pause_after) {                                              \
        uint64_t before = bytes[index], rest_at = (uint64_t)pause_after << 10;                                         \
        for (unsigned i = 1; bytes[index] - before < (uint64_t)megabytes << 20; i++) {                                 \
            size_t size = random_size();                                                                               \
            volatile char *memory = malloc(size);                                                                      \
            if (!memory) abort();                                                                                      \
            *memory = 1, bytes[index] += size;                                                                         \
            if (i % (keep) == 0) kept += size, kept_objects++;                                                           \
            else free((void *)memory);                                                                                 \
            if (bytes[index] - before > rest_at) {                                                      \
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                                               \
                rest_at += (uint64_t)pause_after << 10;                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }
SITE(site_a, 0, 64)
SITE(site_b, 1, 1u << 31)
SITE(site_c, 2, 1u << 31)

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 2;
    for (int i = 0; i < rounds; i++) site_a(1600, 8192), site_b(400, 1024), site_c(50, 128);
    printf("a %llu\nb %llu\nc %llu\n", (unsigned long long)bytes[0], (unsigned long long)bytes[1], (unsigned long long)bytes[2]);
    printf("kept %llu\nkept_objects %llu\n", (unsigned long long)kept, (unsigned long long)kept_objects);
    return 0;
}
