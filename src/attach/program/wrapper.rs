//! Recognises commands that start another one without the environment, such as sudo and `env -i`,
//! and suggests a command line that works: sigtop goes between the wrapper and the wrapped command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::unistd::geteuid;

use crate::attach::error::AttachError;
use crate::attach::quote;

/// A wrapper: its name and those of its short and long options that take a value.
struct Wrapper {
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
}

const SUDO_LONG: [&str; 12] = [
    "user",
    "group",
    "host",
    "prompt",
    "close-from",
    "role",
    "type",
    "chdir",
    "chroot",
    "command-timeout",
    "other-user",
    "login-class",
];

/// Wrappers that always clear the environment.
const CLEAN: [Wrapper; 4] = [
    Wrapper { name: "sudo", short: "ughpCrtDRTUca", long: &SUDO_LONG },
    Wrapper { name: "doas", short: "uCa", long: &[] },
    Wrapper { name: "pkexec", short: "", long: &["user"] },
    Wrapper {
        name: "run0",
        short: "ugD",
        long: &["user", "group", "nice", "chdir", "setenv", "background", "unit", "slice"],
    },
];

/// `env` clears the environment only with an option.
const ENV: Wrapper = Wrapper { name: "env", short: "uC", long: &["unset", "chdir"] };

/// Refuses a command that would drop LD_PRELOAD, and suggests one that keeps it.
pub(super) fn check(command: &[OsString]) -> Result<(), AttachError> {
    let Some((first, rest)) = command.split_first() else { return Ok(()) };
    let Some(name) = Path::new(first).file_name().and_then(OsStr::to_str) else { return Ok(()) };
    let instead = match CLEAN.iter().find(|wrapper| wrapper.name == name) {
        Some(wrapper) => Some(insert_sigtop(command, 1 + wrapper.count_own_words(rest))),
        None if name == ENV.name => {
            clears_environment(rest).then(|| insert_sigtop(command, 1 + ENV.count_own_words(rest)))
        }
        None if ["su", "runuser"].contains(&name) => suggest_for_su(command),
        None => None,
    };
    match instead {
        Some(instead) => Err(AttachError::DropsPreload { wrapper: name.to_owned(), instead }),
        None => Ok(()),
    }
}

/// Returns the command in the argument of a script's `#!/usr/bin/env`; `None` if `env` clears the
/// environment.
pub(super) fn env_command(argument: &[u8]) -> Option<OsString> {
    let argument = argument.strip_prefix(b"-S").or(argument.strip_prefix(b"--split-string")).unwrap_or(argument);
    let words: Vec<OsString> = argument
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsStr::from_bytes(word).into())
        .collect();
    if clears_environment(&words) {
        None
    } else {
        Some(words.get(ENV.count_own_words(&words)).cloned().unwrap_or_default())
    }
}

/// Inserts sigtop: `… wrapper options sigtop -- command`.
fn insert_sigtop(command: &[OsString], at: usize) -> String {
    let (before, after) = command.split_at(at.min(command.len()));
    let inner = if after.is_empty() { "COMMAND".to_owned() } else { quote::command(after) };
    format!("run: {} sigtop -- {inner}", quote::command(before))
}

impl Wrapper {
    /// Returns how many of the words after its name are its own: options, their values,
    /// assignments.
    fn count_own_words(&self, words: &[OsString]) -> usize {
        let mut count = 0;
        while let Some(word) = words.get(count).map(|word| word.as_bytes()) {
            let takes_value = if word == b"--" {
                return count + 1;
            } else if let Some(long) = word.strip_prefix(b"--") {
                self.long.iter().any(|name| name.as_bytes() == long)
            } else if word.len() > 1 && word[0] == b'-' {
                // `-u root` and `-nu root`, but not `-uroot`.
                word[1..].iter().position(|byte| self.short.as_bytes().contains(byte)) == Some(word.len() - 2)
            } else if word == b"-" || word.contains(&b'=') {
                false
            } else {
                break;
            };
            count += 1 + usize::from(takes_value);
        }
        count.min(words.len())
    }
}

