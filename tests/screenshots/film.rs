//! A film of a terminal: a frame each time that the screen has changed, as an animated WebP.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::run::text;
use crate::harness::targets;
use crate::harness::terminal::Terminal;
use crate::svg;

/// Time between two looks at the screen, and between two keys, ms.
const LOOK_MS: u64 = 50;

/// A frame: its drawing, and how long it is shown, ms.
struct Shot {
    drawing: String,
    ms: u64,
}

/// A terminal that is filmed.
pub(crate) struct Film {
    name: &'static str,
    terminal: Terminal,
    shots: Vec<Shot>,
    /// The text in the bar of the window.
    caption: String,
}

impl Film {
    pub(crate) fn start(name: &'static str, columns: u16, rows: u16, command: &Command) -> Film {
        Film { name, terminal: Terminal::start(columns, rows, command), shots: Vec::new(), caption: String::new() }
    }

    /// Films for a while.
    pub(crate) fn watch(&mut self, ms: u64) {
        for _ in 0..ms / LOOK_MS {
            self.terminal.wait_up_to(Duration::from_millis(LOOK_MS), |_| false);
            let drawing = svg::draw(self.terminal.screen(), &self.caption, &svg::DARK);
            match self.shots.last_mut() {
                Some(last) if last.drawing == drawing => last.ms += LOOK_MS,
                _ => self.shots.push(Shot { drawing, ms: LOOK_MS }),
            }
        }
    }

    /// Types keys one by one, says in the bar what they do, and films what comes for a while.
    pub(crate) fn play(&mut self, keys: &str, caption: &str, ms: u64) {
        self.caption = caption.to_owned();
        for key in keys.chars() {
            self.terminal.keys(key.encode_utf8(&mut [0; 4]));
            self.watch(LOOK_MS);
        }
        self.watch(ms);
    }

    /// Writes the film, and ends the program.
    pub(crate) fn finish(mut self, folder: &Path) -> PathBuf {
        self.terminal.keys("q");
        let scratch = targets::scratch(self.name);
        let film = folder.join(format!("{}.webp", self.name));
        let mut writer = Command::new("img2webp");
        writer.args(["-loop", "0", "-lossless", "-m", "6"]);
        for (number, Shot { drawing, ms }) in self.shots.iter().enumerate() {
            let [from, to] = ["svg", "png"].map(|kind| scratch.join(format!("{number}.{kind}")));
            std::fs::write(&from, drawing).expect("writable");
            let drawn =
                Command::new("rsvg-convert").args(["--zoom", "1.25", "--output", text(&to), text(&from)]).status();
            assert!(drawn.is_ok_and(|status| status.success()), "rsvg-convert (librsvg2-bin) failed");
            // Few colours make a film small.
            let _ =
                Command::new("pngquant").args(["--force", "--nofs", "--output", text(&to), "64", text(&to)]).status();
            writer.arg("-d").arg(ms.to_string()).arg(&to);
        }
        let written = writer.arg("-o").arg(&film).status();
        assert!(written.is_ok_and(|status| status.success()), "img2webp (webp) failed");
        film
    }
}
