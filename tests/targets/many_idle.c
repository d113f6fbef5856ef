// many_idle THREADS BUSY SECONDS: makes this many threads that wait. When the standard input ends, the last BUSY of them compute for so many
// seconds of CPU time each. Prints `ready` before, and the CPU time of the process in between.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sem_t start, over;
static double seconds;
static volatile unsigned long sink;

static double used(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

__attribute__((noinline)) static void burn_late(void) {
    while (used(CLOCK_THREAD_CPUTIME_ID) < seconds)
        for (int i = 0; i < 100000; i++) sink += (unsigned long)i;
}

static void *waits(void *is_busy) {
    if (is_busy) {
        sem_wait(&start);
        burn_late();
        sem_post(&over);
        return 0;
    }
    for (;;) pause();
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int threads = atoi(arguments[1]), busy = atoi(arguments[2]);
    seconds = atof(arguments[3]);
    sem_init(&start, 0, 0), sem_init(&over, 0, 0);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 16);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, waits, (void *)(intptr_t)(i >= threads - busy))) return 3;
    }
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    double before = used(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < busy; i++) sem_post(&start);
    for (int i = 0; i < busy; i++) sem_wait(&over);
    printf("used %.0f\n", (used(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e9);
    return 0;
}
