// tracer PID: traces every thread of a process without stopping any, as a debugger does while the program runs, says so, and lets go
// when its standard input ends.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
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
