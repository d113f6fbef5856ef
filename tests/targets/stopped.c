// stopped MILLISECONDS: a thread that computes and one that sleeps, for three times as long. A child stops the process for the
// second third. Prints for how long it was stopped, and all the time, in ns.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int is_over;

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *runs(void *unused) {
    pthread_setname_np(pthread_self(), "runs");
    while (!is_over) for (volatile int i = 0; i < 1000; i++) {}
    return unused;
}

static void *sleeps(void *unused) {
    pthread_setname_np(pthread_self(), "sleeps");
    sleep(1000);
    return unused;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    int third_us = 1000 * atoi(arguments[1]);
    long *stopped_ns = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long begun_ns = now_ns();
    pthread_t thread;
    pthread_create(&thread, 0, runs, 0);
    pthread_create(&thread, 0, sleeps, 0);
    pid_t parent = getpid(), child = fork();
    if (!child) {
        usleep(third_us);
        long then_ns = now_ns();
        kill(parent, SIGSTOP);
        usleep(third_us);
        kill(parent, SIGCONT);
        *stopped_ns = now_ns() - then_ns;
        _exit(0);
    }
    while (now_ns() < begun_ns + 3000L * third_us) usleep(10000);
    waitpid(child, 0, 0);
    printf("stopped %ld\nall %ld\n", *stopped_ns, now_ns() - begun_ns);
    is_over = 1;
    return 0;
}
