// waits_for SECONDS [deadlock]: threads named after what they wait for, all the time, and a thread
// `holder` that holds the mutex and the rwlock. With `deadlock`, two threads `first` and `second`
// wait for each other's mutexes. Prints `done`.
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER, inherits;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t held, crossed;
static pthread_t sleeper;
static sem_t semaphore;
static int empty[2], full[2], pair[2], packed[2], listener;

static void *hold(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&inherits);
    pthread_rwlock_wrlock(&rwlock);
    pthread_barrier_wait(&held);
    pause();
    return unused;
}

static void *wait_lock(void *unused) { pthread_mutex_lock(&mutex); return unused; }
static void *wait_priority(void *unused) { pthread_mutex_lock(&inherits); return unused; }
static void *wait_rwlock(void *unused) { pthread_rwlock_rdlock(&rwlock); return unused; }
static void *wait_semaphore(void *unused) { sem_wait(&semaphore); return unused; }
static void *wait_sleep(void *unused) { struct timespec t = {1000, 0}; nanosleep(&t, 0); return unused; }
static void *wait_join(void *unused) { pthread_join(sleeper, 0); return unused; }
static void *wait_poll(void *unused) { poll(&(struct pollfd){empty[0], POLLIN, 0}, 1, -1); return unused; }
static void *wait_read(void *unused) { char c; (void)!read(empty[0], &c, 1); return unused; }
static void *wait_recv(void *unused) { char c; recv(pair[0], &c, 1, 0); return unused; }
static void *wait_accept(void *unused) { accept(listener, 0, 0); return unused; }

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

static void *wait_child(void *unused) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    pthread_mutex_t *mine = strcmp(name, "first") ? &right : &left, *theirs = mine == &left ? &right : &left;
    pthread_mutex_lock(mine);
    pthread_barrier_wait(&crossed);
    pthread_mutex_lock(theirs);
    return name;
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
    pthread_barrier_init(&held, 0, 2);
    pthread_barrier_init(&crossed, 0, 2);
    start("holder", hold);
    pthread_barrier_wait(&held);
    sleeper = start("sleep", wait_sleep);
    start("lock", wait_lock);
    start("lock-pi", wait_priority);
    start("rwlock", wait_rwlock);
    start("condvar", wait_condvar);
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
    if (count > 2) {
        start("first", cross);
        start("second", cross);
    }
    struct timespec time = {atoi(arguments[1]), 0};
    while (nanosleep(&time, &time)) {}
    puts("done");
    fflush(stdout);
    _exit(0);
}
