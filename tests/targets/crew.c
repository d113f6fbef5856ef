// crew SECONDS: threads baker and miller, each busy in a function of its own, and a child whose thread packer is. After half a second the
// miller calls itself cook. Ends after SECONDS of wall time.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;
static double until;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void turn(void) {
    double x = 1;
    for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

__attribute__((noipa)) static void *bake(void *unused) {
    while (now() < until) turn();
    return unused;
}

__attribute__((noipa)) static void *mill(void *unused) {
    double renamed = now() + 0.5;
    while (now() < until) {
        turn();
        if (renamed > 0 && now() > renamed) {
            pthread_setname_np(pthread_self(), "cook");
            renamed = 0;
        }
    }
    return unused;
}

__attribute__((noipa)) static void *pack(void *unused) {
    while (now() < until) turn();
    return unused;
}

static pthread_t start(void *(*work)(void *), const char *name) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_setname_np(thread, name);
    return thread;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    until = now() + atof(arguments[1]);
    if (fork() == 0) {
        pthread_join(start(pack, "packer"), 0);
        _exit(0);
    }
    pthread_t baker = start(bake, "baker"), miller = start(mill, "miller");
    pthread_join(baker, 0);
    pthread_join(miller, 0);
    wait(0);
    return 0;
}
