//! Widely used programs: their stacks are unwound and their functions are named.

use std::fs;
use std::process::Command;

use crate::harness::run::{Batch, Watched, run, text, tool};
use crate::harness::targets;

/// Runs a command alone and watched, also by allocated bytes; its output must be the same.
fn watch(command: &[&str]) -> Watched {
    let alone = run(Command::new(command[0]).args(&command[1..]));
    let watch = |options| {
        let watched = Batch::new(options).run(command);
        assert_eq!((watched.ran.code(), watched.ran.out()), (alone.code(), alone.out()), "{}", watched.ran.err());
        watched
    };
    let allocated = watch("--clock alloc --bytes 4k");
    assert!(allocated.raw.weight_ns("alloc") > 0, "{}", allocated.tables);
    watch("--hz 250")
}

/// Asserts that the target exited successfully, that most stacks are complete, and that there are
/// enough samples.
fn sound(watched: &Watched, seconds: f64) {
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    let weight = watched.raw.weight_ns("prof");
    assert!(weight as f64 / 1e9 >= seconds, "{weight} ns of at least {seconds} s");
    let cut: u64 = watched.raw.of("prof").filter(|entry| entry.truncated).map(|entry| entry.weight_ns).sum();
    assert!(cut * 50 <= weight, "{cut} ns of {weight} ns are cut stacks");
}

/// Share of the total weight with a matching function on the stack.
fn share(watched: &Watched, wanted: impl Fn(&str) -> bool) -> f64 {
    watched.raw.cum_ns("prof", wanted) as f64 / watched.raw.weight_ns("prof").max(1) as f64
}

/// Share of the total weight in processes of this executable.
fn process_share(watched: &Watched, executable: &str) -> f64 {
    let pids: Vec<u32> = watched
        .raw
        .images
        .iter()
        .filter(|image| image.executable.ends_with(executable))
        .map(|image| image.pid)
        .collect();
    let weight: u64 =
        watched.raw.of("prof").filter(|entry| pids.contains(&entry.pid)).map(|entry| entry.weight_ns).sum();
    weight as f64 / watched.raw.weight_ns("prof").max(1) as f64
}

#[test]
fn sqlite3() {
    let Some(sqlite) = tool("sqlite3") else { return };
    let query = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 6000000) select count(*), sum(i % 7) from n;";
    let watched = watch(&[text(&sqlite), ":memory:", query]);
    sound(&watched, 0.3);
    let steps = share(&watched, |name| name == "sqlite3_step");
    assert!(steps >= 0.9, "{steps} in sqlite3_step\n{}", watched.tables);
}

#[test]
fn python3() {
    let Some(python) = tool("python3") else { return };
    let program = "import hashlib\ntext = b'x' * 100000\nfor i in range(3000):\n    text = hashlib.sha256(text).digest() * 3000\nprint(sum(i * i % 7 for i in range(6000000)))";
    let watched = watch(&[text(&python), "-c", program]);
    sound(&watched, 0.3);
    // A stripped Python still exports its API, and the frames of versions that are read have
    // functions.
    let is_running = |name: &str| {
        ["PyRun_", "Py_BytesMain", "<module> ("].iter().any(|start| name.starts_with(start))
            || name.contains("PyEval_Eval")
    };
    let running = share(&watched, is_running);
    assert!(running >= 0.9, "{running} in the interpreter\n{}", watched.tables);
}

#[test]
fn gcc_and_its_cc1() {
    let Some(gcc) = tool("gcc") else { return };
    let directory = targets::scratch("cc1");
    let source = directory.join("big.c");
    let functions: String = (0..150)
        .map(|i| format!("int f{i}(int *a, int n) {{ int s = {i}; for (int i = 0; i < n; i++) s += a[i] * s ^ (s >> {}); return s; }}\n", i % 31))
        .collect();
    fs::write(&source, functions).expect("writable");
    let object = directory.join("big.o");
    let watched = watch(&[text(&gcc), "-O2", "-c", "-o", text(&object), text(&source)]);
    sound(&watched, 0.2);
    assert!(object.exists());
    let compiler = process_share(&watched, "/cc1");
    assert!(compiler >= 0.6, "{compiler} in cc1: {:?}", watched.raw.images);
    let executables: Vec<&str> = watched.raw.images.iter().map(|image| image.executable.as_str()).collect();
    assert!(executables.iter().any(|path| path.contains("gcc")), "{executables:?}");
}

#[test]
fn a_rust_release_binary() {
    let watched = watch(&[text(&targets::rust("release")), "3600"]);
    sound(&watched, 0.7);
    let words = share(&watched, |name| name.contains("release::count_words"));
    assert!(words >= 0.7, "{words} in count_words\n{}", watched.tables);
    let row = watched.last().row("count_words").cloned().expect("a row");
    assert!(row.cum_percent >= 70.0 && !row.name.contains("::h"), "{row:?}");
}

#[test]
fn a_shell_script_with_children() {
    let shares = targets::c("shares");
    let script = format!("{0} 100 0 0 0.9 & {0} 0 100 0 0.9 & wait; {0} 0 0 100 0.6", text(&shares));
    let watched = Batch::new("--hz 250").run(&["sh", "-c", &script]);
    sound(&watched, 2.16);
    for (name, expected) in [("burn_a", 0.375), ("burn_b", 0.375), ("burn_c", 0.25)] {
        let seen = share(&watched, |frame| frame == name);
        assert!((seen - expected).abs() <= 0.02, "{name}: {seen}, {expected} expected");
    }
    let children = watched.raw.images.iter().filter(|image| image.executable.ends_with("/shares")).count();
    assert_eq!(children, 3, "{:?}", watched.raw.images);
}

/// Children are not watched with `--no-follow`.
#[test]
fn children_are_left_alone_on_demand() {
    let script = format!("{} 100 0 0 0.4; :", text(&targets::c("shares")));
    let watched = Batch::new("--hz 250 --no-follow").run(&["sh", "-c", &script]);
    assert_eq!(watched.ran.code(), 0, "{}", watched.ran.err());
    assert_eq!(watched.raw.cum_ns("prof", |name| name == "burn_a"), 0);
}

/// Distributions link `redis-server` to `redis-check-rdb`.
#[test]
fn a_program_that_is_started_through_a_link_has_the_name_that_was_typed() {
    let directory = targets::scratch("linked");
    let (file, link) = (directory.join("the-file"), directory.join("typed"));
    fs::copy(targets::c("shares"), &file).expect("copied");
    std::os::unix::fs::symlink("the-file", &link).expect("linked");
    for engine in ["threads", "external"] {
        for (program, name) in [(&link, "typed"), (&file, "the-file")] {
            let options = format!("--hz 250 --engine {engine}");
            let watched = Batch::new(&options).run(&[text(program), "60", "30", "10", "0.3"]);
            assert!(watched.raw.images[0].executable.ends_with(name), "{:?}", watched.raw.images);
            let modules = |wanted: &str| {
                let frames = watched.raw.of("prof").flat_map(|entry| &entry.frames);
                frames.filter(|frame| frame.module == wanted).count()
            };
            let other = if name == "typed" { "the-file" } else { "typed" };
            assert!(modules(name) > 0 && modules(other) == 0, "{engine}: {}", watched.tables);
            // Its symbols are found.
            assert!(watched.raw.cum_ns("prof", |name| name == "burn_a") > 0, "{engine}: {}", watched.tables);
        }
    }
}
