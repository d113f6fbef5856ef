// waits_for SECONDS [deadlock]: threads named after what they wait for, all the time, and a thread
// `holder` that holds the mutex and the rwlock. Threads `long` and `short` hand a mutex on, for which
// `taker` waits. With `deadlock`, `first` holds a mutex and waits for the rwlock that `second` writes,
// which waits for that mutex.
// Prints the time for which `long` and `short` held the mutex, ns, the child, and whether there is
// a thread `io_uring`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t crossing = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER, written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t held, crossed;
static pthread_t sleeper;
static pthread_mutex_t handed = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore, turns[2];
static int empty[2], full[2], pair[2], packed[2], listener, ring;
static atomic_llong held_ns[2];
static atomic_int child;

// The name of a thread that sleeps is not read again: this one has its own from the start.
static void *hold(void *unused) {
    prctl(PR_SET_NAME, "holder");
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&inherits);
    pthread_rwlock_wrlock(&rwlock);
    pthread_barrier_wait(&held);
    pause();
    return unused;
}

static void *wait_lock(void *unused) { pthread_mutex_lock(&mutex); return unused; }
static void *wait_priority(void *unused) { pthread_mutex_lock(&inherits); return unused; }
static void *wait_timed(void *unused) { struct timespec t = {time(0) + 1000, 0}; pthread_mutex_timedlock(&mutex, &t); return unused; }
static void *wait_writing(void *unused) { pthread_rwlock_wrlock(&rwlock); return unused; }
static void *wait_other(void *unused) { tee(empty[0], full[1], 1, 0); return unused; }
static void *wait_uring(void *unused) { syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, 0, 0); return unused; }
static void *wait_rwlock(void *unused) { pthread_rwlock_rdlock(&rwlock); return unused; }
static void *wait_semaphore(void *unused) { sem_wait(&semaphore); return unused; }
static void *wait_sleep(void *unused) { struct timespec t = {1000, 0}; nanosleep(&t, 0); return unused; }
static void *wait_join(void *unused) { pthread_join(sleeper, 0); return unused; }
static void *wait_poll(void *unused) { poll(&(struct pollfd){empty[0], POLLIN, 0}, 1, -1); return unused; }
static void *wait_read(void *unused) { char c; (void)!read(empty[0], &c, 1); return unused; }
static void *wait_recv(void *unused) { char c; recv(pair[0], &c, 1, 0); return unused; }
static void *wait_accept(void *unused) { accept(listener, 0, 0); return unused; }

static void *wait_futex(void *unused) {
    static int word = 1;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, 0);
    return unused;
}

static void *wait_condvar(void *unused) {
    pthread_mutex_lock(&own);
    pthread_cond_wait(&cond, &own);
    return unused;
}

static void *wait_epoll(void *unused) {
    struct epoll_event event;
    epoll_wait(epoll_create1(0), &event, 1, -1);
    return unused;
}

static void *wait_write(void *unused) {
    static char page[65536];
    while (write(full[1], page, sizeof page) > 0) {}
    return unused;
}

static void *wait_send(void *unused) {
    static char page[65536];
    while (send(packed[0], page, sizeof page, 0) > 0) {}
    return unused;
}

// The first connection fills the queue of the listener.
static void *wait_connect(void *unused) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    int queue = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(queue, (struct sockaddr *)&address, sizeof(sa_family_t)) || listen(queue, 0)) abort();
    if (getsockname(queue, (struct sockaddr *)&address, &size)) abort();
    for (;;)
        if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, size)) abort();
    return unused;
}

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void *hand_on(void *name) {
    int mine = strcmp(name, "long") != 0;
    struct timespec time = {0, mine ? 40000000 : 120000000};
    for (;;) {
        sem_wait(&turns[mine]);
        pthread_mutex_lock(&handed);
        long long start = now_ns();
        nanosleep(&time, 0);
        held_ns[mine] += now_ns() - start;
        sem_post(&turns[!mine]);
        pthread_mutex_unlock(&handed);
    }
    return name;
}

static void *take(void *unused) {
    for (;;) {
        pthread_mutex_lock(&handed);
        pthread_mutex_unlock(&handed);
        // The other one has its turn first.
        sched_yield();
    }
    return unused;
}

static void *wait_child(void *unused) {
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "forked");
        for (;;) pause();
    }
    waitpid(child, 0, 0);
    return unused;
}

static void *wait_signal(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwaitinfo(&set, 0);
    return unused;
}

static void *cross(void *name) {
    pthread_mutex_lock(&crossing);
    pthread_barrier_wait(&crossed);
    pthread_rwlock_rdlock(&written);
    return name;
}

static void *cross_writing(void *name) {
    pthread_rwlock_wrlock(&written);
    pthread_barrier_wait(&crossed);
    pthread_mutex_lock(&crossing);
    return name;
}

static void *wait_fifo(void *path) {
    pthread_setname_np(pthread_self(), "fifo");
    open(path, O_WRONLY);
    return path;
}

static pthread_t start(const char *name, void *(*run)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, 0, run, (void *)name)) abort();
    pthread_setname_np(thread, name);
    return thread;
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherits, &kind);
    if (pipe(empty) || pipe(full) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, packed)) return 1;
    struct sockaddr_in any = {.sin_family = AF_INET};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 1)) return 1;
    sem_init(&semaphore, 0, 0);
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    // A container may forbid it.
    struct io_uring_params parameters = {0};
    ring = syscall(SYS_io_uring_setup, 1, &parameters);
    pthread_barrier_init(&held, 0, 2);
    pthread_barrier_init(&crossed, 0, 2);
    start("holder", hold);
    pthread_barrier_wait(&held);
    sleeper = start("sleep", wait_sleep);
    start("lock", wait_lock);
    start("lock-pi", wait_priority);
    start("lock-time", wait_timed);
    start("rwlock", wait_rwlock);
    start("rwlock-w", wait_writing);
    start("condvar", wait_condvar);
    start("futex", wait_futex);
    start("connect", wait_connect);
    start("other", wait_other);
    if (ring >= 0) start("io_uring", wait_uring);
    start("long", hand_on);
    start("short", hand_on);
    start("taker", take);
    start("semaphore", wait_semaphore);
    start("join", wait_join);
    start("poll", wait_poll);
    start("poll-e", wait_epoll);
    start("read", wait_read);
    start("write", wait_write);
    start("recv", wait_recv);
    start("send", wait_send);
    start("accept", wait_accept);
    start("child", wait_child);
    start("signal", wait_signal);
    char fifo[64];
    // It has no name when this program is killed.
    snprintf(fifo, sizeof fifo, "/tmp/waits_for-%d", getpid());
    int end = mkfifo(fifo, 0600) ? -1 : open(fifo, O_PATH);
    if (end < 0 || unlink(fifo)) return 1;
    snprintf(fifo, sizeof fifo, "/proc/self/fd/%d", end);
    pthread_t opener;
    pthread_create(&opener, 0, wait_fifo, fifo);
    if (count > 2) {
        start("first", cross);
        start("second", cross_writing);
    }
    struct timespec time = {atoi(arguments[1]), 0};
    while (nanosleep(&time, &time)) {}
    printf("long %lld\nshort %lld\nchild %d\nuring %d\n", held_ns[0], held_ns[1], child, ring >= 0);
    fflush(stdout);
    _exit(0);
}
