//! `sigtop env`: prints the shell command that loads the agent into programs started afterwards.

use std::path::Path;

use super::failure::Failure;
use crate::attach::libprofiler;
use crate::attach::library::{AgentDirectories, preload_value};
use crate::attach::quote_command;

/// Runs `sigtop env`.
pub(super) fn run(path_only: bool, libprofiler: Option<&Path>, header: bool) -> Result<u8, Failure> {
    if header {
        print!("{}", include_str!("../../assets/sigtop.h"));
        return Ok(0);
    }
    if let Some(directory) = libprofiler {
        let directory = libprofiler::fill(directory)?;
        println!("{}", libprofiler::shell_command(&directory, std::env::var_os("LD_LIBRARY_PATH").as_deref()));
        return Ok(0);
    }
    let library = AgentDirectories::of_user().library()?;
    if path_only {
        println!("{}", library.display());
    } else {
        let value = preload_value(std::env::var_os("LD_PRELOAD").as_deref(), &library);
        println!("export LD_PRELOAD={}", quote_command(&[value]));
    }
    Ok(0)
}
