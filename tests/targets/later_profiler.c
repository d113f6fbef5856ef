/* Stands for a libprofiler whose insides nobody else can call: its constructor does what CPUPROFILE says, and it tells when it is stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ProfilerState {
    int enabled;
    long start_time;
    char profile_name[1024];
    int samples_gathered;
};

static struct ProfilerState now;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CPUPROFILE");
    if (!name) return;
    now.enabled = 1;
    snprintf(now.profile_name, sizeof now.profile_name, "%s", name);
    setenv("CPUPROFILE_USE_PID", "1", 1);
}

int ProfilerStart(const char *name) {
    fprintf(stderr, "the other one was asked for %s\n", name);
    return 0;
}
int ProfilingIsEnabledForAllThreads(void) { return now.enabled; }
void ProfilerGetCurrentState(struct ProfilerState *state) { *state = now; }
void ProfilerStop(void) {
    if (now.enabled) fprintf(stderr, "the other one was stopped\n");
    memset(&now, 0, sizeof now);
}
