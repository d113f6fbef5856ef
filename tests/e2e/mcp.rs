//! `sigtop mcp` with an independent client, the one of PyPI's `mcp`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::children::with_default_signals;
use crate::harness::run::{SIGTOP, run};
use crate::harness::skips::skip;
use crate::harness::targets;
use crate::recording::{Directory, record};

/// The interpreter of an environment that has the client, if it can be installed.
fn python() -> Option<PathBuf> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp");
    let python = environment.join("bin/python");
    let quiet = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let has_client = || quiet(Command::new(&python).args(["-c", "import mcp"]));
    let install = || {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            && quiet(Command::new(&python).args(["-m", "pip", "install", "--quiet", "mcp"]))
            && has_client()
    };
    (has_client() || install()).then(|| python.clone())
}

#[test]
fn an_independent_client_calls_every_tool() {
    let Some(python) = python() else { return skip("the MCP client of PyPI cannot be installed") };
    let directory = Directory::new("mcp");
    let file = directory.file("a.sigtop");
    assert_eq!(run(&mut record(&file, &["--quiet"], "1")).code(), 0);
    let mut command = Command::new(targets::c("waits_for"));
    command.arg("60").stdout(Stdio::null());
    let mut target = with_default_signals(&mut command).spawn().expect("a target");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_client.py");
    let mut client = Command::new(python);
    client.arg(script).arg(SIGTOP).arg(target.id().to_string()).arg(&file);
    let ran = run(&mut client);
    target.kill().expect("a child");
    target.wait().expect("a child");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let replies: Value = serde_json::from_str(&ran.out()).expect("JSON");
    assert_eq!(replies["server"], "sigtop");
    let names = ["processes", "record", "top", "callers", "source", "waits", "threads", "compare"];
    assert_eq!(replies["tools"], Value::from(names.to_vec()));
    for (key, words) in [
        ("processes", &["pid name", "\"waits_for\""][..]),
        ("live", &["profile r1", "Threads wait for a lock in wait_", "thread holder holds it"]),
        ("file", &["profile r2", "burn_a (shares) itself has"]),
        ("launched", &["profile r3", "no samples"]),
        ("top", &["clock cpu", "\"main\"", "more rows left out"]),
        ("filtered", &["filters keep", "\"burn_a\""]),
        ("callers", &["function ", "caller ", "\"work\""]),
        ("source", &["lines of \"burn_a\""]),
        ("waits", &["clock wall", "lock \"wait_", "\"holder\""]),
        ("threads", &["\"holder\"", "\"long\""]),
        ("compare", &["~ \"burn_a\"", "+0.00"]),
    ] {
        let text = replies[key][1].as_str().unwrap_or_default();
        assert_eq!(replies[key][0], false, "{key}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{key}: {text}");
        assert!(text.len() < 8000, "{key}: {} bytes", text.len());
    }
    for (key, option) in [("no_waits", "wall"), ("no_profile", "r1"), ("no_function", "main")] {
        assert_eq!(replies[key][0], true, "{key}");
        let error: Value = serde_json::from_str(replies[key][1].as_str().unwrap_or_default()).expect("JSON");
        let options: Vec<&str> =
            error["options"].as_array().expect("options").iter().filter_map(Value::as_str).collect();
        assert!(options.contains(&option) && error["hint"].is_string(), "{key}: {error}");
    }
}
