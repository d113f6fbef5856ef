// forks COUNT: burns a little, then forks so many children that end at once. Prints what one of them costs in CPU time, of parent and child, ns.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double used_ns(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    volatile double x = 1;
    for (long i = 0; i < 60000000; i++) x = x * 1.0000001 + 0.5;
    usleep(50000);
    int children = atoi(arguments[1]);
    double before = used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (!child) _exit(0);
        waitpid(child, 0, 0);
    }
    printf("fork %.0f\n", (used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN) - before) / children);
    return 0;
}
