//! The enclosing scopes of C++ functions. GCC gives functions that are local to a unit (static
//! functions, lambdas, members of unnamed namespaces) no linkage name, only a name such as
//! `operator()`. The qualified name follows from the entries that enclose the function's.

use addr2line::gimli::{self, AttributeValue, DwTag, Reader, UnitOffset, UnitRef};

use super::section::SectionReader;

type Unit<'u, 'a> = UnitRef<'u, SectionReader<'a>>;

/// Maximum number of references followed to a declaration, and of enclosing scopes.
pub(super) const MAX_STEPS: usize = 32;

/// The namespaces, classes and functions of one unit, in the order of the file.
pub(super) struct UnitScopes<'a> {
    scopes: Vec<CxxScope<'a>>,
}

struct CxxScope<'a> {
    start: usize,
    /// The offset after its last child.
    end: usize,
    parent: Option<usize>,
    name: Option<SectionReader<'a>>,
    tag: DwTag,
    /// The offset of its declaration, if this is only the definition.
    declared_at: Option<usize>,
}

impl<'a> UnitScopes<'a> {
    /// Reads all entries of a unit.
    pub(super) fn read(unit: Unit<'_, 'a>) -> gimli::Result<UnitScopes<'a>> {
        let mut scopes: Vec<CxxScope<'a>> = Vec::new();
        // The index and depth of every scope that encloses the entry.
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
                    (gimli::DW_AT_name, value) => {
                        name = unit.attr_string(value).ok().and_then(truncate);
                    }
                    (gimli::DW_AT_specification | gimli::DW_AT_abstract_origin, AttributeValue::UnitRef(offset)) => {
                        declared_at = Some(offset.0);
                    }
                    _ => {}
                }
            }
            let parent = around.last().map(|&(index, _)| index);
            around.push((scopes.len(), depth));
            scopes.push(CxxScope { start, end: usize::MAX, parent, name, tag, declared_at });
        }
        Ok(UnitScopes { scopes })
    }

    /// The full path of the function at an entry whose own name is `name`; the name alone if it is
    /// declared in another unit.
    pub(super) fn qualify(&self, unit: Unit<'_, 'a>, entry: UnitOffset, name: &str) -> String {
        let mut path = vec![name.to_owned()];
        let mut scope = self.around_declaration(unit, entry);
        for _ in 0..MAX_STEPS {
            let Some(current) = scope.map(|index| &self.scopes[index]) else { break };
            // The definition of a scope that is declared elsewhere stands for its declaration.
            if let Some(declared_at) = current.declared_at {
                let declared = self.scopes.binary_search_by_key(&declared_at, |scope| scope.start);
                scope = declared.ok().filter(|&index| self.scopes[index].declared_at.is_none());
                if scope.is_some() {
                    continue;
                }
                break;
            }
            match current.name {
                Some(name) => path.push(String::from_utf8_lossy(&name.bytes().unwrap_or_default()).into_owned()),
                None if current.tag == gimli::DW_TAG_namespace => path.push("(anonymous namespace)".to_owned()),
                None if current.tag == gimli::DW_TAG_subprogram => break,
                None => path.push("{unnamed type}".to_owned()),
            }
            scope = current.parent;
        }
        path.reverse();
        path.join("::")
    }

    /// The entry that encloses the declaration of the function at an entry: its class, if it has
    /// one.
    pub(super) fn enclosing(&self, unit: Unit<'_, 'a>, entry: UnitOffset) -> Option<UnitOffset> {
        self.around_declaration(unit, entry).map(|index| UnitOffset(self.scopes[index].start))
    }

    /// The innermost scope that contains the declaration of the function at an entry.
    fn around_declaration(&self, unit: Unit<'_, 'a>, entry: UnitOffset) -> Option<usize> {
        self.around(declaration(unit, entry).ok()??.0)
    }

    /// The innermost scope that contains an offset.
    fn around(&self, offset: usize) -> Option<usize> {
        let mut index = self.scopes.partition_point(|scope| scope.start < offset).checked_sub(1);
        while let Some(current) = index.filter(|&index| self.scopes[index].end <= offset) {
            index = self.scopes[current].parent;
        }
        index
    }
}

/// Truncates a name. People do not write longer names.
fn truncate(mut name: SectionReader<'_>) -> Option<SectionReader<'_>> {
    const MAX_SCOPE_BYTES: usize = 1_024;
    name.truncate(name.len().min(MAX_SCOPE_BYTES)).ok()?;
    Some(name)
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

/// Returns the entry that declares the one at `entry`, if it is in the same unit. An inlined call
/// may be far from its declaration, in a function that has nothing to do with it.
fn declaration(unit: Unit<'_, '_>, entry: UnitOffset) -> gimli::Result<Option<UnitOffset>> {
    let mut offset = entry;
    for _ in 0..MAX_STEPS {
        let mut entries = unit.entries_raw(Some(offset))?;
        let Some(abbreviation) = entries.read_abbreviation()? else { break };
        let mut next = None;
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            if let gimli::DW_AT_abstract_origin | gimli::DW_AT_specification = attribute.name() {
                let AttributeValue::UnitRef(origin) = attribute.value() else { return Ok(None) };
                next = Some(origin);
            }
        }
        match next {
            Some(origin) => offset = origin,
            None => break,
        }
    }
    Ok(Some(offset))
}
