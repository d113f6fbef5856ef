//! A strict reader of gperftools' CPU profiles: ambiguous files are refused.

use std::ops::Range;
use std::path::Path;

use object::{Object as _, ObjectSymbol as _};

/// The address after the leaf that readers drop.
const NOBODY: [u64; 2] = [0xdead_0001, 0xdead_0011];

/// A mapping of code.
struct Code {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// A parsed profile.
pub(crate) struct Legacy {
    /// The sampling period in µs.
    pub(crate) period_us: u64,
    /// Number of occurrences and addresses of each stack, leaf first.
    pub(crate) records: Vec<(u64, Vec<u64>)>,
    code: Vec<Code>,
}

impl Legacy {
    /// Parses a file.
    pub(crate) fn of(path: &Path) -> Legacy {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Legacy::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Parses its bytes: head, records, end and map, as the format's description defines them.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Legacy, String> {
        let word = |index: usize| -> Result<u64, String> {
            let bytes = bytes.get(8 * index..8 * index + 8).ok_or(format!("it ends before word {index}"))?;
            Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| "eight bytes")?))
        };
        if [word(0)?, word(1)?, word(2)?, word(4)?] != [0, 3, 0, 0] {
            return Err("another head".to_owned());
        }
        let (mut at, mut records) = (5, Vec::new());
        loop {
            let (count, depth) = (word(at)?, word(at + 1)?);
            if (count, depth, word(at + 2)?) == (0, 1, 0) {
                at += 3;
                break;
            }
            let depth = usize::try_from(depth).ok().filter(|depth| (3..600).contains(depth));
            let depth = depth.ok_or(format!("a record of another depth at word {at}"))?;
            let stack: Vec<u64> = (0..depth).map(|index| word(at + 2 + index)).collect::<Result<_, _>>()?;
            if stack[1..3] != NOBODY {
                return Err(format!("a record without padding at word {at}"));
            }
            records.push((count, [&stack[..1], &stack[3..]].concat()));
            at += 2 + depth;
        }
        let text = String::from_utf8_lossy(&bytes[8 * at..]).into_owned();
        let mut code = Vec::new();
        for line in text.lines() {
            match mapping(line) {
                Some(mapping) => code.push(mapping),
                None if line.starts_with("# ticks lost: ") => {}
                None => return Err(format!("no line of a map: {line:?}")),
            }
        }
        Ok(Legacy { period_us: word(3)?, records, code })
    }

    /// Returns the number of all ticks.
    pub(crate) fn ticks(&self) -> u64 {
        self.records.iter().map(|(count, _)| count).sum()
    }

    /// Returns the number of ticks with a function of a binary on the stack, by its symbol table.
    pub(crate) fn with(&self, binary: &Path, function: &str) -> u64 {
        let range = symbol(binary, function);
        let holds = |address: u64| {
            let code = self.code.iter().find(|code| (code.start..code.end).contains(&address));
            code.is_some_and(|code| {
                Path::new(&code.path) == binary && range.contains(&(address - code.start + code.offset))
            })
        };
        let inside = |stack: &[u64]| {
            stack.first().is_some_and(|&leaf| holds(leaf)) || stack[1..].iter().any(|&caller| holds(caller - 1))
        };
        self.records.iter().filter(|(_, stack)| inside(stack)).map(|(count, _)| count).sum()
    }
}

fn mapping(line: &str) -> Option<Code> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = words.first()?.split_once('-')?;
    let (start, end, offset) = (hexadecimal(start)?, hexadecimal(end)?, hexadecimal(words.get(2)?)?);
    assert!(words[1].contains('x'), "{line}");
    Some(Code { start, end, offset, path: words.get(5).copied().unwrap_or_default().to_owned() })
}

fn symbol(binary: &Path, function: &str) -> Range<u64> {
    let bytes = std::fs::read(binary).unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let symbol = file.symbols().find(|symbol| symbol.is_definition() && symbol.name() == Ok(function));
    let symbol = symbol.unwrap_or_else(|| panic!("no {function} in {}", binary.display()));
    symbol.address()..symbol.address() + symbol.size()
}
