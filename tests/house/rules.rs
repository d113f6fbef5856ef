//! Allowed imports: reads every file under `src/` and fails on an import that is not allowed, on a
//! crate outside of its rooms, and on `unsafe` outside of `agent/`, `arch/`, `attach/` and `sampler/`.
//!
//! It looks at every path: of `use` (groups, renames, globs), in expressions, types, patterns and
//! attributes, and, as far as tokens tell, inside of macros. A name that a `use` brought in is
//! followed. What it cannot see is made an offence of its own: importing the root of the crate,
//! `include!`, `#[path]`, and passing a guarded crate on.

use std::collections::{BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemExternCrate, ItemMod, ItemUse, Macro, Meta, Visibility};

use crate::paths::{
    Meaning, Module, Names, is_root, leaves, meaning, module, module_of_file, paths_in_tokens, segments,
};
use crate::sources::{modules_of, sources};

/// Each room, with the rooms that it may import besides itself. A room is the longest entry that a
/// module's path begins with.
const ROOMS: &[(&str, &[&str])] = &[
    // Words that users type. Every layer may implement it for its own enums; it does so itself for
    // the enums of the wire.
    ("keyword", &["wire"]),
    ("wire::varint", &[]),
    ("wire::gperftools", &[]),
    ("wire", &["wire::varint"]),
    // What the agent and the sampler from outside share.
    ("arch", &[]),
    ("process", &["arch", "wire"]),
    ("agent", &["arch", "process", "wire::gperftools", "wire"]),
    ("attach", &["arch", "process", "wire"]),
    ("sampler", &["arch", "process", "attach", "wire"]),
    ("link", &["wire::varint", "wire"]),
    ("profile", &["keyword", "process", "wire::varint", "wire"]),
    ("symbols::worker", &["symbols", "profile", "wire"]),
    ("symbols", &["arch", "process", "symbols::worker", "profile", "wire"]),
    ("tally", &["keyword", "profile", "symbols", "wire"]),
    (
        "session",
        &["keyword", "attach", "sampler", "link", "wire", "profile", "symbols", "symbols::worker", "tally", "pprof"],
    ),
    ("pprof", &["keyword", "wire::gperftools", "wire::varint", "profile", "symbols", "symbols::worker", "tally"]),
    ("perf_data", &["arch", "process", "sampler", "link", "wire", "profile", "symbols"]),
    ("check", &["symbols", "tally", "pprof"]),
    ("push", &["keyword", "wire::varint", "symbols", "tally", "pprof"]),
    ("explain", &["symbols", "tally", "session", "wire"]),
    (
        "tui",
        &[
            "keyword",
            "attach",
            "link",
            "wire",
            "profile",
            "symbols",
            "symbols::worker",
            "tally",
            "session",
            "pprof",
            "explain",
        ],
    ),
    // The demo's target runs as a program that is watched and knows nothing of the rest.
    ("app::demo_target", &[]),
    ("app", EVERYWHERE),
    (FOR_TESTS, &[]),
    ("", EVERYWHERE),
];

/// The module that the tests of all rooms share.
const FOR_TESTS: &str = "property";

/// The rooms that `app/`, `main.rs` and `lib.rs` may import.
const EVERYWHERE: &[&str] = &[
    "agent",
    "app",
    "app::demo_target",
    "attach",
    "check",
    "explain",
    "keyword",
    "link",
    "perf_data",
    "profile",
    "push",
    "sampler",
    "symbols",
    "symbols::worker",
    "tally",
    "session",
    "tui",
    "pprof",
    "wire",
];

