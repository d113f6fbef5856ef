//! Who is asked again and again: it keeps what the next answer needs again (which filter matches which function, what each
//! stack counts for, the sums of the last question), and adds what is new. It has no opinion; those are in `table`, `callers`,
//! `flame`.

use std::sync::Arc;

use super::branches::Branches;
use super::callers::{Callers, Calls};
use super::crowd::Crowd;
use super::flame::{self, Flame, FlameQuery};
use super::grove::Grove;
use super::lines::{Lines, Spots};
use super::paths::Paths;
use super::query::Query;
use super::rows::{RowId, Rows};
use super::running::{Asked, Ground, Running, SPAN, TOTAL};
use super::sieve::{Sieve, Void};
use super::table::{Row, Table};
use super::threads::{self, Threads, ThreadsQuery};
use super::ties::Forest;
use super::timeline::Timeline;
use super::trend::{Courses, Parts, Trends};
use crate::profile::Profile;
use crate::symbols::Names;

/// What is asked with a table, of the same samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Besides<'a> {
    /// Full name of the function whose callers and callees are asked for.
    pub centre: Option<&'a str>,
    /// Full name of the function whose lines and addresses are asked for.
    pub lines: Option<&'a str>,
    /// How the flame is drawn, if it is asked for.
    pub flame: Option<&'a FlameQuery>,
    /// Whether the total's top list is asked for, beside that of a span of time.
    pub total: bool,
    /// Whether trends are asked for.
    pub trends: bool,
    /// Whether it is to be answered from the samples that the last answer knew, where the question is of the same.
    pub stands: bool,
}

/// The answers to both.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// The top list.
    pub table: Arc<Table>,
    /// The total's, if it was asked for.
    pub total: Option<Arc<Table>>,
    /// Callers and callees, if they were asked for.
    pub callers: Option<Callers>,
    /// Lines and addresses, if they were asked for.
    pub lines: Option<Lines>,
    /// The flame, if it was asked for.
    pub flame: Option<Arc<Flame>>,
    /// How the rows' flat goes, in their order; empty if it was not asked for, or of the total.
    pub trends: Arc<Trends>,
}

/// What was told last, and of what: it is told again while nothing changes.
struct Told {
    /// The question, whether the total and trends were asked for, and the version of the names.
    of: (Query, [bool; 2], u64),
    table: Arc<Table>,
    total: Option<Arc<Table>>,
    trends: Arc<Trends>,
    flame: Option<(FlameQuery, Arc<Flame>)>,
}

/// Answers queries about one profile and its names: `profile` and `names` are the same ones each time.
#[derive(Default)]
pub struct Tallier {
    grove: Grove,
    rows: Rows,
    sieve: Sieve,
    paths: Paths,
    crowd: Crowd,
    /// How often conclusions about stacks were given up.
    conclusions: u64,
    running: Running,
    calls: Calls,
    spots: Spots,
    branches: Branches,
    courses: Courses,
    told: Option<Told>,
}

impl Tallier {
    /// The top list and what is asked with it: samples are added up once for all.
    pub fn answer(&mut self, profile: &Profile, names: &Names, query: &Query, besides: Besides) -> Tallies {
        self.catch_up(profile, names, query);
        let Tallier { grove, rows, sieve, paths, crowd, running, .. } = self;
        let nodes = grove.nodes(profile);
        let ground = Ground { profile, grove, paths, crowd, rows: rows.len(), conclusions: self.conclusions };
        if besides.flame.is_some() {
            self.branches.catch_up(nodes, paths, sieve);
        }
        let asked = Asked { total: besides.total, stands: besides.stands };
        let stood = running.advance(query, asked, ground, besides.flame.map(|_| &mut self.branches));
        let of = (query.clone(), [besides.total, besides.trends], names.version());
        let known = self.told.take().filter(|told| stood && told.of == of);
        let mut told = known.unwrap_or_else(|| {
            let listed = |side: usize| {
                let (ids, listed): (Vec<RowId>, Vec<Row>) =
                    running.sums.rows(side, rows, paths, query.sort).into_iter().unzip();
                (ids, Table { rows: listed, ..running.head(side) })
            };
            let (ids, table) = listed(SPAN);
            let parts = Parts::of(query.span).filter(|_| besides.trends);
            let trends = parts.map(|parts| self.courses.trends(parts, query, ground, &ids)).unwrap_or_default();
            let total = besides.total.then(|| listed(TOTAL).1.into());
            Told { of, table: table.into(), total, trends: trends.into(), flame: None }
        });
        if let Some(form) = besides.flame {
            let known = told.flame.take().filter(|(known, _)| known == form);
            told.flame = known.or_else(|| Some((form.clone(), flame::drawn(&self.branches, rows, form).into())));
        }
        let forest = Forest { nodes, paths, sieve, weights: &running.weights };
        let callers = besides.centre.map(|full| {
            self.calls.turn_to(full, forest, rows);
            let flat_ns = rows.named(full).map_or(0, |row| running.sums.flat_ns(row, SPAN));
            self.calls.told(full, flat_ns, &running.weights, rows)
        });
        let lines = besides.lines.map(|full| {
            self.spots.turn_to(full, names, forest, rows);
            self.spots.end(names, forest);
            self.spots.told(full, (profile, names), grove, sieve, &running.weights, rows)
        });
        let flame = besides.flame.and_then(|_| told.flame.as_ref().map(|(_, flame)| Arc::clone(flame)));
        let (table, total, trends) = (Arc::clone(&told.table), told.total.clone(), Arc::clone(&told.trends));
        self.told = Some(told);
        Tallies { table, total, callers, lines, flame, trends }
    }

