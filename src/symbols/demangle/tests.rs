//! Tests of demangling.

use crate::property::property;
use proptest::prelude::*;

use super::*;
use crate::symbols::foreign_names::{CASES, foreign_name};

fn full(raw: &str) -> String {
    demangle(raw.as_bytes()).full
}

fn short(raw: &str) -> String {
    demangle(raw.as_bytes()).short
}

#[test]
fn cpp_has_its_parameters_in_full_only() {
    let name = demangle(b"_ZNSt3mapIiSsSt4lessIiESaISt4pairIKiSsEEEixERS3_");
    let arguments = "int, std::string, std::less<int>, std::allocator<std::pair<int const, std::string> > ";
    assert_eq!(name.full, format!("std::map<{arguments}>::operator[](int const&)"));
    assert_eq!(name.short, "std::map::operator[]");
    assert!(name.is_mangled);
}

#[test]
fn cpp_return_types_are_not_in_short_names() {
    // A function template's name begins with its return type; here with a pointer to a
    // function.
    assert_eq!(short("_Z3fooIiEPFvcEi"), "foo");
    assert_eq!(short("_ZZN3foo3barEiENKUlT_E_clIiEEDaS0_"), "foo::bar::{lambda#1}::operator()");
    assert_eq!(short("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc"), "std::operator<<");
    assert_eq!(short("_ZSt4moveIRSt6vectorIiSaIiEEEONSt16remove_referenceIT_E4typeEOS5_"), "std::move");
}

#[test]
fn cpp_types_that_cannot_be_parsed_cost_only_the_parameters() {
    let make_shared =
        "_ZSt11make_sharedI3FooJRiEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES5_E4typeEEDpOT0_";
    assert_eq!(
        (full(make_shared), short(make_shared)),
        ("std::make_shared<Foo, int&>".into(), "std::make_shared".into())
    );
    let fill = "_ZSt9__fill_a1IPiiEN9__gnu_cxx11__enable_ifIXsrSt11__is_scalarIT0_E7__valueEvE6__typeET_S8_RKS4_";
    assert_eq!(short(fill), "std::__fill_a1");
    for refused in ["_ZsrE", "_Z3EsrE", "_ZNEsr", "_ZéEsr", &format!("_Z{}sr", "E".repeat(2_000))] {
        assert_eq!(short(refused), refused);
    }
}

#[test]
fn rust_names_without_linkage_name_lose_their_arguments() {
    let fold = plain(
        "fold<core::iter::adapters::map::Map<core::ops::range::Range<u32>, app::{closure_env#0}>>",
        NameLanguage::Rust,
    );
    assert_eq!(fold.short, "fold");
    for (name, language) in [
        ("main", NameLanguage::C),
        ("std::vector<int>::push_back(int&&)", NameLanguage::Cpp),
        ("<a::B as c::D>::run", NameLanguage::Rust),
        ("a::run::{{closure}}", NameLanguage::Rust),
    ] {
        assert_eq!(NameLanguage::guess(name), language, "{name}");
    }
}

#[test]
fn cpp_specials() {
    assert_eq!(
        (full("_ZThn16_N3foo3barEv").as_str(), short("_ZThn16_N3foo3barEv").as_str()),
        ("thunk to foo::bar()", "thunk to foo::bar")
    );
    assert_eq!(short("_ZN12_GLOBAL__N_13fooEi"), "(anonymous namespace)::foo");
    assert_eq!(short("_ZN3foo3barB5cxx11Ev"), "foo::bar");
    assert_eq!(short("_ZNK3FoocvSt6vectorIT_SaIS1_EEIiEEv"), "Foo::operator std::vector");
    assert_eq!(short("_ZN3FooD0Ev"), "Foo::~Foo");
}

#[test]
fn rust_has_no_hash() {
    let legacy =
        "_ZN71_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..iter..Extend$LT$T$GT$$GT$6extend17h0123456789abcdefE";
    let legacy = legacy.replace(
        "_ZN71",
        &format!("_ZN{}", "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..iter..Extend$LT$T$GT$$GT$".len()),
    );
    assert_eq!(full(&legacy), "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend");
    assert_eq!(short(&legacy), "alloc::vec::Vec::extend");
    assert_eq!(full("_RNCNvCs1234_7mycrate3foo0B3_"), "mycrate::foo::{closure#0}");
    assert_eq!(short("_RNvMs_NtC5alloc3vecINtB4_3VecmE4push"), "alloc::vec::Vec::push");
}

#[test]
fn cpp_names_are_not_mistaken_for_rust_names() {
    assert_eq!(full("_ZN3foo3barE"), "foo::bar");
    assert_eq!(full("_ZN3foo3barEv"), "foo::bar()");
}

#[test]
fn fortran_procedures_are_named_by_their_module() {
    let name = demangle(b"__linear_solver_MOD_step2");
    assert_eq!(
        (name.full.as_str(), name.short.as_str(), name.is_mangled),
        ("linear_solver::step2", "linear_solver::step2", true)
    );
    assert_eq!(full("__m_MOD_f.constprop.0"), "m::f [clone .constprop.0]");
    for other in ["__a_MOD_", "___MOD_f", "__A_MOD_f", "_a_MOD_f", "a_MOD_f"] {
        assert_eq!((full(other).as_str(), short(other).as_str()), (other, other));
    }
}

