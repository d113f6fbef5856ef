//! The man page and the completions. The page is generated from the tables that the program itself
//! reads, so it cannot disagree with it.
//!
//! `SIGTOP_WRITE_MANUAL=1 cargo test --test manual` writes it to `assets/`; otherwise the test fails
//! if the file differs from the tables. Installing needs none of this.

#[path = "harness/skips.rs"]
mod skips;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use sigtop::app::args::Cli;
use sigtop::app::config::SETTINGS;
use sigtop::keyword;
use sigtop::tui::command::table;
use sigtop::tui::keymap;
use sigtop::tui::keys::{Binding, KeyContext, TABLE};
use sigtop::tui::layout::Pane;
use sigtop::tui::pane::help::lines::HelpLine;
use sigtop::tui::pane::help::pages::{self, HelpPage, PageFacts};
use sigtop::tui::theme::ThemeName;

const WRITE: &str = "SIGTOP_WRITE_MANUAL";

fn assets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join(name)
}

/// Compares a file in `assets/` with this text, or writes it.
fn stands(name: &str, text: &str) {
    let path = assets(name);
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("in a directory")).expect("writable");
        fs::write(&path, text).expect("writable");
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_else(|error| panic!("assets/{name}: {error}"));
    let line = there.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = line.unwrap_or_else(|| there.lines().count().min(text.lines().count()));
    assert!(there == text, "assets/{name} is stale from line {}: {WRITE}=1 cargo test --test manual", line + 1);
}

/// A page being written.
#[derive(Default)]
struct Manual(Roff);

impl Manual {
    fn section(&mut self, heading: &str) {
        self.0.control("SH", [heading]);
    }

    fn part(&mut self, heading: &str) {
        self.0.control("SS", [heading]);
    }

    fn text(&mut self, text: &str) {
        self.0.control("PP", []).text([roman(text)]);
    }

    fn entry(&mut self, head: impl Into<Vec<Inline>>, text: &str) {
        self.0.control("TP", []).text(head).text([roman(text)]);
    }

    fn example(&mut self, lines: &[&str]) {
        self.0.control("PP", []).control("nf", []).control("RS", ["4"]);
        for line in lines {
            self.0.text([roman(*line)]);
        }
        self.0.control("RE", []).control("fi", []);
    }
}

const SCREEN: &[KeyContext] = &[KeyContext::Screen, KeyContext::Panes, KeyContext::Everywhere];
const OTHERS: [(&str, &[KeyContext]); 6] = [
    ("In prompts and on the command line", &[KeyContext::Prompt, KeyContext::Colon]),
    ("In the list of processes", &[KeyContext::Picker]),
    ("In the save dialog", &[KeyContext::Save]),
    ("Sampling by setitimer", &[KeyContext::Confirm]),
    ("After the end of a process", &[KeyContext::Successor]),
    ("Quitting with a launched program", &[KeyContext::Question, KeyContext::Ending]),
];

/// Headings, and the contexts whose keys are under them.
fn key_groups() -> Vec<(String, Vec<KeyContext>)> {
    let panes = Pane::ALL.map(|pane| (format!("In {}", pane.name()), KeyContext::of_pane(pane)));
    let others = OTHERS.map(|(heading, contexts)| (heading.to_owned(), contexts.to_vec()));
    let screen = ("On the screen".to_owned(), SCREEN.to_vec());
    [screen].into_iter().chain(panes).chain(others).collect()
}

fn keys(manual: &mut Manual) {
    manual.section("KEYS");
    manual.text(
        "The word beside a key is the action's name in the config file, which can assign other keys to it. \
         The mouse selects rows and boxes, and scrolls. With Shift it selects text.",
    );
    for (heading, places) in key_groups() {
        manual.part(&heading);
        for binding in TABLE.iter().filter(|binding| places.contains(&binding.context)) {
            key(manual, binding);
        }
    }
}

fn key(manual: &mut Manual, binding: &Binding) {
    let mut head = vec![bold(binding.label.replace(' ', "  "))];
    if let Some(name) = keymap::action_name(binding) {
        head.extend([roman("   "), italic(name)]);
    }
    manual.entry(head, binding.help);
}

