//! Who may import whom: reads every file under `src/` and fails on an import that the house does not allow, on a crate outside of
//! its rooms, and on `unsafe` outside of `agent/` and `attach/`.
//!
//! It looks at every path: of `use` (groups, renames, globs), in expressions, types, patterns and attributes, and, as far as
//! tokens tell, inside of macros. A name that a `use` brought in is followed. What it cannot see is made an offence of its own:
//! importing the root of the crate, `include!`, `#[path]`, and passing a guarded crate on.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemExternCrate, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

/// For each room, the rooms it may import besides itself. A room is the longest entry that a module's path begins with.
const ROOMS: [(&str, &[&str]); 20] = [
    ("link::wire", &[]),
    ("link::legacy", &[]),
    ("link", &["link::wire"]),
    ("agent", &["link::legacy", "link::wire"]),
    ("attach", &["link::wire"]),
    ("profile", &["link::wire"]),
    ("symbols::worker", &["symbols", "profile", "link::wire"]),
    ("symbols", &["symbols::worker", "profile", "link::wire"]),
    ("tally", &["profile", "symbols", "link::wire"]),
    ("track", &["attach", "link", "link::wire", "profile", "symbols", "symbols::worker", "tally"]),
    ("write", &["link::legacy", "profile", "symbols", "symbols::worker", "tally"]),
    ("tui", &["attach", "link", "link::wire", "profile", "symbols", "symbols::worker", "tally", "track", "write"]),
    // Tables without a screen, for `main`: what it shows and how, but no sockets, no attaching, no screen.
    ("batch", &["link::wire", "tally", "track", "write"]),
    // Saved profiles as text, for `main`.
    ("report", &["link", "tally", "write"]),
    // A recording without a screen, likewise, in the formats that a screen offers.
    ("record", &["link", "tally", "track", "tui", "write"]),
    // Runs as a target: it is watched, and knows nothing of us.
    ("demo", &[]),
    ("cli", EVERYWHERE),
    ("config", EVERYWHERE),
    // The program itself, from the words of its command line on.
    ("verbs", EVERYWHERE),
    ("", EVERYWHERE),
];

/// What the program's own files (`main.rs`, `lib.rs`, `cli.rs`, `config.rs`, `verbs/`) may import.
const EVERYWHERE: &[&str] = &[
    "agent",
    "attach",
    "batch",
    "cli",
    "config",
    "demo",
    "link",
    "link::wire",
    "profile",
    "report",
    "record",
    "symbols",
    "symbols::worker",
    "tally",
    "track",
    "tui",
    "write",
];

/// Crates that are used in these rooms alone.
const GUARDED: [(&str, &[&str]); 9] = [
    ("ratatui", &["tui"]),
    ("crossterm", &["tui"]),
    ("framehop", &["agent"]),
    ("gimli", &["agent", "symbols"]),
    ("addr2line", &["symbols", "attach::elf"]),
    ("object", &["symbols", "attach::elf", "agent::oracle"]),
    ("iced_x86", &["symbols"]),
    ("libc", &["agent", "attach"]),
    ("toml", &["config"]),
];

/// Rooms that may be `unsafe`.
const UNSAFE: [&str; 2] = ["agent", "attach"];

/// Our own crate, as `main.rs` calls it.
const OURS: &str = "sigtop";

type Module = Vec<String>;

