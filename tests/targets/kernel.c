// kernel MODE [PERCENT]: what a program may ask of the kernel that its guests feel. It burns so many per cent of the CPU time named here:
//   lock    locks all its memory, now and later, and burns 500 ms of CPU time
//   limit   as an ordinary user who may lock 1 MiB: locks what comes later, burns 500 ms, and allocates nearly all it may
//   all MB  as an ordinary user who may lock so many MB: burns 200 ms, locks all its memory, now and later, and maps 3 MiB more
//   space   with 3 MiB of address space left: burns 500 ms, and maps 1 MiB
//   size    burns 500 ms and prints how many KiB of memory it has that are no part of a file, its stack or its heap
//   hole    unmaps 1 page, 16, 64 and 512 pages, burns 100 ms after each, and prints how many of these holes were filled meanwhile
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

static int percent = 100;

#define BURNER(name)                                                                                                           \
    __attribute__((noipa)) void name(int ms) {                                                                                 \
        struct timespec now;                                                                                                   \
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);                                                                         \
        long long end = now.tv_sec * 1000000000LL + now.tv_nsec + ms * 10000LL * percent;                                      \
        do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);                                                                      \
        while (now.tv_sec * 1000000000LL + now.tv_nsec < end);                                                                 \
    }
BURNER(burn)

// All mapped KiB, or those of memory without a file (but for files in memory, of which a program of this kind has none).
static long mapped(int anonymous) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4400];
    long sum = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        int at = 0;
        sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &start, &end, &at);
        int counts = !anonymous || line[at] == 0 || line[at] == '\n' || !strncmp(line + at, "/memfd:", 7);
        if (counts) sum += (end - start) / 1024;
    }
    fclose(maps);
    return sum;
}
BURNER(burn_in_child)

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    int named = 2 + !strcmp(mode, "all");
    if (count > named) percent = atoi(words[named]);
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
    } else if (!strcmp(mode, "all")) {
        struct rlimit limit = {atol(words[2]) << 20, atol(words[2]) << 20};
        setrlimit(RLIMIT_MEMLOCK, &limit);
        if (!geteuid() && seteuid(65534)) return 3;
        burn(200);
        printf("locked %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
        void *more = mmap(0, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        printf("mapped %d\n", more != MAP_FAILED);
        burn(300);
    } else if (!strcmp(mode, "space")) {
        struct rlimit limit = {(mapped(0) + 3072) << 10, (mapped(0) + 3072) << 10};
        setrlimit(RLIMIT_AS, &limit);
        burn(500);
        printf("mapped %d\n", mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    } else if (!strcmp(mode, "size")) {
        burn(500);
        printf("anonymous %ld\n", mapped(1));
    } else if (!strcmp(mode, "hole")) {
        static const size_t sizes[] = {4096, 16 * 4096, 64 * 4096, 512 * 4096};
        int filled = 0;
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char resident;
            char *hole = mmap(0, sizes[i], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(hole, sizes[i]);
            burn(100);
            for (size_t at = 0; at < sizes[i]; at += 4096)
                if (!mincore(hole + at, 4096, &resident)) {
                    filled++;
                    break;
                }
        }
        printf("filled %d\n", filled);
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
