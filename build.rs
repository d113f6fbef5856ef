//! Builds the agent (this same package, as a `no_std` cdylib with only the `agent` feature and
//! `--cfg sigtop_agent`) and hands its path to the viewer, which embeds the bytes. It ends there:
//! making a file of them is `attach/library.rs`.
//!
//! `SIGTOP_AGENT_SO=/path` takes a library built beforehand (distributions, cross builds).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Set in the nested build, which must not nest again.
const INNER: &str = "SIGTOP_BUILDING_AGENT";
const PREBUILT: &str = "SIGTOP_AGENT_SO";
/// For the bench of the handler alone: it reads the time-stamp counter, which a sandbox may forbid.
const TIMED: &str = "SIGTOP_TIMED_AGENT";

/// What the agent is made of: a change elsewhere (the screen) must not rebuild it.
/// Each path must exist, or cargo reruns this script on every build.
const AGENT_SOURCES: [&str; 7] =
    ["build.rs", "Cargo.toml", "src/lib.rs", "src/arch", "src/process", "src/wire", "src/agent"];

/// Variables of the outer cargo that would steer the nested one astray: its flags, its wrappers
/// (clippy!), its profile.
const STRAY_PREFIXES: [&str; 6] =
    ["CARGO_FEATURE_", "CARGO_CFG_", "CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_PROFILE_", "DEP_"];
const STRAY: [&str; 15] = [
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_MAKEFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "OUT_DIR",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(sigtop_agent, sigtop_timed)");
    for path in AGENT_SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in [INNER, PREBUILT, TIMED, "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os(INNER).is_some() || env::var_os("CARGO_FEATURE_VIEWER").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = match env::var_os(PREBUILT) {
        Some(path) => PathBuf::from(path),
        None if env::var_os("DOCS_RS").is_some() => empty_library(&out),
        None => build_agent(&out.join("agent")),
    };
    println!("cargo::rustc-env={PREBUILT}={}", library.display());
}

/// docs.rs builds documentation alone, without a linker for a nested build.
fn empty_library(out: &Path) -> PathBuf {
    let path = out.join("no-agent.so");
    std::fs::write(&path, b"").expect("OUT_DIR is writable");
    path
}

fn build_agent(dir: &Path) -> PathBuf {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    // A static musl viewer watches glibc programs all the same; the agent itself needs neither libc
    // in particular.
    let target = env::var("TARGET").expect("cargo sets TARGET").replace("-linux-musl", "-linux-gnu");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        if STRAY.contains(&&*name) || STRAY_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            cargo.env_remove(&key);
        }
    }
    cargo
        .current_dir(&root)
        .env(INNER, "1")
        .env("CARGO_TARGET_DIR", dir) // never the outer one: the outer cargo holds its lock
        .env("CARGO_BUILD_BUILD_DIR", dir)
        // Unwind tables although panic = "abort": the agent's own frames (a guarded call) are
        // walked like any other.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Cforce-unwind-tables=yes")
        .args(["rustc", "--lib", "--crate-type", "cdylib", "--no-default-features", "--features", "agent"])
        .args(["--profile", "agent", "--target", &target, "--target-dir"])
        .arg(dir);
    if root.join("Cargo.lock").exists() {
        cargo.arg("--locked");
    }
    // For the agent alone, not for its dependencies. Read-only relocations would be a mapping and
    // an mprotect(2) more in each process, and protect nothing: addresses of functions that the
    // agent jumps to are in its writable data anyway.
    cargo.args([
        "--",
        "--cfg=sigtop_agent",
        "-Cpanic=abort",
        "-Clink-arg=-Wl,-soname,libsigtop-agent.so",
        "-Clink-arg=-Wl,--as-needed,-z,nodelete,-z,now,-z,norelro,--hash-style=gnu",
    ]);
    if target.starts_with("aarch64") {
        // Atomic operations are instructions, not functions that ask libc for the processor's
        // features.
        cargo.arg("-Ctarget-feature=-outline-atomics");
    }
    if env::var_os(TIMED).is_some() {
        cargo.arg("--cfg=sigtop_timed");
    }
    match cargo.output() {
        Err(error) => eprintln!("error: cannot start cargo to build the agent: {error}"),
        Ok(output) if output.status.success() => return dir.join(target).join("agent/libsigtop.so"),
        Ok(output) => eprintln!("{}error: the agent did not build", String::from_utf8_lossy(&output.stderr)),
    }
    exit(1)
}
