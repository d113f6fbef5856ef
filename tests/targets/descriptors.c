// descriptors: prints its open descriptors, one `number target` a line, then burns 200 ms of CPU time and prints them again; then those
// that a child of its own inherits.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void list(const char *when) {
    DIR *directory = opendir("/proc/self/fd");
    for (int number = 0; number < 1024; number++) {
        char path[64], target[4200];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t length = number == dirfd(directory) ? -1 : readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        printf("%s %d %s\n", when, number, target);
    }
    closedir(directory);
    fflush(stdout);
}

int main(void) {
    struct timespec now;
    volatile double x = 1;
    list("start");
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 200000000);
    list("end");
    if (fork() == 0) {
        list("child");
        _exit(0);
    }
    wait(0);
    return 0;
}