#[test]
fn short_names_have_no_abi_tags() {
    assert_eq!(full("_ZN3foo3barB5cxx11Ev"), "foo::bar[abi:cxx11]()");
    assert_eq!(short("_ZN3fooB5cxx113barEv"), "foo::bar");
    assert_eq!(short("_ZN3fooB5cxx11IiE3barEv"), "foo::bar");
}

#[test]
fn full_names_show_copies_and_parts() {
    assert_eq!(full("_ZN3foo3barEi.part.0.cold"), "foo::bar(int) [clone .part.0.cold]");
    assert_eq!(short("_ZN3foo3barEi.part.0.cold"), "foo::bar");
    assert_eq!((full("work.constprop.0"), short("work.constprop.0")), ("work.constprop.0".into(), "work".into()));
    let rust = "_ZN3app4main17h0123456789abcdefE.llvm.1234567890";
    assert_eq!((full(rust), short(rust)), ("app::main".into(), "app::main".into()));
}

#[test]
fn spellings_include_every_form() {
    let all = spellings("_ZN3appI3FooE3barEi.part.0");
    assert_eq!(all, ["_ZN3appI3FooE3barEi.part.0", "app<Foo>::bar(int)", "app<Foo>::bar", "app::bar"]);
    assert_eq!(spellings("_RNvMs_NtC5alloc3vecINtB4_3VecmE4push").len(), 3);
    assert_eq!(spellings("work.constprop.0"), ["work.constprop.0"]);
}

#[test]
fn c_names_do_not_change() {
    for name in ["main", "__libc_start_main", "memcpy", "_start", "a.b", "x.1", ".cold", "main.(*T).Run", "_Zfoo", "_R"]
    {
        assert_eq!((full(name).as_str(), short(name).as_str()), (name, name));
        assert!(!demangle(name.as_bytes()).is_mangled);
    }
    assert_eq!(full("memcpy@@GLIBC_2.14"), "memcpy");
    assert_eq!(
        (full("__GI___nanosleep").as_str(), short("__GI___nanosleep").as_str()),
        ("__GI___nanosleep", "__nanosleep")
    );
    assert_eq!((full("memcpy@plt"), short("_ZN3foo3barEv@plt")), ("memcpy@plt".into(), "foo::bar@plt".into()));
}

#[test]
fn control_characters_are_replaced() {
    assert_eq!(full("a\x1b[2Jb"), "a\u{fffd}[2Jb");
    assert_eq!(demangle(b"a\xff\x9bb").full, "a\u{fffd}\u{fffd}b");
    let name = demangle(b"_ZN3foo4b\x1b\x07rEv");
    assert!(!name.full.contains(char::is_control) && !name.short.contains(char::is_control), "{name:?}");
}

#[test]
fn demangling_stops_after_the_time_limit() {
    let names = Demangler::default();
    assert_eq!(names.name(b"_ZN3foo3barEv").full, "foo::bar()");
    names.spent.set(MAX_TIME * 2);
    assert_eq!(names.name(b"_ZN3foo3bar\x1bEv").full, "_ZN3foo3bar\u{fffd}Ev");
    assert_eq!(names.name(b"_ZN3foo3barEv").full, "foo::bar()", "a known name takes no time");
}

#[test]
fn many_real_names_do_not_reach_the_time_limit() {
    let names = Demangler::default();
    (0..10_000).for_each(|_| drop(names.name(b"_ZNSt8_Rb_treeIiSt4pairIKiSsESt10_Select1stIS2_ESt4lessIiEE5clearEv")));
    assert!(names.spent.get() < MAX_TIME / 100 && names.known.borrow().len() == 1);
    let long = vec![b'a'; 1 << 20];
    (0..10u8).for_each(|end| drop(names.name(&[&long[..], &[b'a' + end]].concat())));
    assert!(names.known_bytes.get() <= MAX_CACHE_BYTES && names.known.borrow().len() < 10);
}

#[test]
fn names_that_expand_to_gigabytes_are_refused() {
    // Every pair doubles the length of the substitution before it.
    let mut bomb = "_Z1fISt4pairIiiE".to_owned();
    for previous in 0..30u32 {
        let code = std::char::from_digit(previous, 36).unwrap().to_ascii_uppercase();
        bomb += &format!("St4pairIS{code}_S{code}_E");
    }
    bomb += "Evv";
    let started = std::time::Instant::now();
    assert!(full(&bomb).len() <= super::super::sanitize::MAX_NAME_BYTES);
    let rust = format!("_RINv1c1f{}{}E", "TB2_B2_".repeat(40), "E".repeat(40));
    assert!(full(&rust).len() <= super::super::sanitize::MAX_NAME_BYTES);
    assert!(full(&format!("_Z{}", "P".repeat(7_000))).len() <= super::super::sanitize::MAX_NAME_BYTES);
    assert!(full(&"_ZN".repeat(1 << 20)).len() <= super::super::sanitize::MAX_NAME_BYTES);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

proptest! {
    #![proptest_config(property(CASES))]
    #[test]
    fn foreign_names_are_demangled(name in foreign_name(), start in 0usize..4) {
        let mangled = format!("{}{name}", ["", "_Z", "_ZN", "_R"][start]);
        let demangled = demangle(mangled.as_bytes());
        prop_assert!(!demangled.full.contains(char::is_control) && !demangled.short.contains(char::is_control));
        spellings(&mangled);
        plain(&name, NameLanguage::guess(&name));
    }
}
