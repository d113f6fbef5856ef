//! Styles of the boxes of the flame graph: a fill in the module's hue or the heat's colour, warm
//! for own code and nearly grey for libraries, and a bright one for the selection, matches and the
//! cursor. Without colours, boxes have borders,
//! and bold and reverse mark them.

use ratatui::style::{Color, Modifier, Style};

use crate::tally::change::Change;
use crate::tui::theme::palette::{NIGHT, PAPER, Palette, Rgb};
use crate::tui::theme::{Depth, Role, Theme};

/// Meaning of a box's colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// The module of the function.
    #[default]
    Module,
    /// The flat weight of the box.
    Heat,
}

/// The highlight of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Highlight {
    /// None.
    Plain,
    /// The box is a match of the search.
    Match,
    /// The box is the selected function.
    Selected,
    /// The box is under the cursor.
    Cursor,
}

/// The properties of a box that determine its style.
#[derive(Clone, Copy, Debug)]
pub struct FlameBoxLook<'a> {
    /// The meaning of the colour.
    pub colour: Colour,
    /// The module.
    pub module: &'a str,
    /// Whether the function is own code, which stands out among muted boxes.
    pub is_own: bool,
    /// The shade within the module, below [`SHADES`].
    pub shade: u8,
    /// The share of the total whose leaf is this box, 0 to 1.
    pub heat: f64,
    /// The highlight.
    pub highlight: Highlight,
    /// The change and its share of the total; `None` outside a diff.
    pub change: Option<(Change, f64)>,
}

const AMBER: Rgb = (226, 186, 92);
/// The colours of more, less and insignificant changes. Vermilion and blue are distinguishable with
/// every kind of colour vision.
pub(super) const CHANGES: (Rgb, Rgb, Rgb) = ((213, 94, 0), (0, 114, 178), (128, 128, 128));

impl Theme {
    /// The style of a change. An insignificant one is dim.
    pub fn change(self, change: Change) -> Style {
        let ((more, less, _), light) = (CHANGES, self.palette.extremes().0);
        if !change.significant {
            return self.style(Role::Dim);
        }
        // The text is on the background, not on a box, so it is closer to the lightness of text.
        let bright = |colour: Rgb| if light == NIGHT { mix(colour, PAPER, 190) } else { colour };
        let (colour, sixteen) = if change.negative { (less, Color::LightBlue) } else { (more, Color::LightRed) };
        match self.terminal_colour(bright(colour)) {
            Some(colour) => Style::new().fg(colour),
            None if self.depth == Depth::None => Style::new().add_modifier(Modifier::BOLD),
            None => Style::new().fg(sixteen),
        }
    }

    /// The style of a box.
    pub fn flame_box(self, look: FlameBoxLook<'_>) -> Style {
        let (text, ground) = self.paint(look);
        let stands_out = matches!(look.highlight, Highlight::Selected | Highlight::Cursor);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if let (Some(text), Some(ground)) = (self.terminal_colour(text), self.terminal_colour(ground)) {
            return if stands_out { bold } else { Style::new() }.fg(text).bg(ground);
        }
        if self.depth == Depth::None {
            return match look.highlight {
                Highlight::Plain => self.heat(look.heat),
                Highlight::Match => Style::new().add_modifier(Modifier::UNDERLINED),
                Highlight::Selected => bold.add_modifier(Modifier::UNDERLINED),
                Highlight::Cursor => bold.add_modifier(Modifier::REVERSED),
            };
        }
        let hue = match look.colour {
            _ if look.change.is_some() => self.change(look.change.unwrap_or_default().0),
            Colour::Module => self.module(look.module),
            Colour::Heat => self.heat(look.heat),
        };
        let black = Style::new().fg(Color::Black);
        match look.highlight {
            Highlight::Plain => match hue.fg {
                // Neighbors have an even and an odd shade.
                _ if look.colour == Colour::Module && look.change.is_none() => {
                    match (look.is_own, look.shade.is_multiple_of(2)) {
                        (true, true) => Style::new().fg(Color::White).bg(Color::Red),
                        (true, false) => black.bg(Color::LightRed),
                        (false, true) => Style::new().fg(Color::White).bg(Color::DarkGray),
                        (false, false) => black.bg(Color::Gray),
                    }
                }
                Some(Color::DarkGray) => Style::new().fg(Color::White).bg(Color::DarkGray),
                other => black.bg(other.unwrap_or(Color::Gray)),
            },
            Highlight::Match => black.bg(Color::Yellow),
            Highlight::Selected => black.bg(Color::White).add_modifier(Modifier::BOLD),
            Highlight::Cursor => bold.fg(Color::White).bg(Color::Blue),
        }
    }

