// A bad preload: makes a thread by pthread_create.
#include <pthread.h>
#include <unistd.h>

static void *idle(void *unused) {
    for (;;) pause();
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, 0, idle, 0);
}
