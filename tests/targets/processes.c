// processes MODE [ARGUMENT]: one way of being a process, with CPU time burned before and after. Prints what is the same in every run.
//   daemon FILE    leaves in the manner of daemons (two forks, a session, all descriptors closed), burns, and writes FILE
//   prefork COUNT  so many workers, each of which burns; every third ends at once, every fourth has a child that burns; prints what each used
//   last-thread    main leaves by pthread_exit, and a thread by returning: nobody calls exit
//   vfork COUNT    children in the parent's memory that reset, block and close everything
//   setuid         becomes nobody (for root), and looks whether all of its threads have
//   strict         the strict mode of seccomp, in which only read, write, exit and sigreturn are left
//   exec PROGRAM   becomes another program
//   room           as much memory as the address space's limit leaves, to 4 MiB
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void work(long rounds) {
    volatile double x = 1;
    for (long i = 0; i < rounds; i++) x = x * 1.0000001 + 0.5;
}

__attribute__((noipa)) static void burn(int64_t ms) {
    for (int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000; now_ns(CLOCK_THREAD_CPUTIME_ID) < end;) work(10000);
}

static void leave_as_a_daemon(const char *file) {
    if (fork()) exit(3);
    setsid();
    if (fork()) _exit(0);
    umask(0);
    if (chdir("/")) _exit(1);
    syscall(SYS_close_range, 3, ~0u, 0);
    burn(100);
    char part[4200], line[128];
    snprintf(part, sizeof part, "%s.part", file);
    int opened = open(part, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    for (int i = 0; i < 2000; i++) {
        int length = snprintf(line, sizeof line, "line %d of what only the daemon writes\n", i);
        if (write(opened, line, length) != length) _exit(1);
        if (i % 100 == 0) burn(5);
    }
    close(opened);
    rename(part, file);
    _exit(0);
}

static void prefork(int count) {
    for (int i = 0; i < count; i++) {
        if (fork()) continue;
        if (i % 3 == 0) _exit(0);
        if (i % 4 == 0 && !fork()) burn(150);
        burn(150);
        printf("worker %d %ld\n", (int)getpid(), (long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
        fflush(stdout);
        while (wait(0) > 0) {}
        _exit(0);
    }
    while (wait(0) > 0) {}
}

static void *burn_a_little(void *unused) {
    burn(120);
    return unused;
}

static void vfork_children(int count) {
    for (int i = 0; i < count; i++) {
        pid_t child = vfork();
        if (!child) {
            sigset_t all;
            sigfillset(&all);
            for (int number = 1; number < 32; number++) signal(number, SIG_DFL);
            sigprocmask(SIG_SETMASK, &all, 0);
            syscall(SYS_close_range, 3, ~0u, 0);
            _exit(7);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) puts("a child did not end well");
        burn(5);
    }
}

// How many users the threads of the process have between them.
static int users(void) {
    DIR *directory = opendir("/proc/self/task");
    char path[300], line[200], first[200] = "";
    int others = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = entry->d_name[0] == '.' ? 0 : fopen(path, "r");
        while (status && fgets(line, sizeof line, status))
            if (!strncmp(line, "Uid:", 4)) {
                if (!*first) strcpy(first, line);
                others += strcmp(first, line) != 0;
            }
        if (status) fclose(status);
    }
    closedir(directory);
    return 1 + others;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *mode = arguments[1], *argument = count > 2 ? arguments[2] : "";
    pthread_t thread;
    burn(100);
    if (!strcmp(mode, "daemon")) leave_as_a_daemon(argument);
    else if (!strcmp(mode, "prefork")) prefork(atoi(argument));
    else if (!strcmp(mode, "last-thread")) {
        pthread_create(&thread, 0, burn_a_little, 0);
        pthread_exit(0);
    } else if (!strcmp(mode, "vfork")) vfork_children(atoi(argument));
    else if (!strcmp(mode, "setuid")) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534))) return 4;
        burn(120);
        printf("users %d\n", users());
        burn(120);
    } else if (!strcmp(mode, "strict")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 5;
        work(100000000);
        if (write(1, "strict\n", 7) != 7) return 6;
        syscall(SYS_exit, 7);
    } else if (!strcmp(mode, "exec")) execv(argument, arguments + 2);
    else if (!strcmp(mode, "room")) {
        long pieces = 0;
        while (mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) pieces++;
        burn(80);
        printf("some room %d\n", pieces > 4);
    } else return 2;
    return 0;
}
