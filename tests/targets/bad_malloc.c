// A bad preload: its handler allocates, in every thread.
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static void on_tick(int signal) {
    static __thread void *volatile kept;
    if (gettid() == getpid()) {
        // The kernel hands a process's signal to its first thread, which may sleep all the time: it is passed on.
        DIR *tasks = opendir("/proc/self/task");
        for (struct dirent *task; tasks && (task = readdir(tasks));)
            if (atoi(task->d_name) > 0 && atoi(task->d_name) != getpid()) tgkill(getpid(), atoi(task->d_name), signal);
        if (tasks) closedir(tasks);
    }
    free(kept);
    kept = malloc(2000 + signal);
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 500}, {0, 500}};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &every, 0);
}
