//! Copies to tmux's buffer, which passes it on to the clipboard of its terminal. Of an escape
//! sequence (OSC 52) from a program, tmux keeps nothing unless it is set up for that.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Maximum time for which tmux is waited for.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Copies text by tmux, if the screen is in one; returns whether that has worked.
pub fn copy_to_tmux(text: &str) -> bool {
    if std::env::var_os("TMUX").is_none_or(|value| value.is_empty()) {
        return false;
    }
    let (sender, receiver) = channel();
    let text = text.to_owned();
    let load = move || {
        // This fails if it took too long.
        let _ = sender.send(load_buffer(&text));
    };
    let thread = std::thread::Builder::new().name("tmux".to_owned()).spawn(load);
    thread.is_ok() && receiver.recv_timeout(MAX_WAIT).unwrap_or(false)
}

fn load_buffer(text: &str) -> bool {
    let mut command = Command::new("tmux");
    command.args(["load-buffer", "-w", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut tmux) = command.spawn() else { return false };
    let written = tmux.stdin.take().is_some_and(|mut input| input.write_all(text.as_bytes()).is_ok());
    tmux.wait().is_ok_and(|status| status.success()) && written
}
