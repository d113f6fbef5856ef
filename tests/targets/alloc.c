// Four threads that allocate, grow and free all the time, check what they had written, and print what it sums up to. Ends with status 9
// after 20 seconds, or 3 in which no thread got on.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LIVE = 256 };
static int rounds;
static _Atomic long made;

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u, sum = 0;
    struct { unsigned char *bytes; size_t size; unsigned char mark; } live[LIVE] = {{0}};
    for (int round = 0; round < rounds; round++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int at = random % LIVE;
        size_t size = 16 + (random >> 16) % 6000;
        for (size_t i = 0; i < live[at].size; i += 61)
            if (live[at].bytes[i] != live[at].mark) printf("not what was written\n"), _exit(3);
        if (random >> 63) {
            live[at].bytes = realloc(live[at].bytes, size);
        } else {
            free(live[at].bytes);
            live[at].bytes = malloc(size);
        }
        live[at].size = size, live[at].mark = random >> 40;
        memset(live[at].bytes, live[at].mark, size);
        sum += live[at].mark;
        if (round % 64 == 0) made++;
    }
    for (int at = 0; at < LIVE; at++) free(live[at].bytes);
    return (void *)(uintptr_t)sum;
}

static void *end_what_hangs(void *unused) {
    // Whatever runs in a signal handler may hang too.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, 0);
    long before = 0;
    for (int idle = 0, left = 200; idle < 30 && left > 0; left--) {
        usleep(100000);
        long now = made;
        idle = now == before ? idle + 1 : 0;
        before = now;
    }
    _exit(9);
    return unused;
}

int main(int count, char **words) {
    rounds = count > 1 ? atoi(words[1]) : 100000;
    pthread_t threads[4], watch;
    uintptr_t all = 0;
    pthread_create(&watch, 0, end_what_hangs, 0);
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], 0, churn, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        all += (uintptr_t)sum;
    }
    printf("sum %lu\n", (unsigned long)all);
    return 0;
}