fn module(path: &str) -> Module {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn is_within(module: &[String], room: &str) -> bool {
    module.starts_with(&self::module(room))
}

fn room(of: &[String]) -> Option<(&'static str, &'static [&'static str])> {
    let rooms = ROOMS
        .iter()
        .filter(|(room, _)| if room.is_empty() { of.len() <= 1 && is_root(of) } else { is_within(of, room) });
    rooms.max_by_key(|(room, _)| room.len()).copied()
}

/// `main.rs` and `lib.rs`: no module of that name can be imported.
fn is_root(module: &[String]) -> bool {
    module.is_empty() || module == ["main"]
}

/// The module that a file holds, by its path under `src/`.
fn module_of_file(path: &str) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if ["mod", "lib"].contains(&module.last().map_or("", String::as_str)) {
        module.pop();
    }
    module
}

/// The offences of one file, each with its line.
fn offences(path: &str, text: &str, modules: &BTreeSet<Module>) -> Vec<String> {
    let file = syn::parse_file(text).unwrap_or_else(|error| panic!("src/{path}: {error}"));
    let home = module_of_file(path);
    let mut names = Names { here: home.clone(), modules, known: HashMap::new() };
    names.visit_file(&file);
    let mut search = Search { here: home, modules, known: names.known, path, found: Vec::new() };
    search.visit_file(&file);
    search.look_for_unsafe(text.parse().unwrap_or_else(|error| panic!("src/{path}: {error}")));
    if room(&search.here).is_none() {
        search.found.push(format!("src/{path}: the house has no rule for this room"));
    }
    search.found
}

/// A `use` taken apart: its paths, with what each is called from then on (`*` for a glob).
fn leaves(tree: &UseTree, before: &mut Module, all: &mut Vec<(Module, String)>) {
    let name = |ident: &syn::Ident| ident.to_string().trim_start_matches("r#").to_owned();
    let mut leaf = |before: &Module, last: String, called: String| {
        let mut path = before.clone();
        if last != "self" || path.is_empty() {
            path.push(last);
        }
        all.push((path, called));
    };
    match tree {
        UseTree::Path(path) => {
            before.push(name(&path.ident));
            leaves(&path.tree, before, all);
            before.pop();
        }
        UseTree::Name(path) => {
            let last = name(&path.ident);
            let called = if last == "self" { before.last().cloned().unwrap_or_default() } else { last.clone() };
            leaf(before, last, called);
        }
        UseTree::Rename(path) => leaf(before, name(&path.ident), name(&path.rename)),
        UseTree::Glob(_) => leaf(before, "*".to_owned(), "*".to_owned()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, all)),
    }
}

/// What a path means.
#[derive(Debug, PartialEq)]
enum Meaning {
    /// A path of ours, from the crate's root.
    Ours(Module),
    /// A path that begins with another crate, or with a name that is nobody's.
    Other(Module),
}

fn meaning(path: &[String], here: &[String], modules: &BTreeSet<Module>, known: &HashMap<String, Module>) -> Meaning {
    let (first, rest) = path.split_first().expect("a path has a name");
    let mut place = match first.as_str() {
        "crate" => Vec::new(),
        name if name == OURS => Vec::new(),
        "self" => here.to_vec(),
        "super" => here[..here.len().saturating_sub(1)].to_vec(),
        name => {
            let child: Module = here.iter().cloned().chain([name.to_owned()]).collect();
            match known.get(name) {
                Some(place) if place.first().is_some_and(|name| name == "::") => {
                    return Meaning::Other(place[1..].iter().chain(rest).cloned().collect());
                }
                Some(place) => place.clone(),
                None if modules.contains(&child) => child,
                None => return Meaning::Other(path.to_vec()),
            }
        }
    };
    for name in rest {
        match name.as_str() {
            "super" => drop(place.pop()),
            "self" => {}
            name => place.push(name.to_owned()),
        }
    }
    Meaning::Ours(place)
}

/// First walk: what the file's `use`s bring in, by name. Another crate's begin with `::`.
struct Names<'a> {
    here: Module,
    modules: &'a BTreeSet<Module>,
    known: HashMap<String, Module>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.here.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut all = Vec::new();
        leaves(&item.tree, &mut Module::new(), &mut all);
        for (path, called) in all {
            match meaning(&path, &self.here, self.modules, &HashMap::new()) {
                Meaning::Ours(mut place) if called == "*" => {
                    place.pop();
                    let children = self
                        .modules
                        .iter()
                        .filter(|module| module.starts_with(&place) && module.len() == place.len() + 1);
                    self.known.extend(children.map(|module| (module[place.len()].clone(), module.clone())));
                }
                Meaning::Ours(place) => drop(self.known.insert(called, place)),
                Meaning::Other(place) => {
                    drop(self.known.insert(called, ["::".to_owned()].into_iter().chain(place).collect()));
                }
            }
        }
    }
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

    /// Paths in tokens that no parser has seen.
    fn look_for_paths(&mut self, tokens: TokenStream, before: &[String]) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let TokenTree::Ident(first) = &tokens[at] else {
                if let TokenTree::Group(group) = &tokens[at] {
                    self.look_for_paths(group.stream(), &[]);
                }
                at += 1;
                continue;
            };
            let line = first.span().start().line;
            let mut path = before.to_vec();
            path.push(first.to_string().trim_start_matches("r#").to_owned());
            at += 1;
            while is_path_separator(&tokens[at..]) {
                match tokens.get(at + 2) {
                    Some(TokenTree::Ident(next)) => path.push(next.to_string().trim_start_matches("r#").to_owned()),
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                        self.look_for_paths(group.stream(), &path);
                    }
                    Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".to_owned()),
                    _ => break,
                }
                at += 3;
            }
            if path.len() > 1 {
                self.check(&path, line, false);
            }
        }
    }

    fn look_for_unsafe(&mut self, tokens: TokenStream) {
        if UNSAFE.iter().any(|room| is_within(&self.here, room)) {
            return;
        }
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => {
                    self.offence(word.span().start().line, &["unsafe".to_owned()], "is for agent and attach alone");
                }
                TokenTree::Group(group) => self.look_for_unsafe(group.stream()),
                _ => {}
            }
        }
    }
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    match tokens {
        [TokenTree::Punct(first), TokenTree::Punct(second), ..] => {
            first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':'
        }
        _ => false,
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
        let names: Module =
            path.segments.iter().map(|part| part.ident.to_string().trim_start_matches("r#").to_owned()).collect();
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
        self.look_for_paths(call.tokens.clone(), &[]);
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let line = attribute.span().start().line;
        if attribute.path().is_ident("path") {
            self.offence(line, &["#[path]".to_owned()], "a module lives where its name says");
        }
        if let Meta::List(list) = &attribute.meta {
            self.look_for_paths(list.tokens.clone(), &[]);
        }
        visit::visit_attribute(self, attribute);
    }
}

