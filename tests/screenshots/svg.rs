//! A terminal's screen as SVG: a window with its title, a cell at a time, so that no font's width
//! moves anything. Lines and blocks are drawn as shapes, without gaps between cells.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

const WIDTH: f32 = 9.0;
const HEIGHT: f32 = 19.0;
const MARGIN: f32 = 14.0;
const BAR: f32 = 32.0;

/// The colours that a terminal has of its own.
pub(crate) struct Own {
    background: u32,
    foreground: u32,
    title: u32,
    sixteen: [u32; 16],
}

pub(crate) const DARK: Own = Own {
    background: 0x16_181d,
    foreground: 0xd8_dce3,
    title: 0x8a_8f98,
    sixteen: [
        0x1d_1f21, 0xd5_6a6a, 0x8a_be5e, 0xe6_b450, 0x6a_9fd6, 0xb2_94bb, 0x70_c0ba, 0xc5_c8c6, 0x66_6b70, 0xf2_777a,
        0xb9_e08a, 0xff_d479, 0x8f_bcf0, 0xd4_a5e0, 0x93_e0da, 0xff_ffff,
    ],
};

pub(crate) const LIGHT: Own = Own {
    background: 0xfb_fbf8,
    foreground: 0x24_292f,
    title: 0x6b_7078,
    sixteen: [
        0x24_292f, 0xb3_2d2d, 0x3f_7d20, 0x8a_6100, 0x1f_5fb0, 0x84_3c96, 0x0f_7b78, 0x6b_7078, 0x57_5c63, 0xcf_4242,
        0x52_9a2c, 0xa8_7800, 0x2f_76d2, 0x9c_4fb0, 0x14_938f, 0xff_ffff,
    ],
};

/// The whole picture.
pub(crate) fn draw(screen: &Screen, title: &str, own: &Own) -> String {
    let Own { background, title: ink, .. } = own;
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let width = f32::from(columns) * WIDTH + 2.0 * MARGIN;
    let height = f32::from(rows) * HEIGHT + 2.0 * MARGIN + BAR;
    let mut svg = String::new();
    write!(
        svg,
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>\
         <rect width='{width}' height='{height}' rx='10' fill='#{background:06x}'/>\
         <g font-family='JetBrains Mono, DejaVu Sans Mono' font-size='15'>\
         <text x='{}' y='21' text-anchor='middle' font-size='13' fill='#{ink:06x}'>{title}</text>",
        width / 2.0
    )
    .expect("a string");
    for (place, color) in ["ff5f57", "febc2e", "28c840"].iter().enumerate() {
        write!(svg, "<circle cx='{}' cy='17' r='6' fill='#{color}'/>", 22 + 20 * place).expect("a string");
    }
    for row in 0..rows {
        for column in 0..columns {
            if let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) {
                let (x, y) = (MARGIN + f32::from(column) * WIDTH, MARGIN + BAR + f32::from(row) * HEIGHT);
                draw_cell(&mut svg, cell, x, y, own);
            }
        }
    }
    svg + "</g></svg>\n"
}

fn draw_cell(svg: &mut String, cell: &Cell, x: f32, y: f32, own: &Own) {
    let width = if cell.is_wide() { 2.0 * WIDTH } else { WIDTH };
    let (mut ink, mut paper) = (own.color(cell.fgcolor(), own.foreground), own.color(cell.bgcolor(), own.background));
    if cell.bold()
        && let Color::Idx(index @ 0..8) = cell.fgcolor()
    {
        ink = own.sixteen[usize::from(index) + 8];
    }
    if cell.inverse() {
        (ink, paper) = (paper, ink);
    }
    if cell.dim() {
        ink = mix(ink, paper);
    }
    if paper != own.background {
        // A hair wider than the cell: no seam to the next.
        rectangle(svg, x, y, width + 0.3, HEIGHT + 0.3, paper);
    }
    let text = cell.contents();
    let Some(character) = text.chars().next().filter(|character| *character != ' ') else { return };
    if !block(svg, character, x, y, width, ink) && !line(svg, character, x, y, ink) {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let weight = if cell.bold() { " font-weight='700'" } else { "" };
        let slant = if cell.italic() { " font-style='italic'" } else { "" };
        let under = if cell.underline() { " text-decoration='underline'" } else { "" };
        write!(svg, "<text x='{x}' y='{}' fill='#{ink:06x}'{weight}{slant}{under}>{escaped}</text>", y + HEIGHT * 0.74)
            .expect("a string");
    }
}

