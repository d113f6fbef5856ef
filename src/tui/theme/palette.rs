//! The colours of all themes: one row for each role, one column for each palette. This module does
//! not depend on the abilities of the terminal.

use ratatui::style::{Color, Modifier};

use super::role::Role;

/// A colour: red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Nearly black.
pub const NIGHT: Rgb = (18, 22, 28);
/// Nearly white.
pub const PAPER: Rgb = (240, 243, 248);

/// A set of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Colours for dark terminals.
    #[default]
    Dark,
    /// Colours for light terminals.
    Light,
    /// Colours for dark terminals that differ only in lightness and between blue and yellow.
    ColourBlind,
}

impl Palette {
    /// All palettes, in the order of the table's columns.
    pub const ALL: [Palette; 3] = [Palette::Dark, Palette::Light, Palette::ColourBlind];

    /// The background of the terminal that the colours are designed for.
    pub fn background(self) -> Rgb {
        match self {
            Palette::Dark | Palette::ColourBlind => (30, 30, 30),
            Palette::Light => (250, 250, 246),
        }
    }

    /// The colour of a role.
    pub fn colour(self, role: Role) -> Rgb {
        look(role).rich[self as usize]
    }

    /// The heat colours, from cool to hot.
    pub fn heat(self) -> &'static [Rgb; HEAT_STEPS] {
        &HEAT[self as usize]
    }

    /// The background of the selected row; `active` in the focused pane.
    pub fn selected(self, active: bool) -> Rgb {
        let (here, elsewhere) = match self {
            Palette::Dark => ((44, 58, 82), (40, 46, 58)),
            Palette::Light => ((212, 226, 248), (230, 234, 240)),
            Palette::ColourBlind => ((34, 62, 98), (40, 46, 58)),
        };
        if active { here } else { elsewhere }
    }

    /// The colours nearest to the background and farthest from it.
    pub fn extremes(self) -> (Rgb, Rgb) {
        match self {
            Palette::Dark | Palette::ColourBlind => (NIGHT, PAPER),
            Palette::Light => (PAPER, NIGHT),
        }
    }

    /// The strength of the fill of a box, out of 255.
    pub fn fill_part(self) -> u16 {
        match self {
            Palette::Dark => 112,
            Palette::Light => 70,
            Palette::ColourBlind => 92,
        }
    }

    /// The colour of a module, selected by a hash.
    pub fn module(self, hash: u64) -> Rgb {
        match self {
            Palette::Dark => hue(((hash % 24) * 15) as u16, 150, 82),
            Palette::Light => hue(((hash % 24) * 15) as u16, 0, 104),
            Palette::ColourBlind => MODULES[(hash % MODULES.len() as u64) as usize],
        }
    }

    /// The colour of a module of own code: a warm one, from rose to vermilion, selected by a hash
    /// and moved by some degrees.
    pub fn own_module(self, hash: u64, degrees: u16) -> Rgb {
        let degrees = (332 + (hash % 5) as u16 * 8 + degrees) % 360;
        match self {
            Palette::Dark => hue(degrees, 110, 145),
            Palette::Light => hue(degrees, 0, 150),
            Palette::ColourBlind => WARM_MODULES[(hash % WARM_MODULES.len() as u64) as usize],
        }
    }
}

/// Number of heat levels.
pub const HEAT_STEPS: usize = 7;

/// The style of a role.
pub struct Look {
    /// The role.
    pub role: Role,
    /// The RGB colour in each palette.
    pub rich: [Rgb; 3],
    /// The colour on a terminal with sixteen.
    pub sixteen: Color,
    /// The modifier at every depth.
    pub modifier: Modifier,
    /// An additional modifier without colours.
    pub bare: Modifier,
}

const fn look(role: Role) -> &'static Look {
    &LOOKS[role as usize]
}

/// The style of a role.
pub fn of(role: Role) -> &'static Look {
    look(role)
}

const PLAIN: Modifier = Modifier::empty();
const BOLD: Modifier = Modifier::BOLD;
const DIM: Modifier = Modifier::DIM;
const UNDER: Modifier = Modifier::UNDERLINED;

const fn row(role: Role, rich: [Rgb; 3], sixteen: Color, modifier: Modifier, bare: Modifier) -> Look {
    Look { role, rich, sixteen, modifier, bare }
}

