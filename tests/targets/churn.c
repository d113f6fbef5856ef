// churn COUNT [timers]: creates and joins COUNT threads that do next to nothing, from four threads at once. Prints how many, how
// many could not be created, whether the process's descriptors grew by more than 64 meanwhile, and with `timers` how many
// timers it has afterwards: once they are fewer than 64, or after two seconds.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long share;

static int descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

static int timers(void) {
    char line[256];
    FILE *list = fopen("/proc/self/timers", "r");
    int count = 0;
    while (list && fgets(line, sizeof line, list)) count += strncmp(line, "ID:", 3) == 0;
    if (list) fclose(list);
    return count;
}

__attribute__((noipa)) static void *next_to_nothing(void *unused) {
    for (volatile int i = 0; i < 3000; i++) {}
    return unused;
}

static void *create(void *failed) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (long i = 0; i < share; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, next_to_nothing, 0)) ++*(long *)failed;
        else pthread_join(thread, 0);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    pthread_t creators[4];
    long failed[4] = {0};
    share = atol(arguments[1]) / 4;
    int before = descriptors();
    for (int i = 0; i < 4; i++) pthread_create(&creators[i], 0, create, &failed[i]);
    for (int i = 0; i < 4; i++) pthread_join(creators[i], 0);
    printf("created %ld, failed %ld, descriptors grew %d\n", 4 * share, failed[0] + failed[1] + failed[2] + failed[3],
           descriptors() - before > 64);
    if (count < 3) return 0;
    int left = timers();
    for (int i = 0; i < 200 && left >= 64; i++, left = timers()) usleep(10000);
    printf("timers %d\n", left);
    return 0;
}
