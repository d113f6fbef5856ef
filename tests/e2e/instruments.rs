//! Tests of the test instruments on known inputs: a reader that accepts everything, or a judge that
//! never objects, would prove nothing.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::chains::judge::{Judge, Verdict};
use crate::harness::chains::{self, Language};
use crate::harness::children::Limit;
use crate::harness::escapes::Guard;
use crate::harness::raw::{Entry, Frame, Raw};
use crate::harness::run::{run, tool};
use crate::harness::statistics::{deviations, lower_bound};
use crate::harness::table::Table;
use crate::harness::targets;
use crate::harness::terminal::Terminal;

#[test]
fn a_raw_dump_is_read_as_it_is_defined() {
    let text = "# sigtop-raw 1\n# ticks 4\n# sent 3\n# lost ring-full 1 10 0\n# process 7 1 99 /a b/x\n\
                7 8 prof 30 3 whole x!_start;libc.so.6+0x2f;x!<[u8\\; 4] as T>::operator!=\n7 7 real 5 1 truncated -\n";
    let raw = Raw::parse(text).unwrap();
    assert_eq!((raw.number("ticks"), raw.number("sent"), raw.lost_all()), (4, 3, (1, 10)));
    let image = &raw.images[0];
    assert_eq!((image.pid, image.image, image.cpu_ns, image.executable.as_str()), (7, 1, 99, "/a b/x"));
    let first = &raw.entries[0];
    assert_eq!((first.pid, first.tid), (7, 8));
    assert_eq!(first.frames[1], Frame { module: "libc.so.6".into(), name: None });
    assert_eq!(first.frames[2].name(), "<[u8; 4] as T>::operator!=");
    assert!(raw.entries[1].truncated && raw.entries[1].frames.is_empty());
    assert_eq!((raw.samples("prof"), raw.weight_ns("real")), (3, 5));
    assert_eq!((raw.cum_ns("prof", |name| name == "_start"), raw.cum_samples("prof", |name| name == "main")), (30, 0));
}

#[test]
fn what_is_not_a_raw_dump_is_refused() {
    let lines = [
        "",
        "# ticks",
        "# ticks x",
        "1 2 prof 3 4 whole",
        "1 2 cpu 3 4 whole x!y",
        "1 2 prof 3 4 whole x",
        "1 2 prof 3 4 whole x!y;",
    ];
    for line in lines {
        assert!(Raw::parse(&format!("# sigtop-raw 1\n{line}\n")).is_err(), "{line}");
    }
    assert!(Raw::parse("1 2 prof 3 4 whole x!y\n").is_err());
}

#[test]
fn pprofs_own_text_is_read() {
    let text = "File: demo\nType: cpu\nShowing nodes accounting for 5.46s, 100% of 5.46s total\n      flat  flat%   sum%        cum   cum%\n     \
                2.09s 38.28% 38.28%      2.09s 38.28%  libc_feholdsetround_sse_ctx (inline)\n         0     0% 93.04%      3.73s 68.32%  \
                app::middle\n";
    let table = Table::last(text).unwrap();
    assert_eq!(table.head[1], "Type: cpu");
    assert_eq!((table.rows[0].flat, table.rows[0].sum_percent), (2.09, 38.28));
    let row = table.row("middle").unwrap();
    assert_eq!(
        (row.name.as_str(), row.flat, row.flat_percent, row.cum, row.cum_percent),
        ("app::middle", 0.0, 0.0, 3.73, 68.32)
    );
    assert_eq!(Table::all(&format!("{text}{text}")).len(), 2);
    assert!(Table::last("no table\n").is_none());
}

/// Without misses, the bound has a closed form: error^(1/n). Otherwise it follows from its
/// definition: this many misses or fewer have that probability.
#[test]
fn the_lower_bound_is_the_exact_one() {
    for trials in [100u64, 4_603, 10_000] {
        let expected = 0.01f64.powf(1.0 / trials as f64);
        assert!((lower_bound(trials, trials, 0.01) - expected).abs() < 1e-9, "{trials}");
    }
    // Calculated by hand for 2 trials and 1 hit: P(at most 1 miss) = 1 - q² = 0.01.
    assert!((lower_bound(1, 2, 0.01) - (1.0 - 0.99f64.sqrt())).abs() < 1e-9);
    assert!(lower_bound(9_990, 10_000, 0.01) < 0.999 && lower_bound(10_000, 10_000, 0.01) > 0.999);
    assert_eq!(lower_bound(0, 5, 0.01), 0.0);
    assert!((deviations(50, 100, 0.4) - 10.0 / 24f64.sqrt()).abs() < 1e-9);
}

