//! gperftools' own library, if it is loaded in the same process.

use core::ffi::{CStr, c_char, c_int};

use crate::agent::os::loader;

/// gperftools' `ProfilerState`.
#[repr(C)]
pub(crate) struct ProfilerState {
    pub(crate) enabled: c_int,
    pub(crate) start_time: i64,
    pub(crate) profile_name: [c_char; 1024],
    pub(crate) samples_gathered: c_int,
}

/// Whether gperftools' own library is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherProfiler {
    /// It is not loaded.
    None,
    /// It is loaded before this library, so its functions are called, and the agent must not
    /// profile.
    First,
    /// It is loaded after this library.
    Later,
}

/// Returns whether it is loaded after this library, and may have started a profile.
pub(crate) fn is_loaded_later() -> bool {
    loader::next_definition(c"ProfilerStop", loader::own_dynamic()) != 0
}

/// Looks for gperftools' own library. If it has started a profile nevertheless, stops it and
/// returns the name of its file.
///
/// # Safety
/// Only the constructor may call it.
pub(crate) unsafe fn stop_other() -> (OtherProfiler, Option<[c_char; 1024]>) {
    let here = loader::own_dynamic();
    if loader::is_defined_before(c"ProfilerStart", here) {
        return (OtherProfiler::First, None);
    }
    let real = |name: &CStr| loader::next_definition(name, here);
    let (enabled, get_state, stop) =
        (real(c"ProfilingIsEnabledForAllThreads"), real(c"ProfilerGetCurrentState"), real(c"ProfilerStop"));
    if enabled == 0 || get_state == 0 || stop == 0 {
        return (OtherProfiler::None, None);
    }
    let mut running = None;
    // SAFETY: gperftools' functions of these names and types.
    unsafe {
        let enabled: extern "C" fn() -> c_int = core::mem::transmute(enabled);
        if enabled() != 0 {
            let get_state: extern "C" fn(*mut ProfilerState) = core::mem::transmute(get_state);
            let stop: extern "C" fn() = core::mem::transmute(stop);
            let mut state: ProfilerState = core::mem::zeroed();
            get_state(&raw mut state);
            stop();
            running = Some(state.profile_name);
        }
    }
    (OtherProfiler::Later, running)
}
