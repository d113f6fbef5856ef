// storm SECONDS: throws through nine frames for that CPU time. A function is called by the one of the number before; `cleanup_N` is
// called by `level_N`. Exceptions run through frames with and without cleanups, with a size known at run time only, and with
// a large alignment; some are caught and thrown again on the way, and some are forced unwinds, as a cancelled thread makes them.
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unwind.h>

#define FUNCTION extern "C" __attribute__((noipa)) void

static volatile long sink;
static jmp_buf back;
static _Unwind_Exception forced;

static double used() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static _Unwind_Reason_Code stop(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception *, _Unwind_Context *context, void *limit) {
    if (_Unwind_GetCFA(context) >= reinterpret_cast<uintptr_t>(limit)) longjmp(back, 1);
    return _URC_NO_REASON;
}

// Each is the cold code of one function alone, so that landing pads lie next to those of other functions.
#define CLEANUP(number)                             \
    FUNCTION cleanup_##number() { sink += number; } \
    struct Guard##number {                          \
        ~Guard##number() {                          \
            cleanup_##number();                     \
            sink += number; /* No jump instead. */  \
        }                                           \
    };
CLEANUP(2)
CLEANUP(5)
CLEANUP(6)

FUNCTION level_8(long x, void *limit) {
    if (x % 8 == 0) _Unwind_ForcedUnwind(&forced, stop, limit);
    throw int(x);
}

FUNCTION level_7(long x, void *limit) {
    level_8(x, limit);
    sink += x;
}

FUNCTION level_6(long x, void *limit) {
    alignas(64) volatile char buffer[128];
    buffer[x & 127] = 1;
    Guard6 guard;
    level_7(x, limit);
    sink += buffer[1];
}

FUNCTION level_5(long x, void *limit) {
    Guard5 guard;
    volatile char *buffer = static_cast<char *>(__builtin_alloca(16 + (x & 255)));
    buffer[0] = 1;
    level_6(x, limit);
    sink += buffer[0];
}

FUNCTION level_4(long x, void *limit) {
    long kept[4] = {x, x + 1, x + 2, x + 3};
    try {
        level_5(x, limit);
    } catch (int value) {
        if (x & 1) throw;
        sink += value;
    }
    for (long word : kept) sink += word;
}

FUNCTION level_3(long x, void *limit) {
    level_4(x, limit);
    sink += x;
}

FUNCTION level_2(long x, void *limit) {
    Guard2 guard;
    level_3(x, limit);
    sink += x;
}

FUNCTION level_1(long x, void *limit) {
    try {
        level_2(x, limit);
    } catch (int value) {
        sink += value;
    }
}

FUNCTION level_0(long x) {
    char here;
    if (!setjmp(back)) level_1(x, &here);
}

int main(int, char **arguments) {
    double end = atof(arguments[1]);
    for (long x = 0; x % 64 || used() < end; x++) level_0(x);
    puts("done");
}
