//! A C program with debug information, built for a test.

use std::path::PathBuf;
use std::process::Command;

/// The path of a program, which is removed in the end.
pub(super) struct BuiltProgram(pub(super) PathBuf);

impl BuiltProgram {
    /// Compiles it. `name` is unique among the tests.
    pub(super) fn build(name: &str) -> BuiltProgram {
        let path = std::env::temp_dir().join(format!("sigtop-{name}-{}", std::process::id()));
        let source = path.with_extension("c");
        std::fs::write(&source, "int main(void) { return 0; }\n").expect("a source");
        let built = Command::new("gcc").args(["-g", "-o"]).args([&path, &source]).status();
        let _ = std::fs::remove_file(&source);
        assert!(built.expect("gcc runs").success());
        BuiltProgram(path)
    }
}

impl Drop for BuiltProgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
