//! Lines and inlined calls of some units, read by addr2line. Parts that are in other files are read
//! when an address needs them; see [`split_dwarf`](super::split_dwarf).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use addr2line::gimli::{self, Dwarf, UnitRef};
use addr2line::{Context, LookupContinuation, LookupResult};

use super::cxx_scope::UnitScopes;
use super::declaration::{self, Declaration};
use super::demangle::{Demangler, Name, NameLanguage, is_fortran, plain};
use super::elf::MAX_STRING_BYTES;
use super::resolved::{KnownSymbol, ResolvedLine};
use super::sanitize::sanitize;
use super::section::SectionReader;
use super::simplify;
use super::split_dwarf::SplitDwarf;

/// Maximum number of inlined calls at one address.
const MAX_INLINED: usize = 256;

/// The id of a unit's split part, if it has one, and the unit's offset.
type UnitKey = (Option<u64>, usize);

/// The lines of units by address.
pub(super) struct UnitLines<'a> {
    context: Context<SectionReader<'a>>,
    /// The scopes by split part and offset of their unit; `None` if the unit is malformed.
    scopes: RefCell<HashMap<UnitKey, Option<UnitScopes<'a>>>>,
    /// The declarations of closures that are in other units than their code, by their offset.
    declarations: RefCell<HashMap<usize, Declaration>>,
    names: Rc<Demangler>,
    split: &'a SplitDwarf,
}

impl<'a> UnitLines<'a> {
    /// Indexes the units of debug information. Their parts in other files are in `split`.
    pub(super) fn new(
        dwarf: Dwarf<SectionReader<'a>>,
        names: &Rc<Demangler>,
        split: &'a SplitDwarf,
    ) -> gimli::Result<UnitLines<'a>> {
        Ok(UnitLines {
            context: Context::from_dwarf(dwarf)?,
            scopes: RefCell::default(),
            declarations: RefCell::default(),
            names: Rc::clone(names),
            split,
        })
    }

    /// Returns the result of a lookup, and reads the split parts that it needs.
    fn complete<L: LookupContinuation<Buf = SectionReader<'a>>>(&self, mut result: LookupResult<L>) -> L::Output {
        loop {
            match result {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => {
                    let part = self.split.load(&load);
                    result = continuation.resume(part);
                }
            }
        }
    }

    /// Returns the functions at an address, innermost first; none if unknown. `symbol` is the name
    /// from the symbol table.
    pub(super) fn frames(&self, address: u64, symbol: Option<&KnownSymbol>) -> gimli::Result<Vec<ResolvedLine>> {
        let mut frames = self.complete(self.context.find_frames(address))?;
        let mut lines = Vec::new();
        let mut internal = None;
        let mut next = frames.next()?;
        while let Some(frame) = next {
            next = frames.next()?;
            let is_outermost = next.is_none();
            let known = match &frame.function {
                Some(function) => Some((function, function.name.bytes()?)),
                None => None,
            };
            let name = match known.filter(|(_, raw)| !raw.is_empty()) {
                Some((function, raw)) => {
                    let is_cpp = function.language.is_some_and(is_cpp);
                    let is_rust = function.language == Some(gimli::DW_LANG_Rust);
                    let language = match (is_cpp, is_rust) {
                        (true, _) => NameLanguage::Cpp,
                        (_, true) => NameLanguage::Rust,
                        _ => NameLanguage::C,
                    };
                    let symbol = symbol.filter(|_| is_outermost);
                    // Any of the functions at this address may have been found.
                    let folded = symbol.filter(|symbol| symbol.others > 0).map(KnownSymbol::label);
                    let name = self.name(address, (&raw, symbol), language, frame.dw_die_offset);
                    let symbol = symbol.map(|symbol| &symbol.name);
                    Some(match (folded, symbol) {
                        (Some(folded), _) => folded,
                        (None, Some(symbol)) if is_internal_alias(&name, symbol) => {
                            internal = Some(without_alias(name.full));
                            symbol.clone()
                        }
                        _ => prefer_symbol(name, symbol.filter(|_| is_cpp || is_rust), is_rust),
                    })
                }
                // Only the symbol table names the function.
                None if is_outermost => symbol.map(KnownSymbol::label),
                None => None,
            };
            let Some(Name { full, short, .. }) = name else { continue };
            let full = without_alias(full);
            let location = frame.location.as_ref();
            let file = sanitize(location.and_then(|location| location.file).unwrap_or_default());
            let line = location.and_then(|location| location.line).unwrap_or(0);
            lines.push(ResolvedLine { full, short, file, line, inlined: !is_outermost });
            if lines.len() > MAX_INLINED {
                return Ok(Vec::new());
            }
        }
        if let Some(internal) = internal {
            merge_alias(&mut lines, &internal);
        }
        // Inlined calls are dropped if the outermost frame has no name.
        let is_whole = lines.last().is_some_and(|line| !line.inlined);
        Ok(if is_whole { lines } else { Vec::new() })
    }

    /// Returns the name of a function whose name in the debug information is `raw`. That of the
    /// symbol is used if it is the same.
    fn name(
        &self,
        address: u64,
        (raw, symbol): (&[u8], Option<&KnownSymbol>),
        language: NameLanguage,
        entry: Option<gimli::UnitOffset>,
    ) -> Name {
        let raw = &raw[..raw.len().min(MAX_STRING_BYTES)];
        let entry = entry.filter(|_| language != NameLanguage::C);
        let known = symbol.filter(|symbol| symbol.name.is_mangled && *symbol.raw == *raw);
        let name = if let Some(symbol) = known {
            symbol.name.clone()
        } else if raw.starts_with(b"_Z") || raw.starts_with(b"_R") || is_fortran(raw) {
            self.names.name(raw)
        } else {
            let text = String::from_utf8_lossy(raw);
            let qualified = entry.and_then(|entry| self.qualified(address, entry, &text));
            plain(qualified.as_deref().unwrap_or(&text), language)
        };
        match entry {
            Some(entry) if simplify::ends_unnamed(&name.short) => self.placed(address, entry, name),
            _ => name,
        }
    }

    /// Names a lambda or a closure by the place of its declaration.
    fn placed(&self, address: u64, entry: gimli::UnitOffset, name: Name) -> Name {
        let Some(unit) = self.complete(self.context.find_dwarf_and_unit(address)) else { return name };
        let Ok(mut declaration) = declaration::read(unit, entry) else { return name };
        if let Some(elsewhere) = declaration.elsewhere {
            let mut known = self.declarations.borrow_mut();
            let read = || declaration::read_elsewhere(unit, elsewhere).unwrap_or_default();
            declaration = known.entry(elsewhere.0).or_insert_with(read).clone();
        }
        if declaration.place.is_empty() {
            // GCC knows the place of a lambda's class, not that of its `operator()`.
            let class = self.with_scopes(unit, |scopes| scopes.enclosing(unit, entry)).flatten();
            let class = class.and_then(|class| declaration::read(unit, class).ok());
            declaration.place = class.unwrap_or_default().place;
        }
        let place = |text: &str| sanitize(&simplify::place_unnamed(text, &declaration.name, &declaration.place));
        Name { full: place(&name.full), short: place(&name.short), ..name }
    }

    /// Returns the name with namespace and class, from the entries that enclose the function's.
    fn qualified(&self, address: u64, entry: gimli::UnitOffset, name: &str) -> Option<String> {
        let unit: UnitRef<'_, _> = self.complete(self.context.find_dwarf_and_unit(address))?;
        self.with_scopes(unit, |scopes| scopes.qualify(unit, entry, name))
    }

    /// Calls `use_scopes` with the scopes of a unit, which are read once. Returns `None` if the
    /// unit is malformed.
    fn with_scopes<T>(
        &self,
        unit: UnitRef<'_, SectionReader<'a>>,
        use_scopes: impl FnOnce(&UnitScopes<'a>) -> T,
    ) -> Option<T> {
        let offset = unit.header.debug_info_offset()?.0;
        let mut scopes = self.scopes.borrow_mut();
        let scopes = scopes.entry((unit.dwo_id.map(|id| id.0), offset)).or_insert_with(|| UnitScopes::read(unit).ok());
        scopes.as_ref().map(use_scopes)
    }
}