/// Returns whether `env` with these words starts from an empty environment.
fn clears_environment(words: &[OsString]) -> bool {
    words[..ENV.count_own_words(words)].iter().map(|word| word.as_bytes()).any(|word| {
        let short = word.len() > 1 && word[0] == b'-' && word[1] != b'-' && !b"uC".contains(&word[1]);
        word == b"-" || word == b"--ignore-environment" || short && word.contains(&b'i')
    })
}

/// Suggests a command for `su`, which keeps the environment for root unless it makes a login shell.
fn suggest_for_su(command: &[OsString]) -> Option<String> {
    let login = |word: &OsString| word == "-" || word == "-l" || word == "--login";
    if geteuid().is_root() && !command.iter().any(login) {
        return None;
    }
    let at = command.iter().position(|word| word == "-c" || word == "--command");
    Some(match at.and_then(|at| Some((at, command.get(at + 1)?))) {
        Some((at, inner)) => {
            let mut inside = OsString::from("sigtop -- ");
            inside.push(inner);
            let words: Vec<OsString> =
                command[..=at].iter().cloned().chain([inside]).chain(command[at + 2..].iter().cloned()).collect();
            format!("run: {}", quote::command(&words))
        }
        None => "start sigtop inside of it".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(command: &str) -> String {
        let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        check(&words).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn sigtop_goes_between_a_wrapper_and_its_command() {
        assert_eq!(check_text("sudo ./app"), "sudo drops LD_PRELOAD; run: sudo sigtop -- ./app");
        assert_eq!(
            check_text("/usr/bin/sudo -nu bob --chdir /x A=1 ./app -u x"),
            "sudo drops LD_PRELOAD; run: /usr/bin/sudo -nu bob --chdir /x A=1 sigtop -- ./app -u x"
        );
        assert_eq!(check_text("sudo -ubob -- ./app"), "sudo drops LD_PRELOAD; run: sudo -ubob -- sigtop -- ./app");
        assert_eq!(check_text("sudo -u"), "sudo drops LD_PRELOAD; run: sudo -u sigtop -- COMMAND");
        assert_eq!(check_text("doas -u bob make all"), "doas drops LD_PRELOAD; run: doas -u bob sigtop -- make all");
        assert_eq!(
            check_text("pkexec --user bob ./app"),
            "pkexec drops LD_PRELOAD; run: pkexec --user bob sigtop -- ./app"
        );
        assert_eq!(check_text("env -i A=1 ./app"), "env drops LD_PRELOAD; run: env -i A=1 sigtop -- ./app");
        assert_eq!(check_text("env -u HOME - ./app"), "env drops LD_PRELOAD; run: env -u HOME - sigtop -- ./app");
        assert_eq!(
            check(&["su", "-", "-c", "./app 1"].map(OsString::from)).unwrap_err().to_string(),
            "su drops LD_PRELOAD; run: su - -c 'sigtop -- ./app 1'"
        );
    }

    #[test]
    fn commands_that_keep_the_environment_are_accepted() {
        for command in ["./app -i", "env A=1 ./app -i", "env -u i ./app", "nice sudo", "env", "sudoku"] {
            assert_eq!(check_text(command), "fine", "{command}");
        }
        assert!(check(&[]).is_ok());
    }

    #[test]
    fn a_first_line_with_env_names_its_command() {
        let of = |argument: &str| env_command(argument.as_bytes()).map(|name| name.into_string().unwrap());
        assert_eq!(of("python3").as_deref(), Some("python3"));
        assert_eq!(of("-S A=1 python3 -i").as_deref(), Some("python3"));
        assert_eq!(of("-Spython3").as_deref(), Some("python3"));
        assert_eq!(of("-S -i python3"), None);
        assert_eq!(of("").as_deref(), Some(""));
    }
}
