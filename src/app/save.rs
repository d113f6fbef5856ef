//! The file that `--save` or `sigtop record -o` writes: a recording that grows during the watch, or
//! another format that is written at the end.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::link::atomic_file::{self, AtomicFile, AtomicFileError};
use crate::pprof::format::SaveFormat;
use crate::session::{FinishedSession, RecordingOutput, SavedFile};

/// The destination and format in which a watch is saved.
#[derive(Debug)]
pub(super) enum SaveTarget {
    /// A recording, written during the watch.
    Recording,
    /// A file in another format, written at the end. Until then, its temporary file contains a
    /// recording.
    File(PathBuf, SaveFormat),
    /// A stream in another format, written at the end.
    Stream(File, SaveFormat),
}

/// The reason why a watch could not be saved.
#[derive(Debug)]
pub(super) enum SaveError {
    /// The file could not be written.
    Write(AtomicFileError),
    /// The format cannot represent the samples, or there are none: a sentence.
    Convert(String),
    /// The file's extension belongs to no format.
    UnknownExtension(PathBuf),
}

impl From<AtomicFileError> for SaveError {
    fn from(error: AtomicFileError) -> SaveError {
        SaveError::Write(error)
    }
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Write(error) => write!(f, "{error}"),
            SaveError::Convert(message) => f.write_str(message),
            SaveError::UnknownExtension(path) => write!(
                f,
                "{}: unknown extension .{}; use {}, or name the format with --format",
                path.display(),
                path.extension().unwrap_or_default().display(),
                SaveFormat::list_extensions()
            ),
        }
    }
}

impl std::error::Error for SaveError {}

impl SaveError {
    /// Whether the reader closed the pipe.
    pub(super) fn is_hangup(&self) -> bool {
        matches!(self, SaveError::Write(error) if error.is_hangup())
    }
}

impl SaveTarget {
    /// The target for a path: in `format` if there is one, else in the format of the path's
    /// extension; a path without an extension is a recording. Also returns where the recording is
    /// written to during the watch.
    ///
    /// # Errors
    /// The file cannot be created, or the extension is unknown.
    pub(super) fn from_path(
        path: &Path,
        format: Option<SaveFormat>,
    ) -> Result<(SaveTarget, Option<RecordingOutput>), SaveError> {
        let format = format.or(SaveFormat::from_path(path).map(|(format, _)| format));
        if format.is_none() && path.extension().is_some_and(|extension| !extension.is_empty()) {
            return Err(SaveError::UnknownExtension(path.to_owned()));
        }
        let file = AtomicFile::create(path)?;
        let Some(format) = format.filter(|&format| format != SaveFormat::Recording) else {
            return Ok((SaveTarget::Recording, Some(RecordingOutput::File(file))));
        };
        // A device or a pipe has no temporary file, and must not receive the recording.
        let draft = file.temporary_path().is_some().then_some(RecordingOutput::Draft(file));
        Ok((SaveTarget::File(path.to_owned(), format), draft))
    }

    /// The target for a stream: in `format`, or a recording.
    pub(super) fn from_stream(stream: File, format: Option<SaveFormat>) -> (SaveTarget, Option<RecordingOutput>) {
        match format.filter(|&format| format != SaveFormat::Recording) {
            None => (SaveTarget::Recording, Some(RecordingOutput::Stream(stream))),
            Some(format) => (SaveTarget::Stream(stream, format), None),
        }
    }

    /// Whether all symbols must be resolved before the end.
    pub(super) fn needs_symbols(&self) -> bool {
        !matches!(self, SaveTarget::Recording)
    }

    /// Whether the session must keep the time of every sample.
    pub(super) fn needs_sample_times(&self) -> bool {
        match self {
            SaveTarget::Recording => false,
            SaveTarget::File(_, format) | SaveTarget::Stream(_, format) => format.has_time_axis(),
        }
    }

    /// Completes the file. Returns `None` if nothing was recorded.
    ///
    /// # Errors
    /// The reason for the failure. Recorded samples remain in the temporary file.
    pub(super) fn save(self, mut finished: FinishedSession) -> Result<Option<SavedFile>, SaveError> {
        let recorded = finished.recording.take().transpose();
        match self {
            SaveTarget::Recording => Ok(recorded?),
            SaveTarget::File(path, format) => {
                // A recording that is no longer needed, or empty. If it cannot be removed, it does
                // no harm.
                let remove_recording = || {
                    if let Ok(Some(SavedFile { path: Some(temporary), .. })) = &recorded {
                        let _ = fs::remove_file(temporary);
                    }
                };
                let bytes = finished.save_all(format).map_err(|reason| {
                    if finished.model.profile.stack_quality().samples == 0 {
                        remove_recording();
                    }
                    SaveError::Convert(reason)
                })?;
                let written = atomic_file::write(&path, &[bytes])?;
                remove_recording();
                Ok(Some(SavedFile { path: Some(path), bytes: written }))
            }
            SaveTarget::Stream(mut stream, format) => {
                let bytes = finished.save_all(format).map_err(SaveError::Convert)?;
                let written = stream.write_all(&bytes).and_then(|()| stream.flush());
                written.map_err(|cause| AtomicFileError { path: "stdout".into(), cause })?;
                Ok(Some(SavedFile { path: None, bytes: bytes.len() as u64 }))
            }
        }
    }
}
