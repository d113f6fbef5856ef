// What a program may ask of the kernel that its guests feel:
//   lock    locks all its memory, now and later, and burns 500 ms of CPU time
//   limit   as an ordinary user who may lock 1 MiB: locks what comes later, burns 500 ms, and allocates nearly all it may
//   pids    burns 200 ms, goes on in a new namespace of pids whose first process burns 1 s, and burns 200 ms
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BURNER(name)                                                                                                           \
    __attribute__((noipa)) void name(int ms) {                                                                                 \
        struct timespec now;                                                                                                   \
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);                                                                         \
        long long end = now.tv_sec * 1000000000LL + now.tv_nsec + ms * 1000000LL;                                              \
        do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);                                                                      \
        while (now.tv_sec * 1000000000LL + now.tv_nsec < end);                                                                 \
    }
BURNER(burn)
BURNER(burn_in_child)

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (!strcmp(mode, "lock")) {
        printf("locked %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
        burn(500);
    } else if (!strcmp(mode, "limit")) {
        struct rlimit limit = {1 << 20, 1 << 20};
        setrlimit(RLIMIT_MEMLOCK, &limit);
        if (!geteuid() && seteuid(65534)) return 3;
        printf("locked %d\n", mlockall(MCL_FUTURE));
        burn(500);
        printf("allocated %d\n", malloc(700000) != 0);
    } else {
        burn(200);
        printf("unshared %d\n", unshare(CLONE_NEWPID));
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            burn_in_child(1000);
            _exit(getpid() == 1 ? 5 : 4);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child ended with %d\n", WEXITSTATUS(status));
        burn(200);
    }
    return 0;
}
