// short_lived threads|processes|bursts SECONDS: three kinds of work with known parts of the CPU time, in threads of 2, 20 and 60 ms one
// after another, in processes of 15 ms, or in turns of 60, 30 and 10 us. Prints the CPU time of each kind and of all, ns.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;
static long *used;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

#define KIND(name)                                                 \
    __attribute__((noipa)) static void burn_##name(long ns) {      \
        long end = now(CLOCK_THREAD_CPUTIME_ID) + ns;              \
        do                                                         \
            for (int i = 0; i < 2000; i++) sink += i;              \
        while (now(CLOCK_THREAD_CPUTIME_ID) < end);                \
    }
KIND(a)
KIND(b)
KIND(c)
static void (*const KINDS[])(long) = {burn_a, burn_b, burn_c};

struct work {
    int kind;
    long ns;
};

static void *in_thread(void *argument) {
    const struct work *work = argument;
    char name[] = {'k', 'i', 'n', 'd', ' ', (char)('a' + work->kind), 0};
    prctl(PR_SET_NAME, name);
    KINDS[work->kind](work->ns);
    used[work->kind] += now(CLOCK_THREAD_CPUTIME_ID);
    return 0;
}

static void thread(int kind, long ns) {
    struct work work = {kind, ns};
    pthread_t id;
    if (pthread_create(&id, 0, in_thread, &work) || pthread_join(id, 0)) abort();
}

static void process(int kind, long ns) {
    pid_t child = fork();
    if (child < 0) abort();
    if (!child) {
        KINDS[kind](ns);
        used[kind] += now(CLOCK_PROCESS_CPUTIME_ID);
        _exit(0);
    }
    waitpid(child, 0, 0);
}

static void burst(int kind, long ns) {
    long start = now(CLOCK_THREAD_CPUTIME_ID);
    KINDS[kind](ns);
    used[kind] += now(CLOCK_THREAD_CPUTIME_ID) - start;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    used = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double end = now(CLOCK_MONOTONIC) + atof(arguments[2]) * 1e9;
    do {
        if (!strcmp(arguments[1], "threads")) {
            for (int i = 0; i < 18; i++) thread(0, 2000000);
            for (int i = 0; i < 3; i++) thread(1, 20000000);
            thread(2, 60000000);
        } else if (!strcmp(arguments[1], "processes")) {
            for (int i = 0; i < 10; i++) process(i < 6 ? 0 : i < 9 ? 1 : 2, 15000000);
        } else
            for (int i = 0; i < 1000; i++) {
                burst(0, 60000);
                burst(1, 30000);
                burst(2, 10000);
            }
    } while (now(CLOCK_MONOTONIC) < end);
    long all = now(CLOCK_PROCESS_CPUTIME_ID);
    if (!strcmp(arguments[1], "processes")) all += used[0] + used[1] + used[2];
    printf("a %ld\nb %ld\nc %ld\nall %ld\n", used[0], used[1], used[2], all);
    return 0;
}
