/* Burns CPU time in `alpha` and `beta`, three parts to one, as its argument says, with gperftools' functions around it. They are looked for
   when it runs: it may be linked with -lprofiler, or have a library preloaded that has them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct ProfilerOptions {
    int (*filter_in_thread)(void *);
    void *filter_in_thread_arg;
};
struct ProfilerState {
    int enabled;
    time_t start_time;
    char profile_name[1024];
    int samples_gathered;
};

#define FUNCTION(name, result, arguments) static result(*name) arguments
FUNCTION(start, int, (const char *));
FUNCTION(start_with, int, (const char *, const struct ProfilerOptions *));
FUNCTION(start_by_hand, int, (const char *));
FUNCTION(stop, void, (void));
FUNCTION(flush, void, (void));
FUNCTION(enabled, int, (void));
FUNCTION(state, void, (struct ProfilerState *));
FUNCTION(register_thread, void, (void));
FUNCTION(sample, int, (void));

static volatile double sink;

__attribute__((noinline)) static void leaf(int rounds) {
    for (int i = 0; i < rounds; i++) sink += i * 0.5;
}
__attribute__((noinline)) void alpha(void) { leaf(30000); sink++; }
__attribute__((noinline)) void beta(void) { leaf(10000); sink++; }

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((noinline)) void burn(double seconds) {
    double end = cpu() + seconds;
    while (cpu() < end) { alpha(); beta(); }
}

/* Stacks of all depths: nearly each sample has one of its own. */
__attribute__((noinline)) int dive(int depth) {
    if (depth == 0) leaf(20000);
    int below = depth > 0 ? dive(depth - 1) : 0;
    sink++;
    return below + 1;
}
__attribute__((noinline)) void burn_deep(double seconds) {
    double end = cpu() + seconds;
    unsigned random = 12345;
    while (cpu() < end) { random = random * 1103515245 + 12345; dive(random >> 16 & 255); }
    sink++;
}

static __thread volatile int chosen;
static int is_chosen(void *argument) { return chosen == *(int *)argument; }

__attribute__((noinline)) void left_out(double seconds) { burn(seconds); sink++; }
__attribute__((noinline)) void taken(double seconds) { burn(seconds); sink++; }

static void *other_thread(void *seconds) {
    if (register_thread) register_thread();
    left_out(*(double *)seconds);
    return NULL;
}

static void tell(const char *when) {
    struct ProfilerState now;
    state(&now);
    printf("%s enabled=%d/%d name=%s samples=%d\n", when, enabled(), now.enabled, now.profile_name, now.samples_gathered);
    fflush(stdout);
}

static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "burn";
    double seconds = count > 2 ? atof(arguments[2]) : 0.5;
    const char *file = count > 3 ? arguments[3] : "unnamed.prof";
    start = find("ProfilerStart");
    start_with = find("ProfilerStartWithOptions");
    start_by_hand = find("sigtop_start_by_hand");
    stop = find("ProfilerStop");
    flush = find("ProfilerFlush");
    enabled = find("ProfilingIsEnabledForAllThreads");
    state = find("ProfilerGetCurrentState");
    register_thread = find("ProfilerRegisterThread");
    sample = find("sigtop_sample");
    if (!strcmp(what, "burn")) {
        burn(seconds);
    } else if (!strcmp(what, "deep")) {
        printf("ready\n");
        fflush(stdout);
        burn_deep(seconds);
    } else if (!strcmp(what, "bracket")) {
        tell("before");
        left_out(seconds);
        int ok = start(file);
        printf("start=%d again=%d\n", ok, start("another.prof"));
        taken(seconds);
        tell("on");
        flush();
        stop();
        tell("after");
        left_out(seconds);
    } else if (!strcmp(what, "twice")) {
        char second[1100];
        snprintf(second, sizeof second, "%s.2", file);
        printf("start=%d", start(file));
        taken(seconds);
        stop();
        printf(" start=%d\n", start(second));
        left_out(seconds);
        stop();
    } else if (!strcmp(what, "filter")) {
        static int wanted = 7;
        struct ProfilerOptions options = {is_chosen, &wanted};
        pthread_t thread;
        printf("start=%d\n", start_with(file, &options));
        pthread_create(&thread, NULL, other_thread, &seconds);
        chosen = 7;
        taken(seconds);
        chosen = 0;
        pthread_join(thread, NULL);
        stop();
    } else if (!strcmp(what, "refused")) {
        errno = 0;
        int ok = start(file);
        printf("start=%d errno=%d enabled=%d\n", ok, errno, enabled());
    } else if (!strcmp(what, "flush")) {
        burn(seconds);
        flush();
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "hand")) {
        printf("start=%d\n", start_by_hand(file));
        for (int i = 0; i < 5; i++) { taken(seconds / 10); printf("%d", sample()); }
        stop();
        printf(" %d\n", sample());
    } else if (!strcmp(what, "fork")) {
        burn(seconds);
        pid_t child = fork();
        if (child == 0) { taken(seconds); exit(0); }
        printf("%d\n", child);
        waitpid(child, NULL, 0);
        burn(seconds);
    } else if (!strcmp(what, "exec")) {
        burn(seconds);
        printf("%d\n", getpid());
        fflush(stdout);
        execl(arguments[0], arguments[0], "burn", arguments[2], NULL);
    } else if (!strcmp(what, "setuid")) {
        burn(seconds);
        if (setgid(65534) || setuid(65534)) return 1;
        burn(seconds);
    } else if (!strcmp(what, "segv")) {
        burn(seconds);
        raise(SIGSEGV);
    } else if (!strcmp(what, "forever")) {
        /* Until its input ends. */
        printf("ready\n");
        fflush(stdout);
        char line[16];
        while (fgets(line, sizeof line, stdin)) { burn(seconds); printf("done\n"); fflush(stdout); }
    } else if (!strcmp(what, "threads")) {
        /* The first waits for the other. */
        pthread_t thread;
        pthread_create(&thread, NULL, other_thread, &seconds);
        pthread_join(thread, NULL);
    } else if (!strcmp(what, "sleep")) {
        struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
        printf("left=%d\n", nanosleep(&time, NULL));
    }
    return 0;
}
