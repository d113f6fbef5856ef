// waits_disk SECONDS DIRECTORY: threads named after the call in which they wait for a file in the directory, and a thread `memory`
// that waits for a page. `open` and `truncate` wait for a lease of the file to end, which takes the kernel 45 seconds, `fsync` for the
// disk itself.
// Prints whether there are threads `open` and `truncate`, and `memory`, and the number of calls of `fsync`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static char *page;
static atomic_long syncs;

// The name of a thread that sleeps is not read again: each has its own from the start.
static void *wait_open(void *path) { prctl(PR_SET_NAME, "open"); open(path, O_WRONLY); return path; }
static void *wait_truncate(void *path) { prctl(PR_SET_NAME, "truncate"); (void)!truncate(path, 0); return path; }
static void *wait_memory(void *unused) { prctl(PR_SET_NAME, "memory"); *(volatile char *)page; return unused; }

static void *wait_fsync(void *path) {
    prctl(PR_SET_NAME, "fsync");
    int file = open(path, O_CREAT | O_RDWR, 0600);
    static char data[65536];
    for (;; syncs++)
        if (pwrite(file, data, sizeof data, 0) < 0 || fsync(file)) abort();
    return path;
}

// A page that nobody fills. The kernel may not know that, or may not allow it.
static int has_missing_page(void) {
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 0;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(unsigned long)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    return !ioctl(faults, UFFDIO_REGISTER, &range);
}

static void start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, 0, run, argument)) abort();
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    static char leased[4096], synced[4096];
    snprintf(leased, sizeof leased, "%s/leased", arguments[2]);
    snprintf(synced, sizeof synced, "%s/synced", arguments[2]);
    signal(SIGIO, SIG_IGN);
    close(open(leased, O_CREAT | O_WRONLY, 0600));
    int lease = !fcntl(open(leased, O_RDONLY), F_SETLEASE, F_RDLCK), memory = has_missing_page();
    if (lease) start(wait_open, leased), start(wait_truncate, leased);
    start(wait_fsync, synced);
    if (memory) start(wait_memory, NULL);
    nanosleep(&(struct timespec){atoi(arguments[1]), 0}, 0);
    printf("lease %d\nmemory %d\nsyncs %ld\n", lease, memory, syncs);
    fflush(stdout);
    _exit(0);
}
