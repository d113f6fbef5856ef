// rests CYCLES: a thread that in each cycle sleeps for 240 ms, computes for 40 ms, and sleeps elsewhere for 160 ms. Prints how
// long each took, in ns.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long ns_of[3];

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) static void sleep_here(void) { usleep(240000); __asm__ volatile(""); }
__attribute__((noinline)) static void sleep_there(void) { usleep(160000); __asm__ volatile(""); }
__attribute__((noinline)) static void burn(void) {
    for (long end = now_ns() + 40000000; now_ns() < end;)
        for (volatile int i = 0; i < 1000; i++) {}
}

int main(int count, char **arguments) {
    static void (*const parts[3])(void) = {sleep_here, burn, sleep_there};
    if (count < 2) return 2;
    for (int cycle = 0; cycle < atoi(arguments[1]); cycle++)
        for (int part = 0; part < 3; part++) {
            long start = now_ns();
            parts[part]();
            ns_of[part] += now_ns() - start;
        }
    printf("here %ld\nburn %ld\nthere %ld\n", ns_of[0], ns_of[1], ns_of[2]);
    return 0;
}
