//! The functions of an allocator, and their replacements.

use core::sync::atomic::AtomicUsize;

use crate::agent::allocations::record::{Kind, after, before, before_free, before_unmap};
use crate::agent::allocations::tables::TABLES;
use crate::arch::{allocating_function, freeing_function, unmapping_function};

/// A function of the allocator.
pub(crate) struct AllocatorFunction {
    /// Its name, with a NUL.
    pub(crate) name: &'static str,
    /// Address of the real function; 0 if there is none. Written by the agent thread before the
    /// function is replaced, and never changed to 0.
    pub(crate) real: &'static AtomicUsize,
    /// The replacement.
    pub(crate) replacement: unsafe extern "C" fn(),
    /// Whether it is only replaced if an allocator other than libc's defines it: libc's
    /// reallocarray(3) and the operators of C++ call the others.
    pub(crate) calls_others: bool,
}

macro_rules! allocator_functions {
    (
        $($name:literal $real:ident $replacement:ident $kind:ident;)*
        free: $($free_name:literal $free_real:ident $free_replacement:ident;)*
        unmap: $($unmap_name:literal $unmap_real:ident $unmap_replacement:ident;)*
    ) => {
        $(
            static $real: AtomicUsize = AtomicUsize::new(0);
            #[unsafe(naked)]
            unsafe extern "C" fn $replacement() {
                allocating_function!($kind, Kind::$kind as usize, TABLES, before, $real, after)
            }
        )*
        $(
            static $free_real: AtomicUsize = AtomicUsize::new(0);
            #[unsafe(naked)]
            unsafe extern "C" fn $free_replacement() {
                freeing_function!(TABLES, before_free, $free_real)
            }
        )*
        $(
            static $unmap_real: AtomicUsize = AtomicUsize::new(0);
            #[unsafe(naked)]
            unsafe extern "C" fn $unmap_replacement() {
                unmapping_function!(before_unmap, $unmap_real)
            }
        )*
        /// All of them, malloc(3) first.
        pub(crate) static FUNCTIONS: &[AllocatorFunction] = &[
            $(AllocatorFunction {
                name: concat!($name, "\0"),
                real: &$real,
                replacement: $replacement,
                calls_others: calls_others($name),
            },)*
            $(AllocatorFunction {
                name: concat!($free_name, "\0"),
                real: &$free_real,
                replacement: $free_replacement,
                calls_others: calls_others($free_name),
            },)*
            $(AllocatorFunction {
                name: concat!($unmap_name, "\0"),
                real: &$unmap_real,
                replacement: $unmap_replacement,
                calls_others: false,
            },)*
        ];
    };
}

const fn calls_others(name: &str) -> bool {
    matches!(name.as_bytes(), [b'_', ..] | [b'r', b'e', b'a', b'l', b'l', b'o', b'c', b'a', ..])
}

allocator_functions! {
    "malloc" MALLOC malloc Size;
    "calloc" CALLOC calloc Product;
    "realloc" REALLOC realloc Moved;
    "reallocarray" REALLOCARRAY reallocarray MovedProduct;
    "memalign" MEMALIGN memalign Aligned;
    "aligned_alloc" ALIGNED_ALLOC aligned_alloc Aligned;
    "posix_memalign" POSIX_MEMALIGN posix_memalign Stored;
    "valloc" VALLOC valloc Size;
    "pvalloc" PVALLOC pvalloc Size;
    "mmap" MMAP mmap Mapped;
    "mmap64" MMAP64 mmap64 Mapped;
    "mremap" MREMAP mremap Remapped;
    "_Znwm" NEW new Size;
    "_Znam" NEW_ARRAY new_array Size;
    "_ZnwmRKSt9nothrow_t" NEW_NOTHROW new_nothrow Size;
    "_ZnamRKSt9nothrow_t" NEW_ARRAY_NOTHROW new_array_nothrow Size;
    "_ZnwmSt11align_val_t" NEW_ALIGNED new_aligned Size;
    "_ZnamSt11align_val_t" NEW_ARRAY_ALIGNED new_array_aligned Size;
    "_ZnwmSt11align_val_tRKSt9nothrow_t" NEW_ALIGNED_NOTHROW new_aligned_nothrow Size;
    "_ZnamSt11align_val_tRKSt9nothrow_t" NEW_ARRAY_ALIGNED_NOTHROW new_array_aligned_nothrow Size;
    free:
    "free" FREE free;
    "_ZdlPv" DELETE delete;
    "_ZdaPv" DELETE_ARRAY delete_array;
    "_ZdlPvm" DELETE_SIZED delete_sized;
    "_ZdaPvm" DELETE_ARRAY_SIZED delete_array_sized;
    "_ZdlPvRKSt9nothrow_t" DELETE_NOTHROW delete_nothrow;
    "_ZdaPvRKSt9nothrow_t" DELETE_ARRAY_NOTHROW delete_array_nothrow;
    "_ZdlPvSt11align_val_t" DELETE_ALIGNED delete_aligned;
    "_ZdaPvSt11align_val_t" DELETE_ARRAY_ALIGNED delete_array_aligned;
    "_ZdlPvmSt11align_val_t" DELETE_SIZED_ALIGNED delete_sized_aligned;
    "_ZdaPvmSt11align_val_t" DELETE_ARRAY_SIZED_ALIGNED delete_array_sized_aligned;
    unmap:
    "munmap" MUNMAP munmap;
}
