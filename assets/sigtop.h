/* sigtop.h: a program's own say in how it is profiled by sigtop.
 *
 * The functions are gperftools', with gperftools' meaning, and two more. They are declared weak: a program that uses them needs no library
 * to be linked or run. Started with sigtop's agent (`sigtop -- ./app`, `LD_PRELOAD=$(sigtop env --path) ./app`) it finds them there,
 * otherwise they are null, so ask before you call; SIGTOP_CALL does:
 *
 *     if (SIGTOP_CALL(ProfilerStart, ("out.prof"))) ...
 *     SIGTOP_CALL(sigtop_sample, ());
 *
 * (A program linked with -lprofiler needs none of this: it includes <gperftools/profiler.h>, and runs with the directory that
 * `sigtop env --libprofiler DIR` fills.)
 *
 * Files are gperftools' CPU profiles: `sigtop report --top out.prof`, pprof and google-pprof read them. They are valid at every moment:
 * a program that is killed leaves what was sampled until a second before.
 */
#ifndef SIGTOP_H
#define SIGTOP_H

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIGTOP_WEAK __attribute__((weak))
/* What the function returns, or 0 where there is none. */
#define SIGTOP_CALL(function, arguments) (function ? (function arguments) : 0)
/* The same for functions that return nothing. */
#define SIGTOP_DO(function, arguments) ((void)(function ? ((function arguments), 0) : 0))

/* Takes a sample of the caller's stack, which stands for one period, whatever the clock says: what happens rarely, or is no matter of time
 * (an allocation, a lock that was taken, a query), is profiled by where it happens. Returns 1 if a viewer or a file took it. It may be called
 * from any thread. */
int sigtop_sample(void) SIGTOP_WEAK;

/* Starts a profile of what sigtop_sample takes, and of nothing else. Otherwise like ProfilerStart, and ended by ProfilerStop. */
int sigtop_start_by_hand(const char *fname) SIGTOP_WEAK;

#ifndef BASE_PROFILER_H_ /* gperftools' own header says the rest. */

struct ProfilerOptions {
    /* Asked for every sample, on its thread and in a signal handler, with the argument: 0 leaves the sample out of the file. */
    int (*filter_in_thread)(void *arg);
    void *filter_in_thread_arg;
};

struct ProfilerState {
    int enabled;             /* Whether a profile is on. */
    time_t start_time;       /* If so, since when. */
    char profile_name[1024]; /* Its file. */
    int samples_gathered;    /* Samples so far. */
};

/* Starts a profile into a file, which is made anew. Returns 0, with errno, if it cannot be written, or if a profile is on already. */
int ProfilerStart(const char *fname) SIGTOP_WEAK;
int ProfilerStartWithOptions(const char *fname, const struct ProfilerOptions *options) SIGTOP_WEAK;
/* Ends it: the file is whole when this returns. */
void ProfilerStop(void) SIGTOP_WEAK;
/* Writes what there is: it is in the file when this returns. */
void ProfilerFlush(void) SIGTOP_WEAK;
/* Whether a profile is on. */
int ProfilingIsEnabledForAllThreads(void) SIGTOP_WEAK;
void ProfilerGetCurrentState(struct ProfilerState *state) SIGTOP_WEAK;
/* Threads are found by themselves; this has the calling one found at once. */
void ProfilerRegisterThread(void) SIGTOP_WEAK;
/* Do nothing. */
void ProfilerEnable(void) SIGTOP_WEAK;
void ProfilerDisable(void) SIGTOP_WEAK;
/* The stack that a signal interrupted: context is the third argument of the handler. Returns how many addresses were written. */
int ProfilerGetStackTrace(void **result, int max_depth, int skip_count, const void *context) SIGTOP_WEAK;

#endif

#ifdef __cplusplus
}
#endif

#endif