    /// Processes and threads.
    pub fn threads(&mut self, profile: &Profile, names: &Names, query: &Query, asked: &ThreadsQuery) -> Threads {
        self.catch_up(profile, names, query);
        let row_of = |key| self.paths.lets_in(self.grove.stack(key));
        threads::threads(profile, query, asked, &self.crowd, &self.rows, row_of)
    }

    /// What the samples of a span of time weigh that the filters let in, tick by tick.
    pub fn timeline(&mut self, profile: &Profile, names: &Names, query: &Query) -> Timeline {
        self.catch_up(profile, names, query);
        let (Some((first, last)), Some((oldest, _))) = (query.span.ticks(), profile.ends(query.clock)) else {
            return Timeline::default();
        };
        let first = first.max(oldest);
        let mut ticks_ns = vec![0u64; (last + 1).saturating_sub(first) as usize];
        let Tallier { grove, paths, crowd, .. } = self;
        let ground = Ground { profile, grove, paths, crowd, rows: 0, conclusions: 0 };
        profile.visit_ticks(query.era, query.clock, (first, last), |tick, key, weight| {
            if ground.flat(key).is_some() {
                let ns = &mut ticks_ns[(tick - first) as usize];
                *ns = ns.saturating_add(weight.ns);
            }
        });
        Timeline { ticks_ns: ticks_ns.into() }
    }

    /// The top list.
    pub fn table(&mut self, profile: &Profile, names: &Names, query: &Query) -> Arc<Table> {
        self.answer(profile, names, query, Besides::default()).table
    }

    /// Callers and callees of the function with this full name.
    pub fn callers(&mut self, profile: &Profile, names: &Names, query: &Query, full: &str) -> Callers {
        let besides = Besides { centre: Some(full), ..Besides::default() };
        self.answer(profile, names, query, besides).callers.unwrap_or_default()
    }

    /// Lines and addresses of the function with this full name.
    pub fn lines(&mut self, profile: &Profile, names: &Names, query: &Query, full: &str) -> Lines {
        let besides = Besides { lines: Some(full), ..Besides::default() };
        self.answer(profile, names, query, besides).lines.unwrap_or_default()
    }

    /// All stacks as a tree.
    pub fn flame(&mut self, profile: &Profile, names: &Names, query: &Query, form: &FlameQuery) -> Arc<Flame> {
        let besides = Besides { flame: Some(form), ..Besides::default() };
        self.answer(profile, names, query, besides).flame.unwrap_or_default()
    }

    fn catch_up(&mut self, profile: &Profile, names: &Names, query: &Query) {
        if let Some(grove) = self.grove.for_another(query) {
            *self = Tallier { grove, conclusions: self.conclusions, ..Tallier::default() };
        }
        self.grove.catch_up(profile, query);
        let void = self.sieve.catch_up(query, (profile, &self.grove), names, &mut self.rows);
        let other_threads = self.crowd.catch_up(&query.filters, profile);
        self.conclusions += u64::from(void != Void::Nothing || other_threads);
        let kept = self.paths.catch_up(self.grove.nodes(profile), void, &self.sieve, &self.rows);
        self.calls.truncate(kept);
        self.spots.truncate(kept);
        self.branches.truncate(kept);
    }
}