use Color as C;
use Role as R;

/// The table. Columns: dark, light, colour-blind, one of sixteen, modifier, modifier without
/// colours.
#[rustfmt::skip]
pub const LOOKS: [Look; 15] = [
    row(R::Text,         [(214, 218, 226), ( 36,  41,  47), (222, 224, 228)], C::Reset,    PLAIN, PLAIN),
    row(R::Dim,          [(132, 140, 154), ( 96, 104, 116), (138, 144, 156)], C::DarkGray, PLAIN, DIM),
    row(R::Strong,       [(240, 243, 248), ( 10,  14,  20), (248, 248, 250)], C::Reset,    BOLD,  PLAIN),
    row(R::Rule,         [( 72,  80,  96), (190, 196, 204), ( 78,  86, 100)], C::DarkGray, PLAIN, DIM),
    row(R::Title,        [(160, 168, 182), ( 80,  88, 100), (166, 172, 184)], C::Reset,    PLAIN, BOLD),
    row(R::TitleActive,  [(126, 200, 240), (  0,  92, 160), (110, 190, 255)], C::Cyan,     BOLD,  PLAIN),
    row(R::Column,       [(140, 150, 166), ( 92, 100, 112), (146, 154, 168)], C::DarkGray, PLAIN, DIM),
    row(R::ColumnSorted, [(214, 218, 226), ( 36,  41,  47), (222, 224, 228)], C::Reset,    BOLD,  PLAIN),
    row(R::Good,         [(126, 211, 128), ( 17, 112,  40), ( 86, 180, 233)], C::Green,    PLAIN, PLAIN),
    row(R::Notable,      [(240, 200, 100), (140,  86,   0), (240, 228,  66)], C::Yellow,   PLAIN, BOLD),
    row(R::Bad,          [(255, 120, 110), (186,  26,  26), (255, 150,  60)], C::Red,      BOLD,  PLAIN),
    row(R::Chip,         [(196, 172, 255), (106,  58, 180), (220, 160, 200)], C::Magenta,  PLAIN, BOLD),
    row(R::Key,          [(126, 200, 240), (  0,  92, 160), (110, 190, 255)], C::Cyan,     PLAIN, BOLD),
    row(R::Prompt,       [(255, 224, 150), (130,  76,   0), (255, 232, 130)], C::Yellow,   BOLD,  PLAIN),
    row(R::Match,        [(255, 224, 150), (130,  76,   0), (255, 232, 130)], C::Yellow,   UNDER, PLAIN),
];

/// The heat colours: one row for each palette, from cool to hot. Colour-blind is ordered by
/// lightness only, from blue to yellow.
#[rustfmt::skip]
const HEAT: [[Rgb; HEAT_STEPS]; 3] = [
    [(132, 140, 154), (150, 158, 172), (190, 200, 190), (216, 214, 140), (244, 200,  96), (252, 164,  84), (255, 120,  96)],
    [(100, 108, 120), ( 84,  92, 104), ( 84,  92,  60), (112,  88,   0), (142,  78,   0), (166,  56,   0), (190,  18,  18)],
    [(112, 140, 190), (130, 158, 200), (156, 174, 196), (184, 190, 184), (208, 206, 158), (232, 222, 120), (255, 242,  84)],
];

/// Colours that are distinguishable with every kind of colour vision.
const MODULES: [Rgb; 7] =
    [(86, 180, 233), (230, 159, 0), (60, 190, 150), (240, 228, 66), (236, 120, 50), (220, 150, 190), (120, 160, 240)];

/// Those of them that are warm.
const WARM_MODULES: [Rgb; 3] = [(230, 159, 0), (240, 228, 66), (236, 120, 50)];

/// The colour of a hue in degrees, with a minimum brightness and a range.
fn hue(degrees: u16, low: u16, span: u16) -> Rgb {
    let ramp = |position: u16| low + span * position.min(60) / 60;
    let (sector, inside) = (degrees / 60 % 6, degrees % 60);
    let (up, down, high) = (ramp(inside), ramp(60 - inside), low + span);
    let (red, green, blue) = match sector {
        0 => (high, up, low),
        1 => (down, high, low),
        2 => (low, high, up),
        3 => (low, down, high),
        4 => (up, low, high),
        _ => (high, low, down),
    };
    (red as u8, green as u8, blue as u8)
}

