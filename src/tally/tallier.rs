//! Who is asked again and again: it keeps what the next answer needs again (which filter matches which function, what each
//! stack counts for), and adds up weights anew for every answer. It has no opinion; those are in `table`, `callers`, `flame`.

use super::branches::Branches;
use super::callers::{Callers, Calls};
use super::crowd::Crowd;
use super::flame::{self, Flame, FlameQuery};
use super::lines::{Lines, Spots};
use super::paths::Paths;
use super::query::Query;
use super::rows::{RowId, Rows};
use super::sieve::Sieve;
use super::table::{Row, Sums, Table};
use super::threads::{self, Threads, ThreadsQuery};
use super::trend::{Courses, Parts, Trends};
use super::weights::Weights;
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
    /// Whether trends are asked for.
    pub trends: bool,
}

/// The answers to both.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// The top list.
    pub table: Table,
    /// Callers and callees, if they were asked for.
    pub callers: Option<Callers>,
    /// Lines and addresses, if they were asked for.
    pub lines: Option<Lines>,
    /// The flame, if it was asked for.
    pub flame: Option<Flame>,
    /// How the rows' flat goes, in their order; empty if it was not asked for, or of the total.
    pub trends: Trends,
}

/// Answers queries about one profile and its names: `profile` and `names` are the same ones each time.
#[derive(Default)]
pub struct Tallier {
    rows: Rows,
    sieve: Sieve,
    paths: Paths,
    crowd: Crowd,
    weights: Weights,
    sums: Sums,
    calls: Calls,
    spots: Spots,
    branches: Branches,
    courses: Courses,
}

impl Tallier {
    /// The top list and what is asked with it: samples are added up once for all.
    pub fn answer(&mut self, profile: &Profile, names: &Names, query: &Query, besides: Besides) -> Tallies {
        self.catch_up(profile, names, query);
        let nodes = profile.stacks.nodes();
        let parts = Parts::of(query.span).filter(|_| besides.trends);
        let mut table = self.weigh(profile, query, parts);
        let flame = besides.flame.map(|form| {
            self.branches.catch_up(nodes, &self.paths, &self.sieve);
            self.branches.weigh(&self.weights);
            flame::drawn(&self.branches, &self.rows, form)
        });
        if let Some(full) = besides.lines {
            self.spots.turn_to(full, (nodes, names), &self.paths, &self.sieve, &self.rows);
            self.spots.end((nodes, names), &self.paths, &self.sieve, &self.weights);
        }
        let (sums, paths) = (&mut self.sums, &self.paths);
        self.weights.climb(nodes, |node, weight_ns| sums.add_node(paths, node, weight_ns));
        let (ids, rows): (Vec<RowId>, Vec<Row>) = sums.take_rows(&self.rows, paths, query.sort).into_iter().unzip();
        table.rows = rows;
        let trends = parts.map(|_| self.courses.take(&ids)).unwrap_or_default();
        let callers = besides.centre.map(|full| {
            self.calls.turn_to(full, nodes, paths, &self.sieve, &self.rows);
            let flat_ns = table.rows.iter().find(|row| row.full == full).map_or(0, |row| row.flat_ns);
            self.calls.told(full, flat_ns, &self.weights, &self.rows)
        });
        let lines =
            besides.lines.map(|full| self.spots.told(full, (profile, names), &self.sieve, &self.weights, &self.rows));
        self.weights.clear();
        Tallies { table, callers, lines, flame, trends }
    }

    /// Processes and threads.
    pub fn threads(&mut self, profile: &Profile, names: &Names, query: &Query, asked: &ThreadsQuery) -> Threads {
        self.catch_up(profile, names, query);
        let row_of = |stack| self.paths.lets_in(stack);
        threads::threads(profile, query, asked, &self.crowd, &self.rows, row_of)
    }

    /// The top list.
    pub fn table(&mut self, profile: &Profile, names: &Names, query: &Query) -> Table {
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
    pub fn flame(&mut self, profile: &Profile, names: &Names, query: &Query, form: &FlameQuery) -> Flame {
        let besides = Besides { flame: Some(form), ..Besides::default() };
        self.answer(profile, names, query, besides).flame.unwrap_or_default()
    }

    fn catch_up(&mut self, profile: &Profile, names: &Names, query: &Query) {
        let void = self.sieve.catch_up(query, profile.stacks.frames(), names, &mut self.rows);
        let kept = self.paths.catch_up(profile.stacks.nodes(), void, &self.sieve, &self.rows);
        self.crowd.catch_up(&query.filters, profile);
        self.calls.truncate(kept);
        self.spots.truncate(kept);
        self.branches.truncate(kept);
        self.weights.catch_up(profile.stacks.len());
        self.sums.catch_up(&self.rows, &self.paths);
        self.courses.catch_up(self.rows.len());
    }

    /// Adds up every stack's own weight, rows' flat and its course, and the table's totals.
    fn weigh(&mut self, profile: &Profile, query: &Query, parts: Option<Parts>) -> Table {
        let mut table = Table::default();
        let span = parts.map_or(query.span, Parts::span);
        profile.visit_aged(query.clock, span, |age, (thread, stack), weight| {
            let flat = self.paths.lets_in(stack).filter(|_| self.crowd.lets_in(thread));
            if let Some(place) = parts.map(|parts| parts.at(age)) {
                self.courses.add_total(place, weight);
                if let Some(row) = flat.filter(|&row| row != RowId::NONE) {
                    self.courses.add(row, place, weight);
                }
                if place.window.is_none() {
                    return;
                }
            }
            table.total_ns = table.total_ns.saturating_add(weight.ns);
            table.samples += weight.samples;
            let Some(row) = flat else { return };
            table.kept_ns = table.kept_ns.saturating_add(weight.ns);
            table.kept_samples += weight.samples;
            if row != RowId::NONE {
                self.sums.add_flat(row, weight.ns);
            }
            self.weights.add(stack, weight.ns);
        });
        table
    }
}
