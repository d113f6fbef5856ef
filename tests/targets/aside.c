// aside user-namespace | filter | filter-fork: burns 300 ms, makes a call that a thread of another's or a careless signal handler spoils,
// burns 300 ms, and says how it went.
//   user-namespace: unshare(CLONE_NEWUSER), which wants a process of one thread
//   filter: a seccomp filter by prctl(2) that kills for every system call but those of this program
//   filter-fork: the same, and a child that burns too
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn_before(void) {
    double x = 1;
    for (int64_t end = used_ns() + 300000000; used_ns() < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

__attribute__((noipa)) static void burn_after(void) {
    double x = 1;
    for (int64_t end = used_ns() + 300000000; used_ns() < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(rt_sigreturn), ALLOW(clock_gettime), ALLOW(write), ALLOW(exit_group), ALLOW(clone), ALLOW(wait4),
        ALLOW(set_robust_list), ALLOW(rseq), ALLOW(rt_sigprocmask), ALLOW(newfstatat), ALLOW(gettid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    static char out[256];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    burn_before();
    int result = strcmp(arguments[1], "user-namespace") ? filter() : unshare(CLONE_NEWUSER);
    int error = errno;
    if (result)
        printf("refused: %s\n", strerror(error));
    else
        printf("done\n");
    fflush(stdout);
    if (!strcmp(arguments[1], "filter-fork")) {
        pid_t child = fork();
        if (!child) {
            burn_after();
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("child %d\n", status);
        fflush(stdout);
    }
    burn_after();
    return 7;
}
