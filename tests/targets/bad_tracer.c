// bad_tracer COMMAND [ARGS]: runs COMMAND, and stops its first thread all the time as a careless sampler does: also while it sleeps,
// and without a look at the system call that it interrupts. Ends with its status.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count < 2) return 2;
    pid_t child = fork();
    if (child == 0) {
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        usleep(1000);
        if (ptrace(PTRACE_SEIZE, child, 0, 0)) continue;
        ptrace(PTRACE_INTERRUPT, child, 0, 0);
        if (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
            int signal = status >> 16 ? 0 : WSTOPSIG(status);
            ptrace(PTRACE_DETACH, child, 0, (void *)(long)signal);
            status = 0;
        } else break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