/// Crates that are used in these rooms alone.
const GUARDED: [(&str, &[&str]); 10] = [
    ("ratatui", &["tui"]),
    ("crossterm", &["tui"]),
    ("framehop", &["agent"]),
    ("gimli", &["agent", "process::unwind", "sampler::unwind", "symbols"]),
    ("addr2line", &["symbols", "attach::program::elf"]),
    (
        "object",
        &["symbols", "sampler::unwind", "attach::program::elf", "agent::unwind::oracle", "arch::x86_64::prologue"],
    ),
    ("iced_x86", &["arch::x86_64::code", "symbols"]),
    ("libc", &["agent", "arch", "attach", "sampler"]),
    ("toml", &["app::config"]),
    ("ruzstd", &["perf_data"]),
];

/// Rooms that may be `unsafe`.
const UNSAFE: [&str; 4] = ["agent", "arch", "attach", "sampler"];

fn is_within(module: &[String], room: &str) -> bool {
    module.starts_with(&self::module(room))
}

fn room(of: &[String]) -> Option<(&'static str, &'static [&'static str])> {
    let rooms = ROOMS
        .iter()
        .filter(|(room, _)| if room.is_empty() { of.len() <= 1 && is_root(of) } else { is_within(of, room) });
    rooms.max_by_key(|(room, _)| room.len()).copied()
}

/// The offences of one file, each with its line.
fn offences(path: &str, text: &str, modules: &BTreeSet<Module>) -> Vec<String> {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("src/{path}: {error}"));
    let home = module_of_file(path);
    let known = Names::of(&file, home.clone(), modules);
    let mut search = Search { here: home, modules, known, path, found: Vec::new() };
    search.visit_file(&file);
    search.look_for_unsafe(text.parse().unwrap_or_else(|error| panic!("src/{path}: {error}")));
    if room(&search.here).is_none() {
        search.found.push(format!("src/{path}: the house has no rule for this room"));
    }
    search.found
}

/// Second walk: every path against the rules.
struct Search<'a> {
    here: Module,
    modules: &'a BTreeSet<Module>,
    known: HashMap<String, Module>,
    path: &'a str,
    found: Vec<String>,
}

