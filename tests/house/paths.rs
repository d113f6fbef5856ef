//! Resolves a path in the source to a module of this crate, or to another crate.

use std::collections::{BTreeSet, HashMap};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree};

/// A module's path, without the crate's name.
pub(crate) type Module = Vec<String>;

/// The module of a path in text: `link::listener`.
pub(crate) fn module(path: &str) -> Module {
    path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// `main.rs` and `lib.rs`: no module of that name can be imported.
pub(crate) fn is_root(module: &[String]) -> bool {
    module.is_empty() || module == ["main"]
}

/// The module that a file holds, by its path under `src/`.
pub(crate) fn module_of_file(path: &str) -> Module {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if ["mod", "lib"].contains(&module.last().map_or("", String::as_str)) {
        module.pop();
    }
    module
}

/// Our own crate, as `main.rs` calls it.
const OURS: &str = "sigtop";

/// A `use` taken apart: its paths, with what each is called from then on (`*` for a glob).
pub(crate) fn leaves(tree: &UseTree, before: &mut Module, all: &mut Vec<(Module, String)>) {
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

/// The meaning of a path.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning {
    /// A path of ours, from the crate's root.
    Ours(Module),
    /// A path that begins with another crate, or with a name that is nobody's.
    Other(Module),
}

/// Resolves a path in the module `here`, where `use` has brought in the `known` names.
pub(crate) fn meaning(
    path: &[String],
    here: &[String],
    modules: &BTreeSet<Module>,
    known: &HashMap<String, Module>,
) -> Meaning {
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
pub(crate) struct Names<'a> {
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

impl Names<'_> {
    /// The names that a file's `use`s bring in, with what each stands for.
    pub(crate) fn of(file: &syn::File, here: Module, modules: &BTreeSet<Module>) -> HashMap<String, Module> {
        let mut names = Names { here, modules, known: HashMap::new() };
        names.visit_file(file);
        names.known
    }
}

/// The names of a path.
pub(crate) fn segments(path: &syn::Path) -> Module {
    path.segments.iter().map(|part| part.ident.to_string().trim_start_matches("r#").to_owned()).collect()
}

/// Paths in the tokens of macros and attributes, which no parser has seen, with their lines.
pub(crate) fn paths_in_tokens(tokens: TokenStream) -> Vec<(Module, usize)> {
    let mut found = Vec::new();
    collect_paths(tokens, &[], &mut found);
    found
}

fn collect_paths(tokens: TokenStream, before: &[String], found: &mut Vec<(Module, usize)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let TokenTree::Ident(first) = &tokens[at] else {
            if let TokenTree::Group(group) = &tokens[at] {
                collect_paths(group.stream(), &[], found);
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
                    collect_paths(group.stream(), &path, found);
                }
                Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".to_owned()),
                _ => break,
            }
            at += 3;
        }
        if path.len() > 1 {
            found.push((path, line));
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
