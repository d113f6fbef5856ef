//! The table of file formats: keyword, description and file extensions. The command line, the save
//! prompt, completion and error messages are built from it.

use std::path::Path;

use crate::keyword::{Keyword, Word, join_with_or};

/// A file format that a watch or a report can be saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveFormat {
    /// sigtop's own recording, which `sigtop view` replays.
    Recording,
    /// pprof's `profile.proto`, gzipped.
    Proto,
    /// gperftools' CPU profile.
    Gperftools,
    /// Folded stacks.
    Folded,
    /// A flame graph as SVG.
    Flame,
    /// speedscope's JSON.
    Speedscope,
    /// The Firefox profiler's processed JSON.
    Firefox,
    /// Callgrind's text.
    Callgrind,
    /// Graphviz' text.
    Dot,
    /// pprof's `-top` table.
    Text,
}

impl Keyword for SaveFormat {
    const ALL: &'static [SaveFormat] = &[
        SaveFormat::Recording,
        SaveFormat::Proto,
        SaveFormat::Gperftools,
        SaveFormat::Folded,
        SaveFormat::Flame,
        SaveFormat::Speedscope,
        SaveFormat::Firefox,
        SaveFormat::Callgrind,
        SaveFormat::Dot,
        SaveFormat::Text,
    ];

    fn word(self) -> Word {
        self.row().0
    }
}

impl SaveFormat {
    /// The file extensions that select the format. New files get the first.
    pub fn extensions(self) -> &'static [&'static str] {
        self.row().1
    }

    fn row(self) -> (Word, &'static [&'static str]) {
        match self {
            SaveFormat::Recording => (Word::new("sigtop", "a recording of everything, for sigtop view"), &[".sigtop"]),
            SaveFormat::Proto => (
                Word::new("proto", "pprof's profile.proto with all samples and names"),
                &[".pb.gz", ".pb", ".pprof", ".prof.gz"],
            ),
            SaveFormat::Gperftools => {
                let help =
                    "CPU profile for old tools: addresses only; perl's pprof may drop frames common to all stacks";
                (Word::new("gperftools", help), &[".prof"])
            }
            SaveFormat::Folded => {
                (Word::new("folded", "one line per stack, for flame graph tools"), &[".folded", ".collapsed"])
            }
            SaveFormat::Flame => {
                (Word::new("flame", "an interactive flame graph for browsers"), &[".svg", ".flame.svg"])
            }
            SaveFormat::Speedscope => {
                (Word::new("speedscope", "for speedscope.app, one profile per thread"), &[".speedscope.json"])
            }
            SaveFormat::Firefox => {
                (Word::new("firefox", "for profiler.firefox.com, one track per thread"), &[".firefox.json"])
            }
            SaveFormat::Callgrind => (Word::new("callgrind", "for KCachegrind"), &[".callgrind"]),
            SaveFormat::Dot => (Word::new("dot", "a call graph for graphviz"), &[".dot", ".gv"]),
            SaveFormat::Text => (Word::new("text", "pprof's -top table"), &[".txt"]),
        }
    }

    /// Whether the format has the time of every sample.
    pub fn has_time_axis(self) -> bool {
        self == SaveFormat::Firefox
    }

    /// The first extensions of all formats as an enumeration: `.a, .b or .c`.
    pub fn list_extensions() -> String {
        let all: Vec<&str> = SaveFormat::ALL.iter().map(|format| format.extensions()[0]).collect();
        join_with_or(&all)
    }

    /// The format that a file's extension selects, and that extension. The longest extension wins;
    /// a file name that is nothing but an extension selects no format.
    pub fn from_path(path: &Path) -> Option<(SaveFormat, &'static str)> {
        let name = path.file_name()?.to_string_lossy();
        let candidates = SaveFormat::ALL
            .iter()
            .flat_map(|format| format.extensions().iter().map(move |extension| (*format, *extension)));
        candidates
            .filter(|(_, extension)| name.len() > extension.len() && name.ends_with(extension))
            .max_by_key(|(_, extension)| extension.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_selects_the_format() {
        let name = |text: &str| SaveFormat::from_path(Path::new(text)).map(|(format, _)| format.name());
        assert_eq!(name("/tmp/a.sigtop"), Some("sigtop"));
        assert_eq!(name("a.pb.gz"), Some("proto"));
        assert_eq!(name("a.flame.svg"), Some("flame"));
        assert_eq!(name("a.txt"), Some("text"));
        assert_eq!([name("a"), name(".txt"), name("a.gz"), name("")], [None; 4]);
    }

    #[test]
    fn every_format_is_found_by_its_extensions() {
        for &format in SaveFormat::ALL {
            for extension in format.extensions() {
                let path = format!("profile{extension}");
                assert_eq!(SaveFormat::from_path(Path::new(&path)), Some((format, *extension)));
            }
        }
    }
}
