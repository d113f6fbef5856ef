//! The columns of the top pane that fit its width, and their positions.
//!
//! The name has at least two fifths of the pane. If there is little room, sum% is omitted first,
//! then the total, the trend, the number of allocations (unless rows are sorted by it), cum, flat
//! and cum%. There is lat% if rows are sorted by it. In a diff, the columns are the shares before
//! and now, their difference, and the times. Where foreign code is folded, flat is that of the row
//! and the libraries that it calls, its two parts follow, and the heaviest library call has the
//! place of the module.

use crate::tally::query::Sort;
use crate::tally::trend::PARTS;

/// Minimum columns of the name, besides two fifths of the pane.
const NAME_COLUMNS: u16 = 20;
/// Minimum columns of the name to show the module column, and columns of the latter.
const MODULE_FROM_COLUMNS: u16 = 52;
const MODULE_COLUMNS: u16 = 18;
/// Columns of the heaviest library call, which replaces the module where foreign code is folded.
const LIBRARY_CALL_COLUMNS: u16 = 28;
/// Columns of a percentage.
const PERCENT_COLUMNS: u16 = 6;
/// Columns of a share of the latency with its margin, such as `100±12%`.
const LATENCY_COLUMNS: u16 = 7;
/// Columns of a number of allocations with its margin, such as `98 765±12%`.
const COUNT_COLUMNS: u16 = 10;
/// Columns of the arrow between two percentages.
const ARROW_COLUMNS: u16 = 2;
/// Columns of a difference in percentage points, and of its title.
const POINTS_COLUMNS: u16 = 9;
/// Columns before the first number.
pub const MARGIN: u16 = 2;

/// Columns of a trend with its arrow, and the gap before it.
pub const TREND_COLUMNS: u16 = PARTS as u16 + 2;
const TREND_GAP: u16 = 2;
/// Columns of a thread or process on narrow, medium and wide screens.
const OWNER_COLUMNS: (u16, u16, u16) = (9, 14, 22);
/// Columns of a title on such screens.
const TITLE_COLUMNS: (u16, u16, u16) = (14, 22, 36);
const OWNER_GAP: u16 = 1;

/// A column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The weight of samples whose leaf the row is.
    Flat,
    /// Its share.
    FlatShare,
    /// The share of this row and all above.
    SumShare,
    /// The weight of samples that contain the row.
    Cum,
    /// Its share.
    CumShare,
    /// Flat where foreign code is folded: of the row itself and of the libraries that it calls.
    Folded,
    /// The part of that which is the row's own.
    Own,
    /// The part of that which is of libraries.
    Library,
    /// The share of the wall-clock time in which the process ran.
    Latency,
    /// The number of allocations.
    Count,
    /// The share in the baseline of a diff, of the measure that rows are sorted by.
    Before,
    /// The same share now.
    Now,
    /// The difference of these shares.
    Points,
    /// The weights before and now.
    Times,
}

impl Column {
    /// The columns of the window.
    const WINDOW: [Column; 7] = [
        Column::Flat,
        Column::FlatShare,
        Column::SumShare,
        Column::Cum,
        Column::CumShare,
        Column::Latency,
        Column::Count,
    ];
    /// The columns of the window where foreign code is folded.
    const FOLDED: [Column; 6] =
        [Column::Folded, Column::FlatShare, Column::Own, Column::Library, Column::Cum, Column::CumShare];
    /// The columns of the total, which is not a sort key.
    const TOTAL: [Column; 4] = [Column::Flat, Column::FlatShare, Column::Cum, Column::CumShare];
    /// The columns of the window to omit after the total and the trend, in this order.
    const EXPENDABLE: [Column; 9] = [
        Column::Times,
        Column::Cum,
        Column::Own,
        Column::Flat,
        Column::CumShare,
        Column::Folded,
        Column::Library,
        Column::Before,
        Column::Now,
    ];

    /// The title.
    pub fn head(self) -> &'static str {
        match self {
            Column::Flat => "flat",
            Column::FlatShare => "flat%",
            Column::SumShare => "sum%",
            Column::Cum => "cum",
            Column::CumShare => "cum%",
            Column::Folded => "self+lib",
            Column::Own => "self",
            Column::Library => "library",
            Column::Latency => "lat%",
            Column::Count => "count",
            Column::Before => "before%",
            Column::Now => "now%",
            Column::Points => "Δ points",
            Column::Times => "time",
        }
    }

    /// The sort order that the column belongs to.
    fn sort(self) -> Option<Sort> {
        match self {
            Column::Flat | Column::FlatShare | Column::Folded => Some(Sort::Flat),
            Column::Cum | Column::CumShare => Some(Sort::Cum),
            Column::Latency | Column::Count => Some(Sort::Latency),
            Column::Own
            | Column::Library
            | Column::SumShare
            | Column::Before
            | Column::Now
            | Column::Points
            | Column::Times => None,
        }
    }

    /// Columns of the column with the gap before it, for values of this width.
    pub fn width(self, value: u16) -> u16 {
        match self {
            Column::Flat => value + 1,
            Column::Cum | Column::Own => value + 2,
            Column::Folded => value.max("▼self+lib".len() as u16 - 2) + 1,
            Column::Library => value.max("library".len() as u16) + 2,
            Column::FlatShare | Column::SumShare | Column::CumShare => PERCENT_COLUMNS + 1,
            Column::Count => COUNT_COLUMNS + 1,
            Column::Latency => LATENCY_COLUMNS + 1,
            Column::Points => POINTS_COLUMNS + 2,
            Column::Times => 2 * value + 2 + ARROW_COLUMNS + 1,
            Column::Before => PERCENT_COLUMNS + 2,
            Column::Now => ARROW_COLUMNS + PERCENT_COLUMNS + 1,
        }
    }
}

