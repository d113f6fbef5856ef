// tracer PID: traces every thread of a process without stopping any, as a debugger does while the program runs, says so, and lets go
// when its standard input ends.
// tracer children N: starts N children one after another, which are traced by it as long as they live: 30 ms of CPU time each.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int trace_children(int count) {
    for (int at = 0; at < count; at++) {
        pid_t pid = fork();
        if (!pid) {
            if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(3);
            while (clock() < CLOCKS_PER_SEC * 3 / 100) {
            }
            _exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status) return 4;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "children")) return trace_children(atoi(arguments[2]));
    if (count < 2) return 2;
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/task", arguments[1]);
    DIR *tasks = opendir(path);
    if (!tasks) return 3;
    int traced = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        pid_t tid = atoi(task->d_name);
        if (tid > 0 && !ptrace(PTRACE_SEIZE, tid, 0, 0)) traced++;
    }
    closedir(tasks);
    printf("traced %d\n", traced);
    fflush(stdout);
    char byte;
    // Ending detaches from all threads.
    return read(0, &byte, 1) == 0 ? 0 : 4;
}
