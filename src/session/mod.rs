//! A session watches one target, from launch or attach to the end, or plays one recording. It owns
//! the threads between sockets and screen and the channels between them.
//!
//! ```text
//! agents ──> link ──┐                          ┌──> recorder ──> recording writer ──> file
//!                   ├──> session thread (model)┤
//! recording ────────┘        │       ^         └──> symbols and source threads, and back
//!                     Notice v       │ Command
//!                            screen or batch loop
//! ```
//!
//! The screen (or the batch loop) sends [`Command`]s and receives [`Notice`]s. A [`Question`] says
//! what to compute; the [`Answer`] has the tables and the [`Facts`] of the header. Nothing here
//! draws.

mod attach_retry;
mod baseline;
mod black_box;
mod code_cache;
mod conclusion;
mod cpu_meter;
mod export;
mod finished;
mod generated_code;
mod handle;
mod header_facts;
mod import;
mod java_advice;
mod live;
mod measured_time;
mod merge;
mod model;
mod overhead_limiter;
mod player;
mod process_trees;
mod protocol;
mod recorder;
mod recording_spool;
mod recording_writer;
mod sampling_cost;
mod sampling_error;
mod save;
mod scheduler;
mod session_thread;
mod settings;
mod shown_samples;
mod socket_names;
mod thread_states;
mod throttling;
mod timed_replay;
mod unsampled_time;
mod warning;
mod without_agent;

pub use black_box::BlackBox;
pub use code_cache::{MAX_COPIES, SourceListing, SourceResult};
pub use export::to_saved_profile;
pub use finished::FinishedSession;
pub use handle::Session;
pub use header_facts::{Facts, StackQuality, TargetExit, unread_reason};
pub use merge::{NamedSource, merge};
pub use model::Model;
pub use player::PlaybackSource;
pub use protocol::{Answer, Command, HistoryWindow, Notice, Question};
pub use recorder::RecordingOptions;
pub use recording_writer::{RecordingOutput, SavedFile};
pub use save::{SaveInput, SaveRequest, SavedPart};
pub use scheduler::ANSWER_NS;
pub use settings::{Settings, WatchTarget};
pub use shown_samples::ShownSamples;
pub use unsampled_time::Unsampled;