fn words(manual: &mut Manual) {
    manual.section("WHAT COLUMNS AND WORDS MEAN");
    let facts = PageFacts { table: TABLE, facts: None, explanation: None, thread: None, chain: Vec::new(), now_ns: 0 };
    // The text is wide enough that nothing is wrapped; the second column contains the descriptions.
    let columns = pages::columns(HelpPage::Help, &facts, 60_000);
    let words = columns.last().expect("keys and words");
    for line in words.iter().skip(1).take_while(|line| **line != HelpLine::Blank) {
        if let HelpLine::Entry(word, meaning) = line {
            manual.entry([bold(word)], meaning);
        }
    }
}

fn commands(manual: &mut Manual) {
    manual.section("COMMAND LINE");
    manual
        .text("The key : opens a line for commands in pprof's words. Tab completes a word, Up recalls earlier lines.");
    for command in &table::COMMANDS {
        manual.entry([bold(command.usage)], &command.help());
    }
}

fn settings(manual: &mut Manual) {
    manual.section("CONFIG FILE");
    manual.text(
        "A TOML file. The command line overrides it. A mistake is reported with line and column, and nothing starts.",
    );
    let mut tables: Vec<&str> = SETTINGS.iter().map(|setting| setting.table).collect();
    tables.dedup();
    for table in tables {
        if !table.is_empty() {
            manual.part(&format!("[{table}]"));
        }
        for setting in SETTINGS.iter().filter(|setting| setting.table == table) {
            manual.entry([bold(setting.name), roman(format!(" = {}", setting.example))], &setting.help());
        }
    }
    manual.part("[keys]");
    manual.text("An action's name, and the key or keys that replace those listed under KEYS. Keys are spelled as they are there.");
    manual.example(&["[keys]", "freeze = [\"Space\", \"F5\"]", "stop-typing = \"Ctrl-^\""]);
}

