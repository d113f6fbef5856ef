// aside MODE [MS]: burns 300 ms or so many, makes a call that a thread of another's or a careless
// signal handler spoils, burns as long again, and says how it went.
//   user-namespace: unshare(CLONE_NEWUSER), which wants a process of one thread
//   filter: a seccomp filter by prctl(2) that kills for every call but those of this program
//   fork: the same, and a child that burns too
//   seccomp: the same filter by syscall(2)
//   early: the same, before anything is burned
//   probed: as seccomp, after the calls by which sandboxes ask what the kernel supports
//   inline: the same filter by inline system calls, which nobody can see coming
//   tsync: by syscall(2), for every thread
//   no-return: by syscall(2), and handlers may not return
//   inline-early: by inline system calls, before anything is burned
//   inline-announced: the same, but PR_SET_NO_NEW_PRIVS is set by prctl(2)
//   inline-tsync, inline-no-return: as tsync and no-return, by inline system calls
//   inherited-kill, inherited-refuse: a filter that kills for timer_create(2), or refuses it, is in force when the program starts
//   dispatch: Syscall User Dispatch by an inline system call; no system call is made while it is on
//   default: SIGPROF is reset to its default action by an inline system call
//   count: no filter; the threads in /proc/self/task are counted ten times
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile double sink;
static int64_t burn_ns = 300000000;

static int64_t used_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn(int64_t ns) {
    double x = 1;
    for (int64_t end = used_ns() + ns; used_ns() < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

__attribute__((noipa)) static void burn_before(void) {
    burn(burn_ns);
    asm volatile("");
}

__attribute__((noipa)) static void burn_after(void) {
    burn(burn_ns);
    asm volatile("");
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static long inline_call(long number, long a, long b, long c, long d, long e) {
    long result;
    register long r10 asm("r10") = d, r8 asm("r8") = e;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
    return result;
}

static int filter(const char *mode) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(rt_sigreturn), ALLOW(clock_gettime), ALLOW(write), ALLOW(exit_group), ALLOW(clone), ALLOW(wait4),
        ALLOW(set_robust_list), ALLOW(rseq), ALLOW(rt_sigprocmask), ALLOW(newfstatat), ALLOW(gettid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    if (strstr(mode, "no-return")) code[1].k = SYS_read;
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (!strncmp(mode, "inline", 6)) {
        if (!strcmp(mode, "inline-announced") ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                                              : inline_call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
            return -1;
        int flags = strcmp(mode, "inline-tsync") ? 0 : SECCOMP_FILTER_FLAG_TSYNC;
        return inline_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, (long)&program, 0, 0);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    if (!strcmp(mode, "filter") || !strcmp(mode, "fork")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (!strcmp(mode, "probed")) {
        // None installs anything: EINVAL and EFAULT.
        if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL)) return -1;
        if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL)) return -1;
    }
    int flags = strcmp(mode, "tsync") ? 0 : SECCOMP_FILTER_FLAG_TSYNC;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

// Installs a filter against timer_create(2) and becomes the program again, which then only burns.
static int inherit(char **arguments, uint32_t action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) return -1;
    return execl(arguments[0], arguments[0], "inherited", arguments[2], NULL);
}

static int dispatch(void) {
    static volatile char selector;
    enum { PR_SET_DISPATCH = 59, ON = 1, ALLOW = 0, BLOCK = 1 };
    long result = inline_call(SYS_prctl, PR_SET_DISPATCH, ON, 0, 0, (long)&selector);
    if (result) return -1;
    selector = BLOCK;
    for (volatile long rounds = 200000000; rounds > 0; rounds--)
        ;
    selector = ALLOW;
    return 0;
}

// The kernel's struct sigaction.
static int reset_signal(void) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } action = {.handler = SIG_DFL};
    return inline_call(SYS_rt_sigaction, SIGPROF, (long)&action, 0, sizeof action.mask, 0);
}

// How often more than one thread was counted.
static int count_threads(void) {
    int wrong = 0;
    for (int i = 0; i < 10; i++) {
        struct stat tasks;
        if (fstatat(AT_FDCWD, "/proc/self/task/", &tasks, 0)) return -1;
        wrong += tasks.st_nlink != 3;
        burn(20000000);
    }
    errno = 0;
    return wrong;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    if (count > 2) burn_ns = atoll(arguments[2]) * 1000000;
    static char out[256];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    const char *early[] = {"early", "inline-early", "inline-announced", "inherited"};
    int burns_first = 1;
    for (unsigned i = 0; i < sizeof early / sizeof *early; i++) burns_first &= !!strcmp(arguments[1], early[i]);
    if (burns_first) burn_before();
    int result;
    if (!strcmp(arguments[1], "user-namespace")) result = unshare(CLONE_NEWUSER);
    else if (!strcmp(arguments[1], "count")) result = count_threads();
    else if (!strcmp(arguments[1], "inherited-kill")) result = inherit(arguments, SECCOMP_RET_KILL_PROCESS);
    else if (!strcmp(arguments[1], "inherited-refuse")) result = inherit(arguments, SECCOMP_RET_ERRNO | EPERM);
    else if (!strcmp(arguments[1], "inherited")) result = 0;
    else if (!strcmp(arguments[1], "dispatch")) result = dispatch();
    else if (!strcmp(arguments[1], "default")) result = reset_signal();
    else result = filter(arguments[1]);
    int error = errno;
    if (result)
        printf("refused: %s\n", strerror(error));
    else
        printf("done\n");
    fflush(stdout);
    if (!strcmp(arguments[1], "fork")) {
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
