//! Imports run one way: reads every file under `src/` and fails on a cycle of imports between
//! folders, and between the modules of one folder.
//!
//! A module that passes on what its child defines (`pub use child::Item`) does not import it:
//! whoever names the item there imports the child. Tests may import what they test with.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, Macro, Visibility};

use crate::paths::{Meaning, Module, Names, leaves, meaning, module_of_file, paths_in_tokens, segments};
use crate::sources::{modules_of, sources};

/// The imports of each module, each with the line that shows it.
type Imports = BTreeMap<Module, BTreeMap<Module, String>>;

/// Collects the imports of one file.
struct Collector<'a> {
    here: Module,
    modules: &'a BTreeSet<Module>,
    known: HashMap<String, Module>,
    /// Full paths of items, with their lines.
    found: Vec<(Module, usize)>,
    /// Items that are passed on: their name here, and where they come from.
    passed_on: Vec<(Module, Module)>,
}

impl Collector<'_> {
    fn add(&mut self, path: &[String], line: usize, imported: bool) {
        let known = if imported { &HashMap::new() } else { &self.known };
        if let Meaning::Ours(place) = meaning(path, &self.here, self.modules, known) {
            self.found.push((place, line));
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().starts_with("test"))
    })
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.here.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut all = Vec::new();
        leaves(&item.tree, &mut Module::new(), &mut all);
        for (path, called) in all {
            if !is_for_tests(&item.attrs)
                && !matches!(item.vis, Visibility::Inherited)
                && let Meaning::Ours(place) = meaning(&path, &self.here, self.modules, &HashMap::new())
                && place.starts_with(&self.here)
            {
                let name: Module = self.here.iter().cloned().chain([called]).collect();
                if !place.starts_with(&name) {
                    self.passed_on.push((name, place));
                }
            } else if !is_for_tests(&item.attrs) {
                self.add(&path, item.span().start().line, true);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = segments(path);
        if names.len() > 1 {
            self.add(&names, path.span().start().line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        for (path, line) in paths_in_tokens(call.tokens.clone()) {
            self.add(&path, line, false);
        }
        visit::visit_macro(self, call);
    }
}

/// Where the item that a path begins with comes from, if a module passes it on, and its length.
fn origin_of<'a>(path: &[String], passed_on: &'a HashMap<Module, Module>) -> Option<(usize, &'a Module)> {
    (1..=path.len()).rev().find_map(|length| Some((length, passed_on.get(&path[..length])?)))
}

/// The imports of these files. Files of tests alone import nothing.
fn imports(files: &[(String, String)]) -> Imports {
    let modules = modules_of(files);
    let mut passed_on = HashMap::new();
    let mut collected = Vec::new();
    for (path, text) in files {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("src/{path}: {error}"));
        let here = module_of_file(path);
        if is_for_tests(&file.attrs) || here.iter().any(|name| name == "tests") {
            continue;
        }
        let known = Names::of(&file, here.clone(), &modules);
        let mut collector =
            Collector { here: here.clone(), modules: &modules, known, found: Vec::new(), passed_on: Vec::new() };
        collector.visit_file(&file);
        passed_on.extend(collector.passed_on);
        collected.push((here, path, collector.found));
    }
    let mut all = Imports::new();
    for (here, path, found) in collected {
        for (mut item, line) in found {
            while let Some((length, origin)) = origin_of(&item, &passed_on) {
                item.splice(..length, origin.iter().cloned());
            }
            let holder = (1..=item.len()).rev().map(|length| &item[..length]).find(|part| modules.contains(*part));
            if let Some(holder) = holder.filter(|holder| *holder != here) {
                all.entry(here.clone()).or_default().entry(holder.to_vec()).or_insert(format!("src/{path}:{line}"));
            }
        }
    }
    all
}

/// The same between folders, which are the first names of modules.
fn between_folders(imports: &Imports) -> Imports {
    let mut all = Imports::new();
    for (from, targets) in imports {
        for (to, line) in targets {
            if let (Some(from), Some(to)) = (from.first(), to.first())
                && from != to
            {
                let folder = all.entry(vec![from.clone()]).or_default();
                folder.entry(vec![to.clone()]).or_insert(line.clone());
            }
        }
    }
    all
}

/// The modules that `start` imports, directly or through others.
fn reachable<'a>(imports: &'a Imports, start: &'a Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        open.extend(imports.get(module).into_iter().flatten().map(|(to, _)| to).filter(|to| found.insert(*to)));
    }
    found
}

/// Every import that is part of a cycle.
fn cycles(imports: &Imports) -> Vec<String> {
    let reached: HashMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let mut all = Vec::new();
    for (from, targets) in imports {
        for (to, line) in targets {
            if reached.get(to).is_some_and(|modules| modules.contains(from)) {
                all.push(format!("{line}: {} imports {}, which imports it", from.join("::"), to.join("::")));
            }
        }
    }
    all
}

#[test]
fn imports_run_one_way() {
    let all = imports(&sources());
    let found = [cycles(&between_folders(&all)), cycles(&all)].concat();
    assert!(found.is_empty(), "{} imports are parts of cycles:\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_cycle_is_found() {
    let files = |files: &[(&str, &str)]| -> Vec<(String, String)> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    };
    let within = files(&[
        ("link/mod.rs", "mod reader; mod writer; pub use reader::Reader;"),
        ("link/reader.rs", "use super::writer; pub struct Reader; fn f() { writer::g() }"),
        ("link/writer.rs", "fn g(reader: crate::link::Reader) {}"),
    ]);
    assert_eq!(cycles(&imports(&within)).len(), 2, "{:?}", cycles(&imports(&within)));
    let between = files(&[
        ("link/reader.rs", "use crate::tally::rows;"),
        ("link/writer.rs", ""),
        ("tally/rows.rs", "fn f() { vec![crate::link::writer::g()] }"),
    ]);
    assert!(cycles(&imports(&between)).is_empty(), "no module is in a cycle");
    assert_eq!(cycles(&between_folders(&imports(&between))).len(), 2);
    let one_way = files(&[
        ("link/mod.rs", "mod reader; pub use reader::Reader; pub const LIMIT: u8 = 1;"),
        ("link/reader.rs", "pub struct Reader; #[cfg(test)] mod tests { use crate::tally::rows; }"),
        ("tally/rows.rs", "use crate::link::{LIMIT, Reader};"),
    ]);
    assert!(cycles(&imports(&one_way)).is_empty());
}
