//! The options of subcommands, and the schemas of JSON.

use clap_mangen::roff::{bold, italic, roman};

use crate::page::Manual;

/// Appends how two builds are compared, and a job that does it.
pub(crate) fn check(manual: &mut Manual, command: &clap::Command) {
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
         is none, and new functions that take no more than those that are gone are none. With --runs, CPU time per run is compared, and shares stand beside it. A function of 10 % that is 5 % slower \
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
pub(crate) fn json(manual: &mut Manual) {
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

pub(crate) fn report(manual: &mut Manual, command: &clap::Command) {
    let report = command.find_subcommand("report").expect("a verb");
    manual.section("REPORTS");
    manual.text(
        "sigtop report prints saved profiles exactly as pprof does: profile.proto from any tool, gperftools' CPU profiles, \
         profiles of heap, contention and threads in the text formats of gperftools, brpc, jemalloc (jeprof) and Go, \
         recordings of perf (perf.data), and folded stacks. Every option has pprof's meaning.",
    );
    manual.text(
        "Of a recording of perf, each event is a sample type (--sample_index). Its losses are records for which the kernel had no room \
         (ring full) and, of clocks and frequencies, the samples that it did not take because they cost too much (unaccounted). \
         Sizes of stacks (--stacks) are only in recordings of sigtop.",
    );
    options_of(manual, report);
}