fn verdict(language: Language, cut: &str, stack: &str) -> Verdict {
    let text = format!("# sigtop-raw 1\n1 1 prof 1 1 {cut} {stack}\n");
    let entry: Entry = Raw::parse(&text).unwrap().entries.remove(0);
    Judge::new(language).judge(&entry)
}

#[test]
fn a_right_stack_is_exact() {
    let root = "chains_c!_start;libc.so.6+0x271f9;libc.so.6!__libc_start_main;chains_c!main;chains_c!work;chains_c!f0_entry_from_r";
    for rest in [
        "",
        ";chains_c!f3_plain_from_0",
        ";chains_c!f3_memcpy_from_0_9;libc.so.6+0x9a1b2",
        ";chains_c!f3_memcpy_from_0_9;chains_c+0x1040",
        ";chains_c!f3_text_from_0_9;chains_c!snprintf@plt",
        ";chains_c!f3_text_from_0_9;libc.so.6!__GI___snprintf;libc.so.6!IO_validate_vtable",
        ";chains_c!f3_malloc_from_0;libc.so.6!malloc",
        ";chains_c!f3_sort_from_0;libc.so.6!qsort_r;libc.so.6+0x3f;chains_c!f31_compare_from_3;chains_c!f62_plain_from_31_40",
    ] {
        assert_eq!(verdict(Language::C, "whole", &format!("{root}{rest}")), Verdict::Exact, "{rest}");
    }
    let thread = "libc.so.6+0x1054fc;libc.so.6+0x89134;chains_c!worker;chains_c!work;chains_c!f0_entry_from_r;chains_c!f3_plain_from_0.cold";
    assert_eq!(verdict(Language::C, "whole", thread), Verdict::Exact);
    let cpp = "chains_cpp!_start;libc.so.6!__libc_start_main;chains_cpp!main;chains_cpp!work(unsigned long);chains_cpp!f0_entry_from_r(unsigned long);\
               chains_cpp!f2_virtual_from_0::run(unsigned long);chains_cpp!f40_throw_from_2(unsigned long);libstdc++.so.6!__cxa_throw;\
               libgcc_s.so.1!_Unwind_RaiseException;libgcc_s.so.1+0x1234";
    assert_eq!(verdict(Language::Cpp, "whole", cpp), Verdict::Exact);
    let finding = format!("{cpp};ld-linux-x86-64.so.2!_dl_find_object;libc.so.6+0x1234");
    assert_eq!(verdict(Language::Cpp, "whole", &finding), Verdict::Exact);
    let hand_over = cpp.replace("f40_throw_from_2", "f40_throw_from_3");
    assert_eq!(verdict(Language::Cpp, "whole", &hand_over), Verdict::HandOver);
    let hooked = hand_over.replace("libgcc_s.so.1+0x1234", "libgcc_s.so.1!_Unwind_DebugHook");
    assert_eq!(verdict(Language::Cpp, "whole", &hooked), Verdict::HandOver);
    assert_eq!(verdict(Language::Cpp, "whole", &format!("{hand_over};libc.so.6+0x12")), Verdict::Step);
    let rust = "chains_rs!_start;libc.so.6+0x271f9;libc.so.6!__libc_start_main;chains_rs!main;chains_rs!std::rt::lang_start_internal;\
                chains_rs!chains_rs::main;chains_rs!chains_rs::work;chains_rs!chains_rs::f0_entry_from_r;chains_rs!chains_rs::f4_catch_from_0::h0123456789abcdef;\
                chains_rs!std::panicking::catch_unwind::do_call;chains_rs!<chains_rs::f33_virtual_from_4 as chains_rs::Run>::run;\
                chains_rs!chains_rs::f70_sort_from_33;chains_rs!core::slice::sort::stable::sort;\
                chains_rs!chains_rs::f70_sort_from_33::{{closure}};chains_rs!chains_rs::f99_text_from_70;chains_rs!core::fmt::write";
    assert_eq!(verdict(Language::Rust, "whole", rust), Verdict::Exact);
}

