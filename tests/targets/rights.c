// rights nobody | no-new-privileges | real-time [PERCENT]: burns 200 ms of CPU time, gives a right away (or takes one before that),
// and looks for 20 ms which threads of the process have it. Prints at how many looks one had it. Burns 200 ms more. PERCENT shortens
// both times of burning.
//   nobody             setresgid and setresuid to 65534
//   no-new-privileges  prctl(PR_SET_NO_NEW_PRIVS)
//   real-time          the first thread runs by SCHED_FIFO from the start; any other that has run for 0.3 ms is not to
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn(int ms) {
    for (int64_t end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + ms * 1000000LL; now_ns(CLOCK_PROCESS_CPUTIME_ID) < end;) {}
}

// The CPU clock of a thread of this process. One that has just been made may wait for its first run, with what it was born with.
static clockid_t clock_of(int tid) { return (clockid_t)(~(unsigned)tid << 3 | 6); }

static int has_it(const char *mode, int tid) {
    if (!strcmp(mode, "real-time"))
        return tid != getpid() && (sched_getscheduler(tid) & ~0x40000000) != SCHED_OTHER && now_ns(clock_of(tid)) >= 300000;
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    if (!strcmp(mode, "nobody"))
        return !strstr(text, "\nUid:\t65534\t65534\t65534\t65534\n") || !strstr(text, "\nGid:\t65534\t65534\t65534\t65534\n") ||
               !strstr(text, "\nGroups:\t65534 \n") || !strstr(text, "\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n");
    return !strstr(text, "\nNoNewPrivs:\t1\n");
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    int ms = count > 2 ? atoi(words[2]) * 2 : 200;
    struct sched_param first = {.sched_priority = 1};
    gid_t group = 65534;
    if (!strcmp(mode, "real-time") && sched_setscheduler(0, SCHED_FIFO, &first)) {
        printf("no real time here\n");
        return 0;
    }
    burn(ms);
    if (!strcmp(mode, "nobody") && (setgroups(1, &group) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))) return 3;
    if (!strcmp(mode, "no-new-privileges") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 4;
    int kept = 0;
    for (int64_t end = now_ns(CLOCK_MONOTONIC) + 20000000; now_ns(CLOCK_MONOTONIC) < end;) {
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *entry; (entry = readdir(tasks));)
            if (entry->d_name[0] != '.') kept += has_it(mode, atoi(entry->d_name));
        closedir(tasks);
    }
    printf("kept %d\n", kept);
    burn(ms);
    return 0;
}
