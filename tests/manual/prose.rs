//! The sections that are in no table: exit statuses, variables, files and examples.

use clap_mangen::roff::{bold, italic, roman};

use crate::limits::limits;
use crate::page::Manual;
use crate::stores::{containers, stores};

/// Sections that cannot be generated from a table.
pub(crate) fn prose(manual: &mut Manual) {
    manual.section("EXIT STATUS");
    for (status, meaning) in [
        ("n", "the launched program's own status; 128+n if signal n ended it"),
        ("0", "with --pid, or if q left a launched program running"),
        ("1, 3", "sigtop check: something has grown; there are too few samples to tell"),
        ("2", "wrong arguments, or a wrong config file"),
        ("125", "sigtop itself failed"),
        ("126", "the program cannot be run, or the process cannot be watched"),
        ("127", "the program or the process was not found"),
    ] {
        manual.entry([bold(status)], meaning);
    }
    manual.section("ENVIRONMENT");
    for (name, meaning) in [
        ("NO_COLOR", "if set, no colours: bold, dim and reverse only"),
        ("TERM, COLORTERM", "number of colours of the terminal: 24 bits, 256, 16 or none"),
        (
            "COLORFGBG",
            "a light background selects the theme light, where the terminal does not say its background (OSC 11)",
        ),
        ("STY, TMUX", "GNU screen has at most 256 colours; in tmux, y copies to its buffer"),
        ("LC_ALL, LC_CTYPE, LANG", "unless the first that is set names UTF-8, only ASCII is written"),
        ("XDG_CONFIG_HOME", "the directory that contains sigtop/config.toml"),
        (
            "DEBUGINFOD_URLS",
            "the servers that --debuginfod asks, separated by blanks; only those with http:// or https://",
        ),
        (
            "DEBUGINFOD_CACHE_PATH",
            "the cache of debug files, which is always read and which --debuginfod fills; without the variable \
             $XDG_CACHE_HOME/debuginfod_client or ~/.cache/debuginfod_client",
        ),
        (
            "DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME, DEBUGINFOD_MAXSIZE",
            "limits of one download: seconds without data (90), seconds in all (1800), bytes (2147483648, the most)",
        ),
        ("XDG_RUNTIME_DIR, XDG_CACHE_HOME", "directories for the agent's library and the socket"),
        ("LD_PRELOAD", "the agent is added in front of its value"),
    ] {
        manual.entry([bold(name)], meaning);
    }
    manual.section("FILES");
    for (name, meaning) in [
        ("$XDG_CONFIG_HOME/sigtop/config.toml", "settings; without the variable ~/.config/sigtop/config.toml"),
        (
            "$XDG_RUNTIME_DIR/sigtop/, ~/.cache/sigtop/, root's /var/cache/sigtop/, /tmp/sigtop-UID/",
            "the agent's library and the socket, in the first of them that is private and allows execution. Each \
             build of sigtop has a library of its own there, libsigtop-agent-*.so. sigtop removes none: a program \
             that was started with one names it in its environment, and may execute another program at any time. \
             Where no such program runs any more, they can be deleted",
        ),
    ] {
        manual.entry([italic(name)], meaning);
    }
    limits(manual);
    gperftools(manual);
    stores(manual);
    manual.section("EXAMPLES");
    for (words, lines) in [
        ("Start a program and watch it:", &["sigtop -- ./server --port 8080"][..]),
        ("Start a program with the agent, and watch it later:", &["eval $(sigtop env); ./server &", "sigtop --pid $!"]),
        ("Show where it waits, not only where it computes:", &["sigtop --clock wall -- ./server"]),
        (
            "Write a profile without a viewer, for pprof or sigtop report:",
            &["LD_PRELOAD=$(sigtop env --path) CPUPROFILE=out.prof ./server", "sigtop report --top out.prof"],
        ),
        ("Compare two recordings or saved profiles on the screen:", &["sigtop view --diff-base old.sigtop new.sigtop"]),
        (
            "Watch two hosts on one screen; :tagfocus=source=a keeps one of them, and T shows them at the root of all \
             stacks:",
            &["sigtop view <(ssh a sigtop record -o - -p web) <(ssh b sigtop record -o - -p web)"],
        ),
        ("Write a table into a file every ten seconds:", &["sigtop --interval 10s --table top.txt -- ./server"]),
    ] {
        manual.text(words);
        manual.example(lines);
    }
    containers(manual);
    manual.section("SEE ALSO");
    manual.0.text([bold("pprof"), roman("(1), "), bold("perf"), roman("(1), "), bold("setitimer"), roman("(2), ")]);
    manual.0.text([bold("timer_create"), roman("(2), "), bold("ld.so"), roman("(8)")]);
}

/// Appends the variables of the CPU profiler of gperftools, as the agent interprets them.
fn gperftools(manual: &mut Manual) {
    manual.section("GPERFTOOLS COMPATIBILITY");
    manual.text(
        "The agent replaces libprofiler.so. A program that preloads it, or that is linked with -lprofiler and finds it under \
         that name (sigtop env --libprofiler DIR), reads gperftools' variables, calls its functions, and writes its CPU \
         profiles. The file is a valid profile at every moment: a program that is killed leaves what was sampled until half \
         a second before. A viewer may watch at the same time if it wants the same clock.",
    );
    for (name, words) in [
        (
            "CPUPROFILE=FILE",
            "Profile the whole run into this file. A child that another program of the same name started, or that was \
             forked and used CPU time, writes FILE_PID. If the file cannot be written, one sentence on stderr says so, and \
             the program runs.",
        ),
        (
            "CPUPROFILESIGNAL=N",
            "Profile from one signal N to the next, into the first of FILE.0, FILE.1, … that does not exist.",
        ),
        ("CPUPROFILE_FREQUENCY=N", "Samples per second of CPU time: 100 by default, at most 4000."),
        (
            "CPUPROFILE_REALTIME=1",
            "Sample the first thread on the wall clock, whether it sleeps or not. No sleeping thread is woken.",
        ),
        (
            "CPUPROFILE_PER_THREAD_TIMERS=1",
            "With CPUPROFILE_REALTIME, sample all threads. CPU time always has one timer per thread.",
        ),
        (
            "CPUPROFILE_TIMER_SIGNAL=N",
            "The signal of ticks, if the program does not use it. By default the agent takes one that is free.",
        ),
    ] {
        manual.entry([bold(name)], words);
    }
    manual.text(
        "The functions are those of gperftools/profiler.h, such as ProfilerStart, ProfilerStop and ProfilerFlush. \
         sigtop_sample() takes a sample where the program calls it, and sigtop_start_by_hand() starts a profile of such \
         samples alone. sigtop env --header prints their header, whose functions are weak: a program that uses them runs \
         without sigtop, too.",
    );
}
