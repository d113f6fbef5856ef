//! The screen's state, and what every [`Action`] does to it. Nothing here reads a clock, a key or a channel, and nothing
//! draws: the whole program can be driven from a list of actions.

mod commanding;
mod filtering;
mod leaving;
mod panes;
mod sampling;
mod saving;
mod time;

use std::sync::Arc;

use super::Options;
use super::action::{Action, Departure, Effect};
use super::colon::{Colon, History};
use super::emulator::Emulator;
use super::filters::{self, FilterHistory};
use super::flame::{Colour, FlameView};
use super::input::Input;
use super::keys::{self, Place};
use super::layout::{self, Pane, View};
use super::list::{List, Mark, NameStyle};
use super::listing::ListingView;
use super::neighbours::Neighbours;
use super::page::Page;
use super::prompt::Prompt;
use super::roster::Roster;
use super::saving::Saving;
use super::typing;
use super::walk::Walk;
use super::wanted::Wanted;
use super::why::Why;
use crate::link::wire::{Clock, Engine};
use crate::tally::measure::Unit;
use crate::tally::query::{Filters, Group, Pattern, Roots, Sort};
use crate::tally::table::Table;
use crate::track::{Answer, Command, Ending, Question};

/// The total that the unit of values is chosen for, ns: a session is rarely shorter, and the unit must not change in it.
const UNIT_TOTAL_NS: u64 = 60_000_000_000;

/// What has the keys.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    /// The panes.
    Panes,
    /// A page of words over them, scrolled by so many rows.
    Page(Page, usize),
    /// A prompt, and where things stood before it.
    Prompt(Prompt, Box<Stand>),
    /// The line of commands.
    Colon(Colon),
    /// The line that says what to save.
    Save(Saving),
    /// Whether to end the target.
    Question,
    /// Whether to sample by setitimer, and the command for the session if so.
    ConfirmItimer(Command),
    /// The target was told to end, so many times.
    Ending(u32),
    /// The target.
    Typing,
}

/// Where selection and cursors stand.
#[derive(Clone, Debug)]
pub(super) struct Stand {
    list: Mark,
    neighbours: Neighbours,
    flame: FlameView,
    listing: ListingView,
}

/// The line over the footer, when it has something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    /// Whether it stays until Esc (the session's words), or goes with the next key (an echo of the last one).
    pub(super) stays: bool,
}

/// The screen's state.
pub struct App {
    pub(super) options: Options,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    pub(super) view: View,
    /// The pane that has the keys.
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    pub(super) answer: Option<Arc<Answer>>,
    pub(super) list: List,
    pub(super) neighbours: Neighbours,
    pub(super) flame: FlameView,
    pub(super) listing: ListingView,
    pub(super) roster: Roster,
    /// What the page of that name is about.
    pub(super) why: Option<Why>,
    pub(super) emulator: Emulator,
    /// The size that the target's terminal was given.
    told_size: Option<(u16, u16)>,
    pub(super) filters: FilterHistory,
    pub(super) window_ns: Option<u64>,
    pub(super) sort: Sort,
    pub(super) group: Group,
    pub(super) roots: Roots,
    pub(super) names: NameStyle,
    /// In which unit values are shown, for the whole session.
    pub(super) unit: Unit,
    /// Whether percentages are of what is shown.
    pub(super) relative: bool,
    pub(super) frozen: bool,
    /// Where in the past a frozen screen stands.
    pub(super) walk: Walk,
    /// Whether numbers are differences from a baseline.
    pub(super) compares: bool,
    clock: Wanted<Clock>,
    engine: Wanted<Engine>,
    /// Whether the line over the footer has said why CPU time is not sampled.
    told_unsampled: bool,
    /// Whether the user has been warned of setitimer and chose it all the same.
    accepts_itimer: bool,
    period_ns: Wanted<u64>,
    pub(super) message: Option<Message>,
    pub(super) ended: Option<Ending>,
    /// Whether nobody answers any more.
    session_over: bool,
    /// What was found last.
    pub(super) found: Option<Pattern>,
    colon_history: History,
    /// What was saved last: the ending, and whether only what was shown.
    saved_as: &'static str,
    saved_shown: bool,
    /// What the session was asked last; nothing before the start.
    asked: Option<Question>,
}

