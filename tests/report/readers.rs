//! Exports are judged by their own readers: inferno, callgrind_annotate, graphviz, gperftools' and
//! Go's pprof, speedscope's importer and schema, and the Firefox Profiler's command line. Each
//! refuses a damaged file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use sigtop::pprof::format::{self, SaveFormat};
use sigtop::pprof::profile::{Location, SavedProfile};
use sigtop::pprof::report::{ReportKind, ReportOptions, generate, prepare};

use crate::making::tests;
use crate::skips::{are_installed, skip};

/// Profiles of several programs and units.
const PROFILES: [&str; 4] = ["ours.pb.gz", "go-cpu.pb.gz", "go-heap.pb.gz", "mixed.pb.gz"];

/// Imports a file by speedscope's own importer. That is a part of its page, which cannot be drawn
/// here, and need not be. Prints the self and the total weight of each function.
const SPEEDSCOPES_IMPORTER: &str = r#"
const fs = require("fs"), path = require("path"), [release, file] = process.argv.slice(2), parts = [];
const page = new Proxy(function () {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => "" : page), apply: () => page, construct: () => page,
});
const load = (part) => { parts.push(Promise.resolve().then(part)); return parts.at(-1); };
Object.assign(globalThis, { window: globalThis, document: page, location: page, load });
console.log = () => {};
const bundle = path.join(release, fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name)));
try { (0, eval)(fs.readFileSync(bundle, "utf8").replaceAll("Promise.resolve().then(", "load(")); } catch {}
(async () => {
    const importer = (await Promise.all(parts)).find((part) => part?.importProfilesFromArrayBuffer);
    if (!importer) process.exit(3);
    const buffer = new Uint8Array(fs.readFileSync(file)).buffer;
    const group = await importer.importProfilesFromArrayBuffer(path.basename(file), buffer), functions = {};
    for (const profile of group.profiles) {
        const factor = profile.getWeightUnit() === "nanoseconds" ? 1e-6 : 1;
        profile.samples.forEach((leaf, at) => {
            const names = [], weight = profile.weights[at] * factor;
            for (let node = leaf; !node.isRoot(); node = node.parent) names.push(node.frame.name);
            new Set(names).forEach((name) => { (functions[name] ??= [0, 0])[1] += weight; });
            if (names.length > 0) functions[names[0]][0] += weight;
        });
    }
    process.stdout.write(JSON.stringify(functions));
})().catch((error) => { console.error(error.message); process.exit(1); });
"#;

/// Checks one file of `--speedscope` against the schema, and that JavaScript writes what it has read
/// byte for byte, so that no number loses digits. Prints the sum of all weights.
const SPEEDSCOPE: &str = r#"
const fs = require("fs"), text = fs.readFileSync(process.argv[2], "utf8"), file = JSON.parse(text);
const again = JSON.stringify(file) + "\n", at = [...again].findIndex((letter, at) => letter !== text[at]);
if (again !== text) throw new Error(`${text.slice(at, at + 40)} is read as ${again.slice(at, at + 40)}`);
const schema = JSON.parse(fs.readFileSync(require.resolve("speedscope/dist/release/file-format-schema.json")));
const Ajv = require("ajv"), check = new Ajv({ strict: false, allErrors: true }).compile(schema);
if (!check(file)) throw new Error(JSON.stringify(check.errors.slice(0, 5)));
const weights = file.profiles.flatMap((profile) => profile.weights);
console.log(weights.reduce((sum, weight) => sum + weight, 0));
"#;

fn read(name: &str) -> SavedProfile {
    let file = fs::File::open(tests().join("profiles").join(name)).expect("a profile");
    let mut saved = format::read(file).expect("a readable profile");
    prepare(&mut saved, true);
    saved
}

/// Writes an export to a scratch file.
fn written(name: &str, kind: &str, extension: &str) -> PathBuf {
    let options = ReportOptions {
        kind: ReportKind::from_path(format!("x.{extension}").as_ref()).expect("a format"),
        call_tree: kind == "tree",
        zone: jiff::tz::TimeZone::UTC,
        ..ReportOptions::default()
    };
    let mut out = Vec::new();
    generate(&mut out, read(name), &options).expect("an export");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("reader-{kind}-{name}.{extension}"));
    fs::write(&path, out).expect("a scratch file");
    path
}

/// Runs a reader. Returns its output.
fn output(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    output_of(&ran, command)
}

/// Returns the output of a reader that ran well.
fn output_of(ran: &Output, command: &Command) -> String {
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Checks that a reader refuses a file.
fn assert_refused(command: &mut Command, damaged: impl AsRef<[u8]>) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("reader-damaged-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, damaged).expect("a scratch file");
    let ran = command.arg(&path).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(!ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stdout));
}

