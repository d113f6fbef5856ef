// ends MILLISECONDS exit STATUS | _exit STATUS | signal NUMBER | thread STATUS: burns so much CPU time, writes one line to each of
// stdout and stderr, and ends that way. `thread`: main leaves by pthread_exit, another thread calls exit.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int number;
static volatile double sink;

__attribute__((noipa)) static void burn(int64_t ns) {
    struct timespec now;
    double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000000LL + now.tv_nsec < ns);
    sink = x;
}

static void *late(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, 0);
    exit(number);
}

int main(int count, char **arguments) {
    static pthread_t self;
    pthread_t other;
    if (count < 4) return 2;
    burn(atoll(arguments[1]) * 1000000);
    number = atoi(arguments[3]);
    puts("to stdout");
    fflush(stdout);
    fputs("to stderr\n", stderr);
    if (!strcmp(arguments[2], "exit")) return number;
    if (!strcmp(arguments[2], "_exit")) _exit(number);
    if (!strcmp(arguments[2], "signal")) {
        raise(number);
        return 99;
    }
    self = pthread_self();
    pthread_create(&other, 0, late, &self);
    pthread_exit(0);
}
