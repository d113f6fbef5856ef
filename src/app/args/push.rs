//! The arguments of `sigtop push`, and the options about stores that `sigtop record` has, too.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::groups::{ConfigArgs, SymbolArgs};
use super::parsers::keyword_parser;
use crate::push::StoreKind;
use crate::tui::command::options::duration;

/// The heading of [`StoreArgs`].
const HEADING: &str = "Stores";

/// Options about a profile store.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// Body of the requests to a store [default: by the URL's path, otlp if that tells nothing]
    #[arg(long, help_heading = HEADING, value_name = "KIND", value_parser = keyword_parser::<StoreKind>())]
    pub push_format: Option<StoreKind>,

    /// Attribute of the program in the store; may be repeated. service.name is its name [default:
    /// that of the program]
    #[arg(long, help_heading = HEADING, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub label: Vec<(String, String)>,

    /// Add the headers in this file to each request: lines of 'Name: value'. OTLP also reads
    /// OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub header_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub push_ca: Option<PathBuf>,
}

/// Options of a recording that is pushed.
#[derive(Args, Clone, Debug)]
pub struct RecordPushArgs {
    /// Send what is new to this store again and again, such as http://localhost:4318 (OTLP) or
    /// http://localhost:4040/ingest (Pyroscope), with or without a file
    #[arg(long, help_heading = HEADING, value_name = "URL")]
    pub push: Option<String>,

    /// Time between two pushes
    #[arg(long, help_heading = HEADING, value_name = "DURATION", value_parser = parse_interval, default_value = "10s", requires = "push")]
    pub push_every: Duration,

    /// Options about the store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Parses the time between two pushes.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < Duration::from_secs(1) { Err("expected at least 1s".to_owned()) } else { Ok(interval) }
}

/// Parses an attribute.
fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.chars().any(char::is_control) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE, such as service.name=checkout".to_owned()),
    }
}

/// The arguments of `sigtop push`.
#[derive(Args, Clone, Debug)]
pub struct PushArgs {
    /// A recording, also one of perf (perf.data), or a profile in any supported format. `-` is
    /// stdin
    #[arg(value_name = "FILE")]
    pub file: String,

    /// The store, such as http://localhost:4318 (OTLP) or http://localhost:4040/ingest (Pyroscope)
    #[arg(value_name = "URL")]
    pub url: String,

    /// Options about the store.
    #[command(flatten)]
    pub store: StoreArgs,

    /// Options of the symbols.
    #[command(flatten)]
    pub debug_information: SymbolArgs,

    /// The config file to use.
    #[command(flatten)]
    pub config: ConfigArgs,
}
