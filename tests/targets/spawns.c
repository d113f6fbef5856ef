// spawns COUNT: starts COUNT bare programs (no environment) by posix_spawn, system and popen in turn, burning CPU before and while each
// runs; each burns 60 ms itself. Prints how each ended.
#define _GNU_SOURCE
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;

static void burn(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    int64_t until = now.tv_sec * 1000000000LL + now.tv_nsec + ns;
    double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000000LL + now.tv_nsec < until);
    sink = x;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    if (!strcmp(arguments[1], "burn")) {
        burn(60000000);
        return 5;
    }
    char line[4200];
    snprintf(line, sizeof line, "exec env -i %s burn", arguments[0]);
    for (int i = 0; i < atoi(arguments[1]); i++) {
        int status = -1;
        burn(20000000);
        if (i % 3 == 0) {
            pid_t child;
            char *words[] = {arguments[0], "burn", 0}, *nothing[] = {0};
            if (posix_spawn(&child, arguments[0], 0, 0, words, nothing)) return 3;
            waitpid(child, &status, 0);
        } else if (i % 3 == 1) {
            status = system(line);
        } else {
            FILE *pipe = popen(line, "r");
            burn(20000000);
            status = pclose(pipe);
        }
        printf("%d %s %d\n", i, WIFEXITED(status) ? "exited" : "killed", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    return 0;
}