/// Block elements; false for any other character.
fn block(svg: &mut String, character: char, x: f32, y: f32, width: f32, ink: u32) -> bool {
    let code = character as u32;
    let (left, top, wide, high) = match character {
        '█' => (0.0, 0.0, width + 0.3, HEIGHT + 0.3),
        '▀' => (0.0, 0.0, width + 0.3, HEIGHT / 2.0),
        '▁'..='▇' => {
            let part = HEIGHT * (code - 0x2580) as f32 / 8.0;
            (0.0, HEIGHT - part, width + 0.3, part + 0.3)
        }
        '▉'..='▏' => (0.0, 0.0, width * (8 - (code - 0x2588)) as f32 / 8.0, HEIGHT + 0.3),
        '▐' => (width / 2.0, 0.0, width / 2.0 + 0.3, HEIGHT + 0.3),
        '▕' => (width * 7.0 / 8.0, 0.0, width / 8.0 + 0.3, HEIGHT + 0.3),
        _ => return false,
    };
    rectangle(svg, x + left, y + top, wide, high, ink);
    true
}

/// Light lines, as arms of left, right, up and down; false for any other character.
fn line(svg: &mut String, character: char, x: f32, y: f32, ink: u32) -> bool {
    let (middle_x, middle_y) = (x + WIDTH / 2.0, y + HEIGHT / 2.0);
    let (right, bottom) = (x + WIDTH + 0.2, y + HEIGHT + 0.2);
    let to_left = format!("M{middle_x} {middle_y}H{x}");
    let to_right = format!("M{middle_x} {middle_y}H{right}");
    let up = format!("M{middle_x} {middle_y}V{y}");
    let down = format!("M{middle_x} {middle_y}V{bottom}");
    let round = |end_x: f32, end_y: f32| format!("M{end_x} {middle_y}Q{middle_x} {middle_y} {middle_x} {end_y}");
    let path = match character {
        '─' => to_left + &to_right,
        '│' => up + &down,
        '┌' => to_right + &down,
        '┐' => to_left + &down,
        '└' => to_right + &up,
        '┘' => to_left + &up,
        '├' => up + &down + &to_right,
        '┤' => up + &down + &to_left,
        '┬' => to_left + &to_right + &down,
        '┴' => to_left + &to_right + &up,
        '┼' => to_left + &to_right + &up + &down,
        '╭' => round(right, bottom),
        '╮' => round(x, bottom),
        '╰' => round(right, y),
        '╯' => round(x, y),
        _ => return false,
    };
    write!(svg, "<path d='{path}' fill='none' stroke='#{ink:06x}' stroke-width='1.2'/>").expect("a string");
    true
}

fn rectangle(svg: &mut String, x: f32, y: f32, width: f32, height: f32, color: u32) {
    write!(
        svg,
        "<rect x='{x}' y='{y}' width='{width}' height='{height}' fill='#{color:06x}' shape-rendering='crispEdges'/>"
    )
    .expect("a string");
}

impl Own {
    fn color(&self, color: Color, default: u32) -> u32 {
        match color {
            Color::Default => default,
            Color::Rgb(red, green, blue) => u32::from(red) << 16 | u32::from(green) << 8 | u32::from(blue),
            Color::Idx(index @ 0..16) => self.sixteen[usize::from(index)],
            Color::Idx(index @ 16..232) => {
                let part = |value: u32| if value == 0 { 0 } else { 55 + 40 * value };
                let index = u32::from(index) - 16;
                part(index / 36) << 16 | part(index / 6 % 6) << 8 | part(index % 6)
            }
            Color::Idx(index) => (8 + 10 * (u32::from(index) - 232)) * 0x01_0101,
        }
    }
}

/// Halfway between two colours.
fn mix(one: u32, other: u32) -> u32 {
    let part = |shift: u32| (((one >> shift & 255) + (other >> shift & 255)) / 2) << shift;
    part(16) | part(8) | part(0)
}
