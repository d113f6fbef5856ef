//! gperftools' CPU profiler: a profile that is written into a file.

pub(crate) mod aggregate;
pub(crate) mod control;
pub(crate) mod env;
pub(crate) mod file;
pub(crate) mod other_library;
pub(crate) mod static_path;
