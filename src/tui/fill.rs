//! How a box of the flame is painted: a muted fill of its module's hue or of its heat, and a bright one where the selection,
//! a search or the cursor is. Without colours boxes have borders, and the same things are told by bold and reverse.

use ratatui::style::{Color, Modifier, Style};

use super::flame::Colour;
use super::theme::palette::{NIGHT, PAPER, Palette, Rgb};
use super::theme::{Depth, Role, Theme};
use crate::tally::diff::Change;

/// What stands out about a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Light {
    /// Nothing.
    Plain,
    /// A search found it.
    Found,
    /// It is the selected function.
    Lit,
    /// The keys stand on it.
    Cursor,
}

/// A box, as far as paint goes.
#[derive(Clone, Copy, Debug)]
pub struct Surface<'a> {
    /// What its colour means.
    pub colour: Colour,
    /// Its module.
    pub module: &'a str,
    /// Its function.
    pub name: &'a str,
    /// The part of the total that ends in it, 0 to 1.
    pub heat: f64,
    /// What stands out about it.
    pub light: Light,
    /// Where it is compared with a baseline: its difference, and the part of the total that this is.
    pub change: Option<(Change, f64)>,
}

const AMBER: Rgb = (226, 186, 92);
/// More, less, and no more than chance: vermilion and blue are told apart by every eye.
pub(super) const CHANGES: (Rgb, Rgb, Rgb) = ((213, 94, 0), (0, 114, 178), (128, 128, 128));

impl Theme {
    /// How the number of a difference looks: what chance explains is dim.
    pub fn change(self, change: Change) -> Style {
        let ((more, less, _), light) = (CHANGES, self.palette.grounds().0);
        if !change.sure {
            return self.style(Role::Dim);
        }
        // On the ground of a screen, not of a box: nearer to the text's lightness.
        let bright = |colour: Rgb| if light == NIGHT { mix(colour, PAPER, 190) } else { colour };
        let (colour, sixteen) = if change.negative { (less, Color::LightBlue) } else { (more, Color::LightRed) };
        match self.rich(bright(colour)) {
            Some(colour) => Style::new().fg(colour),
            None if self.depth == Depth::None => Style::new().add_modifier(Modifier::BOLD),
            None => Style::new().fg(sixteen),
        }
    }

    /// How a box looks.
    pub fn fill(self, surface: Surface<'_>) -> Style {
        let (text, ground) = self.paint(surface);
        let stands_out = matches!(surface.light, Light::Lit | Light::Cursor);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if let (Some(text), Some(ground)) = (self.rich(text), self.rich(ground)) {
            return if stands_out { bold } else { Style::new() }.fg(text).bg(ground);
        }
        if self.depth == Depth::None {
            return match surface.light {
                Light::Plain => self.heat(surface.heat),
                Light::Found => Style::new().add_modifier(Modifier::UNDERLINED),
                Light::Lit => bold.add_modifier(Modifier::UNDERLINED),
                Light::Cursor => bold.add_modifier(Modifier::REVERSED),
            };
        }
        let hue = match surface.colour {
            _ if surface.change.is_some() => self.change(surface.change.unwrap_or_default().0),
            Colour::Module => self.module(surface.module),
            Colour::Heat => self.heat(surface.heat),
        };
        let black = Style::new().fg(Color::Black);
        match surface.light {
            Light::Plain => match hue.fg {
                Some(Color::DarkGray) => Style::new().fg(Color::White).bg(Color::DarkGray),
                other => black.bg(other.unwrap_or(Color::Gray)),
            },
            Light::Found => black.bg(Color::Yellow),
            Light::Lit => black.bg(Color::White).add_modifier(Modifier::BOLD),
            Light::Cursor => bold.fg(Color::White).bg(Color::Blue),
        }
    }

