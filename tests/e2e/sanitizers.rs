//! Programs with a sanitizer's runtime, which interposes libc's functions and knows every thread
//! except the agent's.

use std::fs;

use object::{Object, ObjectSymbol};

use super::guest::{Guest, host, prove, same, watch_unharmed};
use crate::harness::run::text;
use crate::harness::skips::skip;
use crate::harness::targets;

/// A program prints the same under sigtop as alone, and is sampled.
fn is_watched_unharmed(command: &[&str]) {
    // Where samples are not judged, less CPU time shows the same.
    let short = [command, &["30"]].concat();
    let alone = host(Guest::Nobody, &short);
    assert_eq!((alone.code, alone.stdout.as_str(), alone.stderr.as_str()), (0, "done 1\n", ""));
    prove(&["--hz 250", "--clock real --hz 250"].map(Guest::Batch), &[], |guest| {
        same(host(guest, &short), alone.clone())
    });
    let watched = watch_unharmed(&[Guest::Batch("--hz 1000")], command, &alone);
    let ms = watched.raw.cum_ns("prof", |name| name.starts_with("burn")) / 1_000_000;
    assert!(ms >= 400, "{ms} ms of 800 in burn; lost {:?}", watched.raw.lost);
}

#[test]
fn a_program_with_thread_sanitizer_is_sampled() {
    for flags in [["-fsanitize=thread", "-O1"], ["-fsanitize=thread", "-static-libtsan"]] {
        match targets::sanitized(&flags) {
            Some(program) => is_watched_unharmed(&[text(&program)]),
            None => skip("the compiler has no ThreadSanitizer"),
        }
    }
}

/// If the runtime is linked into the program, it precedes every library, installs its handlers
/// before libc knows the environment, and interposes `memcpy`. As a shared library, it insists on
/// being first, and an option says that it need not be.
#[test]
fn a_program_with_address_sanitizer_is_sampled() {
    match targets::sanitized(&["-fsanitize=address", "-static-libasan"]) {
        Some(program) => is_watched_unharmed(&[text(&program)]),
        None => skip("the compiler has no AddressSanitizer"),
    }
    match targets::sanitized(&["-fsanitize=address", "-O1"]) {
        Some(program) => is_watched_unharmed(&["env", "ASAN_OPTIONS=verify_asan_link_order=0", text(&program)]),
        None => skip("the compiler has no AddressSanitizer"),
    }
}

/// The agent's imports may be functions of the target or of a sanitizer, and run on a thread that
/// they do not know.
#[test]
fn the_agent_imports_no_function_that_it_calls_by_name() {
    let bytes = fs::read(env!("SIGTOP_AGENT_SO")).expect("the build made it");
    let library = object::File::parse(&*bytes).expect("a library");
    let imports = |weak: bool| -> Vec<String> {
        let symbols = library.dynamic_symbols().filter(|symbol| symbol.is_undefined() && symbol.is_weak() == weak);
        let mut names: Vec<String> = symbols.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names
    };
    assert_eq!(imports(false), ["environ"], "read by the constructor; `memcpy` and its kin are the agent's own");
    // The linker resolves these for the constructor, the stack guard, and the C runtime's startup
    // code.
    let allowed = [
        "_ITM_deregisterTMCloneTable",
        "_ITM_registerTMCloneTable",
        "__cxa_finalize",
        "__errno_location",
        "__gmon_start__",
        "__libc_start_main",
        "__register_atfork",
        "__sigaction",
        "_dl_debug_addr",
        "_r_debug",
        "getauxval",
        "pthread_atfork",
        "setenv",
    ];
    let unknown: Vec<String> = imports(true).into_iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    assert_eq!(unknown, Vec::<String>::new());
}
