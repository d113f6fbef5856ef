// semaphores: burns for 100 ms, and prints whether it shares its list of semaphore operations to be
// undone with a fork child, as every process does that has none and has never had a thread.
#define _GNU_SOURCE
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void) {
    struct timespec used;
    volatile double x = 1;
    do {
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec == 0 && used.tv_nsec < 100000000);
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    printf("compared %ld\n", syscall(SYS_kcmp, getpid(), child, KCMP_SYSVSEM, 0, 0));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
