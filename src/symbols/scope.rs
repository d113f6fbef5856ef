//! Where in a C++ unit a function stands. GCC gives functions that only one unit can see (static ones, lambdas, those of
//! unnamed namespaces) no linkage name, but just `operator()`: the rest of the name is in the entries around it.

use addr2line::gimli::{self, AttributeValue, DwTag, UnitOffset, UnitRef};

use super::fuel::Metered;

type Unit<'u, 'a> = UnitRef<'u, Metered<'a>>;

/// Entries followed from a use to its declaration, and from a scope to the one around it.
const MAX_STEPS: usize = 32;

/// The namespaces, classes and functions of one unit, in the order of the file.
pub(super) struct Scopes<'a> {
    scopes: Vec<Scope<'a>>,
}

struct Scope<'a> {
    start: usize,
    /// First offset behind its children.
    end: usize,
    parent: Option<usize>,
    name: Option<&'a [u8]>,
    tag: DwTag,
    /// Where it was declared, when this is only its body.
    declared_at: Option<usize>,
}

impl<'a> Scopes<'a> {
    /// Reads all entries of a unit.
    pub(super) fn read(unit: Unit<'_, 'a>) -> gimli::Result<Scopes<'a>> {
        let mut scopes: Vec<Scope<'a>> = Vec::new();
        // Index and depth of every scope around the entry.
        let mut around: Vec<(usize, isize)> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let (start, depth) = (entries.next_offset().0, entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while let Some((index, _)) = around.pop_if(|(_, other)| *other >= depth) {
                scopes[index].end = start;
            }
            let tag = abbreviation.tag();
            if !abbreviation.has_children() || !is_scope(tag) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let (mut name, mut declared_at) = (None, None);
            for attribute in abbreviation.attributes() {
                let attribute = entries.read_attribute(*attribute)?;
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_name, value) => name = unit.attr_string(value).ok().map(|name| cut(name.bytes())),
                    (gimli::DW_AT_specification | gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(offset)) => {
                        declared_at = Some(offset.0);
                    }
                    _ => {}
                }
            }
            let parent = around.last().map(|&(index, _)| index);
            around.push((scopes.len(), depth));
            scopes.push(Scope { start, end: usize::MAX, parent, name, tag, declared_at });
        }
        Ok(Scopes { scopes })
    }

    /// The full path of the function at an entry whose own name is `name`.
    pub(super) fn qualify(&self, unit: Unit<'_, 'a>, entry: UnitOffset, name: &str) -> String {
        let declaration = declaration(unit, entry).unwrap_or(entry).0;
        let mut path = vec![name.to_owned()];
        let mut scope = self.around(declaration);
        for _ in 0..MAX_STEPS {
            let Some(current) = scope.map(|index| &self.scopes[index]) else { break };
            // The body of something that is declared elsewhere stands for what is there.
            if let Some(declared_at) = current.declared_at {
                let declared = self.scopes.binary_search_by_key(&declared_at, |scope| scope.start);
                scope = declared.ok().filter(|&index| self.scopes[index].declared_at.is_none());
                if scope.is_some() {
                    continue;
                }
                break;
            }
            match current.name {
                Some(name) => path.push(String::from_utf8_lossy(name).into_owned()),
                None if current.tag == gimli::DW_TAG_namespace => path.push("(anonymous namespace)".to_owned()),
                None if current.tag == gimli::DW_TAG_subprogram => break,
                None => path.push("{unnamed type}".to_owned()),
            }
            scope = current.parent;
        }
        path.reverse();
        path.join("::")
    }

    /// The innermost scope around an offset.
    fn around(&self, offset: usize) -> Option<usize> {
        let mut index = self.scopes.partition_point(|scope| scope.start < offset).checked_sub(1);
        while let Some(current) = index.filter(|&index| self.scopes[index].end <= offset) {
            index = self.scopes[current].parent;
        }
        index
    }
}

/// A name that is longer is none that a person gave.
fn cut(name: &[u8]) -> &[u8] {
    const MAX_SCOPE_BYTES: usize = 1_024;
    &name[..name.len().min(MAX_SCOPE_BYTES)]
}

fn is_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_subprogram
    )
}

/// The entry that declares what is used at `entry`, within the unit.
fn declaration(unit: Unit<'_, '_>, entry: UnitOffset) -> gimli::Result<UnitOffset> {
    let mut offset = entry;
    for _ in 0..MAX_STEPS {
        let mut entries = unit.entries_raw(Some(offset))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { break };
        let mut next = None;
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            if let gimli::DW_AT_abstract_origin | gimli::DW_AT_specification = attribute.name()
                && let AttributeValue::UnitRef(origin) = attribute.value()
            {
                next = Some(origin);
            }
        }
        match next {
            Some(origin) => offset = origin,
            None => break,
        }
    }
    Ok(offset)
}