impl Search<'_> {
    fn offence(&mut self, line: usize, path: &[String], why: &str) {
        self.found.push(format!("src/{}:{line}: {}: {why}", self.path, path.join("::")));
    }

    /// A path in the text; `imported` if it stands in a `use`.
    fn check(&mut self, path: &[String], line: usize, imported: bool) {
        let known = if imported { &HashMap::new() } else { &self.known };
        match meaning(path, &self.here, self.modules, known) {
            Meaning::Ours(place) => self.check_ours(path, &place, line),
            Meaning::Other(place) if place.len() > 1 || imported => self.check_crates(&place, line),
            Meaning::Other(_) => {}
        }
    }

    fn check_ours(&mut self, path: &[String], place: &[String], line: usize) {
        let Some((from, allowed)) = room(&self.here) else { return };
        if allowed == EVERYWHERE {
            return;
        }
        match place.first() {
            None => self.offence(line, path, "the root of the crate holds every room; import what is meant"),
            Some(top) if top == FOR_TESTS => {}
            Some(top) if !self.modules.contains(std::slice::from_ref(top)) => {
                self.offence(line, path, "no room of the house; the root of the crate holds nothing of its own");
            }
            Some(_) => match room(place) {
                Some((to, _)) if from == to || allowed.contains(&to) => {}
                to => self.offence(line, path, &format!("{from} may not import {}", to.map_or("it", |(to, _)| to))),
            },
        }
    }

    fn check_crates(&mut self, place: &[String], line: usize) {
        for (name, rooms) in GUARDED {
            // Anywhere in the path: crates pass each other on (`nix::libc`).
            if place.iter().any(|part| part == name) && !rooms.iter().any(|room| is_within(&self.here, room)) {
                self.offence(line, place, &format!("{name} is for {} alone", rooms.join(" and ")));
            }
        }
    }

    fn check_tokens(&mut self, tokens: TokenStream) {
        for (path, line) in paths_in_tokens(tokens) {
            self.check(&path, line, false);
        }
    }

    fn look_for_unsafe(&mut self, tokens: TokenStream) {
        if UNSAFE.iter().any(|room| is_within(&self.here, room)) {
            return;
        }
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => {
                    self.offence(
                        word.span().start().line,
                        &["unsafe".to_owned()],
                        &format!("is for {} alone", UNSAFE.join(" and ")),
                    );
                }
                TokenTree::Group(group) => self.look_for_unsafe(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.here.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let line = item.span().start().line;
        let mut all = Vec::new();
        leaves(&item.tree, &mut Module::new(), &mut all);
        for (path, _) in all {
            self.check(&path, line, true);
            let guarded = GUARDED.iter().any(|(name, _)| path.iter().any(|part| part == name));
            let ours = matches!(meaning(&path, &self.here, self.modules, &HashMap::new()), Meaning::Ours(_));
            if guarded && !ours && !matches!(item.vis, Visibility::Inherited) {
                self.offence(line, &path, "a guarded crate is not passed on");
            }
        }
        visit::visit_item_use(self, item);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast ItemExternCrate) {
        let name = item.ident.to_string();
        let line = item.span().start().line;
        self.check(&[if name == "self" { "crate".to_owned() } else { name }], line, true);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = segments(path);
        if names.len() > 1 {
            self.check(&names, path.span().start().line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|part| part.ident.to_string()).unwrap_or_default();
        if name == "include" {
            self.offence(call.span().start().line, &["include!".to_owned()], "code comes from its own file");
        }
        self.check_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let line = attribute.span().start().line;
        if attribute.path().is_ident("path") {
            self.offence(line, &["#[path]".to_owned()], "a module lives where its name says");
        }
        if let Meta::List(list) = &attribute.meta {
            self.check_tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}

#[test]
fn the_house_is_in_order() {
    let all = sources();
    let modules = modules_of(&all);
    let found: Vec<String> = all.iter().flat_map(|(path, text)| offences(path, text, &modules)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A house of these modules.
fn house() -> BTreeSet<Module> {
    let names = [
        "agent",
        "attach",
        "attach::program::elf",
        "attach::find",
        "app",
        "link",
        "link::listener",
        "wire",
        "profile",
        "profile::stack",
        "symbols",
        "symbols::object",
        "symbols::worker",
        "tally",
        "tally::top",
        "session",
        "tui",
        "tui::app",
        "pprof",
    ];
    names.map(module).into_iter().collect()
}

#[test]
fn each_evasion_is_caught() {
    for (path, text, why) in [
        ("profile/stack.rs", "use crate::tally::Tally;", "profile may not import tally"),
        ("profile/stack.rs", "use crate::{wire::Clock, tui::{self, app}};", "profile may not import tui"),
        ("profile/stack.rs", "use crate::tui as screen;", "profile may not import tui"),
        ("profile/stack.rs", "use crate::tui::*;", "profile may not import tui"),
        ("profile/stack.rs", "use super::super::symbols;", "profile may not import symbols"),
        ("profile/stack.rs", "use self::super::super::symbols;", "profile may not import symbols"),
        ("profile/mod.rs", "use super::symbols::Names;", "profile may not import symbols"),
        ("profile/stack.rs", "use crate::r#symbols::Names;", "profile may not import symbols"),
        ("profile/stack.rs", "mod tests { use super::super::super::pprof; }", "profile may not import pprof"),
        ("profile/stack.rs", "fn f() { use crate::pprof::live_top; }", "profile may not import pprof"),
        ("profile/stack.rs", "fn f() { crate::pprof::live_top::print() }", "profile may not import pprof"),
        ("profile/stack.rs", "fn f(x: &dyn Fn(crate::tui::App)) {}", "profile may not import tui"),
        ("profile/stack.rs", "fn f() { g::<crate::tui::App>() }", "profile may not import tui"),
        ("profile/stack.rs", "fn f() { <crate::tui::App as Default>::default() }", "profile may not import tui"),
        ("profile/stack.rs", "fn f(x: u8) { match x { crate::tui::TOP => {} _ => {} } }", "profile may not import tui"),
        ("profile/stack.rs", "impl From<crate::tui::App> for Stack {}", "profile may not import tui"),
        ("profile/stack.rs", "fn f() { assert!(crate::tui::is_on()) }", "profile may not import tui"),
        ("profile/stack.rs", "fn f() { vec![1, { use crate::{tui::app::App}; 2 }] }", "profile may not import tui"),
        ("profile/stack.rs", "macro_rules! m { () => { $crate::tui::App } }", "profile may not import tui"),
        ("profile/stack.rs", "#[derive(crate::tui::Pane)] struct S;", "profile may not import tui"),
        ("profile/stack.rs", "pub(in crate::tui) struct S;", "profile may not import tui"),
        ("profile/stack.rs", "use crate as c; fn f() { c::tui::run() }", "root of the crate"),
        ("profile/stack.rs", "use crate::*; fn f() { tui::run() }", "root of the crate"),
        ("profile/stack.rs", "use crate::{self as c};", "root of the crate"),
        ("profile/stack.rs", "use super::super as c;", "root of the crate"),
        ("profile/stack.rs", "extern crate self as c;", "root of the crate"),
        ("profile/stack.rs", "use sigtop::tui::App;", "profile may not import tui"),
        ("profile/stack.rs", "include!(\"../tui/app.rs\");", "own file"),
        ("profile/stack.rs", "#[path = \"../tui/app.rs\"] mod app;", "its name says"),
        ("wire/mod.rs", "use super::link::listener::listen;", "wire may not import link"),
        ("link/listener.rs", "use crate::attach::find;", "link may not import attach"),
        ("profile/stack.rs", "use crate::link::listener;", "profile may not import link"),
        ("profile/stack.rs", "use crate::{wire::Clock, link::listener};", "profile may not import link"),
        ("profile/stack.rs", "use crate::link; fn f() { link::listener::listen() }", "profile may not import link"),
        ("attach/find.rs", "use crate::link::listener;", "attach may not import link"),
        ("tally/top.rs", "use crate::symbols::worker::Worker;", "tally may not import symbols::worker"),
        (
            "tally/top.rs",
            "use crate::symbols; fn f() { symbols::worker::run() }",
            "tally may not import symbols::worker",
        ),
        (
            "tally/top.rs",
            "use crate::symbols as s; fn f() { s::worker::run() }",
            "tally may not import symbols::worker",
        ),
        ("tally/top.rs", "use crate::symbols::*; fn f() { worker::run() }", "tally may not import symbols::worker"),
        ("session/mod.rs", "use crate::tui::App;", "session may not import tui"),
        ("pprof/mod.rs", "use crate::session::live;", "pprof may not import session"),
        ("session/mod.rs", "use crate::agent::sampling::ring;", "session may not import agent"),
        ("tui/app.rs", "use crate::agent;", "tui may not import agent"),
        ("pprof/mod.rs", "use crate::attach::find;", "pprof may not import attach"),
        ("misc/mod.rs", "", "no rule for this room"),
        ("pprof/mod.rs", "use ratatui::text::Line;", "ratatui is for tui"),
        ("pprof/mod.rs", "use ::crossterm::style as s;", "crossterm is for tui"),
        ("pprof/mod.rs", "fn f() -> crossterm::style::Color { todo!() }", "crossterm is for tui"),
        ("pprof/mod.rs", "extern crate ratatui as r;", "ratatui is for tui"),
        ("pprof/mod.rs", "fn f() { println!(\"{}\", ratatui::VERSION) }", "ratatui is for tui"),
        (
            "attach/find.rs",
            "use object::elf;",
            "object is for symbols and sampler::unwind and attach::program::elf and agent::unwind::oracle and arch::x86_64::prologue",
        ),
        ("tally/top.rs", "use {addr2line::Context};", "addr2line is for symbols"),
        ("tally/top.rs", "use gimli::EhFrame;", "gimli is for agent"),
        ("symbols/object.rs", "use framehop::Unwinder;", "framehop is for agent"),
        ("tui/app.rs", "fn f() { libc::getpid(); }", "libc is for agent and arch and attach and sampler alone"),
        ("tui/app.rs", "use nix::libc;", "libc is for agent and arch and attach and sampler alone"),
        (
            "tui/app.rs",
            "use nix as n; fn f() { n::libc::getpid(); }",
            "libc is for agent and arch and attach and sampler alone",
        ),
        ("attach/find.rs", "pub use libc;", "not passed on"),
        ("attach/find.rs", "pub(crate) use libc::pid_t;", "not passed on"),
        ("link/listener.rs", "fn f() { unsafe { g() } }", "is for agent and arch"),
        ("link/listener.rs", "unsafe impl Send for S {}", "is for agent and arch"),
        ("link/listener.rs", "#[unsafe(no_mangle)] fn f() {}", "is for agent and arch"),
        ("link/listener.rs", "fn f() { m!(unsafe { g() }) }", "is for agent and arch"),
        ("link/listener.rs", "macro_rules! m { () => { unsafe { g() } } }", "is for agent and arch"),
        ("main.rs", "unsafe extern \"C\" { fn f(); }", "is for agent and arch"),
    ] {
        let found = offences(path, text, &house());
        assert!(
            found.iter().any(|offence| offence.contains(why)),
            "src/{path}: {text}\n  not caught ({why}): {found:?}"
        );
    }
}

#[test]
fn what_the_house_allows_is_no_offence() {
    for (path, text) in [
        ("link/mod.rs", "pub mod receive; pub use receive::Receiver;"),
        ("link/listener.rs", "use super::super::wire::{self, Clock}; use crate::wire::LossCause; use nix::poll::poll;"),
        ("profile/mod.rs", "pub mod stack; pub use stack::Stack; mod tests { use super::*; use super::stack::Stack; }"),
        (
            "profile/stack.rs",
            "use crate::wire; use super::Profile; fn f() { wire::frame(&[]); super::g(); crate::profile::h() }",
        ),
        (
            "profile/stack.rs",
            "fn f(object: u8, libc: u8) -> u8 { object + libc } mod tests { use super::*; fn g() { super::f(1, 2); } }",
        ),
        ("symbols/mod.rs", "pub mod object; pub mod worker; fn f() { worker::run(); object::open() }"),
        ("symbols/object.rs", "use object::Object; use addr2line::Context; use super::worker;"),
        ("symbols/worker.rs", "use super::object; fn f() { object::open() } use crate::profile::stack;"),
        (
            "tally/top.rs",
            "use crate::symbols::{Names, object}; use crate::{profile, symbols}; fn f() { symbols::name() }",
        ),
        ("session/mod.rs", "use crate::{attach::find, link::receive, wire, symbols::worker, tally};"),
        (
            "tui/app.rs",
            "use crate::{attach, link, wire, profile, symbols, tally, session, pprof}; use ratatui::Frame; use crossterm::event;",
        ),
        ("attach/program/elf.rs", "use object::elf; use crate::wire::LINK_VARIABLE; use super::AttachError;"),
        ("attach/find.rs", "use libc::pid_t; fn f() { unsafe { libc::getpid() }; }"),
        ("pprof/mod.rs", "/// Like `crate::tui`, but not unsafe.\nfn f() { println!(\"unsafe crate::tui\") }"),
        ("main.rs", "use sigtop::{app, tui, session}; fn main() { sigtop::attach::find::carriers(); }"),
        ("lib.rs", "pub mod tui; pub mod agent; extern crate alloc;"),
        ("app/args.rs", "use crate::session; use std::ffi::OsString;"),
    ] {
        let found = offences(path, text, &house());
        assert!(found.is_empty(), "src/{path}: {text}\n  {found:?}");
    }
}