impl App {
    /// The state before anything happened.
    pub fn new(options: Options) -> App {
        App {
            size: (80, 24),
            view: View::Dashboard,
            pane: Pane::Top,
            mode: Mode::Panes,
            answer: None,
            list: List::default(),
            neighbours: Neighbours::default(),
            flame: FlameView::default(),
            listing: ListingView::default(),
            roster: Roster::default(),
            why: None,
            emulator: Emulator::new(layout::target_size((80, 24))),
            told_size: None,
            filters: FilterHistory::new(options.question.filters.clone()),
            window_ns: options.question.window_ns,
            sort: options.question.sort,
            group: options.question.group,
            roots: options.question.roots,
            names: options.names,
            unit: Unit::of_report(options.period_ns, UNIT_TOTAL_NS),
            relative: false,
            frozen: false,
            walk: Walk::default(),
            compares: false,
            clock: Wanted::new(options.clock),
            told_unsampled: false,
            accepts_itimer: options.engine == Engine::Itimer || options.clock == Clock::Virtual,
            engine: Wanted::new(options.engine),
            period_ns: Wanted::new(options.period_ns),
            message: None,
            ended: None,
            session_over: false,
            found: None,
            colon_history: History::default(),
            saved_as: ".sigtop",
            saved_shown: false,
            asked: None,
            options,
        }
    }

    /// What to do first.
    pub fn start(&mut self) -> Vec<Effect> {
        let question = self.question();
        self.asked = Some(question.clone());
        vec![Effect::Send(Command::Ask(question.into()))]
    }

    /// The clock in use, or asked for.
    pub(super) fn clock(&self) -> Clock {
        self.clock.value()
    }

    /// The newest numbers.
    pub fn answer(&self) -> Option<&Arc<Answer>> {
        self.answer.as_ref()
    }

    /// The target's last lines, at most `count`.
    pub fn last_lines(&mut self, count: usize) -> Vec<String> {
        self.emulator.last_lines(count)
    }

