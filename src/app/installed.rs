//! Prints what a package installs beside the program, and `cargo install` does not: the man page and
//! the completions of a shell.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::args::Cli;
use super::failure::Failure;

/// The man page, which tests/manual makes from the tables of the program.
const MAN_PAGE: &str = include_str!("../../assets/sigtop.1");

/// Prints the man page, as groff reads it.
pub(super) fn print_man_page() -> Result<u8, Failure> {
    print(MAN_PAGE.as_bytes())
}

/// Prints the completions of a shell.
pub(super) fn print_completions(shell: Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    generate(shell, &mut Cli::command(), "sigtop", &mut text);
    print(&text)
}

fn print(text: &[u8]) -> Result<u8, Failure> {
    match io::stdout().write_all(text) {
        Ok(()) => Ok(0),
        // A pager that has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(Failure::internal("cannot write to the standard output", error)),
    }
}
