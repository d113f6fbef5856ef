# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sigtop_global_optspecs
    string join \n p/pid= no-follow clock= engine= hz= period= budget= focus= ignore= tagfocus= tagignore= window= sort= cum names= source-path= theme= mouse no-mouse tui quiet on-quit= save= format= symbols batch interval= count= table= config= no-config raw= h/help V/version
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

complete -c sigtop -n "__fish_sigtop_needs_command" -s p -l pid -d 'Watch these processes, by pid or name, which were started with the agent' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l clock -d 'What to measure: CPU time, or wall time of sleeping threads too [default: prof]' -r -f -a "prof\t'CPU time, user and system (ITIMER_PROF)'
real\t'wall time, of threads that sleep too (ITIMER_REAL)'
virtual\t'user CPU time, by setitimer(2) alone (ITIMER_VIRTUAL)'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l engine -d 'Timer source: one POSIX timer per thread, or one setitimer(2) per process. With itimer a target that resets SIGPROF to its default is killed, system calls that wait fail with EINTR, and time is charged to threads inexactly [default: threads]' -r -f -a "threads\t'timer_create(2) for each thread'
itimer\t'setitimer(2) for the process: kills a target that resets the signal, cuts waits short'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l hz -d 'Samples a second of the clock [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l period -d 'Time between two samples' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l budget -d 'Halve the rate while the signal handlers cost more than this part of the target\'s CPU time [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l focus -d 'Keep samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l ignore -d 'Drop samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l tagfocus -d 'Keep samples of threads with this tag: tid=N, pid=N, thread=REGEX or process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l tagignore -d 'Drop samples of threads with this tag' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l sort -d 'Sort by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in it and in what it calls'
name\t'its name'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l names -d 'How function names are written [default: short; full in tables]' -r -f -a "short\t'without arguments and generics'
full\t'with everything'
bare\t'the last part alone'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l source-path -d 'Look for source files below this directory first; several are separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l theme -d 'Colours of the screen [default: dark, or light where the terminal says so]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the sixteen colours that the terminal\'s own theme chose'
colour-blind\t'for dark terminals: heat is lightness, and nothing is told by red and green alone'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l on-quit -d 'What `q` does with a launched program that still runs; with `leave` it also outlives a closed terminal [default: ask]' -r -f -a "ask\t'ask'
end\t'end the program'
leave\t'let it run'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l save -d 'Keep everything in this file too; its ending is the format, .sigtop is a recording for `sigtop view`' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l format -d 'Save in this format, whatever the ending' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto, with all there is'
gperftools\t'CPU profile for old tools: addresses alone; perl\'s pprof may drop what all stacks share'
folded\t'a line for each stack, for flame graph tools'
flame\t'a flame graph that a browser zooms and searches'
speedscope\t'for speedscope.app, a profile for each thread'
firefox\t'for profiler.firefox.com, threads side by side'
callgrind\t'for KCachegrind'
dot\t'a graph for graphviz'
text\t'pprof\'s table'"
complete -c sigtop -n "__fish_sigtop_needs_command" -l interval -d 'Time between two tables [default: only one, at the end]' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l count -d 'End the watch after so many tables' -r
complete -c sigtop -n "__fish_sigtop_needs_command" -l table -d 'Write tables to this file (- for stdout), not to stderr (with --pid: stdout)' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l config -d 'Read settings from this file, not from $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l raw -d 'Write every stack and the account to this file at the end' -r -F
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-follow -d 'Watch one process only, not its children'
complete -c sigtop -n "__fish_sigtop_needs_command" -l cum -d 'Sort by cum: the same as --sort cum'
complete -c sigtop -n "__fish_sigtop_needs_command" -l mouse -d 'Listen to the mouse, whatever the config file says'
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_needs_command" -l tui -d 'Show the screen on /dev/tty, whatever stdin and stdout are'
complete -c sigtop -n "__fish_sigtop_needs_command" -l quiet -d 'Leave nothing on the terminal after the screen'
complete -c sigtop -n "__fish_sigtop_needs_command" -l symbols -d 'Record names too, so that nobody needs the binaries to read them'
complete -c sigtop -n "__fish_sigtop_needs_command" -l batch -d 'No screen: print tables'
complete -c sigtop -n "__fish_sigtop_needs_command" -l no-config -d 'Read no settings from a file'
complete -c sigtop -n "__fish_sigtop_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_needs_command" -s V -l version -d 'Print version'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "demo" -d 'Watch a small program with known hot functions, to see what the screen says'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "env" -d 'Print the line that preloads the agent into what a shell starts from then on'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "report" -d 'Print a saved profile as pprof does: functions, callers, graphs, folded stacks'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "symbols" -d 'Say where the names of functions come from, file by file, and what would give better ones'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "record" -d 'Record samples into a file, without a screen'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "view" -d 'Show a recording as if it were running: the same screen, with its past'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "demo-target" -d 'What `demo` starts'
complete -c sigtop -n "__fish_sigtop_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -s p -l pid -d 'Watch these processes, by pid or name, which were started with the agent' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l clock -d 'What to measure: CPU time, or wall time of sleeping threads too [default: prof]' -r -f -a "prof\t'CPU time, user and system (ITIMER_PROF)'
real\t'wall time, of threads that sleep too (ITIMER_REAL)'
virtual\t'user CPU time, by setitimer(2) alone (ITIMER_VIRTUAL)'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l engine -d 'Timer source: one POSIX timer per thread, or one setitimer(2) per process. With itimer a target that resets SIGPROF to its default is killed, system calls that wait fail with EINTR, and time is charged to threads inexactly [default: threads]' -r -f -a "threads\t'timer_create(2) for each thread'
itimer\t'setitimer(2) for the process: kills a target that resets the signal, cuts waits short'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l hz -d 'Samples a second of the clock [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l period -d 'Time between two samples' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l budget -d 'Halve the rate while the signal handlers cost more than this part of the target\'s CPU time [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l focus -d 'Keep samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l ignore -d 'Drop samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tagfocus -d 'Keep samples of threads with this tag: tid=N, pid=N, thread=REGEX or process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tagignore -d 'Drop samples of threads with this tag' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l sort -d 'Sort by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in it and in what it calls'
name\t'its name'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l names -d 'How function names are written [default: short; full in tables]' -r -f -a "short\t'without arguments and generics'
full\t'with everything'
bare\t'the last part alone'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l source-path -d 'Look for source files below this directory first; several are separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l theme -d 'Colours of the screen [default: dark, or light where the terminal says so]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the sixteen colours that the terminal\'s own theme chose'
colour-blind\t'for dark terminals: heat is lightness, and nothing is told by red and green alone'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l on-quit -d 'What `q` does with a launched program that still runs; with `leave` it also outlives a closed terminal [default: ask]' -r -f -a "ask\t'ask'
end\t'end the program'
leave\t'let it run'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l save -d 'Keep everything in this file too; its ending is the format, .sigtop is a recording for `sigtop view`' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l format -d 'Save in this format, whatever the ending' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto, with all there is'
gperftools\t'CPU profile for old tools: addresses alone; perl\'s pprof may drop what all stacks share'
folded\t'a line for each stack, for flame graph tools'
flame\t'a flame graph that a browser zooms and searches'
speedscope\t'for speedscope.app, a profile for each thread'
firefox\t'for profiler.firefox.com, threads side by side'
callgrind\t'for KCachegrind'
dot\t'a graph for graphviz'
text\t'pprof\'s table'"
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l interval -d 'Time between two tables [default: only one, at the end]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l count -d 'End the watch after so many tables' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l table -d 'Write tables to this file (- for stdout), not to stderr (with --pid: stdout)' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l config -d 'Read settings from this file, not from $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l raw -d 'Write every stack and the account to this file at the end' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-follow -d 'Watch one process only, not its children'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l cum -d 'Sort by cum: the same as --sort cum'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l mouse -d 'Listen to the mouse, whatever the config file says'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l tui -d 'Show the screen on /dev/tty, whatever stdin and stdout are'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l quiet -d 'Leave nothing on the terminal after the screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l symbols -d 'Record names too, so that nobody needs the binaries to read them'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l batch -d 'No screen: print tables'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -l no-config -d 'Read no settings from a file'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l libprofiler -d 'Put the agent into this directory as libprofiler.so.0 and libprofiler.so, and print the line that has programs linked with -lprofiler find it there' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l path -d 'Print only the path of the agent\'s library'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -l header -d 'Print the C header sigtop.h'
complete -c sigtop -n "__fish_sigtop_using_subcommand env" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l peek -d 'Callers and callees of the functions that match' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l list -d 'Source lines of the functions that match' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l disasm -d 'Machine code of the functions that match, as objdump says it where that is installed; also of the function at 0xADDRESS' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l method -d 'The functions that match, one a page: callers, callees and source, as stackprof prints them' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -s o -l output -d 'Write to this file, not to stdout; without a form its ending says which. With --dot, .svg, .png, .pdf and .ps are drawn by graphviz' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l focus -d 'Keep samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l ignore -d 'Drop samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l hide -d 'Take matching frames out of the stacks' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l show -d 'Leave only matching frames in the stacks' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l show-from -d 'Begin stacks at the matching frame nearest to the root' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagfocus -d 'Keep samples with these labels: `RE`, `key=RE`, or a range of numbers `key=1kb:4kb`' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tagignore -d 'Drop samples with these labels' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l sample-index -d 'Which of a profile\'s values: a name, or a number from 0 on [default: the profile\'s own, or the last]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l nodecount -d 'Most nodes; 0 for all [default: all, 80 for --tree and --dot]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l nodefraction -d 'Leave out nodes with a smaller part of the total' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l edgefraction -d 'Leave out edges with a smaller part of the total' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l granularity -d 'What is one node [default: functions]' -r -f -a "functions\t'A function'
filefunctions\t'A function in a file'
files\t'A source file'
lines\t'A source line'
addresses\t'An address'"
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l symbolize -d 'Where names come from that a profile has not: from the files that it names, as they are here, or from nowhere' -r -f -a "local\t'From files here'
none\t'From nowhere'"
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l divide-by -d 'Divide all values by this number' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l unit -d 'The unit of values; `minimum` for one that fits the smallest' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l source-path -d 'Where sources are looked for, directories with `:` between them' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l trim-path -d 'What is taken off the front of source paths, with `:` between them' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l base -d 'Subtract this profile' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l diff-base -d 'Subtract this profile; percentages are of it' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l top -l text -d 'Functions, one a line (the usual)'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l tree -d 'Every function between its callers and callees'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l traces -d 'Every sample\'s stack'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l raw -d 'All there is, as text'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l folded -d 'Folded stacks, a line each'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l flame -d 'A flame graph as SVG'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l speedscope -d 'For speedscope.app'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l firefox -d 'For profiler.firefox.com'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l dot -d 'A graph for graphviz'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l callgrind -d 'For KCachegrind'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l proto -d 'A profile.proto, gzipped'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l gperftools -d 'A gperftools CPU profile, for old tools'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l no-trim -d 'Leave nothing out'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l cum -d 'Sort by cum, not by flat'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l noinlines -d 'Charge what was inlined to the function it was inlined into'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l mean -d 'Means: divide each value by the count of its samples, the profile\'s first value'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l showcolumns -d 'Show source columns, where lines are shown'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l relative-percentages -d 'Percentages of what the filters left'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l compact-labels -d 'Leave out the lines on the profile itself'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l normalize -d 'Scale the profile to the total of the one that is subtracted'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -l drop-negative -d 'Leave out nodes below zero'
complete -c sigtop -n "__fish_sigtop_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand symbols" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s o -l output -d 'Write to this file; its ending is the format, .sigtop is a recording. `-` is stdout, for `sigtop view -` at the other end of a pipe, with names' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l format -d 'Write this format, whatever the ending' -r -f -a "sigtop\t'a recording of everything, for sigtop view'
proto\t'pprof\'s profile.proto, with all there is'
gperftools\t'CPU profile for old tools: addresses alone; perl\'s pprof may drop what all stacks share'
folded\t'a line for each stack, for flame graph tools'
flame\t'a flame graph that a browser zooms and searches'
speedscope\t'for speedscope.app, a profile for each thread'
firefox\t'for profiler.firefox.com, threads side by side'
callgrind\t'for KCachegrind'
dot\t'a graph for graphviz'
text\t'pprof\'s table'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s d -l duration -d 'End the recording after so long [default: with the program, or at Ctrl-C]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s p -l pid -d 'Record these processes, by pid or name, which were started with the agent' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l clock -d 'What to measure: CPU time, or wall time of sleeping threads too [default: prof]' -r -f -a "prof\t'CPU time, user and system (ITIMER_PROF)'
real\t'wall time, of threads that sleep too (ITIMER_REAL)'
virtual\t'user CPU time, by setitimer(2) alone (ITIMER_VIRTUAL)'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l engine -d 'Timer source: one POSIX timer per thread, or one setitimer(2) per process. With itimer a target that resets SIGPROF to its default is killed, system calls that wait fail with EINTR, and time is charged to threads inexactly [default: threads]' -r -f -a "threads\t'timer_create(2) for each thread'
itimer\t'setitimer(2) for the process: kills a target that resets the signal, cuts waits short'"
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l hz -d 'Samples a second of the clock [default: 99]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l period -d 'Time between two samples' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l budget -d 'Halve the rate while the signal handlers cost more than this part of the target\'s CPU time [default: 1%]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l config -d 'Read settings from this file, not from $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l no-follow -d 'Record one process only, not its children'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l symbols -d 'Record names too, so that nobody needs the binaries to read them'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l quiet -d 'Say nothing but what goes wrong'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -l no-config -d 'Read no settings from a file'
complete -c sigtop -n "__fish_sigtop_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l focus -d 'Keep samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l ignore -d 'Drop samples with a function, file or module that matches' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tagfocus -d 'Keep samples of threads with this tag: tid=N, pid=N, thread=REGEX or process=REGEX' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tagignore -d 'Drop samples of threads with this tag' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l window -d 'Length of the rolling window, at most 60s, or `all` [default: 10s]' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l sort -d 'Sort by this column [default: flat]' -r -f -a "flat\t'time in the function itself'
cum\t'time in it and in what it calls'
name\t'its name'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l names -d 'How function names are written [default: short; full in tables]' -r -f -a "short\t'without arguments and generics'
full\t'with everything'
bare\t'the last part alone'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l source-path -d 'Look for source files below this directory first; several are separated by colons' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l theme -d 'Colours of the screen [default: dark, or light where the terminal says so]' -r -f -a "dark\t'for dark terminals'
light\t'for light terminals'
16\t'the sixteen colours that the terminal\'s own theme chose'
colour-blind\t'for dark terminals: heat is lightness, and nothing is told by red and green alone'"
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l config -d 'Read settings from this file, not from $XDG_CONFIG_HOME/sigtop/config.toml' -r -F
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l cum -d 'Sort by cum: the same as --sort cum'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l mouse -d 'Listen to the mouse, whatever the config file says'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l no-mouse -d 'Leave the mouse to the terminal'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l tui -d 'Show the screen on /dev/tty, whatever stdin and stdout are'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l quiet -d 'Leave nothing on the terminal after the screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l batch -d 'No screen: print a table'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -l no-config -d 'Read no settings from a file'
complete -c sigtop -n "__fish_sigtop_using_subcommand view" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sigtop -n "__fish_sigtop_using_subcommand demo-target" -l viewer -d 'End when this process has' -r
complete -c sigtop -n "__fish_sigtop_using_subcommand demo-target" -s h -l help -d 'Print help'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "demo" -d 'Watch a small program with known hot functions, to see what the screen says'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "env" -d 'Print the line that preloads the agent into what a shell starts from then on'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "report" -d 'Print a saved profile as pprof does: functions, callers, graphs, folded stacks'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "symbols" -d 'Say where the names of functions come from, file by file, and what would give better ones'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "record" -d 'Record samples into a file, without a screen'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "view" -d 'Show a recording as if it were running: the same screen, with its past'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "demo-target" -d 'What `demo` starts'
complete -c sigtop -n "__fish_sigtop_using_subcommand help; and not __fish_seen_subcommand_from demo env report symbols record view demo-target help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
