// runnable SECONDS: two threads `burner` compute on one CPU for that long. Prints the time for which
// they ran and the time for which they waited for the CPU, ns.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static time_t seconds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long long ran, delayed;

static void *burn(void *unused) {
    volatile double x = 1;
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) / 1e9 < seconds);
    unsigned long long own_ran, own_delayed;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file || fscanf(file, "%llu %llu", &own_ran, &own_delayed) != 2) abort();
    fclose(file);
    pthread_mutex_lock(&mutex);
    ran += own_ran;
    delayed += own_delayed;
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(int count, char **arguments) {
    seconds = count > 1 ? atoi(arguments[1]) : 1;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all)) return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], 0, burn, 0)) return 1;
        pthread_setname_np(threads[i], "burner");
        if (pthread_setaffinity_np(threads[i], sizeof one, &one)) return 1;
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("ran %llu\ndelayed %llu\n", ran, delayed);
    return 0;
}
