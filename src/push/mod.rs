//! Sends profiles to stores: OpenTelemetry collectors, Pyroscope, Parca and Datadog's agent.
//!
//! [`parts`] divides a profile into what a store takes, and there is one file for each store that
//! makes the body of a request. [`curl`] sends it, and [`response`] says what the answer means.
//! [`delivery`] decides without a clock or a thread of its own what is sent when and what is given
//! up; [`sender`] is the thread that obeys it.

pub mod curl;
mod datadog;
pub mod delivery;
pub mod headers;
mod otlp;
mod parca;
mod parts;
mod pyroscope;
mod request;
pub mod response;
pub mod sender;
pub mod store;

pub use parts::{PushPart, divide};
pub use store::{Store, StoreKind};