/// The sum of the widths of each function's boxes in a flame graph.
type Boxes = BTreeMap<String, i64>;

/// Returns the boxes of folded stacks. Those without a positive width are not drawn.
fn boxes_of_stacks(folded: &str) -> Boxes {
    let mut boxes = Boxes::new();
    for line in folded.lines() {
        let (stack, width) = line.rsplit_once(' ').expect("a stack and a number");
        let width: i64 = width.parse().expect("a number");
        for name in stack.split(';').chain(["all"]).filter(|_| width > 0) {
            *boxes.entry(name.to_owned()).or_default() += width;
        }
    }
    boxes
}

/// Returns the boxes that inferno draws. They have titles: `main (1,234 samples, 12.34%)`.
fn boxes_by_inferno(folded: &str) -> Result<Boxes, String> {
    let (mut options, mut svg) = (inferno::flamegraph::Options::default(), Vec::new());
    options.min_width = 0.0;
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut svg).map_err(|error| error.to_string())?;
    let mut boxes = Boxes::new();
    for title in String::from_utf8(svg).expect("UTF-8").split("<title>").skip(1) {
        let (name, rest) = title.split("</title>").next().and_then(|title| title.rsplit_once(" (")).expect("a title");
        let escapes = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
        let name = escapes.iter().fold(name.to_owned(), |name, (escape, letter)| name.replace(escape, letter));
        let width = rest.split(' ').next().expect("a number").replace(',', "");
        *boxes.entry(name).or_default() += width.parse::<i64>().expect("a number");
    }
    Ok(boxes)
}

#[test]
fn inferno_draws_all_boxes_of_folded_stacks() {
    let folded = |saved: SavedProfile| {
        let options = ReportOptions { kind: SaveFormat::Folded.into(), ..ReportOptions::default() };
        let mut out = Vec::new();
        generate(&mut out, saved, &options).expect("an export");
        String::from_utf8(out).expect("UTF-8")
    };
    for name in PROFILES {
        let text = folded(read(name));
        assert_eq!(boxes_by_inferno(&text), Ok(boxes_of_stacks(&text)), "{name}");
    }
    // Regression test: a number at the end of a name was taken for a count.
    let mut saved = read("ours.pb.gz");
    saved.functions.iter_mut().filter(|function| *function.name == *"memmove").for_each(|function| {
        function.name = "worker 3".into();
    });
    let text = folded(saved);
    assert!(text.contains(";worker (3) "), "{text}");
    assert_eq!(boxes_by_inferno(&text), Ok(boxes_of_stacks(&text)));
    let damaged = text.replace("(3)", "3");
    assert_ne!(boxes_by_inferno(&damaged), Ok(boxes_of_stacks(&damaged)));
    assert!(boxes_by_inferno("main;a\n").is_err());
}

#[test]
fn callgrind_annotate_reads_graphs_and_trees() {
    if !are_installed(&["callgrind_annotate"]) {
        return;
    }
    let annotated = |file: &Path| {
        let said = output(Command::new("callgrind_annotate").arg(file));
        let totals = said.lines().find_map(|line| line.split_once(" (100.0%)  PROGRAM TOTALS"));
        totals.unwrap_or_else(|| panic!("{said}")).0.replace(',', "")
    };
    for (name, kind) in PROFILES.iter().flat_map(|name| [(name, "graph"), (name, "tree")]) {
        let file = written(name, kind, "callgrind");
        let text = fs::read_to_string(&file).expect("text");
        // Every call has two lines, of which the second has the cost of the callee.
        let (costs, calls): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| !line.starts_with("* * "));
        let costs = costs.iter().filter(|line| line.starts_with(['+', '-', '*', '0']));
        let own: i64 =
            costs.map(|line| line.rsplit(' ').next().expect("a word").parse::<i64>().expect("a number")).sum();
        assert_eq!(annotated(&file), own.to_string(), "{name} {kind}");
        // Regression test: costs of calls were taken for the callers' own.
        let damaged = file.with_extension("damaged");
        fs::write(&damaged, text.replace("\ncalls=1 ", "\ncalls=0 ")).expect("a scratch file");
        assert!(!calls.is_empty() && annotated(&damaged) != own.to_string(), "{name} {kind}");
        assert_refused(&mut Command::new("callgrind_annotate"), text.replace("events:", ""));
    }
}

