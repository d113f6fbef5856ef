//! Hooks: functions of libc before which the agent runs code of its own. The target's call goes on
//! to libc's function with every argument unchanged, also those on the stack.

/// Defines functions that call `$before` with the arguments of the call (up to six, in registers)
/// and then jump to libc's function of the same name, and the `$table` of them for
/// [`libc_functions`](crate::agent::os::libc_functions). Constructors of other libraries may call
/// them before the agent's constructor has run, so `$before` starts with
/// [`prepare`](crate::agent::start::prepare), which looks up libc's functions.
macro_rules! hooks {
    ($before:ident: $($name:ident, $real:path;)*) => {
        $(
            /// Runs the hook, and jumps to libc's function of this name with every argument
            /// unchanged.
            #[cfg_attr(sigtop_agent, unsafe(no_mangle))]
            #[unsafe(naked)]
            #[allow(non_snake_case, reason = "libc names its functions")]
            unsafe extern "C" fn $name() {
                $crate::arch::call_before!($before, then $real)
            }
        )*
    };
}
pub(crate) use hooks;
