//! Colours and their meaning: heat is a share of the total, hue is a module.
//!
//! The environment tells how many colours the terminal has. With fewer colours, roles fall back to
//! the nearest one, to the terminal's sixteen, or to bold, dim and reverse.

pub mod flame_style;
pub mod palette;
mod role;

use ratatui::style::{Color, Modifier, Style};

use crate::keyword::{Keyword, Word};

use palette::{HEAT_STEPS, Palette, Rgb};
pub use role::Role;

/// The number of colours of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// `NO_COLOR` is set, or the terminal has none: bold, dim and reverse only.
    None,
    /// The sixteen colours of the terminal's own theme.
    Sixteen,
    /// 256 colours, of which 240 are fixed.
    Indexed,
    /// 24-bit colours.
    True,
}

/// A theme that the user can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThemeName {
    /// A palette, as far as the terminal has its colours.
    Palette(Palette),
    /// The terminal's own sixteen colours, even if it has more.
    Sixteen,
}

/// The module of the functions of the kernel, which no program can change.
const KERNEL: &str = "[kernel]";

impl Keyword for ThemeName {
    const ALL: &'static [ThemeName] = &[
        ThemeName::Palette(Palette::Dark),
        ThemeName::Palette(Palette::Light),
        ThemeName::Sixteen,
        ThemeName::Palette(Palette::ColourBlind),
    ];

    fn word(self) -> Word {
        match self {
            ThemeName::Palette(Palette::Dark) => Word::new("dark", "for dark terminals"),
            ThemeName::Palette(Palette::Light) => Word::new("light", "for light terminals"),
            ThemeName::Sixteen => Word::new("16", "the terminal's own sixteen colours"),
            ThemeName::Palette(Palette::ColourBlind) => {
                Word::new("colour-blind", "for dark terminals, without red-green contrasts").with_alias("color-blind")
            }
        }
    }
}

/// Colours and glyphs of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// The number of colours.
    pub depth: Depth,
    /// Whether only ASCII may be written.
    pub ascii: bool,
    /// The palette.
    pub palette: Palette,
}

impl Theme {
    /// The dark palette on a terminal of this depth.
    pub fn new(depth: Depth, ascii: bool) -> Theme {
        Theme { depth, ascii, palette: Palette::Dark }
    }