#[test]
fn graphviz_draws_graphs_and_trees() {
    if !are_installed(&["dot"]) {
        return;
    }
    for (name, kind) in PROFILES.iter().flat_map(|name| [(name, "graph"), (name, "tree")]) {
        let drawn = output(Command::new("dot").arg("-Tsvg").arg(written(name, kind, "dot")));
        assert!(drawn.contains("</svg>"), "{name} {kind}");
    }
    let damaged = fs::read_to_string(written(PROFILES[0], "graph", "dot")).expect("text");
    assert_refused(Command::new("dot").arg("-Tsvg"), damaged.replace("->", "<-"));
}

#[test]
fn go_pprof_reads_what_sigtop_reads() {
    if !are_installed(&["go"]) {
        return;
    }
    let go = || {
        let mut command = Command::new("go");
        command.args(["tool", "pprof", "-symbolize=none", "-raw"]).env("PPROF_BINARY_PATH", "/nowhere");
        command
    };
    for name in PROFILES {
        let file = written(name, "samples", "pb.gz");
        let mut own = Command::new(env!("CARGO_BIN_EXE_sigtop"));
        own.args(["report", "--symbolize=none", "--raw"]).arg(&file);
        assert_eq!(output(go().env("TZ", "UTC").arg(&file)), output(own.env("TZ", "UTC")), "{name}");
        let bytes = fs::read(&file).expect("it was written");
        assert_refused(&mut go(), &bytes[..bytes.len() / 2]);
    }
}

/// Installs packages of npm into a directory of their own, and returns it. They are fetched by long
/// runs alone.
fn npm_packages(what: &str, packages: &[&str]) -> Option<PathBuf> {
    if std::env::var_os("SIGTOP_LONG").is_none() {
        skip(&format!("{what}, as SIGTOP_LONG is not set"));
        return None;
    }
    if !are_installed(&["npm"]) {
        return None;
    }
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(what.replace([' ', '\''], "-"));
    fs::create_dir_all(&directory).expect("a scratch directory");
    let mut install = Command::new("npm");
    install.args(["install", "--silent", "--no-fund", "--no-audit"]).args(packages).current_dir(&directory);
    let is_fetched = install.status().expect("npm runs").success();
    if !is_fetched {
        skip(&format!("{what}, which npm cannot install"));
    }
    is_fetched.then_some(directory)
}

#[test]
fn speedscope_files_fit_the_schema_of_speedscope() {
    let Some(directory) = npm_packages("speedscope's schema", &["speedscope@1.25.0", "ajv@8"]) else { return };
    fs::write(directory.join("check.js"), SPEEDSCOPE).expect("a script");
    for name in PROFILES {
        let file = written(name, "list", "speedscope.json");
        let sum = output(Command::new("node").arg("check.js").arg(&file).current_dir(&directory));
        let saved = read(name);
        let value = saved.value_index("").expect("a value");
        // A negative value has no place on a time axis.
        if saved.samples.values(value).all(|value| value >= 0) {
            let total: i64 = saved.samples.values(value).sum();
            assert_eq!(sum.trim(), total.to_string(), "{name}");
        }
    }
}

/// The time or size of each function by itself, and of it with its callees.
type Weights = BTreeMap<String, [f64; 2]>;

/// Adds up the weights of a profile as it was read. Times are in milliseconds. `nameless` names the
/// locations without a function.
fn weights(saved: &SavedProfile, nameless: impl Fn(&Location) -> String) -> Weights {
    let value = saved.value_index("").expect("a value");
    let unit = if saved.sample_types[value].unit == "nanoseconds" { 1e-6 } else { 1.0 };
    let mut weights = Weights::new();
    saved.samples.for_each(|sample| {
        let frames = sample.stack.iter().flat_map(|&location| {
            let location = &saved.locations[location as usize];
            let names = location.lines.iter().map(|line| saved.functions[line.function as usize].name.to_string());
            let address = location.lines.is_empty().then(|| nameless(location));
            names.chain(address).collect::<Vec<String>>()
        });
        let frames: Vec<String> = frames.collect();
        let weight = sample.values[value] as f64 * unit;
        // Samples that weigh nothing are in no export.
        if weight == 0.0 {
            return;
        }
        if let Some(leaf) = frames.first() {
            weights.entry(leaf.clone()).or_default()[0] += weight;
        }
        for name in frames.into_iter().collect::<BTreeSet<String>>() {
            weights.entry(name).or_default()[1] += weight;
        }
    });
    weights
}

