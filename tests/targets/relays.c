// relays exec COUNT | relays sleep COUNT MS: COUNT threads, one after the other. By `exec`, each
// executes the next image from a thread that is not the first. By `sleep`, each sleeps, and the time
// for which they were there is printed: `rested NS`.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char **arguments;
static long rested;

static long now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void burn(long ns) {
    long until = now() + ns;
    while (now() < until) {}
}

static void *execute(void *unused) {
    (void)unused;
    char left[16];
    burn(2000000);
    snprintf(left, sizeof left, "%d", atoi(arguments[2]) - 1);
    char *next[] = {arguments[0], "exec", left, 0};
    execv("/proc/self/exe", next);
    return NULL;
}

__attribute__((noinline)) static void *rest(void *unused) {
    long since = now();
    usleep(1000 * atoi(arguments[3]));
    rested += now() - since;
    return unused;
}

int main(int count, char **given) {
    arguments = given;
    int is_exec = count > 1 && !strcmp(given[1], "exec");
    if (count < 3 + !is_exec) return 2;
    int left = atoi(given[2]);
    if (is_exec && left == 0) {
        burn(300000000);
        return 7;
    }
    for (int done = 0; done < (is_exec ? 1 : left); done++) {
        pthread_t thread;
        pthread_create(&thread, NULL, is_exec ? execute : rest, NULL);
        pthread_join(thread, NULL);
    }
    if (!is_exec) printf("rested %ld\n", rested);
    return is_exec ? 1 : 0;
}