    /// The RGB colours of the text and the background of a box.
    fn paint(self, look: FlameBoxLook<'_>) -> (Rgb, Rgb) {
        let (heat, module) = self.colours(look.heat, look.module);
        let shade = u16::from(look.shade % SHADES);
        let bright = match look.colour {
            Colour::Module if look.is_own => self.own_colour(look.module, shade),
            Colour::Module => muted(module),
            Colour::Heat => heat,
        };
        let (near, far) = self.palette.extremes();
        if let (Some((change, part)), Highlight::Plain | Highlight::Selected) = (look.change, look.highlight) {
            // The strength of the colour is the size of the change; an insignificant one is grey.
            let (more, less, same) = CHANGES;
            let colour = if !change.significant {
                same
            } else if change.negative {
                less
            } else {
                more
            };
            if look.highlight == Highlight::Selected {
                return (near, mix(colour, far, 150));
            }
            let strength = if change.significant { 80 + (part.sqrt() * 200.0).min(70.0) as u16 } else { 60 };
            return (far, mix(colour, near, strength));
        }
        match look.highlight {
            // With 256 colours, the nearest one to a muted colour is often a grey, as that of
            // libraries may be.
            Highlight::Plain if self.depth == Depth::Indexed && (look.is_own || look.colour == Colour::Heat) => {
                (near, mix(bright, near, 210 + shade * 9))
            }
            Highlight::Plain if self.palette == Palette::Dark && look.colour == Colour::Module => {
                (far, if look.is_own { vivid(bright, shade) } else { deep(bright, shade) })
            }
            Highlight::Plain if look.colour == Colour::Module => {
                (far, mix(bright, near, self.palette.fill_part() - 20 + shade * 8))
            }
            Highlight::Plain => (far, mix(bright, near, self.palette.fill_part())),
            Highlight::Match => (NIGHT, AMBER),
            Highlight::Selected => (near, bright),
            Highlight::Cursor => (near, far),
        }
    }

    /// The style of the left edge of a box, which is drawn in the first cell of the box.
    pub fn edge(self, fill: Style) -> Style {
        self.terminal_colour(self.palette.extremes().0).map_or(fill, |ground| fill.fg(ground))
    }

    /// The character in a box of one cell. Without colours, its shade shows the heat.
    pub fn speck(self, heat: f64) -> &'static str {
        match self.depth {
            Depth::True | Depth::Indexed | Depth::Sixteen => "▏",
            Depth::None if heat >= 0.05 => "█",
            Depth::None if heat >= 0.01 => "▓",
            Depth::None if heat > 0.0 => "▒",
            Depth::None => "░",
        }
    }
}

/// Number of shades of a module's colour.
pub const SHADES: u8 = 6;

