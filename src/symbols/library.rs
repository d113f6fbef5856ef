//! Tells the functions of system libraries and of the runtimes of languages from those of the
//! program.

/// Whether a function belongs to a system library or to the runtime of its language rather than to
/// the program: by its module (the last component of the path) or by its full name.
pub fn is_library(module: &str, full: &str) -> bool {
    const MODULES: [&str; 14] = [
        "ld-",
        "libc-",
        "libc.",
        "libc++",
        "libdl.",
        "libgcc",
        "libm-",
        "libm.",
        "libpthread",
        "libresolv",
        "librt.",
        "libstdc++",
        "linux-vdso",
        "[vdso]",
    ];
    const NAMES: [&str; 10] = [
        "std::",
        "core::",
        "alloc::",
        "__gnu_cxx::",
        "__libc_",
        "__rust_",
        "_start",
        "_dl_",
        "runtime.",
        "hashbrown::",
    ];
    let path = full.trim_start_matches(['<', '&', '*']);
    MODULES.iter().any(|start| module.starts_with(start)) || NAMES.iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_runtimes_are_recognized() {
        for (module, full) in [
            ("libc.so.6", "read"),
            ("ld-linux-x86-64.so.2", "do_lookup_x"),
            ("libstdc++.so.6.0.30", "operator new(unsigned long)"),
            ("rg", "std::rt::lang_start_internal"),
            ("rg", "<alloc::boxed::Box<F> as core::ops::FnOnce<()>>::call_once"),
            ("server", "_start"),
        ] {
            assert!(is_library(module, full), "{module} {full}");
        }
        for (module, full) in [
            ("rg", "rg::main"),
            ("rg", "<rg::Printer as core::fmt::Display>::fmt"),
            ("libcrypto.so.3", "sha256_block_data_order"),
            ("server", "standard"),
        ] {
            assert!(!is_library(module, full), "{module} {full}");
        }
    }
}
