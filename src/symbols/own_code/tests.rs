//! Tables of functions that are own code, and of functions that are not.

use crate::property::property;
use proptest::prelude::*;

use super::*;
use crate::symbols::foreign_names::{CASES, similar_names};

const PROGRAM: &str = "/srv/app/server";

/// Whether a function is own: its name, file and module. The program is [`PROGRAM`] or, of an
/// interpreter, its executable.
fn is_own((name, file, module): (&str, &str, &str)) -> bool {
    CodeOrigin { name, file, module, is_program: module == PROGRAM || module.contains("/bin/") }.is_own()
}

#[test]
fn own_code_is_told_by_its_file() {
    for own in [
        ("server::main", "/srv/app/src/main.rs", PROGRAM),
        ("app::parse", "src/lib.rs", PROGRAM),
        // Names do not matter then.
        ("std::invoke_me", "/srv/app/std.cc", PROGRAM),
        ("_resize", "/usr/src/app/resize.c", PROGRAM),
        ("fold", "/srv/app/fold.c", "/srv/app/lib/libfold.so"),
        ("main.(*Server).Run", "/home/me/server/main.go", PROGRAM),
        ("work (/srv/job.py:3)", "/srv/job.py", INTERPRETED_CODE),
        ("<module> (<string>:1)", "<string>", INTERPRETED_CODE),
        ("fib (/srv/app.js:1)", "/srv/app.js", ""),
    ] {
        assert!(is_own(own), "{own:?}");
    }
    for foreign in [
        (
            "core::slice::sort",
            "/rustc/4eb161250e340c8f48f66e2b929ef4a5bed7c181/library/core/src/slice/sort.rs",
            PROGRAM,
        ),
        ("alloc::vec::push", "/usr/src/rustc-1.75.0/library/alloc/src/vec/mod.rs", PROGRAM),
        ("std::fs", "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/fs.rs", PROGRAM),
        ("hashbrown::map", "/rust/deps/hashbrown-0.15.2/src/map.rs", PROGRAM),
        (
            "serde_json::to_string",
            "/home/me/.cargo/registry/src/index.crates.io-6f17d22/serde_json-1.0/src/ser.rs",
            PROGRAM,
        ),
        ("x::y", "/opt/cargo/registry/src/index.crates.io-6f17d22/x-1.0/src/lib.rs", PROGRAM),
        ("x::y", "/home/me/.cargo/git/checkouts/x-8a2f/11f3/src/lib.rs", PROGRAM),
        ("std::vector<int>::push_back(int const&)", "/usr/include/c++/12/bits/stl_vector.h", PROGRAM),
        ("std::__invoke", "/opt/gcc-14/include/c++/14/bits/invoke.h", PROGRAM),
        ("png_read", "/usr/lib/src/png.c", PROGRAM),
        ("malloc", "./malloc/malloc.c", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("read", "../sysdeps/unix/read.c", "/lib/x86_64-linux-gnu/libc.so.6"),
        ("_start", "../sysdeps/x86_64/start.S", PROGRAM),
        ("loads (/usr/lib/python3.12/json/__init__.py:299)", "/usr/lib/python3.12/json/__init__.py", INTERPRETED_CODE),
        ("run", "/root/.pyenv/versions/3.12.1/lib/python3.12/threading.py", INTERPRETED_CODE),
        ("dot", "/srv/venv/lib/python3.12/site-packages/numpy/core.py", INTERPRETED_CODE),
        ("dot", "/srv/dist-packages/numpy/core.py", INTERPRETED_CODE),
        ("_find_and_load", "<frozen importlib._bootstrap>", INTERPRETED_CODE),
        ("emit (node:events:508)", "node:events", ""),
        ("handle (/srv/node_modules/express/lib/router.js:8)", "/srv/node_modules/express/lib/router.js", ""),
        ("runtime.mallocgc", "/usr/local/go/src/runtime/malloc.go", PROGRAM),
        ("mux.Serve", "/home/me/go/pkg/mod/github.com/gorilla/mux@v1.8.0/mux.go", PROGRAM),
    ] {
        assert!(!is_own(foreign), "{foreign:?}");
    }
}

#[test]
fn without_a_file_own_code_is_what_is_no_runtime_in_the_executable() {
    for own in [
        "main",
        "server::main",
        "server+0x12ab",
        "server::Pool<T>::run",
        "<server::Row as core::fmt::Display>::fmt",
        "<core::slice::Iter<u8> as server::Sum>::sum",
        "<&mut server::Rows as core::iter::Iterator>::next",
        "<alloc::vec::Vec<T> as server::Sum<fn(u8) -> u8>>::sum",
        "server::<impl core::fmt::Debug for server::Row>::fmt",
        "int server::twice<int>(int)",
        "std::vector<int> server::rows()",
        "(anonymous namespace)::parse(char const*)",
        "std::ostream& (anonymous namespace)::write(std::ostream&)",
        "Row::operator()(int) const",
        "App::operator new(unsigned long)",
        "sort.part.0",
        "log.constprop.0.cold",
        "standard",
        "main.(*Server).Run",
        "github.com/me/app/store.Get",
        "int app.Fib.of(int)",
    ] {
        assert!(is_own((own, "", PROGRAM)), "{own}");
    }
    for foreign in [
        "core::ptr::drop_in_place<server::Row>",
        "core[8f2a91]::ptr::read",
        "std::rt::lang_start::{{closure}}",
        "alloc::vec::Vec<server::Row>::push",
        "<alloc::vec::Vec<server::Row> as core::iter::Extend<T>>::extend",
        "<F as core::ops::function::FnOnce<Args>>::call_once",
        "<&mut F as core::ops::FnMut<(A, B)>>::call_mut",
        "<[T]>::sort_unstable",
        "<dyn core::any::Any>::type_id",
        "rayon::iter::plumbing::bridge",
        "rayon_core::join::join_context",
        "<rayon_core::job::StackJob<L, F, R> as rayon_core::job::Job>::execute",
        "tokio::runtime::scheduler::multi_thread::worker::Context::run",
        "void std::__invoke_impl<void, server::run()::{lambda()#1}>(std::__invoke_other)",
        "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()",
        "std::__detail::_Map_base<int, (anonymous namespace)::Row>::operator[](int const&)",
        "operator new(unsigned long)",
        "operator delete(void*)",
        "__gnu_cxx::new_allocator<int>::allocate",
        "_start",
        "__libc_start_main@@GLIBC_2.34",
        "__libc_start_call_main",
        "start_thread",
        "clone3",
        "malloc",
        "memcpy@plt",
        "puts@plt",
        "free.part.0",
        "__rust_alloc",
        "runtime.mallocgc",
        "runtime.gcBgMarkWorker.func2",
        "runtime/internal/atomic.Cas",
        "internal/poll.(*FD).Read",
        "encoding/json.(*decodeState).object",
        "sort.Slice",
        "void java.util.HashMap.put(java.lang.Object)",
        "Builtin:ArrayPrototypeJoin",
    ] {
        assert!(!is_own((foreign, "", PROGRAM)), "{foreign}");
    }
}

#[test]
fn libraries_without_files_and_interpreters_are_foreign() {
    for foreign in [
        ("inflate", "", "/opt/app/libz.so"),
        ("libfoo.so+0x12", "", "/srv/app/libfoo.so"),
        ("_PyEval_EvalFrameDefault", "", "/usr/bin/python3.12"),
        ("_PyEval_EvalFrameDefault", "Python/ceval.c", "/srv/bin/python3.12"),
        ("_PyEval_EvalFrameDefault", "/tmp/build/Python/ceval.c", "/srv/lib/libpython3.12.so.1.0"),
        ("v8::internal::Invoke", "", "/usr/bin/node"),
        ("process_main", "", "/usr/lib/erlang/bin/beam.smp"),
        ("bash+0x5e320", "", "/usr/bin/bash"),
        ("tcp_sendmsg", "", "[kernel.kallsyms]"),
        ("__vdso_clock_gettime", "", "[vdso]"),
        ("mult", "/tmp/numpy/mult.c", "/srv/venv/lib/python3.12/site-packages/numpy/_core.so"),
    ] {
        assert!(!is_own(foreign), "{foreign:?}");
    }
    for own in [("main", "", "/usr/bin/nodetool"), ("main", "", "/usr/bin/gzip"), ("[JIT]", "", "")] {
        assert!(is_own(own), "{own:?}");
    }
}

proptest! {
    #![proptest_config(property(CASES))]
    #[test]
    fn any_name_and_file_has_an_answer(names in similar_names(), files in similar_names()) {
        for (name, file) in names.iter().zip(&files) {
            for (file, module) in [("", PROGRAM), (file.as_str(), PROGRAM), ("", file.as_str())] {
                let first = is_own((name, file, module));
                prop_assert_eq!(first, is_own((name, file, module)));
            }
        }
    }
}
