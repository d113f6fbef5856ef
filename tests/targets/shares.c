// shares A B C SECONDS [THREADS]: burns SECONDS of CPU time in burn_a, burn_b and burn_c, A, B and C percent of it, by its own
// CPU clock, split over THREADS. Prints what each function burned and what the process used: lines of `name nanoseconds`.
//
// The quanta have random lengths, so that they keep no step with a sampling timer; the next function is always the one
// furthest behind its share, so that the shares are exact to a quantum.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define NOINLINE __attribute__((noipa))

static double percent[3];
static int64_t thread_ns;
static int64_t burned[64][3];
static volatile double sink;

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

#define BURNER(name, factor)                                                                                                   \
    NOINLINE int64_t name(int64_t from, int64_t to) {                                                                          \
        double x = factor;                                                                                                     \
        int64_t now = from;                                                                                                    \
        while (now < to) {                                                                                                     \
            for (int i = 0; i < 20000; i++) x = x * 1.0000001 + factor;                                                        \
            now = cpu_ns();                                                                                                    \
        }                                                                                                                      \
        sink = x;                                                                                                              \
        return now;                                                                                                            \
    }
BURNER(burn_a, 0.5)
BURNER(burn_b, 0.25)
BURNER(burn_c, 0.125)

static void *work(void *argument) {
    int64_t *mine = argument, start = cpu_ns(), now = start;
    uint64_t random = 88172645463325252ULL ^ (uintptr_t)argument;
    while (now - start < thread_ns) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int64_t quantum = 200000 + (int64_t)(random % 1600000);
        int next = 0;
        for (int i = 1; i < 3; i++)
            if (percent[i] * (now - start) / 100 - mine[i] > percent[next] * (now - start) / 100 - mine[next]) next = i;
        int64_t then = (next == 0 ? burn_a : next == 1 ? burn_b : burn_c)(now, now + quantum);
        mine[next] += then - now;
        now = then;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    for (int i = 0; i < 3; i++) percent[i] = atof(arguments[1 + i]);
    int threads = count > 5 ? atoi(arguments[5]) : 1;
    if (threads < 1 || threads > 64) return 2;
    thread_ns = atof(arguments[4]) * 1e9 / threads;
    pthread_t others[64];
    for (int i = 1; i < threads; i++) pthread_create(&others[i], 0, work, burned[i]);
    work(burned[0]);
    for (int i = 1; i < threads; i++) pthread_join(others[i], 0);
    int64_t sums[3] = {0};
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < 3; i++) sums[i] += burned[t][i];
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    int64_t all = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
    printf("burn_a %ld\nburn_b %ld\nburn_c %ld\nprocess %ld\n", (long)sums[0], (long)sums[1], (long)sums[2], (long)all);
    return 0;
}
