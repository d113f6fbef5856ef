//! `sigtop` without arguments and without a terminal: lists what can be watched, and how to start.

use serde_json::{Value, json};

use super::failure::Failure;
use crate::attach::find::{self, AttachableProcess};
use crate::attach::proc;
use crate::symbols::sanitize::sanitize;

/// Prints the overview.
pub(super) fn run(json: bool) -> Result<u8, Failure> {
    let own = std::process::id();
    let processes: Vec<AttachableProcess> =
        find::attachable_processes().into_iter().filter(|process| process.pid != own).collect();
    if json {
        let processes: Vec<Value> = processes.iter().map(process_json).collect();
        let hides_others = proc::hides_others();
        let list = json!({"schema": "sigtop.processes.v1", "hides_others": hides_others, "processes": processes});
        println!("{list}");
        return Ok(0);
    }
    if processes.is_empty() {
        println!("No running process can be watched.");
    } else {
        println!("Processes that can be watched:");
        for AttachableProcess { pid, comm, method, .. } in &processes {
            println!("  {pid:>8}  {:<12}  {}", method.label(), sanitize(comm));
        }
    }
    if proc::hides_others() {
        println!("/proc hides the processes of other users (hidepid).");
    }
    println!(
        "\nUsage:\n  sigtop -- ./app              start a program and profile it\n  \
         sigtop --pid {}        profile a running process\n  \
         sigtop demo                  profile a demo program\n\nSee sigtop --help for more.",
        processes.first().map_or("PID   ".to_owned(), |process| format!("{:<6}", process.pid))
    );
    Ok(0)
}

fn process_json(process: &AttachableProcess) -> Value {
    let AttachableProcess { pid, comm, uid, method, .. } = process;
    json!({"pid": pid, "name": sanitize(comm), "uid": uid, "method": method.label()})
}
