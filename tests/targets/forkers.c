// forkers COUNT: forks COUNT children one after another, each of which resets every signal to its default through libc's signal() and
// sigaction() in turn and then burns 60 ms of CPU time. Prints how each ended.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;

static void burn(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    int64_t until = now.tv_sec * 1000000000LL + now.tv_nsec + ns;
    double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000000LL + now.tv_nsec < until);
    sink = x;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    for (int i = 0; i < atoi(arguments[1]); i++) {
        burn(30000000);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            for (int number = 1; number <= 64; number++) {
                struct sigaction plain = {.sa_handler = SIG_DFL};
                if (i % 2) signal(number, SIG_DFL);
                else sigaction(number, &plain, 0);
            }
            burn(60000000);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        printf("%d %s %d\n", i, WIFEXITED(status) ? "exited" : "killed", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    return 0;
}