/// The contents that columns are chosen for.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopContents {
    /// The sort order.
    pub sort: Sort,
    /// Whether numbers are differences.
    pub is_diff: bool,
    /// Whether there is a total besides the window.
    pub has_total: bool,
    /// Whether there are trends.
    pub has_trends: bool,
    /// Whether it is known how many threads ran.
    pub has_latency: bool,
    /// Whether values are bytes of memory, which have a number of allocations.
    pub is_memory: bool,
    /// Whether foreign code is folded.
    pub is_folded: bool,
    /// Whether rows belong to a thread, process or title.
    pub has_owners: bool,
    /// Whether they belong to a title.
    pub has_titles: bool,
    /// Columns of a value.
    pub value: u16,
}

/// The columns that fit, and their positions.
#[derive(Clone, Debug)]
pub struct TopColumns {
    /// Columns of the window.
    pub window: Vec<Column>,
    /// Columns of the total; empty if they do not fit.
    pub total: Vec<Column>,
    /// The column by which rows are sorted; `None` if that is the name.
    pub sorted: Option<Column>,
    /// Columns of a value.
    pub value: u16,
    /// Position of the bar between window and total.
    pub bar: u16,
    /// Position of the trend; `None` if it does not fit.
    pub trend: Option<u16>,
    /// Position of the thread or process.
    pub owner: u16,
    /// Columns of the thread or process; 0 if rows have none.
    pub owner_columns: u16,
    /// Position of the name.
    pub name: u16,
    /// Columns of a name.
    pub name_columns: u16,
    /// Position of the module.
    pub module: u16,
    /// Columns of the module or, where foreign code is folded, of the library call; 0 if there is
    /// no room.
    pub module_columns: u16,
}

