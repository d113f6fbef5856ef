// holds files DIRECTORY COUNT | mount DIRECTORY: what a thread that somebody else makes in this process may hold on to.
//   files  COUNT children, one after the other, each of which locks a file, closes it and locks it anew, and does the same with a
//          pipe whose writing end it closes, for 12 ms of CPU time; prints how often the lock or the end of the pipe was not there
//   mount  in a mount namespace of its own: burns CPU time in a directory of a new file system, leaves it and unmounts it
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int held(const char *path) {
    int count = 0;
    for (int64_t end = used_ns() + 12000000; used_ns() < end;) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (flock(file, LOCK_EX | LOCK_NB)) {
            count++;
            flock(file, LOCK_EX);
        }
        close(file);
        int ends[2];
        char byte;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) return -1;
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 0) count++;
        close(ends[0]);
    }
    return count;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (!strcmp(words[1], "files") && count > 3) {
        char path[4200];
        snprintf(path, sizeof path, "%s/lock", words[2]);
        int sum = 0;
        for (int child = 0; child < atoi(words[3]); child++) {
            pid_t pid = fork();
            if (!pid) {
                int times = held(path);
                _exit(times > 100 ? 100 : times);
            }
            int status;
            waitpid(pid, &status, 0);
            sum += WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
        }
        printf("held %d\n", sum);
        return 0;
    }
    if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) ||
        mount("none", words[2], "tmpfs", 0, 0)) {
        printf("no mounts here\n");
        return 0;
    }
    if (chdir(words[2])) return 3;
    for (int64_t end = used_ns() + 200000000; used_ns() < end;) {}
    if (chdir("/")) return 4;
    if (umount(words[2])) printf("unmounting: %s\n", strerror(errno));
    else printf("unmounted\n");
    return 0;
}
