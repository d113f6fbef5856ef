// A library whose constructor runs before that of a preloaded one, and calls functions of libc that
// a profiler stands before. Prints how each went.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int early_calls(void) { return 0; }

__attribute__((constructor)) static void start(void) {
    sigset_t set, old;
    struct stat status;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int masked = pthread_sigmask(SIG_BLOCK, &set, &old);
    int named = prctl(PR_SET_NAME, "early");
    int found = stat("/proc/self", &status);
    DIR *directory = opendir("/proc/self");
    int pid = syscall(SYS_getpid) == getpid();
    printf("mask %d, name %d, stat %d, directory %d, pid %d\n", masked, named, found, directory != 0, pid);
    if (directory) closedir(directory);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}