#[test]
fn a_wrong_stack_is_called_wrong() {
    let root = "chains_c!_start;libc.so.6+0x271f9;chains_c!main;chains_c!work;chains_c!f0_entry_from_r";
    for (rest, expected) in [
        // A frame is skipped, doubled or invented.
        (";chains_c!f40_plain_from_3", Verdict::Step),
        (";chains_c!f3_plain_from_0;chains_c!f3_plain_from_0", Verdict::Step),
        (";libc.so.6+0x1234;chains_c!f3_plain_from_0", Verdict::Between),
        (";chains_c!f3_plain_from_0;?+0xdeadbeef;chains_c!f40_plain_from_3", Verdict::Between),
        // Only libc can call the comparison function.
        (";chains_c!f3_sort_from_0;chains_c!f40_compare_from_3", Verdict::Between),
        // The caller of memcpy is missing, so that its caller does not call libc; a frame has a
        // neighbor's name; an address is in no module.
        (";chains_c!f3_plain_from_0;libc.so.6+0x9a1b2", Verdict::Leaf),
        (";chains_c!f3_memcpy_from_0;libc.so.6!getenv", Verdict::Leaf),
        (";chains_c!f3_plain_from_0;chains_c!memcpy@plt", Verdict::Leaf),
        (";chains_c!f3_text_from_0;libc.so.6!snprintf;chains_c!main", Verdict::Leaf),
        (";chains_c!f3_memcpy_from_0;?+0x7ffe00000000", Verdict::Leaf),
        (";chains_c!f3_memcpy_from_0;chains_c!frame_dummy", Verdict::Leaf),
    ] {
        assert_eq!(verdict(Language::C, "whole", &format!("{root}{rest}")), expected, "{rest}");
        assert_eq!(verdict(Language::C, "truncated", &format!("{root}{rest}")), expected, "cut, {rest}");
    }
    for (stack, expected) in [
        ("chains_c!f3_plain_from_0", Verdict::Rootless),
        ("chains_c!f0_entry_from_r;chains_c!f3_plain_from_0", Verdict::Rootless),
        ("chains_c!main;chains_c!work;chains_c!f0_entry_from_r", Verdict::Rootless),
        ("?+0x1;chains_c!_start;chains_c!main;chains_c!work;chains_c!f0_entry_from_r", Verdict::Root),
        ("libc.so.6+0x9a1b2", Verdict::Rootless),
        ("-", Verdict::Rootless),
    ] {
        assert_eq!(verdict(Language::C, "whole", stack), expected, "{stack}");
    }
    for stack in ["chains_c!f3_plain_from_0", "libc.so.6+0x9a1b2", "-"] {
        assert_eq!(verdict(Language::C, "truncated", stack), Verdict::Cut, "{stack}");
    }
    assert_eq!(
        verdict(Language::C, "whole", "ld-linux-x86-64.so.2!_dl_start;ld-linux-x86-64.so.2+0x12"),
        Verdict::Outside
    );
    assert_eq!(
        verdict(Language::C, "whole", "chains_c!_start;libc.so.6!__libc_start_main;libc.so.6!exit"),
        Verdict::Outside
    );
}

#[test]
fn the_generated_programs_run() {
    let cpp = tool("c++").map(|_| Language::Cpp);
    for language in [Language::C, Language::Rust, Language::Panics].into_iter().chain(cpp) {
        let ran = run(Command::new(chains::program(language)).args(["0.2", "thread"]));
        assert_eq!((ran.code(), ran.err()), (0, String::new()), "{language:?}");
    }
}

#[test]
fn the_terminal_shows_types_resizes_and_ends() {
    let script = "stty size; read word; echo \"word: $word\"; trap 'stty size; kill $!; exit 5' WINCH; sleep 60 & echo ready; wait";
    let mut terminal = Terminal::start(50, 10, Command::new("sh").args(["-c", script]));
    terminal.see("10 50");
    terminal.keys("hello\r");
    terminal.see("word: hello");
    terminal.see("ready");
    assert!(
        !terminal.wait_up_to(std::time::Duration::from_millis(50), |screen| screen.contents().contains("never shown"))
    );
    terminal.resize(60, 12);
    terminal.see("12 60");
    assert_eq!(terminal.finish().code(), Some(5));
    assert!(terminal.is_as_before());
    assert!(!terminal.screen().alternate_screen());
}

