//! The command line: its arguments, and the defaults of options that neither the command line nor
//! the config file sets.

pub mod check;
mod cli;
pub mod dashes;
mod explain;
mod groups;
pub mod help;
pub mod hoist;
pub mod mistakes;
mod parsers;
mod push;
mod record;
pub mod report;
mod watch;

pub use check::CheckArgs;
pub use cli::{Cli, CliSubcommand};
pub use explain::ExplainArgs;
pub use groups::{ConfigArgs, DisplayArgs, SamplingArgs, ScreenArgs, StackArgs, SymbolArgs};
pub use parsers::{ProcessSelector, parse_selector};
pub use push::{PushArgs, StoreArgs};
pub use record::{RecordArgs, ViewArgs};
pub use watch::WatchArgs;