/// Sections that cannot be generated from a table.
fn prose(manual: &mut Manual) {
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

/// Appends which store takes what, and what was tried.
fn stores(manual: &mut Manual) {
    manual.section("PROFILE STORES");
    manual.text(
        "sigtop push FILE URL sends a recording or a saved profile to a store, and sigtop record --push URL sends what is new \
         every --push-every. The URL's path says what the store takes, or --push-format does; a URL without a path gets that of \
         the store.",
    );
    manual.example(&[
        "sigtop push a.sigtop http://localhost:4318                              # OTLP: a Collector, Pyroscope, Parca, Elastic, OpenObserve",
        "sigtop record --push http://localhost:4318 --label service.name=checkout -- ./server",
        "sigtop push a.sigtop http://localhost:4040/ingest                       # Pyroscope",
        "sigtop push a.sigtop http://localhost:7070/profiles/writeraw            # Parca",
        "sigtop push a.sigtop http://localhost:8126/profiling/v1/input           # Datadog's agent",
    ]);
    manual.text(
        "Each quantity (CPU time, wall-clock time, allocated bytes, live bytes) is a profile of its own under the store's \
         name for it. Names are demangled. The labels of samples are pid, tid, thread, process, and for waiting threads wait, \
         object and holder, all as text. --label adds attributes of the program. Without --label service.name=…, its \
         name is that of the executable.",
    );
    manual.text(
        "Credentials are headers: Authorization, X-Scope-OrgID (a tenant of Pyroscope), DD-API-KEY. They come from the file \
         of --header-file, with a line such as 'Authorization: Bearer …' for each, and for OTLP also from the environment \
         (OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROFILES_HEADERS). No process has them in its arguments, and no message \
         has them. A URL with a password is refused.",
    );
    manual.text(
        "The program curl sends the requests: sigtop has no TLS library, as those for Rust need a C compiler to build or \
         are young. So certificates are verified against those of the system, or against the file of --push-ca, and \
         proxies are those of curl's environment. Redirections are not followed.",
    );
    manual.text(
        "A request that fails for want of an answer, or with status 408, 429, 502, 503 or 504 (not by OTLP also 500), is tried \
         again after a second, two, four, up to a minute, less up to half at random, and not before the time of Retry-After. \
         A body that is too large (413) is halved. A request of which only the answer is lost is sent twice. What a store \
         does not take in the end is counted by cause, and sigtop push exits with 125.",
    );
    manual.text(
        "sigtop record --push never waits for a store. Up to 32 MiB of compressed profiles wait, beyond which the oldest are lost \
         (buffer full). A push waits for names for at most 5 s, and the end of the recording for the last requests for at most 5 s \
         (not in time). If something was lost, the status is 125, unless the program was launched and has its own.",
    );
    manual.text(
        "sigtop record --metrics [ADDR:]PORT answers Prometheus at /metrics: samples, losses by cause, rate, CPU time of the agent \
         and of the program, and a counter for each of the hottest functions, at most 100; all others are function=\"other\". A counter \
         begins at 0 when its function becomes one of the hottest, so that all time is in one series. promtool has checked the text.",
    );
    manual.text(
        "OTLP for profiles is in development. sigtop sends version 1.10 of opentelemetry-proto; servers of another version accept it \
         and may show an empty profile. What was tried against what:",
    );
    for (store, tried) in [
        ("pprof files", "Go's pprof reads each one that is sent"),
        (
            "OTLP",
            "an OpenTelemetry Collector 0.165 with --feature-gates=service.profilesSupport, and the Python classes of opentelemetry-proto 1.45",
        ),
        (
            "Pyroscope, Parca",
            "no server, only a receiver of our own that counts what a server drops by its documentation",
        ),
        ("Datadog", "its test server (ddapm-test-agent 1.69)"),
    ] {
        manual.entry([bold(store)], tried);
    }
}

/// Appends how programs in containers and services are watched.
fn containers(manual: &mut Manual) {
    manual.section("CONTAINERS AND SERVICES");
    for (words, lines) in [
        (
            "An image whose server is recorded from its start. It needs no right, and the program is one static file:",
            &[
                "COPY sigtop /usr/local/bin/",
                "ENTRYPOINT [\"sigtop\", \"record\", \"--quiet\", \"-o\", \"/profiles/app.pb.gz\", \"--\", \"/app/server\"]",
            ][..],
        ),
        (
            "A sidecar that needs no right either. Both containers run as one user, and share processes (shareProcessNamespace) \
             and a volume. The sidecar begins with the first line, the second starts the server, and the third watches it:",
            &[
                "cp \"$(sigtop env --path)\" /shared/",
                "LD_PRELOAD=$(echo /shared/libsigtop-agent-*.so) exec /app/server",
                "sigtop --pid server",
            ],
        ),
        (
            "A pod that was not prepared, from an image that has sigtop. The profile grants SYS_PTRACE:",
            &["kubectl debug -it POD --image=IMAGE --target=CONTAINER --profile=general -- sigtop --pid 1"],
        ),
        (
            "A service of systemd, with a copy of the agent that its user may read:",
            &[
                "cp \"$(sigtop env --path)\" /usr/local/lib/",
                "systemctl edit app     # [Service] Environment=LD_PRELOAD=/usr/local/lib/libsigtop-agent-….so",
                "sudo sigtop --pid \"$(systemctl show -P MainPID app)\"",
            ],
        ),
    ] {
        manual.text(words);
        manual.example(lines);
    }
}

/// Appends the limits, in more detail than the README has room for.
fn limits(manual: &mut Manual) {
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

/// Appends how two builds are compared, and a job that does it.
fn check(manual: &mut Manual, command: &clap::Command) {
    let check = command.find_subcommand("check").expect("a verb");
    manual.section("COMPARING BUILDS");
    for text in [
        "sigtop check BASE NEW compares profiles or recordings of two builds, one or several a side, function by function. A \
         change is listed with its 95 % interval, or as ~ where chance explains it, and as ? where nothing tells how much it \
         varies. Functions are matched by name, without hashes, numbers of copies and lines, and without generic arguments \
         where that is unique.",
        "Exit status 0: nothing has grown beyond the limits, and a growth of 5 % of a function with 10 % of the samples (or the \
         limit of --fail-on or --total) would have been found. 1: something has grown. 3: there are too few samples to tell; \
         the report says how many would do. If nothing has changed, the probability of status 1 is below 0.4 %.",
        "Samples come in bursts, so they are not independent. The variance is estimated from the runs of --runs, from five or \
         more files a side, or else from 32 blocks of time of the recordings. A saved profile has no times: its variance \
         is taken to be that of independent samples, and the report says so. Of all functions, those count as changed that \
         the procedure of Benjamini and Hochberg accepts at 0.2 %.",
        "A share also grows where another function shrinks. A growth that is gone without the functions that have shrunk \
         is none. With --runs, CPU time per run is compared, and shares stand beside it. A function of 10 % that is 5 % slower \
         takes some 500 000 samples a side to be found by its share; --fail-on with a larger limit takes fewer.",
    ] {
        manual.text(text);
    }
    options_of(manual, check);
    manual.text(
        "A job on a hosted runner, such as GitHub Actions. It needs no right: the agent is preloaded. Both builds run on the \
         same machine, because hosts differ more than builds do:",
    );
    manual.example(&[
        "- run: |",
        "    git worktree add base ${{ github.event.pull_request.base.sha }}",
        "    (cd base && cargo build --release) && cargo build --release",
        "    sigtop check --runs 20 --github --fail-on 'parse>+5%' --total '+3%' \\",
        "      -- base/target/release/bench -- target/release/bench || [ $? -eq 3 ]",
    ]);
    manual.text("The last line lets a check that is inconclusive pass. Without it, only a check that is fine does.");
}

/// Appends the options of a subcommand.
fn options_of(manual: &mut Manual, subcommand: &clap::Command) {
    for argument in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let mut head = Vec::new();
        if let Some(long) = argument.get_long() {
            let short = argument.get_short().map_or(String::new(), |short| format!("-{short}, "));
            head.push(bold(format!("{short}--{long}")));
        }
        if let Some([name, ..]) = value {
            match argument.is_require_equals_set() {
                true => head.extend([roman("[="), italic(name.to_string()), roman("]")]),
                false => head.extend([roman(if head.is_empty() { "" } else { " " }), italic(name.to_string())]),
            }
        }
        manual.entry(head, &argument.get_help().map(ToString::to_string).unwrap_or_default());
    }
}

/// Appends what JSON objects have in common, and the names of their schemas.
fn json(manual: &mut Manual) {
    manual.section("JSON");
    manual.text(
        "With --json, every table is an object on one line. Its numbers are those of the text: values are integers in \
         the unit that it names, and percentages are not rounded. Member schema names its form, which the file of that \
         name in assets/schemas of the source describes as a JSON Schema. Within a version, members are added and none \
         changes. The head has type and unit of the values, the period, the total, and for each recording its engine and \
         its losses by cause. Rows that are left out are counted in omitted. Names are made safe to print as in the text, \
         and are the program's own words: a reader must not take them for instructions.",
    );
    for (words, schemas) in [
        ("sigtop --batch --json, view --json, report --json", "sigtop.top.v1"),
        ("warnings among the tables of --batch --json", "sigtop.warning.v1"),
        ("report --json --tree and --peek", "sigtop.tree.v1"),
        (
            "report --json with --list, --disasm, --method, --traces, --tags, --raw, --comments, --stacks",
            "sigtop.KIND.v1",
        ),
        ("sigtop check --json", "sigtop.check.v1"),
        ("sigtop symbols --json", "sigtop.symbols.v1"),
        ("sigtop --json without a target: the processes that can be watched", "sigtop.processes.v1"),
    ] {
        manual.entry([bold(schemas)], words);
    }
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

fn report(manual: &mut Manual, command: &clap::Command) {
    let report = command.find_subcommand("report").expect("a verb");
    manual.section("REPORTS");
    manual.text(
        "sigtop report prints saved profiles exactly as pprof does: profile.proto from any tool, gperftools' CPU profiles, \
         profiles of heap, contention and threads in the text formats of gperftools, brpc, jemalloc (jeprof) and Go, \
         recordings of perf (perf.data), and folded stacks. Every option has pprof's meaning.",
    );
    options_of(manual, report);
}

fn man_page() -> String {
    let command = Cli::command();
    let man = Man::new(command.clone()).section("1").manual("User Commands");
    let mut out = Vec::new();
    man.render_title(&mut out).expect("memory");
    man.render_name_section(&mut out).expect("memory");
    let mut synopsis = Manual::default();
    synopsis.section("SYNOPSIS");
    for (words, rest) in [
        ("sigtop", " [OPTIONS] -- COMMAND [ARGUMENTS]..."),
        ("sigtop", " [OPTIONS] --pid PID"),
        ("sigtop report", " [OPTIONS] FILE..."),
        ("sigtop check", " [OPTIONS] BASE NEW"),
        ("sigtop push", " [OPTIONS] FILE URL"),
        ("sigtop demo", " [OPTIONS]"),
        ("sigtop env", " [--path|--libprofiler DIR|--header]"),
        ("sigtop symbols", " PID|FILE"),
    ] {
        synopsis.0.text([bold(words), roman(rest)]).control("br", []);
    }
    synopsis.section("DESCRIPTION");
    synopsis.text(
        "Samples the stacks of a running program and shows live where its time goes: a list of functions, callers and \
         callees, and a flame graph. It needs no privilege and no rebuild: an agent is preloaded into the program, unwinds \
         the stack at every tick of a timer, and sends it over a socket. A process without the agent is sampled from \
         outside.",
    );
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        synopsis.entry([bold(format!("sigtop {}", verb.get_name()))], &about);
    }
    out.extend(synopsis.0.to_roff().into_bytes());
    man.render_options_section(&mut out).expect("memory");
    let mut rest = Manual::default();
    report(&mut rest, &command);
    check(&mut rest, &command);
    json(&mut rest);
    keys(&mut rest);
    words(&mut rest);
    commands(&mut rest);
    settings(&mut rest);
    prose(&mut rest);
    out.extend(rest.0.to_roff().into_bytes());
    String::from_utf8(out).expect("text")
}

#[test]
fn the_man_page_says_what_the_program_does() {
    stands("sigtop.1", &man_page());
}

fn print(arguments: &[&str]) -> String {
    let printed = Command::new(env!("CARGO_BIN_EXE_sigtop")).args(arguments).output().expect("it runs");
    assert!(printed.status.success(), "{arguments:?}: {printed:?}");
    String::from_utf8(printed.stdout).expect("text")
}

#[test]
fn the_completions_know_every_option() {
    let command = Cli::command();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = print(&["completions", shell]);
        for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
            if let Some(long) = option.get_long() {
                assert!(printed.contains(long), "{shell}: --{long}");
            }
        }
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (shell, ask) in [("bash", "complete -p sigtop"), ("zsh", "true"), ("fish", "complete -C 'sigtop rec'")] {
        let path = directory.join(format!("completions.{shell}"));
        fs::write(&path, print(&["completions", shell])).expect("writable");
        let script = format!(". {} && {ask}", path.display());
        let script = if shell == "zsh" { format!("compdef() {{ :; }}; {script}") } else { script };
        let Ok(read) = Command::new(shell).arg("-c").arg(script).output() else {
            skips::skip(&format!("{shell} is not installed"));
            continue;
        };
        assert!(read.status.success(), "{shell}: {read:?}");
    }
}

/// The manual page in `assets/` is in the program.
#[test]
fn the_program_prints_its_manual_page() {
    assert_eq!(print(&["man"]), fs::read_to_string(assets("sigtop.1")).expect("a page"));
}

#[test]
fn every_option_key_and_word_is_in_the_man_page() {
    let page = man_page().replace('\\', "");
    let command = Cli::command();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        if let Some(long) = option.get_long() {
            assert!(page.contains(&format!("--{long}")), "--{long}");
        }
    }
    for binding in TABLE {
        assert!(key_groups().iter().any(|(_, places)| places.contains(&binding.context)), "{:?}", binding.context);
    }
    for theme in keyword::names::<ThemeName>() {
        assert!(page.contains(theme), "{theme}");
    }
}

/// If groff is installed, it reports no errors.
#[test]
fn the_man_page_renders_without_a_warning() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sigtop.1");
    fs::write(&path, man_page()).expect("writable");
    let groff = Command::new("groff").args(["-man", "-Tutf8", "-K", "utf8", "-ww", "-z"]).arg(&path).output();
    let Ok(groff) = groff else { return skips::skip("groff is not installed") };
    assert_eq!(String::from_utf8_lossy(&groff.stderr), "");
    assert!(groff.status.success());
}
