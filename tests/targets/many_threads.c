// many_threads COUNT SECONDS: threads that sleep for half a second at a time, of which every thousandth computes. Prints for how
// long the threads have lived together, in ns.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;
static volatile long sink;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) static void compute(void) { for (int i = 0; i < 1000000; i++) sink += i; }

static void *busy(void *unused) { while (!is_over) compute(); return unused; }
static void *idle(void *unused) { while (!is_over) usleep(500000); return unused; }

int main(int count, char **arguments) {
    if (count < 3) return 2;
    int threads = atoi(arguments[1]);
    long begun_ns = now_ns(), sum_ns = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        sum_ns -= now_ns();
        if (pthread_create(&thread, &attributes, i % 1000 ? idle : busy, 0)) return 3;
    }
    sleep(atoi(arguments[2]));
    is_over = 1;
    long end_ns = now_ns();
    printf("wall %ld\n", sum_ns + threads * end_ns + end_ns - begun_ns);
    fflush(stdout);
    _exit(0);
}