    /// The text and the ground of a box in 24 bits.
    fn paint(self, surface: Surface<'_>) -> (Rgb, Rgb) {
        let (warm, own) = self.colours(surface.heat, surface.module);
        let bright = match surface.colour {
            Colour::Module => own,
            Colour::Heat => warm,
        };
        let (near, far) = self.palette.grounds();
        if let (Some((change, part)), Light::Plain) = (surface.change, surface.light) {
            // The strength tells how much; what chance explains is grey.
            let (more, less, same) = CHANGES;
            let colour = if !change.sure {
                same
            } else if change.negative {
                less
            } else {
                more
            };
            let strength = if change.sure { 80 + (part.sqrt() * 200.0).min(70.0) as u16 } else { 60 };
            return (far, mix(colour, near, strength));
        }
        match surface.light {
            // The nearest of 256 to a muted colour is a grey.
            Light::Plain if self.depth == Depth::Indexed => (near, mix(bright, near, 190 + shade(surface.name) * 9)),
            Light::Plain if self.palette == Palette::Dark && surface.colour == Colour::Module => {
                (far, deep(bright, shade(surface.name)))
            }
            Light::Plain => (far, mix(bright, near, self.palette.fill_part())),
            Light::Found => (NIGHT, AMBER),
            Light::Lit => (near, bright),
            Light::Cursor => (near, far),
        }
    }

    /// The style of the edge that parts a box from the one on its left, on the box's own first cell.
    pub fn edge(self, fill: Style) -> Style {
        self.rich(self.palette.grounds().0).map_or(fill, |ground| fill.fg(ground))
    }

    /// What stands in a box of one cell: its colour says enough; without colours, a shade tells its heat.
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

/// One of four shades for a function, so that neighbours of one module can be told apart.
fn shade(name: &str) -> u16 {
    name.bytes().take(256).fold(7_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) >> 3 & 3
}

/// The same hue, dark and full enough to lie under light text, in one of four shades.
fn deep(bright: Rgb, shade: u16) -> Rgb {
    let part = |light: u8| (u16::from(light.saturating_sub(100)) * (10 + shade) / 18 + 14) as u8;
    (part(bright.0), part(bright.1), part(bright.2))
}

/// `part` of 255 of one colour, and the rest of another.
fn mix(one: Rgb, other: Rgb, part: u16) -> Rgb {
    let blend = |one: u8, other: u8| ((u16::from(one) * part + u16::from(other) * (255 - part)) / 255) as u8;
    (blend(one.0, other.0), blend(one.1, other.1), blend(one.2, other.2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::palette::contrast;

    fn surface(light: Light, colour: Colour, heat: f64) -> Surface<'static> {
        Surface { colour, module: "server", name: "json::parse", heat, light, change: None }
    }

    #[test]
    fn what_stands_out_can_be_told_apart_in_every_depth() {
        let lights = [Light::Plain, Light::Found, Light::Lit, Light::Cursor];
        for depth in [Depth::None, Depth::Sixteen, Depth::Indexed, Depth::True] {
            let theme = Theme::new(depth, false);
            let looks: Vec<Style> =
                lights.iter().map(|&light| theme.fill(surface(light, Colour::Module, 0.1))).collect();
            for (index, look) in looks.iter().enumerate() {
                assert!(!looks[..index].contains(look), "{depth:?} {:?}", lights[index]);
                assert!(depth != Depth::None || (look.fg, look.bg) == (None, None));
            }
        }
    }

    #[test]
    fn heat_shows_in_one_cell() {
        for depth in [Depth::Sixteen, Depth::Indexed, Depth::True] {
            let theme = Theme::new(depth, false);
            let fill = |heat| theme.fill(surface(Light::Plain, Colour::Heat, heat)).bg;
            assert_ne!(fill(0.0), fill(0.3), "{depth:?}");
        }
        let none = Theme::new(Depth::None, false);
        assert_ne!(none.speck(0.0), none.speck(0.3));
    }

    #[test]
    fn names_in_boxes_can_be_read() {
        for palette in Palette::ALL {
            let theme = Theme { palette, ..Theme::new(Depth::True, false) };
            for light in [Light::Plain, Light::Found, Light::Lit, Light::Cursor] {
                for heat in [0.0, 0.001, 0.01, 0.03, 0.07, 0.15, 0.5] {
                    for (colour, module) in [
                        (Colour::Heat, ""),
                        (Colour::Module, "a"),
                        (Colour::Module, "libc.so.6"),
                        (Colour::Module, "x"),
                        (Colour::Module, "server"),
                    ] {
                        for name in ["a", "b", "main", "json::parse", "memcpy"] {
                            let (text, ground) =
                                theme.paint(Surface { colour, module, name, heat, light, change: None });
                            let ratio = contrast(text, ground);
                            assert!(ratio >= 4.5, "{palette:?} {light:?} {heat} {module}: {ratio:.2}");
                            for (negative, sure) in [(false, false), (false, true), (true, true)] {
                                let change = Some((Change { negative, sure }, heat));
                                let (text, ground) = theme.paint(Surface { colour, module, name, heat, light, change });
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