/// Returns the symbol's name if it is the same function: the name from debug information lacks the
/// parameters. In Rust's line tables it also lacks the path, but has generic arguments.
fn prefer_symbol(name: Name, symbol: Option<&Name>, is_rust: bool) -> Name {
    let end = if is_rust { name.short.find('<').unwrap_or(name.short.len()) } else { name.short.len() };
    match symbol {
        Some(symbol) if !name.is_mangled && symbol.is_mangled && is_same(&name.short[..end], &symbol.short) => {
            symbol.clone()
        }
        _ => name,
    }
}

/// Whether a C name from debug information is the internal name of a library function, and `symbol`
/// its public name: `__GI_abort` and `abort`, `_IO_fwrite` and `fwrite`.
fn is_internal_alias(name: &Name, symbol: &Name) -> bool {
    let is_plain = !name.is_mangled && !symbol.is_mangled && symbol.full == symbol.short;
    let is_alias = name.full.starts_with("__GI_") || name.full.starts_with('_') && name.full.ends_with(&symbol.full);
    is_plain && is_alias
}

/// Removes the prefix of glibc's internal names, so that an inlined function has the name of its
/// copy that is not inlined.
fn without_alias(full: String) -> String {
    full.strip_prefix("__GI_").map(str::to_owned).unwrap_or(full)
}

/// Merges a function with its own parts that are inlined into it: GCC splits off the slow path of
/// `__libc_write`, which is `write`, and inlines the rest. The line is that of the innermost part.
fn merge_alias(lines: &mut Vec<ResolvedLine>, internal: &str) {
    let Some(mut outermost) = lines.pop() else { return };
    while let Some(part) = lines.pop_if(|part| part.full == internal) {
        (outermost.file, outermost.line) = (part.file, part.line);
    }
    lines.push(outermost);
}

/// Whether two short names have the same last component.
fn is_same(a: &str, b: &str) -> bool {
    a.rsplit("::").next() == b.rsplit("::").next()
}

fn is_cpp(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_function_that_are_inlined_into_it_are_no_calls() {
        let line = |name: &str, line, inlined| ResolvedLine {
            full: name.to_owned(),
            short: name.to_owned(),
            file: format!("{line}.c"),
            line,
            inlined,
        };
        let mut lines = vec![
            line("syscall", 3, true),
            line("__libc_write", 26, true),
            line("__libc_write", 25, true),
            line("write", 24, false),
        ];
        merge_alias(&mut lines, "__libc_write");
        let merged = ResolvedLine { file: "26.c".to_owned(), ..line("write", 26, false) };
        assert_eq!(lines, [line("syscall", 3, true), merged]);
        let other = [line("helper", 7, true), line("write", 24, false)];
        let mut lines = other.to_vec();
        merge_alias(&mut lines, "__libc_write");
        assert_eq!(lines, other);
    }
}
