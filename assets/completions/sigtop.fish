# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sigtop_global_optspecs
    string join \n p/pid= no-follow clock= engine= F/hz= period= bytes= budget= jit= focus= ignore= tagfocus= thread= process= tagignore= window= sort= cum own= names= source-path= python= kernel= debuginfod no-debuginfod theme= refresh= mouse no-mouse tui quiet on-quit= save= format= symbols batch interval= count= table= memory= symbol-memory= config= no-config raw= h/help V/version
end

function __fish_sigtop_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sigtop_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sigtop_using_subcommand
    set -l cmd (__fish_sigtop_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sigtop -n "__fish_sigtop_needs_command" -s p -l pid -d 'Attach to these processes, by PID or name' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l clock -d 'Sampling clock: CPU time, wall-clock time of all threads, or memory: allocated bytes, or those of them that are not freed yet [default: cpu]' -r -f -a "cpu\t'CPU time, user and system (ITIMER_PROF)'
wall\t'wall-clock time, sleeping threads included (ITIMER_REAL)'
user\t'user CPU time, only with setitimer(2) (ITIMER_VIRTUAL)'
alloc\t'allocated bytes, sampled by the agent'
live\t'allocated bytes that are not freed yet'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l engine -d 'Timer source: one POSIX timer per thread, one setitimer(2) per process, or sampling from outside without the agent, by perf events or by ptrace(2). With itimer, a target that resets SIGPROF to its default action is killed, blocking system calls fail with EINTR, and time is attributed to threads inexactly [default: threads; external for a process without the agent]' -r -f -a "threads\t'one POSIX timer per thread, timer_create(2)'
itimer\t'one setitimer(2) per process: interrupts system calls, and kills a target that resets the signal'
external\t'no agent: from outside, by perf events if allowed, else by ptrace'
events\t'no agent: the kernel takes the samples, perf_event_open(2)'
ptrace\t'no agent: threads are stopped for an instant by ptrace(2), which ends some large reads and writes early'"
complete -c sigtop -n "__fish_sigtop_needs_command" -s F -l hz -l freq -d 'Sampling frequency in Hz [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l period -d 'Sampling period, such as 10ms' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l bytes -d 'Mean number of allocated bytes between two samples of the clocks of memory, such as 64k. More in threads that allocate very quickly (see --budget) [default: 512k]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l budget -d 'Halve the sampling frequency while sampling (signal handlers, or stops from outside) takes more than this share of the target\'s CPU time. Of memory, sample each thread at most 1 000 times a second for each percent; 100% is no limit [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l jit -d 'Have a launched Python 3.12 or Node.js name the code that it generates, in /tmp/perf-PID.map, unless the environment sets the variable already [default: auto]' -r -f -a "auto\t'set NODE_OPTIONS for Node.js'
all\t'also name regular expressions (V8 leaves a log file), and PYTHONPERFSUPPORT'
off\t'leave the environment as it is'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l focus -d 'Keep only samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l ignore -d 'Drop samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l tagfocus -d 'Keep only samples of matching threads: tid=N, pid=N, thread=REGEX, process=REGEX, or of those that wait: wait=REGEX (lock, read, poll …), holder=REGEX' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l thread -d 'Keep only samples of threads with a matching name; same as --tagfocus thread=REGEX' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l process -d 'Keep only samples of processes with a matching name; same as --tagfocus process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l tagignore -d 'Drop samples of matching threads' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s, and all of a file]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l sort -d 'Sort rows by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in the function and its callees'
latency\t'share of the wall-clock time in which the process ran'
name\t'function name'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l own -d 'Show own code alone: the time of libraries and runtimes belongs to the own function that called them. Own code is what REGEX matches (functions, files, modules) or, without it, what has its source outside of /usr, of packages and of the language\'s library; without debug information, the executable less known runtimes. On the screen, o does the same' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l names -d 'Style of function names [default: short; full in tables]' -r -f -a "short\t'as much of the path as fits, without generics and arguments'
full\t'with generics and arguments, the innermost elided where they do not fit'
bare\t'the last part of the path'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l source-path -d 'Search these directories for source files first, separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l python -d 'Frames to show of Python programs: Python functions, both, or native frames only [default: functions]' -r -f -a "functions\t'Python functions, and native frames outside of the interpreter'
mixed\t'Python functions and all native frames'
native\t'native frames only'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l kernel -d 'Functions of the kernel, which perf events sample if the user may know them [default: on on the screen, off in tables and saved profiles; recordings keep them]' -r -f -a "on\t'functions of the kernel below the function that called it'
off\t'the time in the kernel belongs to the function that called it'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l theme -d 'Color theme [default: dark, or light if the terminal reports a light background]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the terminal\'s own sixteen colours'
colour-blind\t'for dark terminals, without red-green contrasts'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l refresh -d 'Minimum time between two updates of the numbers and of the order of rows [default: 1s]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l on-quit -d 'Action of `q`, or of the last table of `--count`, on a launched program that still runs; with `leave`, the program also survives a closed terminal [default: ask; in batch mode, leave]' -r -f -a "ask\t'ask what to do'
end\t'terminate the program'
leave\t'detach and leave it running'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l save -d 'Also save all samples to this file; its extension selects the format, .sigtop is a recording for `sigtop view`' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l format -d 'Save in this format, regardless of the extension' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto with all samples and names'
gperftools\t'CPU profile for old tools: addresses only; perl\'s pprof may drop frames common to all stacks'
folded\t'one line per stack, for flame graph tools'
flame\t'an interactive flame graph for browsers'
speedscope\t'for speedscope.app, one profile per thread'
firefox\t'for profiler.firefox.com, one track per thread'
callgrind\t'for KCachegrind'
dot\t'a call graph for graphviz'
text\t'pprof\'s -top table'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l interval -d 'Time between two tables [default: only one, at the end]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l count -d 'Exit after this number of tables' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l table -d 'Write tables to this file (`-` is stdout) [default: stderr; with --pid, stdout]' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l memory -d 'Memory for stacks and history. Beyond it, the oldest history is dropped, and callers of rare stacks are replaced by `[memory limit]` [default: 512MB]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l symbol-memory -d 'Memory for debug information. Beyond it, and while no name is asked for, large debug information is freed, and read again when it is needed. A single file may take more while its names are asked for: it is read as a whole, not mapped [default: 300MB]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l raw -d 'Write all stacks and the loss counters to this file at the end' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-follow -d 'Do not follow child processes'
complete -c sigtop -n "__fish_sigtop_needs_command" -l cum -d 'Sort rows by cum; same as --sort cum'
complete -c sigtop -n "__fish_sigtop_needs_command" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_needs_command" -l mouse -d 'Use the mouse, overriding the config file'
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_needs_command" -l tui -d 'Draw on /dev/tty, even if stdin or stdout is redirected'
complete -c sigtop -n "__fish_sigtop_needs_command" -l quiet -d 'Print nothing on the terminal after the screen closes'
complete -c sigtop -n "__fish_sigtop_needs_command" -l symbols -d 'Store symbols in the recording, so that it can be read without the binaries'
complete -c sigtop -n "__fish_sigtop_needs_command" -l batch -d 'Print tables instead of showing the screen'
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_needs_command" -s V -l version -d 'Print version'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "demo" -d 'Profile a small demo program with known hot functions'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "env" -d 'Print the shell command that preloads the agent into programs started afterwards'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "report" -d 'Print a saved profile as pprof does: functions, callers, graphs, folded stacks'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "symbols" -d 'Show where function names come from, per file, and how to get better ones'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "record" -d 'Record samples to a file, without a screen'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "view" -d 'Replay a recording, or show a saved profile, on the same screen'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "sampler" -d 'Sample processes for a viewer, which is at standard input'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "demo-target" -d 'Run the demo program'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -s p -l pid -d 'Attach to these processes, by PID or name' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l clock -d 'Sampling clock: CPU time, wall-clock time of all threads, or memory: allocated bytes, or those of them that are not freed yet [default: cpu]' -r -f -a "cpu\t'CPU time, user and system (ITIMER_PROF)'
wall\t'wall-clock time, sleeping threads included (ITIMER_REAL)'
user\t'user CPU time, only with setitimer(2) (ITIMER_VIRTUAL)'
alloc\t'allocated bytes, sampled by the agent'
live\t'allocated bytes that are not freed yet'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l engine -d 'Timer source: one POSIX timer per thread, one setitimer(2) per process, or sampling from outside without the agent, by perf events or by ptrace(2). With itimer, a target that resets SIGPROF to its default action is killed, blocking system calls fail with EINTR, and time is attributed to threads inexactly [default: threads; external for a process without the agent]' -r -f -a "threads\t'one POSIX timer per thread, timer_create(2)'
itimer\t'one setitimer(2) per process: interrupts system calls, and kills a target that resets the signal'
external\t'no agent: from outside, by perf events if allowed, else by ptrace'
events\t'no agent: the kernel takes the samples, perf_event_open(2)'
ptrace\t'no agent: threads are stopped for an instant by ptrace(2), which ends some large reads and writes early'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -s F -l hz -l freq -d 'Sampling frequency in Hz [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l period -d 'Sampling period, such as 10ms' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l bytes -d 'Mean number of allocated bytes between two samples of the clocks of memory, such as 64k. More in threads that allocate very quickly (see --budget) [default: 512k]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l budget -d 'Halve the sampling frequency while sampling (signal handlers, or stops from outside) takes more than this share of the target\'s CPU time. Of memory, sample each thread at most 1 000 times a second for each percent; 100% is no limit [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l jit -d 'Have a launched Python 3.12 or Node.js name the code that it generates, in /tmp/perf-PID.map, unless the environment sets the variable already [default: auto]' -r -f -a "auto\t'set NODE_OPTIONS for Node.js'
all\t'also name regular expressions (V8 leaves a log file), and PYTHONPERFSUPPORT'
off\t'leave the environment as it is'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l focus -d 'Keep only samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l ignore -d 'Drop samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tagfocus -d 'Keep only samples of matching threads: tid=N, pid=N, thread=REGEX, process=REGEX, or of those that wait: wait=REGEX (lock, read, poll …), holder=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l thread -d 'Keep only samples of threads with a matching name; same as --tagfocus thread=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l process -d 'Keep only samples of processes with a matching name; same as --tagfocus process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tagignore -d 'Drop samples of matching threads' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s, and all of a file]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l sort -d 'Sort rows by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in the function and its callees'
latency\t'share of the wall-clock time in which the process ran'
name\t'function name'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l own -d 'Show own code alone: the time of libraries and runtimes belongs to the own function that called them. Own code is what REGEX matches (functions, files, modules) or, without it, what has its source outside of /usr, of packages and of the language\'s library; without debug information, the executable less known runtimes. On the screen, o does the same' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l names -d 'Style of function names [default: short; full in tables]' -r -f -a "short\t'as much of the path as fits, without generics and arguments'
full\t'with generics and arguments, the innermost elided where they do not fit'
bare\t'the last part of the path'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l source-path -d 'Search these directories for source files first, separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l python -d 'Frames to show of Python programs: Python functions, both, or native frames only [default: functions]' -r -f -a "functions\t'Python functions, and native frames outside of the interpreter'
mixed\t'Python functions and all native frames'
native\t'native frames only'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l kernel -d 'Functions of the kernel, which perf events sample if the user may know them [default: on on the screen, off in tables and saved profiles; recordings keep them]' -r -f -a "on\t'functions of the kernel below the function that called it'
off\t'the time in the kernel belongs to the function that called it'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l theme -d 'Color theme [default: dark, or light if the terminal reports a light background]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the terminal\'s own sixteen colours'
colour-blind\t'for dark terminals, without red-green contrasts'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l refresh -d 'Minimum time between two updates of the numbers and of the order of rows [default: 1s]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l on-quit -d 'Action of `q`, or of the last table of `--count`, on a launched program that still runs; with `leave`, the program also survives a closed terminal [default: ask; in batch mode, leave]' -r -f -a "ask\t'ask what to do'
end\t'terminate the program'
leave\t'detach and leave it running'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l save -d 'Also save all samples to this file; its extension selects the format, .sigtop is a recording for `sigtop view`' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l format -d 'Save in this format, regardless of the extension' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto with all samples and names'
gperftools\t'CPU profile for old tools: addresses only; perl\'s pprof may drop frames common to all stacks'
folded\t'one line per stack, for flame graph tools'
flame\t'an interactive flame graph for browsers'
speedscope\t'for speedscope.app, one profile per thread'
firefox\t'for profiler.firefox.com, one track per thread'
callgrind\t'for KCachegrind'
dot\t'a call graph for graphviz'
text\t'pprof\'s -top table'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l interval -d 'Time between two tables [default: only one, at the end]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l count -d 'Exit after this number of tables' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l table -d 'Write tables to this file (`-` is stdout) [default: stderr; with --pid, stdout]' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l memory -d 'Memory for stacks and history. Beyond it, the oldest history is dropped, and callers of rare stacks are replaced by `[memory limit]` [default: 512MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l symbol-memory -d 'Memory for debug information. Beyond it, and while no name is asked for, large debug information is freed, and read again when it is needed. A single file may take more while its names are asked for: it is read as a whole, not mapped [default: 300MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l raw -d 'Write all stacks and the loss counters to this file at the end' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-follow -d 'Do not follow child processes'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l cum -d 'Sort rows by cum; same as --sort cum'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l mouse -d 'Use the mouse, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tui -d 'Draw on /dev/tty, even if stdin or stdout is redirected'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l quiet -d 'Print nothing on the terminal after the screen closes'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l symbols -d 'Store symbols in the recording, so that it can be read without the binaries'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l batch -d 'Print tables instead of showing the screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l libprofiler -d 'Install the agent in this directory as libprofiler.so.0 and libprofiler.so, and print the command that lets programs linked with -lprofiler find it' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l path -d 'Print only the path of the agent library'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l header -d 'Print the C header sigtop.h'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l peek -d 'Callers and callees of matching functions' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l list -d 'Source lines of matching functions' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l disasm -d 'Machine code of matching functions, or of the function at 0xADDRESS, disassembled by objdump if it is installed' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l method -d 'Callers, callees and source of matching functions, in stackprof\'s layout' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -s o -l output -d 'Write to this file instead of stdout. Without a report kind, the extension selects one. With --dot, graphviz draws .svg, .png, .pdf and .ps' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l focus -d 'Keep samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l ignore -d 'Drop samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l hide -d 'Remove matching frames from the stacks' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l show -d 'Remove all other frames from the stacks' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l show-from -d 'Start stacks at the matching frame next to the root' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l prune-from -d 'Remove the callees of matching frames from the stacks' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagfocus -d 'Keep samples with these labels: RE, key=RE, or a range key=1kb:4kb' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagignore -d 'Drop samples with these labels' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagshow -d 'Keep only labels with a matching key' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l taghide -d 'Remove labels with a matching key' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagroot -d 'Add the values of these labels as frames at the root' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagleaf -d 'Add the values of these labels as frames at the leaf' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l sample-index -d 'Sample type to show: a name, or an index from 0 [default: the profile\'s own default, or the last]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l nodecount -d 'Maximum number of nodes, 0 for all [default: all, 80 for --tree and --dot]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l nodefraction -d 'Hide nodes below this fraction of the total' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l edgefraction -d 'Hide edges below this fraction of the total' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l granularity -d 'Aggregate samples at this level [default: functions]' -r -f -a "functions\t'functions'
filefunctions\t'functions in source files'
files\t'source files'
lines\t'source lines'
addresses\t'addresses'"
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l kernel -d 'Whether stacks of recordings have functions of the kernel [default: off]' -r -f -a "on\t'functions of the kernel below the function that called it'
off\t'the time in the kernel belongs to the function that called it'"
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l own -d 'Show own code alone: the values of libraries and runtimes belong to the own function that called them. Own code is what REGEX matches (functions, files, mappings) or, without it, what has its source outside of /usr, of packages and of the language\'s library; without debug information, the main binary less known runtimes' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l symbolize -d 'Source of missing names: the mapped files on this machine, or in the directories of $PPROF_BINARY_PATH, or none' -r -f -a "local\t'The mapped files on this machine; mangled names are demangled'
none\t'No source; all names stay as they are'"
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l divide-by -d 'Divide all values by this number' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l unit -d 'Unit of values; minimum selects one that fits the smallest value' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l source-path -d 'Directories to search for sources, separated by colons' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l trim-path -d 'Prefixes to remove from source paths, separated by colons' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l base -d 'Subtract this profile' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l diff-base -d 'Subtract this profile and show percentages of it' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l top -l text -d 'Table of functions (default)'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tree -d 'Every function with its callers and callees'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l traces -d 'Stack of every sample'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l stacks -d 'Deepest stack of each thread with the sizes of its frames; of recordings only'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tags -d 'Labels of all samples with their values'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l comments -d 'Comments of the profile'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l raw -d 'The whole profile as text'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l folded -d 'Folded stacks, one per line'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l flame -d 'Flame graph as SVG'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l speedscope -d 'JSON for speedscope.app'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l firefox -d 'JSON for profiler.firefox.com'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l dot -d 'Call graph for graphviz'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l callgrind -d 'Callgrind file for KCachegrind'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l proto -d 'profile.proto, gzipped'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l topproto -d 'The rows of --top as profile.proto, gzipped'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l gperftools -d 'gperftools CPU profile, for old tools'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l no-trim -d 'Show all nodes and edges'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l cum -d 'Sort by cum instead of flat'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l functions -d 'Same as --granularity functions'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l filefunctions -d 'Same as --granularity filefunctions'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l files -d 'Same as --granularity files'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l lines -d 'Same as --granularity lines'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l addresses -d 'Same as --granularity addresses'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l call-tree -d 'Draw a tree of call paths instead of a graph of functions, with --dot and --callgrind'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l noinlines -d 'Attribute inlined code to the function that it was inlined into'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l mean -d 'Show means: divide each value by the first sample type'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l showcolumns -d 'Show source columns with lines'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l relative-percentages -d 'Show percentages of what the filters leave'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l compact-labels -d 'Omit the header lines about the profile'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l normalize -d 'Scale the profile to the total of the subtracted one'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l drop-negative -d 'Hide nodes with negative values'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s o -l output -d 'Output file; its extension selects the format, .sigtop is a recording. `-` is stdout, with symbols, to pipe a recording into `sigtop view -`' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l format -d 'Write this format, regardless of the extension' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto with all samples and names'
gperftools\t'CPU profile for old tools: addresses only; perl\'s pprof may drop frames common to all stacks'
folded\t'one line per stack, for flame graph tools'
flame\t'an interactive flame graph for browsers'
speedscope\t'for speedscope.app, one profile per thread'
firefox\t'for profiler.firefox.com, one track per thread'
callgrind\t'for KCachegrind'
dot\t'a call graph for graphviz'
text\t'pprof\'s -top table'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s d -l duration -d 'Stop after this time [default: when the program exits, or on Ctrl-C]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l on-quit -d 'Action on a launched program that still runs when the recording stops [default: leave]' -r -f -a "ask\t'ask what to do'
end\t'terminate the program'
leave\t'detach and leave it running'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s p -l pid -d 'Attach to these processes, by PID or name; without the agent, they are sampled from outside' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l clock -d 'Sampling clock: CPU time, wall-clock time of all threads, or memory: allocated bytes, or those of them that are not freed yet [default: cpu]' -r -f -a "cpu\t'CPU time, user and system (ITIMER_PROF)'
wall\t'wall-clock time, sleeping threads included (ITIMER_REAL)'
user\t'user CPU time, only with setitimer(2) (ITIMER_VIRTUAL)'
alloc\t'allocated bytes, sampled by the agent'
live\t'allocated bytes that are not freed yet'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l engine -d 'Timer source: one POSIX timer per thread, one setitimer(2) per process, or sampling from outside without the agent, by perf events or by ptrace(2). With itimer, a target that resets SIGPROF to its default action is killed, blocking system calls fail with EINTR, and time is attributed to threads inexactly [default: threads; external for a process without the agent]' -r -f -a "threads\t'one POSIX timer per thread, timer_create(2)'
itimer\t'one setitimer(2) per process: interrupts system calls, and kills a target that resets the signal'
external\t'no agent: from outside, by perf events if allowed, else by ptrace'
events\t'no agent: the kernel takes the samples, perf_event_open(2)'
ptrace\t'no agent: threads are stopped for an instant by ptrace(2), which ends some large reads and writes early'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s F -l hz -l freq -d 'Sampling frequency in Hz [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l period -d 'Sampling period, such as 10ms' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l bytes -d 'Mean number of allocated bytes between two samples of the clocks of memory, such as 64k. More in threads that allocate very quickly (see --budget) [default: 512k]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l budget -d 'Halve the sampling frequency while sampling (signal handlers, or stops from outside) takes more than this share of the target\'s CPU time. Of memory, sample each thread at most 1 000 times a second for each percent; 100% is no limit [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l jit -d 'Have a launched Python 3.12 or Node.js name the code that it generates, in /tmp/perf-PID.map, unless the environment sets the variable already [default: auto]' -r -f -a "auto\t'set NODE_OPTIONS for Node.js'
all\t'also name regular expressions (V8 leaves a log file), and PYTHONPERFSUPPORT'
off\t'leave the environment as it is'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l python -d 'Frames to show of Python programs: Python functions, both, or native frames only [default: functions]' -r -f -a "functions\t'Python functions, and native frames outside of the interpreter'
mixed\t'Python functions and all native frames'
native\t'native frames only'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l kernel -d 'Functions of the kernel, which perf events sample if the user may know them [default: on on the screen, off in tables and saved profiles; recordings keep them]' -r -f -a "on\t'functions of the kernel below the function that called it'
off\t'the time in the kernel belongs to the function that called it'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l memory -d 'Memory for stacks and history. Beyond it, the oldest history is dropped, and callers of rare stacks are replaced by `[memory limit]` [default: 512MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l symbol-memory -d 'Memory for debug information. Beyond it, and while no name is asked for, large debug information is freed, and read again when it is needed. A single file may take more while its names are asked for: it is read as a whole, not mapped [default: 300MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l no-follow -d 'Do not follow child processes'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l symbols -d 'Store symbols in the recording, so that it can be read without the binaries'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l quiet -d 'Print errors only'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l focus -d 'Keep only samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l ignore -d 'Drop samples with a matching function, file or module' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tagfocus -d 'Keep only samples of matching threads: tid=N, pid=N, thread=REGEX, process=REGEX, or of those that wait: wait=REGEX (lock, read, poll …), holder=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l thread -d 'Keep only samples of threads with a matching name; same as --tagfocus thread=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l process -d 'Keep only samples of processes with a matching name; same as --tagfocus process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tagignore -d 'Drop samples of matching threads' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s, and all of a file]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l sort -d 'Sort rows by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in the function and its callees'
latency\t'share of the wall-clock time in which the process ran'
name\t'function name'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l own -d 'Show own code alone: the time of libraries and runtimes belongs to the own function that called them. Own code is what REGEX matches (functions, files, modules) or, without it, what has its source outside of /usr, of packages and of the language\'s library; without debug information, the executable less known runtimes. On the screen, o does the same' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l names -d 'Style of function names [default: short; full in tables]' -r -f -a "short\t'as much of the path as fits, without generics and arguments'
full\t'with generics and arguments, the innermost elided where they do not fit'
bare\t'the last part of the path'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l source-path -d 'Search these directories for source files first, separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l python -d 'Frames to show of Python programs: Python functions, both, or native frames only [default: functions]' -r -f -a "functions\t'Python functions, and native frames outside of the interpreter'
mixed\t'Python functions and all native frames'
native\t'native frames only'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l kernel -d 'Functions of the kernel, which perf events sample if the user may know them [default: on on the screen, off in tables and saved profiles; recordings keep them]' -r -f -a "on\t'functions of the kernel below the function that called it'
off\t'the time in the kernel belongs to the function that called it'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l theme -d 'Color theme [default: dark, or light if the terminal reports a light background]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the terminal\'s own sixteen colours'
colour-blind\t'for dark terminals, without red-green contrasts'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l refresh -d 'Minimum time between two updates of the numbers and of the order of rows [default: 1s]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l memory -d 'Memory for stacks and history. Beyond it, the oldest history is dropped, and callers of rare stacks are replaced by `[memory limit]` [default: 512MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l symbol-memory -d 'Memory for debug information. Beyond it, and while no name is asked for, large debug information is freed, and read again when it is needed. A single file may take more while its names are asked for: it is read as a whole, not mapped [default: 300MB]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l config -d 'Read this config file instead of $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l cum -d 'Sort rows by cum; same as --sort cum'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l debuginfod -d 'Download missing debug information from the debuginfod servers in DEBUGINFOD_URLS, with curl. The servers learn the build ids of the files'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l no-debuginfod -d 'Download nothing, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l mouse -d 'Use the mouse, overriding the config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tui -d 'Draw on /dev/tty, even if stdin or stdout is redirected'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l quiet -d 'Print nothing on the terminal after the screen closes'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l batch -d 'Print a table instead of showing the screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l no-config -d 'Do not read a config file'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand sampler" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo-target" -l viewer -d 'Exit when this process does' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo-target" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "demo" -d 'Profile a small demo program with known hot functions'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "env" -d 'Print the shell command that preloads the agent into programs started afterwards'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "report" -d 'Print a saved profile as pprof does: functions, callers, graphs, folded stacks'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "symbols" -d 'Show where function names come from, per file, and how to get better ones'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "record" -d 'Record samples to a file, without a screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "view" -d 'Replay a recording, or show a saved profile, on the same screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "sampler" -d 'Sample processes for a viewer, which is at standard input'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "demo-target" -d 'Run the demo program'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view sampler demo-target help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
