//! Fits names into columns: the one rule by which all panes and tables shorten them.
//!
//! A name of each style:
//!
//! * `short`: the path without generics and arguments. Leading parts of the path are left out,
//!   whole and without an ellipsis, until the rest fits. What one name of a column has lost, all
//!   others that begin with it lose too.
//! * `bare`: the last part of that path.
//! * `full`: the whole name. Generics and arguments are replaced by `…`, the innermost first, until
//!   the rest fits; then as `short`.
//!
//! A lock that is held loses its address, so that its holder can be read. The function of an
//! interpreter loses its file and line first, then leading parts of its path. Of several in one
//! column, all lose their file and line if one does. An address in a
//! library loses the version of the library: `libsqlite3+0x12ab`.
//!
//! If the last part alone is too long, it is cut on its right. A name in several rows that would
//! read the same gets what [tells them apart](super::name_tags) behind it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

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
    if matches!(style, NameStyle::Short) {
        drop_prefixes(names, &mut fitted);
    }
    if !matches!(style, NameStyle::Full) {
        drop_places(names, &mut fitted);
    }
    let mut same: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, text) in fitted.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
        same.entry(text).or_default().push(index);
    }
    let same: Vec<Vec<usize>> = same.into_values().filter(|group| group.len() > 1).collect();
    for group in same {
        let both: Vec<(&str, &str)> = group.iter().map(|&index| (names[index].full, names[index].short)).collect();
        for (index, tag) in group.into_iter().zip(tags(&both)) {
            if !tag.is_empty() {
                fitted[index] = fit_with_tag(&names[index], &fitted[index], style, &tag);
            }
        }
    }
    fitted
}

/// Removes the leading parts of paths that one name has no room for from all that begin with them:
/// `IntToCString` of `v8::internal::IntToCString` is beside `JsonStringifier::Serialize`.
fn drop_prefixes(names: &[NameToFit<'_>], fitted: &mut [String]) {
    let paths: Vec<(NameFrame<'_>, usize)> = names
        .iter()
        .map(|name| {
            let frame = NameFrame::new(name.short);
            let is_cut = columns(name.short, name.room) > name.room;
            (frame, if is_cut { path_start(frame.without_place().unwrap_or(frame), name.room) } else { 0 })
        })
        .collect();
    let mut lost: HashSet<&str> = HashSet::new();
    for (path, own) in paths.iter().filter(|(_, own)| *own > 0) {
        lost.extend(
            path.parts().into_iter().filter(|&start| start > 0 && start <= *own).map(|start| &path.core[..start]),
        );
    }
    if lost.is_empty() {
        return;
    }
    for ((path, own), (name, text)) in paths.iter().zip(names.iter().zip(fitted)) {
        let is_lost = |start: &usize| *start > *own && lost.contains(&path.core[..*start]);
        let start = path.parts().into_iter().rev().find(is_lost).filter(|_| path.before.is_empty());
        if let Some(start) = start {
            *text = fit_short(&name.short[start..], name.room).into_owned();
        }
    }
}

/// Removes the files and lines behind the functions of an interpreter, if one had no room for its
/// own: a column has them all or none.
fn drop_places(names: &[NameToFit<'_>], fitted: &mut [String]) {
    let places: Vec<&str> = names.iter().map(|name| place(name.short)).collect();
    let has_lost = |(place, text): (&&str, &String)| !place.is_empty() && !text.ends_with(*place);
    if places.iter().zip(fitted.iter()).any(has_lost) {
        for (place, text) in places.iter().zip(fitted).filter(|(place, _)| !place.is_empty()) {
            let kept = text.strip_suffix(*place).map_or(text.len(), str::len);
            text.truncate(kept);
        }
    }
}

/// The file and line behind the function of an interpreter whose name tells enough without; else
/// empty.
fn place(short: &str) -> &str {
    let frame = NameFrame::new(short);
    if frame.without_place().is_some() { frame.after } else { "" }
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
        // An interpreter's function has no arguments.
        NameStyle::Full if NameFrame::new(full).is_interpreted => fit_short(short, room),
        NameStyle::Full => {
            let elided = (1..=MAX_DEPTH).map(|depth| elide(full, depth));
            let fitting = elided.take_while(|text| columns(text, room) <= room);
            fitting.last().map_or_else(|| fit_short(short, room), Cow::Owned)
        }
    }
}

/// Fits a name with what tells it from others behind it. The tag has at most half of the room.
fn fit_with_tag(name: &NameToFit<'_>, fitted: &str, style: NameStyle, tag: &str) -> String {
    // A short name that has the type already is better than the elided name with the type.
    if matches!(style, NameStyle::Full) && name.short.ends_with('>') {
        return fit_short(name.short, name.room).into_owned();
    }
    let tag = cut_right(tag, name.room / 2);
    let room = name.room - columns(&tag, name.room);
    if columns(fitted, room + 1) <= room {
        return format!("{fitted}{tag}");
    }
    fit_name(&NameToFit { room, ..*name }, style).into_owned() + &tag
}

fn fit_short(short: &str, room: usize) -> Cow<'_, str> {
    if columns(short, room) <= room {
        return short.into();
    }
    let frame = NameFrame::new(short);
    let frame = frame.without_place().unwrap_or(frame);
    let start = path_start(frame, room);
    let around = columns(frame.before, room) + columns(frame.after, room);
    if columns(&frame.core[start..], room) + around <= room {
        return format!("{}{}{}", frame.before, &frame.core[start..], frame.after).into();
    }
    cut_last(frame.last_part().without_version(), room)
}

/// The start of the part of a path from which on it fits; that of the last part if none fits.
fn path_start(frame: NameFrame<'_>, room: usize) -> usize {
    let around = columns(frame.before, room) + columns(frame.after, room);
    let parts = frame.parts();
    let is_too_long = |&start: &usize| columns(&frame.core[start..], room) + around > room;
    parts.get(parts.partition_point(is_too_long)).or(parts.last()).copied().unwrap_or(0)
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

    #[test]
    fn a_column_loses_a_prefix_once() {
        let fit = |shorts: &[&str], room| {
            let names: Vec<NameToFit<'_>> =
                shorts.iter().map(|&short| NameToFit { full: short, short, room }).collect();
            fit_names(&names, NameStyle::Short)
        };
        let names = [
            "v8::internal::JsonStringifier::SerializeString",
            "v8::internal::IntToCString",
            "v8::Isolate::New",
            "main",
        ];
        assert_eq!(fit(&names, 60), names);
        let cut = ["JsonStringifier::SerializeString", "IntToCString", "Isolate::New", "main"];
        assert_eq!(fit(&names, 34), cut);
        // What reads the same without the prefix has it behind.
        assert_eq!(fit(&["std::thread::spawn_unchecked", "std::read", "read"], 22)[1..], ["read (std)", "read"]);
        let python = ["JSONEncoder.iterencode (encoder.py:205)", "score (a.py:2)", "<genexpr> (a.py:8)"];
        assert_eq!(fit(&python, 40), python);
        assert_eq!(fit(&python, 30), ["JSONEncoder.iterencode", "score", "<genexpr> (a.py:8)"]);
    }

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