/// The nearest of the 240 fixed colours of a terminal with 256: a 6×6×6 cube and 24 greys.
pub fn indexed((red, green, blue): Rgb) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |value: u8| (0..STEPS.len()).min_by_key(|&step| STEPS[step].abs_diff(value)).unwrap_or_default();
    let (r, g, b) = (step(red), step(green), step(blue));
    let cube = (16 + 36 * r + 6 * g + b, (STEPS[r], STEPS[g], STEPS[b]));
    let average = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let grey = usize::from(average.saturating_sub(3) / 10).min(23);
    let level = 8 + 10 * grey as u8;
    let far = |(r, g, b): Rgb| {
        [(red, r), (green, g), (blue, b)].iter().map(|(one, other)| u32::from(one.abs_diff(*other)).pow(2)).sum::<u32>()
    };
    let best = [cube, (232 + grey, (level, level, level))].into_iter().min_by_key(|(_, colour)| far(*colour));
    best.map_or(15, |(index, _)| index as u8)
}

/// Relative luminance (WCAG 2).
#[cfg(test)]
fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// Contrast (WCAG 2). Text needs at least 4.5.
#[cfg(test)]
pub(crate) fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness (CIE L*), 0 to 100.
    fn lightness(colour: Rgb) -> f64 {
        116.0 * luminance(colour).cbrt() - 16.0
    }

    #[test]
    fn table_is_in_the_order_of_the_roles() {
        for (index, look) in LOOKS.iter().enumerate() {
            assert_eq!(look.role as usize, index, "{:?}", look.role);
        }
    }

    #[test]
    fn text_has_enough_contrast_on_every_background() {
        for palette in Palette::ALL {
            let background = palette.background();
            let text = LOOKS.iter().filter(|look| look.role != Role::Rule);
            for look in text {
                let ratio = contrast(palette.colour(look.role), background);
                assert!(ratio >= 4.5, "{:?} in {palette:?}: {ratio:.2}", look.role);
            }
            for (step, colour) in palette.heat().iter().enumerate() {
                let ratio = contrast(*colour, background);
                assert!(ratio >= 4.5, "heat {step} in {palette:?}: {ratio:.2}");
            }
            for hash in 0..24 {
                let ratio = contrast(palette.module(hash), background);
                assert!(ratio >= 4.5, "module {hash} in {palette:?}: {ratio:.2}");
            }
            for active in [true, false] {
                for role in [Role::Text, Role::Strong] {
                    let ratio = contrast(palette.colour(role), palette.selected(active));
                    assert!(ratio >= 4.5, "selected {role:?} in {palette:?}: {ratio:.2}");
                }
            }
        }
    }

    #[test]
    fn rules_are_visible_but_faint() {
        for palette in Palette::ALL {
            let ratio = contrast(palette.colour(Role::Rule), palette.background());
            assert!((1.3..4.5).contains(&ratio), "{palette:?}: {ratio:.2}");
        }
    }

    #[test]
    fn colour_blind_heat_increases_in_lightness() {
        let steps: Vec<f64> = Palette::ColourBlind.heat().iter().map(|colour| lightness(*colour)).collect();
        assert!(steps.windows(2).all(|pair| pair[1] - pair[0] >= 4.0), "{steps:.1?}");
    }

    #[test]
    fn colour_blind_states_differ_without_red_and_green() {
        let palette = Palette::ColourBlind;
        let [good, notable, bad] = [Role::Good, Role::Notable, Role::Bad].map(|role| palette.colour(role));
        for (one, other) in [(good, notable), (good, bad), (notable, bad)] {
            let blue = one.2.abs_diff(other.2);
            let light = (lightness(one) - lightness(other)).abs();
            assert!(blue >= 100 || light >= 15.0, "{one:?} {other:?}");
        }
    }

    #[test]
    fn indexed_returns_the_nearest_colour() {
        assert_eq!(indexed((0, 0, 0)), 16);
        assert_eq!(indexed((255, 255, 255)), 231);
        assert_eq!(indexed((95, 135, 175)), 67);
        assert_eq!(indexed((128, 128, 128)), 244);
        assert_eq!(indexed((44, 58, 82)), 237);
    }
}
