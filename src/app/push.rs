//! `sigtop push`: sends a saved profile to a store.

use std::env;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::args::{PushArgs, StoreArgs};
use super::downloads::Downloads;
use super::failure::{Failure, print_message};
use super::progress::Stage;
use super::replay::ReplayOptions;
use super::report::{read_profile, symbolize};
use crate::pprof::profile::SavedProfile;
use crate::push::delivery::{PushCounts, PushLoss};
use crate::push::headers::{RequestHeaders, VARIABLES};
use crate::push::sender::Sender;
use crate::push::{Store, StoreKind};
use crate::tally::measure;

/// Maximum time for all attempts.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `sigtop push`.
pub(super) fn run(args: &PushArgs) -> Result<u8, Failure> {
    let mut store = open_store(&args.url, &args.store)?;
    let downloads = Downloads::new(&args.debug_information, &args.config)?;
    let (servers, progress) = (downloads.client().cloned(), downloads.progress().clone());
    let how = ReplayOptions { servers, progress, ..ReplayOptions::default() };
    let mut warnings = Vec::new();
    let failure = |error| Failure::new(Failure::INTERNAL, error);
    let mut profile = read_profile(&args.file, &how, &mut warnings).map_err(failure)?;
    symbolize(&mut profile, &downloads, &mut warnings).map_err(failure)?;
    warnings.iter().for_each(|warning| print_message(warning));
    if profile.samples.is_empty() {
        return Err(Failure::new(Failure::INTERNAL, format!("{}: there are no samples to push", args.file)));
    }
    if profile.time_ns == 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        profile.time_ns = (now.as_nanos() as i64).saturating_sub(profile.duration_ns);
    }
    store.name_program(&program(&profile, &args.file));
    let sender = Sender::start(store).map_err(|error| Failure::internal("cannot start a thread", error))?;
    downloads.progress().set(Stage::Write { name: args.url.clone() });
    sender.add(profile);
    let counts = sender.finish(PATIENCE);
    downloads.finish();
    let sentence = summarize(&counts, &args.url);
    if counts.lost() > 0 {
        return Err(Failure::new(Failure::INTERNAL, sentence));
    }
    print_message(&sentence);
    Ok(0)
}

/// Opens a store with the credentials of the arguments and the environment.
pub(super) fn open_store(url: &str, args: &StoreArgs) -> Result<Store, Failure> {
    let usage = |why: String| Failure::new(Failure::USAGE, why);
    let mut store = Store::new(url, args.push_format).map_err(|why| usage(format!("cannot push: {why}")))?;
    let mut headers = RequestHeaders::default();
    for variable in VARIABLES.iter().filter(|_| store.kind == StoreKind::Otlp) {
        if let Ok(text) = env::var(variable) {
            headers.add_from_variable(variable, &text).map_err(usage)?;
        }
    }
    if let Some(path) = &args.header_file {
        headers.add_from_file(path).map_err(usage)?;
    }
    let authorities = args.push_ca.as_deref().map(std::path::absolute).transpose();
    let authorities = authorities.map_err(|error| usage(format!("--push-ca: {error}")))?;
    if let Some(path) = authorities.as_ref().filter(|path| !path.is_file()) {
        return Err(usage(format!("--push-ca: {} is not a file", path.display())));
    }
    store.set_credentials(headers, authorities);
    store.set_labels(&args.label);
    Ok(store)
}

/// The name of the program of a profile, or of its file.
fn program(profile: &SavedProfile, file: &str) -> String {
    let main = profile.mappings.first().map(|main| main.file.to_string()).filter(|name| !name.is_empty());
    let path = main.unwrap_or_else(|| file.to_owned());
    Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned())
}

/// One sentence about what was delivered and what was lost, and why.
pub(super) fn summarize(counts: &PushCounts, url: &str) -> String {
    let requests = match counts.requests {
        1 => "1 request".to_owned(),
        requests => format!("{} requests", measure::count(requests)),
    };
    let mut sentence = format!("pushed {} samples to {url} in {requests}", measure::count(counts.delivered));
    let lost = PushLoss::ALL.into_iter().zip(counts.lost).filter(|(_, lost)| *lost > 0);
    let lost: Vec<String> = lost.map(|(cause, lost)| format!("{} {}", measure::count(lost), cause.words())).collect();
    if !lost.is_empty() {
        let why: Vec<&str> = counts.refusal.iter().chain(&counts.failure).map(String::as_str).collect();
        let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
        sentence += &format!("; {} samples were lost ({}){why}", measure::count(counts.lost()), lost.join(", "));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_named_with_its_reason() {
        let mut counts = PushCounts { delivered: 1094, requests: 1, ..PushCounts::default() };
        assert_eq!(summarize(&counts, "http://a"), "pushed 1 094 samples to http://a in 1 request");
        counts.lost[PushLoss::NotInTime as usize] = 5;
        counts.failure = Some("HTTP status 503".to_owned());
        let lost = "; 5 samples were lost (5 not in time): HTTP status 503";
        assert_eq!(summarize(&counts, "http://a"), format!("pushed 1 094 samples to http://a in 1 request{lost}"));
    }
}