/// The shade of a function, so that neighbors of the same module are distinguishable.
pub fn shade(name: &str) -> u8 {
    let hash = name.bytes().take(256).fold(7_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    ((hash >> 3) % u16::from(SHADES)) as u8
}

/// A dark, saturated variant of a hue for the background of light text, in one of [`SHADES`].
fn deep(bright: Rgb, shade: u16) -> Rgb {
    let part = |light: u8| (u16::from(light.saturating_sub(100)) * (17 + shade * 2) / 38 + 14) as u8;
    (part(bright.0), part(bright.1), part(bright.2))
}

/// A strong variant of a warm hue for the background of light text, in one of [`SHADES`]. A dark
/// one would be brown.
fn vivid(bright: Rgb, shade: u16) -> Rgb {
    let part = |light: u8| (u16::from(light.saturating_sub(90)) * (30 + shade * 2) / 38 + 20) as u8;
    (part(bright.0), part(bright.1), part(bright.2))
}

/// A colour with most of its hue removed.
fn muted(colour: Rgb) -> Rgb {
    let grey = ((u16::from(colour.0) + u16::from(colour.1) + u16::from(colour.2)) / 3) as u8;
    mix(colour, (grey, grey, grey), 80)
}

/// Mixes two colours: `part` of 255 is the first.
fn mix(one: Rgb, other: Rgb, part: u16) -> Rgb {
    let blend = |one: u8, other: u8| ((u16::from(one) * part + u16::from(other) * (255 - part)) / 255) as u8;
    (blend(one.0, other.0), blend(one.1, other.1), blend(one.2, other.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::palette::contrast;

    fn surface(light: Highlight, colour: Colour, heat: f64) -> FlameBoxLook<'static> {
        FlameBoxLook { colour, module: "server", is_own: true, shade: 1, heat, highlight: light, change: None }
    }

    #[test]
    fn highlights_differ_at_every_depth() {
        let lights = [Highlight::Plain, Highlight::Match, Highlight::Selected, Highlight::Cursor];
        for depth in [Depth::None, Depth::Sixteen, Depth::Indexed, Depth::True] {
            let theme = Theme::new(depth, false);
            let looks: Vec<Style> =
                lights.iter().map(|&light| theme.flame_box(surface(light, Colour::Module, 0.1))).collect();
            for (index, look) in looks.iter().enumerate() {
                assert!(!looks[..index].contains(look), "{depth:?} {:?}", lights[index]);
                assert!(depth != Depth::None || (look.fg, look.bg) == (None, None));
            }
        }
    }

    #[test]
    fn shades_differ_and_libraries_are_muted() {
        for palette in Palette::ALL {
            let theme = Theme { palette, ..Theme::new(Depth::True, false) };
            let look = surface(Highlight::Plain, Colour::Module, 0.1);
            let fills: Vec<Rgb> = (0..SHADES).map(|shade| theme.paint(FlameBoxLook { shade, ..look }).1).collect();
            assert!(fills.windows(2).all(|pair| pair[0] != pair[1]), "{palette:?}");
            let strength = |(r, g, b): Rgb| r.max(g).max(b) - r.min(g).min(b);
            // Warm: more red than green, and than blue.
            assert!(fills.iter().all(|&(r, g, b)| r > g && r > b), "{palette:?} {fills:?}");
            let library = theme.paint(FlameBoxLook { is_own: false, ..look }).1;
            assert!(strength(library) * 2 < strength(fills[1]), "{palette:?} {library:?} {:?}", fills[1]);
        }
        let sixteen = Theme::new(Depth::Sixteen, false);
        let look = surface(Highlight::Plain, Colour::Module, 0.1);
        let fills = [(true, 0), (true, 1), (false, 2), (false, 3)]
            .map(|(is_own, shade)| sixteen.flame_box(FlameBoxLook { is_own, shade, ..look }).bg);
        assert_eq!(fills, [Color::Red, Color::LightRed, Color::DarkGray, Color::Gray].map(Some));
    }

    #[test]
    fn heat_is_visible_in_one_cell() {
        for depth in [Depth::Sixteen, Depth::Indexed, Depth::True] {
            let theme = Theme::new(depth, false);
            let fill = |heat| theme.flame_box(surface(Highlight::Plain, Colour::Heat, heat)).bg;
            assert_ne!(fill(0.0), fill(0.3), "{depth:?}");
        }
        let none = Theme::new(Depth::None, false);
        assert_ne!(none.speck(0.0), none.speck(0.3));
    }

    #[test]
    fn text_in_boxes_has_enough_contrast() {
        for palette in Palette::ALL {
            let theme = Theme { palette, ..Theme::new(Depth::True, false) };
            for light in [Highlight::Plain, Highlight::Match, Highlight::Selected, Highlight::Cursor] {
                for heat in [0.0, 0.001, 0.01, 0.03, 0.07, 0.15, 0.5] {
                    for (colour, module) in [
                        (Colour::Heat, ""),
                        (Colour::Module, "a"),
                        (Colour::Module, "libc.so.6"),
                        (Colour::Module, "x"),
                        (Colour::Module, "server"),
                    ] {
                        for (shade, is_own) in (0..SHADES).flat_map(|shade| [(shade, false), (shade, true)]) {
                            let (text, ground) = theme.paint(FlameBoxLook {
                                colour,
                                module,
                                is_own,
                                shade,
                                heat,
                                highlight: light,
                                change: None,
                            });
                            let ratio = contrast(text, ground);
                            assert!(ratio >= 4.5, "{palette:?} {light:?} {heat} {module}: {ratio:.2}");
                            for (negative, significant) in [(false, false), (false, true), (true, true)] {
                                let change = Some((Change { negative, significant }, heat));
                                let (text, ground) = theme.paint(FlameBoxLook {
                                    colour,
                                    module,
                                    is_own,
                                    shade,
                                    heat,
                                    highlight: light,
                                    change,
                                });
                                let ratio = contrast(text, ground);
                                assert!(ratio >= 4.5, "{palette:?} {light:?} {heat} {change:?}: {ratio:.2}");
                            }
                        }
                    }
                }
            }
        }
    }
}