    /// Takes in what the terminal said.
    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        if !matches!(input, Input::Gone) && self.message.as_ref().is_some_and(|message| !message.stays) {
            self.message = None;
        }
        let action = match input {
            Input::Key(key, bytes) => {
                let known = keys::action(self.options.keys.bindings(), &self.places(), key);
                known.or_else(|| match self.mode {
                    Mode::Prompt(..) | Mode::Colon(_) | Mode::Save(_) => typing::character(key).map(Action::Insert),
                    Mode::Typing => Some(Action::Type(typing::key(key, bytes, &self.emulator))),
                    _ => None,
                })
            }
            Input::Paste(text) => Some(Action::Paste(text)),
            Input::Click(column, row) => Some(Action::Click(column, row)),
            Input::Wheel(column, row, step) => Some(Action::Wheel(column, row, step)),
            Input::Gone => return self.hung_up(),
        };
        action.map(|action| self.update(action)).unwrap_or_default()
    }

    /// Where the keys are looked up, innermost first.
    pub(super) fn places(&self) -> Vec<Place> {
        match self.mode {
            Mode::Prompt(..) => vec![Place::Prompt, Place::Everywhere],
            Mode::Colon(_) => vec![Place::Colon, Place::Prompt, Place::Everywhere],
            Mode::Save(_) => vec![Place::Save, Place::Prompt, Place::Everywhere],
            Mode::Question => vec![Place::Question, Place::Everywhere],
            Mode::ConfirmItimer(_) => vec![Place::Confirm, Place::Everywhere],
            Mode::Ending(_) => vec![Place::Ending, Place::Everywhere],
            Mode::Typing => vec![Place::Typing],
            Mode::Page(..) => vec![Place::Panes, Place::Screen, Place::Everywhere],
            Mode::Panes => {
                let pane = match self.pane {
                    Pane::Top => Place::Top,
                    Pane::Callers => Place::Callers,
                    Pane::Flame => Place::Flame,
                    Pane::Source => Place::Source,
                    Pane::Threads => Place::Threads,
                    Pane::Output => Place::Output,
                };
                vec![pane, Place::Panes, Place::Screen, Place::Everywhere]
            }
        }
    }

    /// Lets something happen; returns what follows.
    pub fn update(&mut self, action: Action) -> Vec<Effect> {
        let before = self.list.selected_name().map(str::to_owned);
        let others = self.pane != Pane::Flame && !matches!(action, Action::Answer(_));
        let mut effects = self.act(action);
        self.fit();
        if let Some(flame) = self.answer.as_ref().and_then(|answer| answer.flame.as_ref())
            && others
            && before.as_deref() != self.list.selected_name()
        {
            self.flame.reveal(flame, self.list.selected_name());
        }
        let question = self.question();
        if self.asked.as_ref().is_some_and(|asked| *asked != question) {
            self.asked = Some(question.clone());
            effects.insert(0, Effect::Send(Command::Ask(question.into())));
        }
        effects
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        if let Some(effects) = self.colon(&action).or_else(|| self.save(&action)) {
            return effects;
        }
        match action {
            Action::Answer(answer) => self.hear(answer),
            Action::Output(bytes) => self.emulator.write(&bytes),
            Action::Banner(text) => self.message = Some(Message { text, stays: true }),
            Action::Found(found) => {
                if let Some(why) = &mut self.why {
                    why.found = Some(found);
                }
            }
            Action::Ended(ending) => return self.target_ended(ending),
            Action::Saved(saved) => self.saved(saved),
            Action::SessionOver => return self.session_ended(),
            Action::Resize(columns, rows) => return self.resize((columns, rows)),

            Action::Help => self.turn_to(Page::Help),
            Action::Losses => self.turn_to(Page::Losses),
            Action::Why => return self.ask_why(),
            Action::Quit => return self.quit(),
            Action::Interrupt if matches!(self.mode, Mode::Question | Mode::Ending(_)) => return self.end(),
            Action::Interrupt => return self.quit(),
            Action::End => return self.end(),
            Action::LetRun => return self.depart(Departure::Left),
            Action::Back => self.back(),
            Action::NextPane(step) => self.next_pane(step),
            Action::Dashboard => self.show(View::Dashboard),
            Action::Alone(pane) => self.show(View::Alone(pane)),
            Action::Zoom => self.show(match self.view {
                View::Dashboard => View::Alone(self.pane),
                View::Alone(_) => View::Dashboard,
            }),
            Action::Move(motion) => self.go(motion),
            Action::Enter => self.enter(),
            Action::Out => self.out(),
            Action::Forward => self.forward(),
            Action::TurnFlame => self.flame.root_below = !self.flame.root_below,
            Action::TurnListing => self.listing.turn(),
            Action::BottomUp => self.flame.turn_over(),
            Action::Colour => {
                self.flame.colour = match self.flame.colour {
                    Colour::Module => Colour::Heat,
                    Colour::Heat => Colour::Module,
                }
            }

            Action::Clock(clock) => return self.switch_clock(clock),
            Action::Engine => return self.switch_engine(),
            Action::Confirm => return self.confirm(),
            Action::Rate(step) => return self.step_rate(step),
            Action::Prompt(subject) => {
                self.leave_page();
                self.mode = Mode::Prompt(Prompt::new(subject), Box::new(self.stand()));
            }
            Action::Colon => self.open_colon(),
            Action::Save => self.open_saving(),
            // They mean something on the line of commands alone, and have been taken there.
            Action::Complete | Action::Recall(_) | Action::SaveFormat(_) | Action::SaveSpan => {}
            Action::FilterSelected(subject) => self.filter_selected(subject),
            Action::HideModule => self.hide_module(),
            Action::Undo => self.travel(FilterHistory::undo, "nothing to undo"),
            Action::Redo => self.travel(FilterHistory::redo, "nothing to redo"),
            Action::ClearFilters => self.filters.set(Filters::default()),
            Action::FindNext(direction) => self.find_next(direction),
            Action::SortColumn(step) if self.pane == Pane::Threads => self.roster.step_sort(step),
            Action::SortColumn(step) => self.step_sort(step),
            Action::FlatOrCum => self.sort = if self.sort == Sort::Flat { Sort::Cum } else { Sort::Flat },
            Action::Group => self.step_group(),
            Action::Roots => self.step_roots(),
            Action::Names => self.names = self.names.next(),
            Action::Base => self.relative = !self.relative,
            Action::Window(step) => self.step_window(step),
            Action::Reset => {
                self.compares = false;
                self.note("totals of this clock start anew");
                return vec![Effect::Send(Command::Reset)];
            }
            Action::Freeze => return self.freeze(!self.frozen),
            Action::Step { newer, fine } => return self.step(newer, fine),
            Action::Mark => return self.mark(),
            Action::Baseline => return self.compare(),
            Action::Copy => return self.copy(),
            Action::Redraw => return vec![Effect::Redraw],
            Action::Suspend => return vec![Effect::Suspend],

            Action::Insert(c) => self.edit(|prompt| prompt.insert(c.encode_utf8(&mut [0; 4]))),
            Action::Edit(edit) => self.edit(|prompt| prompt.edit(edit)),
            Action::Paste(text) => return self.paste(&text),
            Action::Accept => self.accept(),
            Action::Type(bytes) => {
                self.emulator.scroll_to_end(true);
                return vec![Effect::Send(Command::Input(bytes))];
            }
            Action::StopTyping => self.mode = Mode::Panes,
            Action::Click(column, row) => self.click(column, row),
            Action::Wheel(column, row, step) => self.wheel(column, row, step),
        }
        Vec::new()
    }

    fn hear(&mut self, answer: Arc<Answer>) {
        let facts = &answer.facts;
        self.clock.hear(facts.clock);
        self.engine.hear(facts.engine);
        self.period_ns.hear(facts.period_ns);
        if let Some((ending, _)) = facts.ended {
            self.ended = Some(ending);
        }
        if let Some(why) = facts.unsampled.as_ref().and_then(|unsampled| unsampled.why.as_ref())
            && !std::mem::replace(&mut self.told_unsampled, true)
        {
            self.message = Some(Message { text: format!("CPU time is not sampled: {why}"), stays: true });
        }
        self.list.take(Arc::clone(&answer));
        if let Some(callers) = &answer.callers {
            self.neighbours.take(callers);
        }
        if let Some(flame) = &answer.flame {
            self.flame.take(flame, self.list.is_firm());
        }
        self.listing.hear(&answer, self.list.is_firm());
        if answer.threads.is_some() {
            self.roster.take(Arc::clone(&answer));
        }
        self.answer = Some(answer);
    }

    /// The question as it stands: with the filter that is being typed.
    pub(super) fn question(&self) -> Question {
        let filters = match &self.mode {
            Mode::Prompt(prompt, _) => match prompt.pattern() {
                Some(pattern) => filters::with(self.filters.now(), prompt.subject, pattern.clone()),
                None => self.filters.now().clone(),
            },
            _ => self.filters.now().clone(),
        };
        let shows = |pane| self.layout().is_some_and(|layout| layout.pane(pane).is_some());
        let centre = self.list.selected_name().filter(|_| shows(Pane::Callers)).map(str::to_owned);
        let listing = self.list.selected_name().filter(|_| shows(Pane::Source)).map(str::to_owned);
        let flame = shows(Pane::Flame).then(|| self.flame.query());
        let threads = shows(Pane::Threads).then(|| self.roster.query());
        Question {
            window_ns: self.window_ns,
            filters,
            sort: self.sort,
            group: self.group,
            roots: self.roots,
            centre,
            listing,
            flame,
            threads,
            past: self.past(),
            timeline: self.frozen,
        }
    }

    /// What percentages of a table are of, ns.
    pub(super) fn base_ns(&self, table: &Table) -> u64 {
        if self.relative { table.kept_ns } else { table.total_ns }
    }

    /// What percentages of the window are of, ns.
    pub(super) fn window_base_ns(&self) -> u64 {
        self.answer.as_ref().map_or(0, |answer| self.base_ns(&answer.window))
    }

    /// Whether window and total stand side by side, as the numbers at hand were asked for.
    pub(super) fn shows_both(&self) -> bool {
        let window_ns = self.answer.as_ref().map_or(self.window_ns, |answer| answer.question.window_ns);
        layout::shows_both(self.size.0, window_ns)
    }

    /// Says something until the next key.
    pub fn say(&mut self, words: &str) {
        self.note(words);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.message = Some(Message { text: text.into(), stays: false });
    }
}
