//! Text of the page that explains a function's name: which files were searched for symbols, and the
//! result.

use crate::symbols::explain::Explanation;
use crate::symbols::{INTERPRETED_CODE, UNNAMED_CODE};
use crate::tui::pane::help::lines::{self, HelpLine, KEY_COLUMNS};
use crate::tui::text;

/// A question about a name, and its answer.
#[derive(Clone, Debug)]
pub struct NameQuestion {
    /// Full name of the function.
    pub full: String,
    /// File name of its module; empty for code without a file.
    pub module: String,
    /// Explanations of the files of this name; `None` until they have been read.
    pub found: Option<Vec<Explanation>>,
}

/// The lines of the page.
pub fn lines(why: Option<&NameQuestion>, width: u16) -> Vec<HelpLine> {
    let Some(why) = why else { return Vec::new() };
    let mut lines = vec![HelpLine::Heading("Name".to_owned())];
    entry(&mut lines, width, "name", &why.full);
    entry(&mut lines, width, "file", if why.module.is_empty() { "none" } else { &why.module });
    let verdict = match &why.found {
        _ if why.full == UNNAMED_CODE => {
            "code generated at run time that no perf map (/tmp/perf-PID.map) and no jitdump names; to have it named: \
             node --perf-basic-prof-only-functions --interpreted-frames-native-stack; python3.12 -X perf; jcmd PID \
             Compiler.perfmap or java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (JDK 17 or later), and \
             -XX:+PreserveFramePointer for whole stacks"
        }
        _ if why.module == INTERPRETED_CODE => {
            "a Python function: its name, file and first line are those of the interpreter"
        }
        _ if why.module.is_empty() && why.full.starts_with('[') => {
            "not a function: the stack continues towards its root but could not be unwound"
        }
        _ if why.module.is_empty() => "code generated at run time, named by a perf map or a jitdump",
        None => "reading the file …",
        Some(found) if found.is_empty() => "no process maps a file of this name any longer",
        Some(_) if why.full.contains("+0x") => {
            "no symbol of the file covers the function, which is called by the address where it starts"
        }
        Some(found) if found.iter().all(Explanation::is_whole) => {
            "the file has symbols and line tables: this is the best available name"
        }
        Some(_) => "the file lacks symbols or line tables, see below",
    };
    entry(&mut lines, width, "reason", verdict);
    for inquiry in why.found.iter().flatten() {
        lines.push(HelpLine::Blank);
        lines.push(HelpLine::Heading(inquiry.path.clone()));
        inquiry.findings().iter().for_each(|(head, words)| entry(&mut lines, width, head, words));
    }
    lines
}

/// Appends text. Paths and names wider than the screen are broken, not truncated.
fn entry(lines: &mut Vec<HelpLine>, width: u16, head: &str, words: &str) {
    let room = usize::from(width.saturating_sub(KEY_COLUMNS + 4)).max(16);
    let (mut broken, mut used) = (String::new(), 0);
    for c in words.chars() {
        used = if c == ' ' { 0 } else { used + text::width(c) };
        if used > room {
            broken.push(' ');
            used = text::width(c);
        }
        broken.push(c);
    }
    lines::entry(lines, width, head, &broken);
}