fn assert_shown(name: &str, shown: &Weights, expected: &Weights) {
    assert!(expected.len() > 4, "{name}: {expected:?}");
    assert!(shown.keys().eq(expected.keys()), "{name}: {shown:?}, not {expected:?}");
    for (function, sums) in shown {
        let is_near = |(shown, expected): (&f64, &f64)| (shown - expected).abs() <= 1e-6 * expected.abs();
        assert!(sums.iter().zip(&expected[function]).all(is_near), "{name}: {function}: {sums:?}");
    }
}

/// Returns the directory of speedscope's page, if the program `speedscope` is installed.
fn speedscopes_page() -> Option<PathBuf> {
    are_installed(&["node", "speedscope"]).then_some(())?;
    let path = std::env::var_os("PATH")?;
    let program =
        std::env::split_paths(&path).map(|directory| directory.join("speedscope")).find(|path| path.is_file());
    Some(fs::canonicalize(program?).ok()?.parent()?.parent()?.join("dist/release"))
}

#[test]
fn speedscope_shows_the_weights_of_every_function() {
    let Some(page) = speedscopes_page() else { return };
    let script = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("import.js");
    fs::write(&script, SPEEDSCOPES_IMPORTER).expect("a script");
    let importer = || {
        let mut command = Command::new("node");
        command.arg(&script).arg(&page);
        command
    };
    for name in PROFILES {
        let file = written(name, "list", "speedscope.json");
        let mut command = importer();
        let ran = command.arg(&file).output().expect("node");
        if ran.status.code() == Some(3) {
            return skip("speedscope, whose importer is not found in this version");
        }
        let said = output_of(&ran, &command);
        let shown: BTreeMap<String, Value> = serde_json::from_str(&said).expect("JSON");
        let number = |value: &Value| value.as_f64().expect("a number");
        let shown = shown.into_iter().map(|(name, sums)| (name, [number(&sums[0]), number(&sums[1])])).collect();
        let mut saved = read(name);
        let value = saved.value_index("").expect("a value");
        // Other values have no place on a time axis.
        saved.samples.retain_values(|values| values[value] > 0);
        let object = |location: &Location| match saved.object(location).rsplit('/').next().unwrap_or_default() {
            "" => format!("{:#x}", location.address),
            object => format!("[{object}]"),
        };
        assert_shown(name, &shown, &weights(&saved, object));
    }
    let damaged = fs::read_to_string(written(PROFILES[0], "list", "speedscope.json")).expect("text");
    assert_refused(&mut importer(), damaged.replace("\"samples\":[[", "\"samples\":[[999,"));
}

/// The Firefox Profiler's command line. A daemon of its own holds the profile that it has loaded.
struct FirefoxProfiler<'a> {
    directory: &'a Path,
}

impl FirefoxProfiler<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("node");
        command.arg("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js").args(arguments);
        command.current_dir(self.directory).env("PROFILER_CLI_SESSION_DIR", self.directory.join("sessions"));
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let said = output(self.command(arguments).arg("--json"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
    }

    /// Returns what it shows of the functions of all threads.
    fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        for thread in self.json(&["thread", "list"])["threads"].as_array().expect("threads") {
            let handle = thread["threadHandle"].as_str().expect("a handle");
            let shown = self.json(&["thread", "functions", "--include-idle", "--limit", "0", "--thread", handle]);
            for function in shown["functions"].as_array().expect("functions") {
                let sums = weights.entry(function["name"].as_str().expect("a name").to_owned()).or_default();
                for (sum, key) in sums.iter_mut().zip(["selfSamples", "totalSamples"]) {
                    *sum += function[key].as_f64().expect("a number");
                }
            }
        }
        weights
    }
}

impl Drop for FirefoxProfiler<'_> {
    fn drop(&mut self) {
        drop(self.command(&["stop", "--all"]).stdout(Stdio::null()).status());
    }
}

#[test]
fn the_firefox_profiler_shows_the_weights_of_every_function() {
    let package = "@firefox-devtools/profiler-cli@0.10.0";
    let Some(directory) = npm_packages("the Firefox Profiler", &[package]) else { return };
    for name in PROFILES {
        let profiler = FirefoxProfiler { directory: &directory };
        output(&mut profiler.command(&["load", written(name, "list", "firefox.json").to_str().expect("UTF-8")]));
        let expected = weights(&read(name), |location| format!("{:#x}", location.address));
        assert_shown(name, &profiler.weights(), &expected);
    }
    let profiler = FirefoxProfiler { directory: &directory };
    let damaged = fs::read_to_string(written(PROFILES[0], "list", "firefox.json")).expect("text");
    assert_refused(&mut profiler.command(&["load"]), damaged.replace("stackTable", "table"));
}
