// COUNT threads that sleep for MS milliseconds each, then as many others, for ROUNDS rounds. Prints the wall time of all threads
// together.
//   sleepers COUNT MS ROUNDS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t all_ns;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *sleeper(void *ms) {
    int64_t start = now_ns();
    usleep((useconds_t)(uintptr_t)ms * 1000);
    pthread_mutex_lock(&lock);
    all_ns += now_ns() - start;
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(int count, char **arguments) {
    static pthread_t threads[1000];
    int64_t start = now_ns();
    if (count < 4) return 2;
    int number = atoi(arguments[1]);
    if (number > 1000) return 2;
    for (int round = 0; round < atoi(arguments[3]); round++) {
        for (int i = 0; i < number; i++) pthread_create(&threads[i], 0, sleeper, (void *)(uintptr_t)atoi(arguments[2]));
        for (int i = 0; i < number; i++) pthread_join(threads[i], 0);
    }
    printf("process %lld\n", (long long)(all_ns + now_ns() - start));
    return 0;
}