impl TopColumns {
    /// Chooses the columns for a pane of this width.
    pub fn new(width: u16, contents: TopContents) -> TopColumns {
        let TopContents { sort, is_diff, has_total, has_trends, .. } = contents;
        let TopContents { has_latency, is_memory, is_folded, has_owners, value, .. } = contents;
        let (narrow, medium, wide) = if contents.has_titles { TITLE_COLUMNS } else { OWNER_COLUMNS };
        let owner_columns = match width {
            _ if !has_owners => 0,
            0..60 => narrow,
            60..120 => medium,
            _ => wide,
        };
        let owner_room = owner_columns + u16::from(has_owners) * OWNER_GAP;
        let span = |columns: &[Column]| columns.iter().map(|column| column.width(value)).sum::<u16>();
        let bar = |window: &[Column]| MARGIN + span(window) + 2;
        let name = |window: &[Column], total: &[Column], has_trend: bool| {
            let numbers = if total.is_empty() { MARGIN + span(window) } else { bar(window) + 1 + span(total) };
            numbers + 2 + if has_trend { TREND_COLUMNS + TREND_GAP } else { 0 }
        };
        let least = (width - (width / 5 * 3 + width % 5 * 3 / 5)).max(NAME_COLUMNS);
        let fits = |window: &[Column], total: &[Column], has_trend| {
            name(window, total, has_trend) + owner_room + least <= width
        };
        let mut window = match (is_diff, sort) {
            (false, sort) if is_folded => {
                // The library call tells more than cum.
                let without = |dropped: &[Column]| {
                    let kept = |column: &&Column| column.sort() == Some(sort) || !dropped.contains(column);
                    Column::FOLDED.iter().filter(kept).copied().collect::<Vec<Column>>()
                };
                let all = [without(&[]), without(&[Column::Cum]), without(&[Column::Cum, Column::CumShare])];
                let has_call = |window: &&Vec<Column>| {
                    name(window, &[], has_trends) + owner_room + least + LIBRARY_CALL_COLUMNS + 2 <= width
                };
                all.iter().find(has_call).unwrap_or(&all[0]).clone()
            }
            (false, _) => Column::WINDOW.to_vec(),
            (true, _) => vec![Column::Before, Column::Now, Column::Points, Column::Times],
        };
        let mut total = if has_total && !is_diff && !is_folded { Column::TOTAL.to_vec() } else { Vec::new() };
        let mut has_trend = has_trends;
        window.retain(|column| match column {
            // It would come and go from program to program.
            Column::Latency => has_latency && !is_memory && sort == Sort::Latency,
            Column::Count => is_memory,
            _ => true,
        });
        if !fits(&window, &total, has_trend) {
            window.retain(|column| *column != Column::SumShare);
        }
        for keep in [&Column::TOTAL[..2], &[Column::FlatShare], &[]] {
            if !fits(&window, &total, has_trend) {
                total.retain(|column| keep.contains(column));
            }
        }
        has_trend &= fits(&window, &total, has_trend);
        if !fits(&window, &total, has_trend) {
            window.retain(|column| *column != Column::Count || column.sort() == Some(sort));
        }
        for column in Column::EXPENDABLE {
            if !fits(&window, &total, has_trend) {
                window.retain(|kept| *kept != column);
            }
        }
        let trend = has_trend.then(|| name(&window, &total, false));
        let (bar, owner) = (bar(&window), name(&window, &total, has_trend));
        let name = owner + owner_room;
        let room = width.saturating_sub(name);
        let (from, columns) = match is_folded && !is_diff {
            true => (0, LIBRARY_CALL_COLUMNS),
            false => (MODULE_FROM_COLUMNS, MODULE_COLUMNS),
        };
        let has_module = room >= from.max(least + columns + 2);
        let module_columns = if has_module { columns } else { 0 };
        let name_columns = room.saturating_sub(module_columns + u16::from(module_columns > 0) * 2);
        let module = width.saturating_sub(module_columns);
        let sorted = match is_diff {
            true => Some(Column::Points).filter(|_| sort != Sort::Name),
            false => window.iter().copied().find(|column| column.sort() == Some(sort)),
        };
        TopColumns {
            window,
            total,
            sorted,
            value,
            bar,
            trend,
            owner,
            owner_columns,
            name,
            name_columns,
            module,
            module_columns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyword::Keyword;

    fn contents() -> TopContents {
        TopContents {
            sort: Sort::Flat,
            is_diff: false,
            has_total: true,
            has_trends: true,
            has_latency: true,
            is_memory: false,
            is_folded: false,
            has_owners: false,
            has_titles: false,
            value: 7,
        }
    }

    #[test]
    fn the_name_has_at_least_two_fifths() {
        for width in 50..400_u16 {
            for (is_diff, sort) in
                [false, true].into_iter().flat_map(|is_diff| Sort::ALL.iter().map(move |&sort| (is_diff, sort)))
            {
                let plan = TopColumns::new(width, TopContents { is_diff, sort, ..contents() });
                let name = plan.name_columns;
                assert!(name * 5 >= width * 2, "{name} of {width}: {plan:?}");
                assert!(plan.name + plan.name_columns <= width);
            }
        }
    }

    /// Regression test: `100%` and `100±12%` touched.
    #[test]
    fn a_latency_with_a_margin_does_not_touch_the_column_before() {
        assert!(usize::from(Column::Latency.width(6)) > "100±12%".chars().count());
    }

    #[test]
    fn sum_is_omitted_first_and_the_total_next() {
        let columns = |width| TopColumns::new(width, contents());
        let mut last = columns(300);
        assert!(last.window.contains(&Column::SumShare) && last.total.len() == 4);
        for width in (40..300).rev() {
            let plan = columns(width);
            let has_sum = plan.window.contains(&Column::SumShare);
            assert!(!has_sum || plan.total.len() == 4, "{width}: sum% while the total is cut");
            assert!(!plan.window.contains(&Column::Latency), "{width}: rows are not sorted by lat%");
            let by_latency = TopColumns::new(width, TopContents { sort: Sort::Latency, ..contents() });
            assert!(by_latency.window.contains(&Column::Latency), "{width}: rows are sorted by lat%");
            assert!(plan.total.is_empty() || plan.trend.is_some(), "{width}: a total, but no trend");
            assert!(plan.trend.is_none() || plan.window.contains(&Column::Cum), "{width}: a trend, but no cum");
            assert!(plan.window.len() + plan.total.len() <= last.window.len() + last.total.len());
            last = plan;
        }
        assert_eq!(last.window, [Column::FlatShare, Column::CumShare]);
        let by_latency = TopColumns::new(60, TopContents { sort: Sort::Latency, ..contents() });
        assert_eq!(by_latency.sorted, Some(Column::Latency));
    }

    #[test]
    fn the_number_of_allocations_outlives_the_total() {
        let columns = |width| TopColumns::new(width, TopContents { is_memory: true, value: 9, ..contents() });
        for width in 40..300 {
            let (plan, wider) = (columns(width), columns(width + 1));
            let has_count = plan.window.contains(&Column::Count);
            assert!(has_count || (plan.total.is_empty() && plan.trend.is_none()), "{width}: a total, but no count");
            assert!(!has_count || wider.window.contains(&Column::Count), "{width}: it is lost with more room");
            assert!(!plan.window.contains(&Column::Latency));
        }
        assert!(columns(84).window.contains(&Column::Count));
    }
}
