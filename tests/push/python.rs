//! The classes of OpenTelemetry for Python, which are not ours, decode what is sent.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use sigtop::pprof::format;

use crate::receiver::{accept_all, gunzip, profile, push};
use crate::skips::{are_installed, skip};

fn quiet(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The interpreter of an environment in the directory of this name, which has a package from PyPI
/// and is kept between runs; `None` if that cannot be installed.
pub(crate) fn python(name: &str, package: &str, test: &str) -> Option<PathBuf> {
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = environment.join("bin/python");
    let has_package = || quiet(Command::new(&python).args(["-c", test]));
    let install = || {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            && quiet(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))
            && has_package()
    };
    (has_package() || install()).then(|| python.clone())
}

/// The flat sums of a file's last quantity, by name of function.
fn flat_of(file: &Path) -> BTreeMap<String, i64> {
    let mut profile = format::read(std::fs::File::open(file).expect("a file")).expect("a profile");
    profile.demangle();
    let value = profile.sample_types.len() - 1;
    let mut flat = BTreeMap::new();
    profile.samples.for_each(|sample| {
        let leaf = sample.stack.first().and_then(|&leaf| profile.locations[leaf as usize].lines.first());
        let name = leaf.map_or(String::new(), |line| profile.functions[line.function as usize].name.to_string());
        *flat.entry(name).or_default() += sample.values[value];
    });
    flat.retain(|_, sum| *sum != 0);
    flat
}

#[test]
fn official_classes_decode_the_same_sums_names_and_labels() {
    if !are_installed(&["curl"]) {
        return;
    }
    let package = "opentelemetry-proto==1.45.*";
    let import = "import opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2";
    let Some(python) = python("opentelemetry-python", package, import) else {
        return skip("opentelemetry-proto of PyPI cannot be installed");
    };
    for (name, labels) in [("ours.pb.gz", true), ("go-cpu.pb.gz", false), ("go-heap.pb.gz", false)] {
        let (url, received) = accept_all();
        let (status, said) = push(&profile(name), &url, &["--label=service.name=checkout", "--label=zone=a"]);
        assert_eq!(status, 0, "{said}");
        let mut decoded = Vec::new();
        for request in received.try_iter() {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/push/decode.py");
            let mut child = Command::new(&python);
            let mut child = child.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python");
            child.stdin.take().expect("a pipe").write_all(&gunzip(&request.body)).expect("written");
            let output = child.wait_with_output().expect("python ends");
            assert!(output.status.success(), "{name}");
            let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            decoded.extend(all.as_array().expect("a list").clone());
        }
        let last = decoded.last().expect("a profile");
        assert_eq!(last["resource"]["service.name"], "checkout");
        assert_eq!(last["resource"]["zone"], "a");
        let flat: BTreeMap<String, i64> = last["flat"]
            .as_object()
            .expect("sums")
            .iter()
            .map(|(name, sum)| (name.clone(), sum.as_i64().expect("a sum")))
            .collect();
        assert_eq!(flat, flat_of(&profile(name)), "{name}");
        let keys: Vec<&str> = last["labels"].as_array().expect("keys").iter().filter_map(Value::as_str).collect();
        assert_eq!(keys.contains(&"pid") && keys.contains(&"tid"), labels && name == "ours.pb.gz", "{name}: {keys:?}");
    }
}
