// forks_unloading LIBRARY MILLISECONDS: unloads the library that is this file, too, whose destructor forks. The child loads it
// again, which allocates blocks of 64 KiB and frees them, for MILLISECONDS of CPU time. Prints `child BYTES`.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef LIBRARY
__attribute__((destructor)) static void fork_now(void) {
    fork();
}
__attribute__((noipa)) void allocate(void) {
    char *block = malloc(64 << 10);
    if (!block) abort();
    memset(block, 1, 64 << 10);
    free(block);
    asm volatile("");
}
#else
static double used_ms(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1e3 + used.tv_nsec / 1e6;
}

int main(int count, char **arguments) {
    if (count < 3) return 2;
    pid_t first = getpid();
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    dlclose(library);
    if (getpid() == first) {
        int status = -1;
        wait(&status);
        return status != 0;
    }
    // It loads the library once more, which has a table of its own.
    void (*allocate)(void) = dlsym(dlopen(arguments[1], RTLD_NOW), "allocate");
    long done = 0;
    for (double end = used_ms() + atof(arguments[2]); used_ms() < end; done++) allocate();
    printf("child %ld\n", done * (64 << 10));
    fflush(stdout);
    _exit(0);
}
#endif