    /// The requested theme, on the terminal that the environment describes: `NO_COLOR`,
    /// `COLORTERM`, `TERM`, `COLORFGBG` and the locale.
    pub fn from_environment(requested: Option<ThemeName>, variable: impl Fn(&str) -> Option<String>) -> Theme {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_default();
        let colours = set("COLORTERM").unwrap_or_default();
        // GNU screen writes 24-bit colours as others. COLORTERM is that of the terminal around it.
        let is_gnu_screen = set("STY").is_some() || (term.starts_with("screen") && set("TMUX").is_none());
        let depth = if set("NO_COLOR").is_some() || term.is_empty() || term.starts_with("vt1") {
            Depth::None
        } else if requested == Some(ThemeName::Sixteen) {
            Depth::Sixteen
        } else if !is_gnu_screen && (colours == "truecolor" || colours == "24bit" || term.ends_with("-direct")) {
            Depth::True
        } else if term.contains("256color") {
            Depth::Indexed
        } else {
            Depth::Sixteen
        };
        let palette = match requested {
            Some(ThemeName::Palette(palette)) => palette,
            // Some terminals report the index of their background colour; 7 and 15 are white.
            None if set("COLORFGBG").is_some_and(|colours| matches!(colours.rsplit(';').next(), Some("7" | "15"))) => {
                Palette::Light
            }
            Some(ThemeName::Sixteen) | None => Palette::Dark,
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Theme { depth, ascii: !(locale.contains("utf-8") || locale.contains("utf8")), palette }
    }

    /// The theme for a terminal whose background is light, or dark.
    pub fn with_background(self, is_light: bool) -> Theme {
        Theme { palette: if is_light { Palette::Light } else { Palette::Dark }, ..self }
    }

    /// The terminal's colour nearest to an RGB value; `None` if it has only sixteen or none.
    pub(super) fn terminal_colour(self, (red, green, blue): Rgb) -> Option<Color> {
        match self.depth {
            Depth::True => Some(Color::Rgb(red, green, blue)),
            Depth::Indexed => Some(Color::Indexed(palette::indexed((red, green, blue)))),
            Depth::Sixteen | Depth::None => None,
        }
    }

    /// The style of a role.
    pub fn style(self, role: Role) -> Style {
        let look = palette::of(role);
        let plain = Style::new().add_modifier(look.modifier);
        match self.terminal_colour(self.palette.colour(role)) {
            Some(colour) => plain.fg(colour),
            None if self.depth == Depth::None => plain.add_modifier(look.bare),
            None if look.sixteen == Color::Reset => plain,
            None => plain.fg(look.sixteen),
        }
    }

    /// The heat level of a share of the total.
    fn level(share: f64) -> usize {
        const FROM: [f64; HEAT_STEPS - 1] = [0.0005, 0.005, 0.02, 0.05, 0.10, 0.20];
        FROM.iter().take_while(|&&from| share >= from).count()
    }

    /// The style of a share of the total (0 to 1), from cool to hot.
    pub fn heat(self, share: f64) -> Style {
        let level = Theme::level(share);
        if let Some(colour) = self.terminal_colour(self.palette.heat()[level]) {
            return Style::new().fg(colour);
        }
        if self.depth == Depth::None {
            return match level {
                0 => Style::new().add_modifier(Modifier::DIM),
                1..=3 => Style::new(),
                _ => Style::new().add_modifier(Modifier::BOLD),
            };
        }
        match level {
            0 => Style::new().fg(Color::DarkGray),
            1 | 2 => Style::new(),
            3 | 4 => Style::new().fg(Color::Yellow),
            5 => Style::new().fg(Color::LightRed),
            _ => Style::new().fg(Color::LightRed).add_modifier(Modifier::BOLD),
        }
    }

    /// The RGB colours of a share of the total and of a module.
    pub(super) fn colours(self, share: f64, module: &str) -> (Rgb, Rgb) {
        (self.palette.heat()[Theme::level(share)], self.palette.module(Theme::hash(module)))
    }

    /// The RGB colour of a module of own code, moved by a few degrees of hue.
    pub(super) fn own_colour(self, module: &str, degrees: u16) -> Rgb {
        self.palette.own_module(Theme::hash(module), degrees)
    }

    fn hash(name: &str) -> u64 {
        // FNV-1a is short and does not change between versions, unlike the hashers of `std`.
        let hash = name
            .bytes()
            .take(256)
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        hash ^ (hash >> 29)
    }

    /// The style of a module, from a hash of its name, so that it is the same in every session.
    pub fn module(self, name: &str) -> Style {
        if name == KERNEL {
            return self.style(Role::Dim);
        }
        let hash = Theme::hash(name);
        if let Some(colour) = self.terminal_colour(self.palette.module(hash)) {
            return Style::new().fg(colour);
        }
        if self.depth == Depth::None {
            return Style::new();
        }
        let colours = [Color::Green, Color::Cyan, Color::LightBlue, Color::LightMagenta, Color::LightGreen];
        Style::new().fg(colours[(hash % colours.len() as u64) as usize])
    }

    /// The style patched over the row of the selected function; `active` in the focused pane.
    pub fn selected(self, active: bool) -> Style {
        match self.terminal_colour(self.palette.selected(active)) {
            Some(colour) => Style::new().bg(colour),
            // One colour for the whole row, because reversed heat would be a patchwork.
            None if active => {
                Style::new().fg(Color::Reset).remove_modifier(Modifier::DIM).add_modifier(Modifier::REVERSED)
            }
            None => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(variables: &[(&str, &str)]) -> Theme {
        Theme::from_environment(None, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn environment_selects_depth_and_palette() {
        let usual = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "de_CH.UTF-8")];
        assert_eq!(theme(&usual), Theme::new(Depth::True, false));
        assert_eq!(theme(&usual[..1]), Theme::new(Depth::Indexed, true));
        assert_eq!(theme(&[("TERM", "xterm"), usual[2]]), Theme::new(Depth::Sixteen, false));
        assert_eq!(theme(&[usual[0], usual[1], ("NO_COLOR", "1"), ("LC_ALL", "C.utf8")]).depth, Depth::None);
        assert_eq!(theme(&[usual[0], usual[1], ("NO_COLOR", "")]).depth, Depth::True);
        assert!(theme(&[usual[2], ("LC_ALL", "C")]).ascii);
        assert_eq!(theme(&[]), Theme::new(Depth::None, true));
    }

    #[test]
    fn requested_theme_is_limited_by_the_terminal() {
        let on = |requested, term: &str, more: (&str, &str)| {
            let variables = [("TERM", term), more];
            Theme::from_environment(Some(requested), |name| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let light = ThemeName::Palette(Palette::Light);
        assert_eq!(on(light, "xterm-256color", ("", "")).palette, Palette::Light);
        assert_eq!(on(ThemeName::Sixteen, "xterm", ("COLORTERM", "truecolor")).depth, Depth::Sixteen);
        assert_eq!(on(ThemeName::Sixteen, "xterm", ("NO_COLOR", "1")).depth, Depth::None);
        let dark = ThemeName::Palette(Palette::Dark);
        assert_eq!(on(dark, "xterm", ("COLORFGBG", "0;15")).palette, Palette::Dark);
        assert_eq!(theme(&[("TERM", "xterm"), ("COLORFGBG", "0;default;15")]).palette, Palette::Light);
        assert_eq!(theme(&[("TERM", "xterm"), ("COLORFGBG", "15;0")]).palette, Palette::Dark);
    }

    #[test]
    fn indexed_colours_are_the_nearest() {
        let (indexed, terminal_colour) = (Theme::new(Depth::Indexed, false), Theme::new(Depth::True, false));
        for share in [0.0, 0.01, 0.04, 0.08, 0.15, 0.5] {
            let Some(Color::Rgb(r, g, b)) = terminal_colour.heat(share).fg else { panic!("24 bits") };
            assert_eq!(indexed.heat(share).fg, Some(Color::Indexed(palette::indexed((r, g, b)))));
        }
        assert!(matches!(indexed.selected(true).bg, Some(Color::Indexed(_))));
    }

    #[test]
    fn no_color_disables_colours() {
        let none = Theme::new(Depth::None, false);
        for share in [0.0, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0, f64::NAN] {
            assert_eq!(none.heat(share).fg, None);
        }
        assert_eq!((none.module("libc.so.6").fg, none.selected(true).bg), (None, None));
        assert_eq!(none.style(Role::Bad).fg, None);
    }

    #[test]
    fn modules_differ_in_hue() {
        let theme = Theme::new(Depth::True, false);
        let names = ["server", "libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "ld-linux-x86-64.so.2"];
        let hues: std::collections::HashSet<_> = names.iter().map(|name| theme.module(name).fg).collect();
        assert!(hues.len() >= 4, "{hues:?}");
        assert_eq!(theme.module("server"), theme.module("server"));
    }
}
