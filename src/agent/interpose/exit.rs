//! `_exit(2)`, which ends the process without running destructors. Most fork children end this way,
//! and short ones end before the agent thread has sent their samples.

use crate::agent::interpose::hook::hooks;
use crate::agent::os::libc_functions;
use crate::agent::start;

hooks! { before_exit:
    _exit, libc_functions::EXIT;
    _Exit, libc_functions::ISO_EXIT;
}

/// Has the agent thread send what it holds, as at exit(3). A vfork child passes through, because
/// the agent does not belong to it.
extern "C" fn before_exit() {
    if start::prepare() {
        start::destructor();
    }
}
