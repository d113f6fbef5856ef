// threads COUNT MILLISECONDS: COUNT threads, two at a time, each of which burns so much CPU time and ends. Prints the CPU time of
// the process, ns.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t share_ns;
static volatile double sink;

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void *short_life(void *unused) {
    (void)unused;
    double x = 1;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < share_ns)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
    return 0;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    share_ns = atoll(arguments[2]) * 1000000;
    for (int i = atoi(arguments[1]); i > 0; i -= 2) {
        pthread_t one, other;
        pthread_create(&one, 0, short_life, 0);
        pthread_create(&other, 0, short_life, 0);
        pthread_join(one, 0);
        pthread_join(other, 0);
    }
    printf("process %ld\n", (long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
