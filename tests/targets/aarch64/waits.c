// Threads that wait for a lock and in poll(2), and one that allocates.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <poll.h>
#include <time.h>
static volatile unsigned long sink;
static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void *hold(void *none) {
    for (;;) {
        pthread_mutex_lock(&cache);
        for (int i = 0; i < 300000; i++) sink += i;
        pthread_mutex_unlock(&cache);
    }
    return none;
}
__attribute__((noinline)) void *rest(void *none) {
    for (;;) poll(0, 0, 50);
    return none;
}
__attribute__((noinline)) void allocate(void) {
    for (int i = 0; i < 200; i++) {
        volatile char *block = malloc(1000 + i * 10);
        block[0] = 1;
        free((void *)block);
    }
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, hold, 0);
    pthread_create(&thread, 0, hold, 0);
    pthread_create(&thread, 0, rest, 0);
    for (time_t end = time(0) + 4; time(0) < end;) allocate();
    _exit(0);
}
