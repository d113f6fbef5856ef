//! The executable. Everything is in the library: see [`sigtop::app`].

use std::process::ExitCode;

fn main() -> ExitCode {
    sigtop::app::run()
}
