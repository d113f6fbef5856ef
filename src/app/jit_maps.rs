//! `--jit`: has the run-time compiler of a launched program write the names of its code, so that
//! its functions are rows of their own. The program is recognised by its file; variables that the
//! user sets are left alone.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use memchr::memmem;

use crate::attach::program::{self, Program, ProgramKind};
use crate::keyword::{Keyword, Word};

/// Whether names of generated code are switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitMaps {
    /// They are switched on for programs that are known to support it and do not run slower.
    #[default]
    Auto,
    /// They are switched on for all programs that are known to support it.
    All,
    /// They are left as they are.
    Off,
}

impl Keyword for JitMaps {
    const ALL: &'static [JitMaps] = &[JitMaps::Auto, JitMaps::All, JitMaps::Off];

    fn word(self) -> Word {
        match self {
            JitMaps::Auto => Word::new("auto", "set NODE_OPTIONS for Node.js"),
            JitMaps::All => {
                Word::new("all", "also name regular expressions (V8 leaves a log file), and PYTHONPERFSUPPORT")
            }
            JitMaps::Off => Word::new("off", "leave the environment as it is"),
        }
    }
}

/// The variable of CPython, from 3.12 on.
const PYTHON_VARIABLE: &str = "PYTHONPERFSUPPORT";
/// The options of Node.js. A version that does not know one would not start. The second one gives
/// functions names that are interpreted still.
const NODE_OPTIONS: [&str; 2] = ["--perf-basic-prof-only-functions", "--interpreted-frames-native-stack"];
/// Options of Node.js that name code of regular expressions, too. With the first one, V8 leaves a
/// log in the working directory.
const ALL_NODE_OPTIONS: [&str; 2] = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
/// Maximum length of a first line that the kernel reads.
const MAX_FIRST_LINE: u64 = 256;

impl JitMaps {
    /// Returns the variables to set for a program, and their values.
    pub(super) fn variables(self, program: &Program) -> Vec<(&'static str, String)> {
        if self == JitMaps::Off {
            return Vec::new();
        }
        let is_wanted = |name: &str| env::var_os(name).is_none() && (self == JitMaps::All || name != PYTHON_VARIABLE);
        let variable = executable(program).and_then(|path| self.variable(&path));
        variable.filter(|(name, _)| is_wanted(name)).into_iter().collect()
    }

    fn variable(self, path: &Path) -> Option<(&'static str, String)> {
        let name = path.file_name()?.to_str()?;
        if name == "node" || name == "nodejs" {
            let options = if self == JitMaps::All { ALL_NODE_OPTIONS } else { NODE_OPTIONS };
            return has_texts(path, &options).then(|| ("NODE_OPTIONS", options.join(" ")));
        }
        let minor: u32 = name.strip_prefix("python3.")?.parse().ok()?;
        (minor >= 12).then(|| (PYTHON_VARIABLE, "1".to_owned()))
    }
}

/// The binary that runs a program, links resolved.
fn executable(program: &Program) -> Option<PathBuf> {
    let path = match &program.form {
        ProgramKind::Binary => program.path.clone(),
        ProgramKind::Script { interpreter } if interpreter.file_name() == Some(OsStr::new("env")) => {
            program::find(started_by_env(&program.path)?.as_ref(), env::var_os("PATH").as_deref()).ok()?
        }
        ProgramKind::Script { interpreter } => interpreter.clone(),
        ProgramKind::Shell | ProgramKind::Unknown => return None,
    };
    path.canonicalize().ok()
}

/// The program in a first line such as `#!/usr/bin/env node`.
fn started_by_env(script: &Path) -> Option<String> {
    let mut line = String::new();
    BufReader::new(File::open(script).ok()?.take(MAX_FIRST_LINE)).read_line(&mut line).ok()?;
    let words = line.split_whitespace().skip(1).filter(|word| !word.starts_with('-') && !word.contains('='));
    words.map(str::to_owned).next()
}

/// Whether a file has all these texts.
fn has_texts(path: &Path, texts: &[&str]) -> bool {
    const CHUNK_BYTES: usize = 1 << 20;
    let overlap = texts.iter().map(|text| text.len()).max().unwrap_or_default();
    let Ok(mut file) = File::open(path) else { return false };
    let (mut missing, mut bytes) = (texts.to_vec(), Vec::with_capacity(CHUNK_BYTES + overlap));
    while !missing.is_empty() {
        bytes.drain(..bytes.len().saturating_sub(overlap));
        match (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut bytes) {
            Ok(0) | Err(_) => return false,
            Ok(_) => missing.retain(|text| memmem::find(&bytes, text.as_bytes()).is_none()),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_know_the_switch_get_it() {
        let python = |name: &str| JitMaps::All.variable(Path::new(name)).map(|(name, value)| format!("{name}={value}"));
        assert_eq!(python("/usr/bin/python3.12"), Some("PYTHONPERFSUPPORT=1".to_owned()));
        for other in ["python3.11", "python3", "python2.7", "python3.x", "pypy3.12", "node", "/nonexistent/node"] {
            assert_eq!(python(other), None, "{other}");
        }
        let directory = std::env::temp_dir().join(format!("sigtop-jit-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let node = directory.join("node");
        let filler = vec![b'-'; (1 << 20) - 5];
        std::fs::write(&node, [&filler, NODE_OPTIONS[0].as_bytes(), NODE_OPTIONS[1].as_bytes()].concat()).unwrap();
        let value = |options: [&str; 2]| Some(("NODE_OPTIONS", options.join(" ")));
        assert_eq!(JitMaps::Auto.variable(&node), value(NODE_OPTIONS), "across the end of a chunk");
        assert_eq!(JitMaps::All.variable(&node), value(ALL_NODE_OPTIONS), "the first is the start of another");
        std::fs::write(&node, [&filler, NODE_OPTIONS[0].as_bytes()].concat()).unwrap();
        assert_eq!(JitMaps::All.variable(&node), None);

        let script = directory.join("app");
        std::fs::write(&script, "#!/usr/bin/env -S A=1 node --flag\n").unwrap();
        assert_eq!(started_by_env(&script).as_deref(), Some("node"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
