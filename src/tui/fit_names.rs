//! Fits names into columns: the one rule by which all panes and tables shorten them.
//!
//! A name of each style:
//!
//! * `short`: the path without generics and arguments. Leading parts of the path are left out,
//!   whole and without an ellipsis, until the rest fits.
//! * `bare`: the last part of that path.
//! * `full`: the whole name. Generics and arguments are replaced by `…`, the innermost first, until
//!   the rest fits; then as `short`.
//!
//! A lock that is held loses its address, so that its holder can be read. The function of an
//! interpreter loses its file and line first, then leading parts of its path. An address in a
//! library loses the version of the library: `libsqlite3+0x12ab`.
//!
//! If the last part alone is too long, it is cut on its right. A name in several rows that would
//! read the same gets what [tells them apart](super::name_tags) behind it.

use std::borrow::Cow;
use std::collections::HashMap;

use super::name_parts::NameFrame;
use super::name_style::NameStyle;
use super::name_tags::tags;
use super::text::{columns, cut_right};
use crate::symbols::WaitLabel;
use crate::symbols::name_syntax::{MAX_DEPTH, NameToken, inside, is_subject, tokens};

/// A name, and the room for it.
#[derive(Clone, Copy, Debug)]
pub struct NameToFit<'a> {
    /// The name with generics and arguments. Different names have different full names.
    pub full: &'a str,
    /// The name without them.
    pub short: &'a str,
    /// The number of columns.
    pub room: usize,
}

/// Fits names that are visible at the same time. Different ones read differently where there is
/// room for what tells them apart.
pub fn fit_names(names: &[NameToFit<'_>], style: NameStyle) -> Vec<String> {
    let mut fitted: Vec<String> = names.iter().map(|name| fit_name(name, style).into_owned()).collect();
    let mut same: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, text) in fitted.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        same.entry(text).or_default().push(index);
    }
    let same: Vec<Vec<usize>> = same.into_values().filter(|group| group.len() > 1).collect();
    for group in same {
        let both: Vec<(&str, &str)> = group.iter().map(|&index| (names[index].full, names[index].short)).collect();
        for (index, tag) in group.into_iter().zip(tags(&both)) {
            if !tag.is_empty() {
                fitted[index] = fit_with_tag(&names[index], style, &tag);
            }
        }
    }
    fitted
}

/// Fits one name, regardless of others.
pub fn fit_name<'a>(name: &NameToFit<'a>, style: NameStyle) -> Cow<'a, str> {
    let NameToFit { full, short, room } = *name;
    if columns(short, room) > room && WaitLabel::parse(short).holder_name().is_some() {
        return cut_right(&WaitLabel::parse(short).holder(), room).into_owned().into();
    }
    match style {
        NameStyle::Bare if columns(short, room) > room => {
            cut_last(NameFrame::new(short).last_part().without_version(), room)
        }
        NameStyle::Bare => cut_last(NameFrame::new(short).last_part(), room),
        NameStyle::Short => fit_short(short, room),
        NameStyle::Full if columns(full, room) <= room => full.into(),
        NameStyle::Full => {
            let elided = (1..=MAX_DEPTH).map(|depth| elide(full, depth));
            let fitting = elided.take_while(|text| columns(text, room) <= room);
            fitting.last().map_or_else(|| fit_short(short, room), Cow::Owned)
        }
    }
}

/// Fits a name with what tells it from others behind it. The tag has at most half of the room.
fn fit_with_tag(name: &NameToFit<'_>, style: NameStyle, tag: &str) -> String {
    // A short name that has the type already is better than the elided name with the type.
    if matches!(style, NameStyle::Full) && name.short.ends_with('>') {
        return fit_short(name.short, name.room).into_owned();
    }
    let tag = cut_right(tag, name.room / 2);
    let room = name.room - columns(&tag, name.room);
    fit_name(&NameToFit { room, ..*name }, style).into_owned() + &tag
}

fn fit_short(short: &str, room: usize) -> Cow<'_, str> {
    if columns(short, room) <= room {
        return short.into();
    }
    let frame = NameFrame::new(short);
    let frame = frame.without_place().unwrap_or(frame);
    let around = columns(frame.before, room) + columns(frame.after, room);
    let parts = frame.parts();
    let is_too_long = |&start: &usize| columns(&frame.core[start..], room) + around > room;
    if let Some(&start) = parts.get(parts.partition_point(is_too_long)) {
        return format!("{}{}{}", frame.before, &frame.core[start..], frame.after).into();
    }
    cut_last(frame.last_part().without_version(), room)
}

/// Cuts the last part on its right, in front of the place in a file if that can be kept.
fn cut_last(frame: NameFrame<'_>, room: usize) -> Cow<'_, str> {
    let whole = columns(frame.before, room) + columns(frame.core, room) + columns(frame.after, room);
    let frame = frame.without_place().filter(|_| whole > room).unwrap_or(frame);
    let after = columns(frame.after, room);
    if frame.before.is_empty() && after * 2 <= room && after > 0 {
        return format!("{}{}", cut_right(frame.core, room - after), frame.after).into();
    }
    match frame.before.is_empty() && after == 0 {
        true => cut_right(frame.core, room),
        false => cut_right(&format!("{}{}{}", frame.before, frame.core, frame.after), room).into_owned().into(),
    }
}

/// Replaces what is in brackets, `depth` levels deep, by `…`. Brackets that hold the type of a
/// method, not arguments, do not count.
fn elide(name: &str, depth: usize) -> String {
    let mut elided = String::with_capacity(name.len());
    for (token, start, end) in tokens(name) {
        let copied = &name[start..end];
        let (inner, close) = if token == NameToken::Group { inside(copied) } else { ("", "") };
        if inner.is_empty() || copied.starts_with(['{', '[']) {
            elided.push_str(copied);
            continue;
        }
        elided.push_str(&copied[..1]);
        match depth - usize::from(!is_subject(name, start)) {
            0 => elided.push('…'),
            depth => elided.push_str(&elide(inner, depth)),
        }
        elided.push_str(close);
    }
    elided
}

#[cfg(test)]
mod tests {
    use crate::property::property;
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::foreign_names::{CASES, similar_names};

    proptest! {
        #![proptest_config(property(CASES))]
        #[test]
        fn foreign_names_fit(names in similar_names(), shorts in similar_names(), room in 0usize..60) {
            let all: Vec<NameToFit<'_>> =
                names.iter().zip(&shorts).map(|(full, short)| NameToFit { full, short, room }).collect();
            for style in [NameStyle::Full, NameStyle::Short, NameStyle::Bare] {
                for (name, fitted) in all.iter().zip(fit_names(&all, style)) {
                    prop_assert!(columns(&fitted, 1_000) <= room.max(1), "{name:?} {style:?}: {fitted:?}");
                }
            }
        }
    }
}
