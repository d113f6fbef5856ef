// ends_first WAY STATUS MILLISECONDS OTHER_WAY OTHER_STATUS: burns 100 ms in the first thread, which then ends: `syscall` and `inline` by
// exit(2) with STATUS, by libc's function or by an instruction, `pthread` by pthread_exit. Another thread waits for that, burns so much CPU
// time, and ends in one of these ways, too. Without milliseconds (-1) there is no other thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *other_way;
static int other_status;
static int64_t ms;
static volatile double sink;

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noipa)) static void burn(int64_t ms) {
    double x = 1;
    for (int64_t end = cpu_ns() + ms * 1000000; cpu_ns() < end;)
        for (int i = 0; i < 10000; i++) x = x * 1.0000001 + 0.5;
    sink = x;
}

__attribute__((noipa)) static void burn_after(int64_t ms) {
    burn(ms);
    asm volatile("");
}

static void end(const char *way, long status) {
    if (!strcmp(way, "pthread")) pthread_exit(0);
    if (!strcmp(way, "syscall")) syscall(SYS_exit, status);
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(SYS_exit), "D"(status) : "rcx", "r11", "memory");
}

static int first_has_ended(void) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) exit(2);
    fclose(file);
    return !strncmp(strrchr(line, ')'), ") Z", 3);
}

static void *other(void *unused) {
    while (!first_has_ended()) usleep(200);
    burn_after(ms);
    end(other_way, other_status);
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;
    if (count < 6) return 2;
    ms = atoll(arguments[3]);
    other_way = arguments[4];
    other_status = atoi(arguments[5]);
    if (ms >= 0) pthread_create(&thread, 0, other, 0);
    burn(100);
    end(arguments[1], atoi(arguments[2]));
    return 3;
}
