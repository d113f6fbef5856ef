// same_pid PROGRAM MS: runs PROGRAM three times, one after another, as processes with one pid; each uses MS of CPU time. PROGRAM is this one,
// linked statically and called with MS alone. Ends with 3 where a pid cannot be chosen.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static void compute(void) {
    for (unsigned i = 0; i < 100000; i++) sink = sink * 7 + i;
}

static void use(long goal_ns) {
    struct timespec now = {0, 0};
    while (now.tv_sec * 1000000000L + now.tv_nsec < goal_ns) {
        compute();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    }
}

int main(int count, char **arguments) {
    if (count == 2) {
        use(atol(arguments[1]) * 1000000);
        return 0;
    }
    if (count != 3) return 2;
    pid_t pid = 0;
    for (int i = 0; i < 3; i++) {
        struct clone_args how = {.exit_signal = SIGCHLD, .set_tid = i ? (uintptr_t)&pid : 0, .set_tid_size = i ? 1 : 0};
        pid_t child = syscall(SYS_clone3, &how, sizeof how);
        if (child < 0) return 3;
        if (!child) {
            execl(arguments[1], arguments[1], arguments[2], (char *)0);
            _exit(127);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) return 4;
        pid = child;
    }
    return 0;
}
