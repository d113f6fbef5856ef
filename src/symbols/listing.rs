//! Lists all symbols of a file by address, as `nm -n` does: functions, data and labels. Lookup by
//! address is in [`table`](super::table).

use object::elf::{self, Sym64};
use object::{LittleEndian, pod};

use super::elf::{Elf, ORDER, string_at};
use super::error::Error;
use super::object::open;
use super::table::MAX_BYTES;
use crate::profile::module::ModuleFile;

/// The symbols at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSymbol {
    /// The address in the file.
    pub start: u64,
    /// The last address before the next symbol.
    pub last: u64,
    /// The raw names, sorted.
    pub names: Vec<String>,
}

/// Returns the symbols of a file by address; none if it was stripped.
///
/// # Errors
/// One sentence, if the file cannot be read or is another one than `file` describes.
pub fn list_symbols(file: &ModuleFile) -> Result<Vec<ListedSymbol>, String> {
    open(file, 0).and_then(|elf| read(&elf)).map_err(|error| error.to_string())
}

fn read(elf: &Elf) -> Result<Vec<ListedSymbol>, Error> {
    let malformed = |what| Error::Malformed { path: elf.path.clone(), what };
    let Some(section) = elf.section(b".symtab") else { return Ok(Vec::new()) };
    let strings = elf.sections().get(section.header.sh_link.get(ORDER) as usize);
    let strings = elf.bytes(strings.ok_or_else(|| malformed("its symbols have no names"))?, MAX_BYTES)?;
    let symbols = elf.bytes(section, MAX_BYTES - strings.len() as u64)?;
    let count = symbols.len() / size_of::<Sym64<LittleEndian>>();
    let symbols = pod::slice_from_bytes::<Sym64<LittleEndian>>(&symbols, count);
    let (symbols, _) = symbols.map_err(|()| malformed("its symbols are not aligned"))?;
    let is_listed = |symbol: &&Sym64<LittleEndian>| {
        let is_defined = symbol.st_shndx.get(ORDER) != elf::SHN_UNDEF;
        is_defined && !matches!(symbol.st_type(), elf::STT_SECTION | elf::STT_FILE)
    };
    let named = symbols.iter().filter(is_listed).map(|symbol| {
        let (start, name) = (symbol.st_value.get(ORDER), symbol.st_name.get(ORDER));
        (start, string_at(&strings, name))
    });
    let mut named: Vec<(u64, &[u8])> = named.filter(|(_, name)| !name.is_empty()).collect();
    named.sort_unstable();
    let mut all: Vec<ListedSymbol> = Vec::new();
    for (start, name) in named {
        let name = String::from_utf8_lossy(name).into_owned();
        match all.last_mut() {
            Some(known) if known.start == start => known.names.push(name),
            last => {
                last.into_iter().for_each(|last| last.last = start - 1);
                all.push(ListedSymbol { start, last: u64::MAX, names: vec![name] });
            }
        }
    }
    Ok(all)
}