/// Every file under a directory: its path there, and its text.
fn files(root: &Path, below: &Path, all: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(root.join(below)).unwrap().flatten() {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            files(root, &path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push((path.to_str().unwrap().to_owned(), fs::read_to_string(root.join(&path)).unwrap()));
        }
    }
}

#[test]
fn the_house_is_in_order() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Path::new(""), &mut all);
    assert!(all.len() > 20, "only {} files", all.len());
    let modules: BTreeSet<Module> =
        all.iter().map(|(path, _)| module_of_file(path)).filter(|module| !is_root(module)).collect();
    let found: Vec<String> = all.iter().flat_map(|(path, text)| offences(path, text, &modules)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

/// A house of these modules.
fn house() -> BTreeSet<Module> {
    let names = [
        "agent",
        "attach",
        "attach::elf",
        "attach::find",
        "cli",
        "link",
        "link::receive",
        "link::wire",
        "profile",
        "profile::stack",
        "symbols",
        "symbols::object",
        "symbols::worker",
        "tally",
        "tally::table",
        "track",
        "tui",
        "tui::app",
        "write",
    ];
    names.map(module).into_iter().collect()
}

#[test]
fn each_evasion_is_caught() {
    for (path, text, why) in [
        ("profile/stack.rs", "use crate::tally::Tally;", "profile may not import tally"),
        ("profile/stack.rs", "use crate::{link::wire::Clock, tui::{self, app}};", "profile may not import tui"),
        ("profile/stack.rs", "use crate::tui as screen;", "profile may not import tui"),
        ("profile/stack.rs", "use crate::tui::*;", "profile may not import tui"),
        ("profile/stack.rs", "use super::super::symbols;", "profile may not import symbols"),
        ("profile/stack.rs", "use self::super::super::symbols;", "profile may not import symbols"),
        ("profile/mod.rs", "use super::symbols::Names;", "profile may not import symbols"),
        ("profile/stack.rs", "use crate::r#symbols::Names;", "profile may not import symbols"),
        ("profile/stack.rs", "mod tests { use super::super::super::write; }", "profile may not import write"),
        ("profile/stack.rs", "fn f() { use crate::write::text; }", "profile may not import write"),
        ("profile/stack.rs", "fn f() { crate::write::text::print() }", "profile may not import write"),
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
        ("link/wire.rs", "use super::receive::listen;", "link::wire may not import link"),
        ("link/receive.rs", "use crate::attach::find;", "link may not import attach"),
        ("profile/stack.rs", "use crate::link::receive;", "profile may not import link"),
        ("profile/stack.rs", "use crate::link::{wire::Clock, receive};", "profile may not import link"),
        ("profile/stack.rs", "use crate::link; fn f() { link::receive::listen() }", "profile may not import link"),
        ("attach/find.rs", "use crate::link::receive;", "attach may not import link"),
        ("tally/table.rs", "use crate::symbols::worker::Worker;", "tally may not import symbols::worker"),
        (
            "tally/table.rs",
            "use crate::symbols; fn f() { symbols::worker::run() }",
            "tally may not import symbols::worker",
        ),
        (
            "tally/table.rs",
            "use crate::symbols as s; fn f() { s::worker::run() }",
            "tally may not import symbols::worker",
        ),
        ("tally/table.rs", "use crate::symbols::*; fn f() { worker::run() }", "tally may not import symbols::worker"),
        ("track/mod.rs", "use crate::tui::App;", "track may not import tui"),
        ("track/mod.rs", "use crate::write::text;", "track may not import write"),
        ("track/mod.rs", "use crate::agent::ring;", "track may not import agent"),
        ("tui/app.rs", "use crate::agent;", "tui may not import agent"),
        ("write/mod.rs", "use crate::attach::find;", "write may not import attach"),
        ("misc/mod.rs", "", "no rule for this room"),
        ("write/mod.rs", "use ratatui::text::Line;", "ratatui is for tui"),
        ("write/mod.rs", "use ::crossterm::style as s;", "crossterm is for tui"),
        ("write/mod.rs", "fn f() -> crossterm::style::Color { todo!() }", "crossterm is for tui"),
        ("write/mod.rs", "extern crate ratatui as r;", "ratatui is for tui"),
        ("write/mod.rs", "fn f() { println!(\"{}\", ratatui::VERSION) }", "ratatui is for tui"),
        ("attach/find.rs", "use object::elf;", "object is for symbols and attach::elf and agent::oracle"),
        ("tally/table.rs", "use {addr2line::Context};", "addr2line is for symbols"),
        ("tally/table.rs", "use gimli::EhFrame;", "gimli is for agent"),
        ("symbols/object.rs", "use framehop::Unwinder;", "framehop is for agent"),
        ("tui/app.rs", "fn f() { libc::getpid(); }", "libc is for agent and attach"),
        ("tui/app.rs", "use nix::libc;", "libc is for agent and attach"),
        ("tui/app.rs", "use nix as n; fn f() { n::libc::getpid(); }", "libc is for agent and attach"),
        ("attach/find.rs", "pub use libc;", "not passed on"),
        ("attach/find.rs", "pub(crate) use libc::pid_t;", "not passed on"),
        ("link/receive.rs", "fn f() { unsafe { g() } }", "is for agent and attach"),
        ("link/receive.rs", "unsafe impl Send for S {}", "is for agent and attach"),
        ("link/receive.rs", "#[unsafe(no_mangle)] fn f() {}", "is for agent and attach"),
        ("link/receive.rs", "fn f() { m!(unsafe { g() }) }", "is for agent and attach"),
        ("link/receive.rs", "macro_rules! m { () => { unsafe { g() } } }", "is for agent and attach"),
        ("main.rs", "unsafe extern \"C\" { fn f(); }", "is for agent and attach"),
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
        ("link/mod.rs", "pub mod receive; pub mod wire; pub use wire::Clock;"),
        ("link/receive.rs", "use super::wire::{self, Clock}; use crate::link::wire::Loss; use nix::poll::poll;"),
        ("profile/mod.rs", "pub mod stack; pub use stack::Stack; mod tests { use super::*; use super::stack::Stack; }"),
        (
            "profile/stack.rs",
            "use crate::link::wire; use super::Profile; fn f() { wire::frame(&[]); super::g(); crate::profile::h() }",
        ),
        (
            "profile/stack.rs",
            "fn f(object: u8, libc: u8) -> u8 { object + libc } mod tests { use super::*; fn g() { super::f(1, 2); } }",
        ),
        ("symbols/mod.rs", "pub mod object; pub mod worker; fn f() { worker::run(); object::open() }"),
        ("symbols/object.rs", "use object::Object; use addr2line::Context; use super::worker;"),
        ("symbols/worker.rs", "use super::object; fn f() { object::open() } use crate::profile::stack;"),
        (
            "tally/table.rs",
            "use crate::symbols::{Names, object}; use crate::{profile, symbols}; fn f() { symbols::name() }",
        ),
        ("track/mod.rs", "use crate::{attach::find, link::{receive, wire}, symbols::worker, tally};"),
        (
            "tui/app.rs",
            "use crate::{attach, link, profile, symbols, tally, track, write}; use ratatui::Frame; use crossterm::event;",
        ),
        ("attach/elf.rs", "use object::elf; use crate::link::wire::LINK_VARIABLE; use super::AttachError;"),
        ("attach/find.rs", "use libc::pid_t; fn f() { unsafe { libc::getpid() }; }"),
        ("write/mod.rs", "/// Like `crate::tui`, but not unsafe.\nfn f() { println!(\"unsafe crate::tui\") }"),
        ("main.rs", "use sigtop::{cli, tui, track}; fn main() { sigtop::attach::find::carriers(); }"),
        ("lib.rs", "pub mod tui; pub mod agent; extern crate alloc;"),
        ("cli.rs", "use crate::track; use std::ffi::OsString;"),
    ] {
        let found = offences(path, text, &house());
        assert!(found.is_empty(), "src/{path}: {text}\n  {found:?}");
    }
}
