//! Limits: what sigtop cannot do, and what a target can see.

use crate::page::Manual;

/// Appends the limits, in more detail than the README has room for.
pub(crate) fn limits(manual: &mut Manual) {
    manual.section("LIMITS");
    manual.part("Programs");
    manual.text(
        "The agent is preloaded into a program that is linked dynamically, for the processor of sigtop itself (x86-64 or \
         aarch64), and without setuid bit or file capabilities. A static program is started without it and sampled from outside, also if another program \
         starts it. So is every running process that does not carry the agent, if the kernel lets this user trace it: its own processes unless \
         kernel.yama.ptrace_scope forbids it, and with CAP_SYS_PTRACE all.",
    );
    manual.part("Sampling from outside");
    manual.text(
        "With --engine external, the default for a process without the agent, the kernel takes the samples \
         (perf_event_open(2)) if it lets this user: kernel.perf_event_paranoid is at most 2, or sigtop has CAP_PERFMON. No \
         thread is stopped. New threads and processes are sampled from their first instant. Stacks have the functions of the \
         kernel if kernel.perf_event_paranoid is at most 1, or for root; otherwise all system time is a row of its own, \
         [kernel]. A sample has 60 KiB of a stack at most; a deeper one is truncated, and so is the first sample of a signal \
         handler on an alternate stack. Of a process that has more than 512 threads already, 512 that run are sampled, and \
         the CPU time of others is counted as lost. --engine events takes this way alone.",
    );
    manual.text(
        "Where perf events are not allowed, in Python programs, whose functions can only be read of threads that stand \
         still, and with --engine ptrace, a helper process stops a running thread by ptrace(2), copies its registers and its \
         stack, and lets it run on, usually within 50 microseconds. A system call that would report EINTR for the stop is \
         made again; its timeout then begins anew. A large read or write that is under way may report a short count, as for a \
         signal. On aarch64, which has been tried on emulated machines alone, no call is made again, and EINTR is reported where \
         signal(7) names it. Running threads of a process that a debugger traces are not sampled, and child processes that live shorter \
         than a tenth of a second may be missed.",
    );
    manual.text(
        "A stop arrives some microseconds after it is asked for, often at the end of a system call. By ptrace(2), a program \
         that makes a system call every few microseconds has nearly all of its self time in these calls (98 % where perf \
         events show 39 %). The shares of their callers are right within some 3 points.",
    );
    manual.text(
        "Either way, sleeping threads are sampled without a stop, in turns where there are more than some twenty, of which \
         each comes within a second. User CPU time (ITIMER_VIRTUAL) cannot be sampled.",
    );
    manual.part("Accuracy");
    for text in [
        "A sample is one tick of a timer. A CPU timer fires at most at the kernel's own tick, 100 to 1000 times a second; \
         higher rates get heavier samples, not more of them. A share of few samples is uncertain: the screen shows it with ±.",
        "Ticks change their place in the period all the time, except by --engine itimer on the wall clock, so that work that \
         repeats with it has its true share. Only work that repeats with the kernel's own tick has a wrong one, because CPU \
         timers expire there; sampling from outside does not have that limit.",
        "Time in the kernel is charged to the function that made the system call, or by perf events to the functions of the \
         kernel.",
        "By ptrace, a stop arrives some microseconds after it is asked for, later on virtual machines. A thread that \
         makes a system call meanwhile stops at its end. System calls are scaled to the share that the kernel accounts \
         for, but code that runs only within these microseconds after a call has too few samples.",
        "A thread that pthread_create or thrd_create makes is sampled from its start. Any other new thread is found after \
         20 ms of the process's CPU time, or 4 ms while threads come and go. Up to 30 ms of what it used before count with \
         its first sample. The rest is counted as not sampled.",
        "Stacks are unwound by unwind tables. Assembly without annotations and code made at run time without frame \
         pointers truncate the stack, and with the agent also musl's libc: a program that uses it is sampled from outside \
         unless --engine is given, where perf events are allowed. A stack of 512 to 1500 frames keeps 320 frames next to its leaf and 128 next to \
         its root, with [frames left out] between them.",
        "Python functions are read of CPython 3.8 to 3.15, but not in free-threaded builds. Of threads under a seccomp \
         filter, the agent reads them only while the thread sleeps; --engine external reads all. A stack whose Python \
         functions cannot be read as a whole has native frames; the page of losses counts those. So has a greenlet, whose list \
         of functions lacks those that started it. A function that is freed \
         within a tenth of a second of its sample is [freed function]. Of recursion deeper than a sample, the leaf side is \
         kept.",
        "Allocated bytes are those that a program asks of malloc and its kin, of mmap for anonymous memory that is not \
         only reserved (PROT_NONE), and of mremap for what such a mapping grows by. Each page of a mapping is in use (LIVE) \
         until it is unmapped. Under a seccomp filter, growth counts only of mappings that are sampled. At most 65 536 \
         sampled allocations are watched at a time, by eight for each hash of an address; the bytes of others are lost \
         to LIVE, and the header and the losses page count them. What musl's own functions allocate is not seen.",
        "On the wall clock, the stack of a sleeping thread is [truncated] at a function with arrays of variable length, or \
         memory of alloca(3), that is called through a pointer or from another module: the kernel does not show a sleeping \
         thread's frame pointer, the functions that it has called may have left it in its register, and only a call that \
         names the function tells where its frame ends.",
    ] {
        manual.text(text);
    }
    manual.part("Signals");
    for text in [
        "No tick is sent to a thread that sleeps. --pid wakes one thread of the process once, and so does --clock wall for a \
         launched process that has not used a period of CPU time: each may end one wait early. --engine itimer gives no \
         such promise.",
        "A thread that blocks all signals is sampled. A program that uses SIGURG keeps it, and ticks come by signal 59, 58 \
         or 57. If a raw system call blocks the signal of ticks, the agent finds that within a second and uses another. CPU \
         time until then is not sampled, and the header says how much.",
        "Ticks run on alternate signal stacks of the agent, which sigaltstack(2) of libc does not show. A handler that a \
         program installs by a raw system call with SA_ONSTACK runs there too if its thread has no alternate stack, and has \
         60 KiB. After --pid, the first tick of each thread that existed runs on the thread's own stack and needs 4 KiB.",
    ] {
        manual.text(text);
    }
    manual.part("Sandboxes");
    for text in [
        "Sampling continues under a seccomp filter that is installed through libc and binds the calling thread. Nothing is \
         sampled after one that binds all threads (TSYNC) or forbids handlers to return. A filter that an inline system call \
         installs is found within a tenth of a second; if it kills, it may end the program before that.",
        "A thread that turns on Syscall User Dispatch by prctl(2) is not sampled until it turns it off. If an inline system \
         call turns it on, the first tick ends the program.",
    ] {
        manual.text(text);
    }
    manual.part("Resources");
    for text in [
        "The agent adds one task (RLIMIT_NPROC, pids.max) and about 1.2 MiB of memory (RLIMIT_AS, MCL_CURRENT) to the target, \
         and one queued signal per thread (RLIMIT_SIGPENDING). Where the kernel refuses a thread or memory, the agent tries \
         again at later ticks, and then stays out.",
        "A program that reads /proc/self/task through libc finds its own threads only. Threads: in /proc/self/status and raw \
         system calls show the agent thread, and Python 3.12 and later warns at os.fork() for this reason. LD_PRELOAD and \
         SIGTOP_LINK are in the environment, which children inherit. SECURITY.md lists everything that a target can see.",
    ] {
        manual.text(text);
    }
}