#[test]
fn the_terminal_sees_settings_that_are_not_put_back() {
    let mut terminal =
        Terminal::start(50, 10, Command::new("sh").args(["-c", "stty raw -echo; printf '\\033[?1049hgone'"]));
    terminal.finish();
    assert!(!terminal.is_as_before());
    assert!(terminal.screen().alternate_screen());
}

#[test]
fn hanging_up_ends_what_depends_on_the_terminal() {
    use std::os::unix::process::ExitStatusExt;
    let mut terminal = Terminal::start(50, 10, Command::new("sh").args(["-c", "echo up; read never"]));
    terminal.see("up");
    assert_eq!(terminal.hang_up().signal(), Some(1));
}

#[test]
fn what_a_screen_needs_may_be_written() {
    let said = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[1;1H\x1b[38;2;1;2;3mname 漢 ▁\x1b[0m\x1b]52;c;YWJj\x07\x1b[?1049l\r\n";
    for pieces in [1, 2, 7, 1000] {
        let mut guard = Guard::default();
        said.as_bytes().chunks(pieces).for_each(|piece| guard.read(piece).expect("allowed"));
        assert_eq!(guard.copies, 1);
    }
}

#[test]
fn anything_else_that_is_written_is_found() {
    let bad: [&[u8]; 22] = [
        b"\x07",
        b"\x08",
        b"\t",
        b"\x0e",
        b"\x18",
        b"\x7f",
        b"\0",
        b"\x9b31m",
        b"\x1bc",
        b"\x1b7",
        b"\x1bP1$r\x1b\\",
        b"\x1b]0;title\x07",
        b"\x1b]52;c;?\x07",
        b"\x1b]8;;http://x\x07",
        b"\x1b[6n",
        b"\x1b[?1002h",
        b"\x1b[3J",
        b"\x1b[1;2\x08H",
        b"\xc2\x9b",
        "\u{202e}".as_bytes(),
        "\u{200b}".as_bytes(),
        b"\xc0\x9b",
    ];
    for bytes in bad {
        assert!(Guard::default().read(bytes).is_err(), "{}", bytes.escape_ascii());
    }
}

/// A shell ignores signals for `nohup` and background jobs. Programs that tests start have
/// not.
#[test]
fn children_start_with_default_signals() {
    const INSIDE: &str = "SIGTOP_TEST_IGNORED_SIGNALS";
    if std::env::var_os(INSIDE).is_some() {
        let status = run(Command::new("cat").arg("/proc/self/status")).out();
        let ignored = status.lines().find(|line| line.starts_with("SigIgn:")).expect("a line");
        assert!(ignored.ends_with('0'), "{ignored}");
        return;
    }
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"]).arg(std::env::current_exe().expect("this test"));
    ignoring.args(["--exact", "instruments::children_start_with_default_signals"]).env(INSIDE, "1");
    // Not by `run`, which would reset what the shell then ignores anew: the order of both is the
    // same here.
    let out = ignoring.output().expect("sh");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn a_limit_kills_what_takes_too_long() {
    let directory = targets::scratch("limit");
    let fifo = directory.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("writable");
    let start = || {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).env("SIGTOP_TEST_LIMIT", &directory).stdout(Stdio::piped());
        command.spawn().expect("sh")
    };
    let mut child = start();
    let mut first = [0; 16];
    let count = child.stdout.as_mut().expect("piped").read(&mut first).expect("a pid");
    let sleeper: i32 = String::from_utf8_lossy(&first[..count]).trim().parse().expect("a pid");
    let variable = format!("SIGTOP_TEST_LIMIT={}", directory.display());
    let limit = Limit::new(Duration::from_millis(200), variable, &directory);
    assert_eq!(child.wait().expect("ours").signal(), Some(9));
    assert_eq!(fs::read(&fifo).expect("a FIFO that nobody writes to"), b"");
    drop(limit);
    let is_gone = || {
        let stat = fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    assert!(crate::guest::eventually(Duration::from_secs(10), is_gone));
}
