// frame_sizes MILLISECONDS [late]: three threads whose functions have frames of known sizes. "shallow" computes, "deep" does below 400 calls of
// itself on a stack of 1 MB, and "asleep" sleeps. With `late`: two threads that sleep, "asleep" and, 200 ms later, "late".
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sum;
static double end;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

__attribute__((noipa)) static uint64_t spin(uint64_t x) {
    for (int i = 0; i < 200000; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

__attribute__((noipa)) static uint64_t small_frame(uint64_t x) {
    volatile char room[300];
    room[0] = x;
    return spin(x) + room[0];
}

__attribute__((noipa)) static uint64_t large_frame(uint64_t x) {
    volatile char room[20000];
    room[0] = x;
    return small_frame(x) + room[0];
}

__attribute__((noipa)) static uint64_t recurse(int calls, uint64_t x) {
    volatile char room[100];
    room[0] = x;
    return (calls > 1 ? recurse(calls - 1, x) : large_frame(x)) + room[0];
}

__attribute__((noipa)) static void doze(double until) {
    volatile char room[5000];
    room[0] = 1;
    struct timespec rest = {0, 1000000};
    while (now() < until) nanosleep(&rest, NULL);
    room[1] = room[0];
}

static void *shallow(void *unused) {
    while (now() < end) sum += large_frame(sum);
    return unused;
}

static void *deep(void *unused) {
    while (now() < end) sum += recurse(400, sum);
    return unused;
}

static void *asleep(void *unused) {
    doze(end);
    return unused;
}

int main(int argc, char **argv) {
    void *(*work[])(void *) = {shallow, deep, asleep, asleep};
    const char *names[] = {"shallow", "deep", "asleep", "late"};
    pthread_t threads[4];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    end = now() + (argc > 1 ? atof(argv[1]) : 1000);
    int late = argc > 2, first = late ? 2 : 0, last = late ? 3 : 2;
    for (int i = first; i <= last; i++) {
        if (i == 3) nanosleep(&(struct timespec){0, 200000000}, NULL);
        pthread_attr_setstacksize(&attributes, i == 1 ? 1 << 20 : 2 << 20);
        pthread_create(&threads[i], &attributes, work[i], NULL);
        pthread_setname_np(threads[i], names[i]);
    }
    for (int i = first; i <= last; i++) pthread_join(threads[i], NULL);
}
