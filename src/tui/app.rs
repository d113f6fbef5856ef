//! State of the terminal interface, and the effect of every [`Action`] on it. Nothing here reads a
//! clock, a key or a channel, and nothing draws: a list of actions can drive the whole interface.

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
use super::command::command_line::CommandHistory;
use super::filters::{self, FilterHistory};
use crate::keyword::Keyword;
use crate::session::{Answer, Command, Question, TargetExit};
use crate::tally::measure::ValueUnit;
use crate::tally::query::{Filters, Grouping, OwnCode, Pattern, Sort, TagRoot};
use crate::tui::keys;
use crate::tui::layout::{self, Pane, View};
use crate::tui::name_style::NameStyle;
use crate::tui::pane::callers::state::CallersState;
use crate::tui::pane::context::PaneContext;
use crate::tui::pane::flame::rows::FlameRows;
use crate::tui::pane::flame::state::{Colour, FlameState};
use crate::tui::pane::help::explain::NameQuestion;
use crate::tui::pane::help::pages::HelpPage;
use crate::tui::pane::mode::{Mode, SavedCursors, StatusMessage};
use crate::tui::pane::prompt::state::Prompt;
use crate::tui::pane::source::state::SourceState;
use crate::tui::pane::threads::state::ThreadsState;
use crate::tui::pane::timeline::state::TimelineState;
use crate::tui::pane::top::state::TopState;
use crate::tui::pending::Pending;
use crate::tui::term::emulator::Emulator;
use crate::tui::term::input::Input;
use crate::tui::term::key_bytes;
use crate::wire::{Clock, Engine};

/// Total for which the unit of values is chosen, ns. Few sessions are shorter, and the unit must
/// not change during a session.
const UNIT_TOTAL_NS: u64 = 60_000_000_000;

/// The shortest period for which the unit is chosen: values are in seconds, also at a higher rate.
const UNIT_PERIOD_NS: u64 = 10_000_000;

/// The same total for bytes.
const UNIT_TOTAL_BYTES: u64 = 1 << 40;

/// State of the terminal interface.
pub struct App {
    pub(super) options: Options,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    pub(super) view: View,
    /// The active pane.
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    pub(super) answer: Option<Arc<Answer>>,
    pub(super) top: TopState,
    pub(super) callers: CallersState,
    pub(super) flame: FlameState,
    pub(super) flame_rows: FlameRows,
    pub(super) source: SourceState,
    pub(super) threads: ThreadsState,
    /// The name that the explanation page is about.
    pub(super) explanation: Option<NameQuestion>,
    pub(super) emulator: Emulator,
    /// The size last sent to the target's terminal.
    sent_size: Option<(u16, u16)>,
    pub(super) filters: FilterHistory,
    pub(super) window_ns: Option<u64>,
    /// The window of live bytes while another clock is on, and the other way round. All live bytes
    /// are shown, unless the user chooses otherwise.
    pub(super) other_window_ns: Option<u64>,
    pub(super) sort: Sort,
    pub(super) group: Grouping,
    pub(super) roots: TagRoot,
    pub(super) names: NameStyle,
    /// ValueUnit of values, fixed for the whole session.
    pub(super) unit: ValueUnit,
    /// Whether percentages are relative to the samples that the filters keep.
    pub(super) relative: bool,
    /// Whether idle threads are folded.
    pub(super) fold_idle: bool,
    pub(super) hides_kernel: bool,
    pub(super) own: OwnCode,
    /// Whether the detail card of the selected function is shown.
    pub(super) card: bool,
    pub(super) frozen: bool,
    /// Position in the history, while the display is frozen.
    pub(super) timeline: TimelineState,
    /// The digits typed before a step in the history, with the view and the pane before them.
    step_count: Option<(u64, View, Pane)>,
    /// Whether values are differences from a baseline.
    pub(super) is_diff: bool,
    clock: Pending<Clock>,
    engine: Pending<Engine>,
    /// Whether a message has said why CPU time is not sampled.
    warned_unsampled: bool,
    /// Whether the user has confirmed the use of setitimer.
    itimer_confirmed: bool,
    period_ns: Pending<u64>,
    pub(super) message: Option<StatusMessage>,
    pub(super) ended: Option<TargetExit>,
    /// The pid of a new process with the name of the ended target.
    pub(super) successor: Option<u32>,
    /// Whether the session has ended and answers no more.
    session_over: bool,
    /// Pattern of the last search.
    pub(super) last_search: Option<Pattern>,
    command_history: CommandHistory,
    /// File name extension of the last save, and whether it was limited to the shown time.
    last_extension: &'static str,
    last_saved_shown: bool,
    /// The last file that was saved.
    saved: Option<String>,
    /// The last question sent to the session; `None` before the first.
    last_question: Option<Question>,
}

impl App {
    /// Creates the initial state.
    pub fn new(options: Options) -> App {
        App {
            size: (80, 24),
            view: View::Dashboard,
            pane: Pane::Top,
            mode: Mode::Panes,
            answer: None,
            top: TopState::default(),
            callers: CallersState::default(),
            flame: FlameState::default(),
            flame_rows: FlameRows::default(),
            source: SourceState::default(),
            threads: ThreadsState::default(),
            explanation: None,
            emulator: Emulator::new(layout::target_size((80, 24))),
            sent_size: None,
            filters: FilterHistory::new(options.question.filters.clone()),
            window_ns: options.question.window_ns.filter(|_| options.clock != Clock::Live),
            other_window_ns: options.question.window_ns.filter(|_| options.clock == Clock::Live),
            sort: options.question.sort,
            group: options.question.group,
            roots: options.question.roots,
            names: options.names,
            unit: ValueUnit::for_report(Clock::Prof, options.period_ns.max(UNIT_PERIOD_NS), UNIT_TOTAL_NS),
            relative: false,
            fold_idle: true,
            hides_kernel: options.question.hides_kernel,
            own: options.question.own.clone(),
            card: false,
            frozen: false,
            timeline: TimelineState::default(),
            step_count: None,
            is_diff: options.base.is_some(),
            clock: Pending::new(options.clock),
            warned_unsampled: false,
            itimer_confirmed: options.engine == Engine::Itimer || options.clock == Clock::Virtual,
            engine: Pending::new(options.engine),
            period_ns: Pending::new(options.period_ns),
            message: None,
            ended: None,
            successor: None,
            session_over: false,
            last_search: None,
            command_history: CommandHistory::default(),
            last_extension: ".sigtop",
            last_saved_shown: false,
            saved: None,
            last_question: None,
            options,
        }
    }

    /// Returns the effects to start with: the first question.
    pub fn start(&mut self) -> Vec<Effect> {
        let question = self.question();
        self.last_question = Some(question.clone());
        vec![Effect::Send(Command::Ask(question.into()))]
    }

    /// The newest answer of the session.
    pub fn answer(&self) -> Option<&Arc<Answer>> {
        self.answer.as_ref()
    }

    /// The target's last lines, at most `count`.
    pub fn last_lines(&mut self, count: usize) -> Vec<String> {
        self.emulator.last_lines(count)
    }

    /// Handles an input event of the terminal; returns the effects to carry out.
    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        if !matches!(input, Input::Gone) && self.message.as_ref().is_some_and(|message| !message.is_sticky) {
            self.message = None;
        }
        let digit = match &input {
            Input::Key(key, _) => key_bytes::character(*key).and_then(|c| c.to_digit(10)),
            _ => None,
        };
        let action = match input {
            Input::Key(key, bytes) => {
                let known = keys::find_action(self.options.keys.bindings(), &self.context().key_contexts(), key);
                known.or_else(|| match self.mode {
                    Mode::Prompt(..) | Mode::Command(_) | Mode::Save(_) => {
                        key_bytes::character(key).map(Action::Insert)
                    }
                    Mode::Typing => Some(Action::Type(key_bytes::of_key(key, bytes, &self.emulator))),
                    _ => None,
                })
            }
            Input::Paste(text) => Some(Action::Paste(text)),
            Input::Click(column, row) => Some(Action::Click(column, row)),
            Input::Wheel(column, row, step) => Some(Action::Wheel(column, row, step)),
            Input::Gone => return self.handle_hangup(),
        };
        if !matches!(action, Some(Action::Step { .. })) {
            self.note_digit(digit);
        }
        action.map(|action| self.update(action)).unwrap_or_default()
    }

    /// Applies an action; returns the effects to carry out.
    pub fn update(&mut self, action: Action) -> Vec<Effect> {
        let before = self.top.selected_name().map(str::to_owned);
        let others = self.pane != Pane::Flame && !matches!(action, Action::Answer(_));
        // Numbers that change under a moving cursor cannot be read.
        let moves_cursor = action.moves_cursor() && matches!(self.mode, Mode::Panes) && !self.frozen;
        let mut effects = self.act(action);
        self.resize_panes();
        if let Some(flame) = self.answer.as_ref().and_then(|answer| answer.flame.as_ref())
            && others
            && before.as_deref() != self.top.selected_name()
        {
            self.flame.reveal(flame, self.top.selected_name());
        }
        if moves_cursor {
            effects.insert(0, Effect::Send(Command::Hold));
        }
        let question = self.question();
        if self.last_question.as_ref().is_some_and(|asked| *asked != question) {
            self.last_question = Some(question.clone());
            effects.insert(0, Effect::Send(Command::Ask(question.into())));
        }
        effects
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        if let Some(effects) = self.update_command_line(&action).or_else(|| self.update_save_line(&action)) {
            return effects;
        }
        if action.is_by_user() {
            self.top.keep_selection();
        }
        match action {
            Action::Answer(answer) => self.apply_answer(answer),
            Action::Output(bytes) => self.emulator.write(&bytes),
            Action::Banner(text) => self.message = Some(StatusMessage { text, is_sticky: true }),
            Action::Found(found) => {
                if let Some(why) = &mut self.explanation {
                    why.found = Some(found);
                }
            }
            Action::Ended(ending) => return self.target_ended(ending),
            Action::Successor(pid) => self.successor = Some(pid),
            Action::Attach => return self.attach_to_successor(),
            Action::Saved(saved) => self.report_save(saved),
            Action::SessionOver => return self.session_ended(),
            Action::Resize(columns, rows) => return self.resize((columns, rows)),

            Action::Help => self.toggle_page(HelpPage::Help),
            Action::Losses => self.toggle_page(HelpPage::Losses),
            Action::Why => return self.toggle_explanation(),
            Action::Holder => self.toggle_holder(),
            Action::DeepestStack => self.toggle_deepest_stack(),
            Action::Quit => return self.quit(),
            Action::Interrupt if matches!(self.mode, Mode::ConfirmQuit | Mode::Ending(_)) => {
                return self.terminate_target();
            }
            Action::Interrupt => return self.quit(),
            Action::End => return self.terminate_target(),
            Action::LetRun => return self.leave_screen(Departure::Left),
            Action::Back => self.leave_innermost(),
            Action::NextPane(step) => self.next_pane(step),
            Action::Dashboard => self.show_view(View::Dashboard),
            Action::Alone(pane) => self.show_view(View::Alone(pane)),
            Action::Zoom => self.show_view(match self.view {
                View::Dashboard => View::Alone(self.pane),
                View::Alone(_) => View::Dashboard,
            }),
            Action::Move(motion) => self.move_cursor(motion),
            Action::Enter => self.activate_selection(),
            Action::Center => self.center_selection(),
            Action::Out => self.go_back(),
            Action::Forward => self.go_forward(),
            Action::TurnFlame => self.flame.root_below = !self.flame.root_below,
            Action::TurnListing => self.source.cycle_mode(),
            Action::BottomUp => self.flame.toggle_bottom_up(),
            Action::Colour => {
                self.flame.colour = match self.flame.colour {
                    Colour::Module => Colour::Heat,
                    Colour::Heat => Colour::Module,
                }
            }

            Action::Clock(clock) => return self.switch_clock(clock),
            Action::Engine => return self.switch_engine(),
            Action::Confirm => return self.confirm_itimer(),
            Action::Rate(step) => return self.step_rate(step),
            Action::Prompt(subject) => {
                self.leave_page();
                self.mode = Mode::Prompt(Prompt::new(subject), Box::new(self.save_cursors()));
            }
            Action::Colon => self.open_colon(),
            Action::Save => self.open_saving(),
            // These apply to input lines only, which have handled them above.
            Action::Complete | Action::Recall(_) | Action::SaveFormat(_) | Action::SaveSpan => {}
            // This applies to the list of processes only.
            Action::MarkAll => {}
            Action::FilterSelected(subject) => self.filter_selected(subject),
            Action::HideModule => self.hide_module(),
            Action::Undo => self.step_filters(FilterHistory::undo, "nothing to undo"),
            Action::Redo => self.step_filters(FilterHistory::redo, "nothing to redo"),
            Action::ClearFilters => self.filters.set(Filters::default()),
            Action::FindNext(direction) => self.find_next(direction),
            Action::SortColumn(step) if self.pane == Pane::Threads => self.threads.step_sort(step),
            Action::SortColumn(step) => self.step_sort(step),
            Action::FlatOrCum => self.sort = if self.sort == Sort::Flat { Sort::Cum } else { Sort::Flat },
            Action::Sort(sort) => self.sort = sort,
            Action::Group => self.step_group(),
            Action::GroupWaits => self.step_group_of_waits(),
            Action::Roots => self.step_roots(),
            Action::Names => self.names = self.names.next(),
            Action::Idle => self.toggle_idle(),
            Action::Kernel => self.toggle_kernel(),
            Action::OwnCode => self.toggle_own_code(),
            Action::Card => self.card = !self.card,
            Action::Base => self.relative = !self.relative,
            Action::Window(step) => self.step_window(step),
            Action::Reset => {
                (self.is_diff, self.options.base) = (false, None);
                self.note("totals reset");
                return vec![Effect::Send(Command::Reset)];
            }
            Action::Freeze => return self.freeze(!self.frozen),
            Action::Step { newer, size } => return self.step_time(newer, size),
            Action::Mark => return self.set_span_end(),
            Action::Baseline => return self.toggle_diff(),
            Action::Copy => return self.copy(),
            Action::Redraw => return vec![Effect::Redraw],
            Action::Suspend => return vec![Effect::Suspend],

            Action::Insert(c) => self.edit_prompt(|prompt| prompt.insert(c.encode_utf8(&mut [0; 4]))),
            Action::Edit(edit) => self.edit_prompt(|prompt| prompt.edit(edit)),
            Action::Paste(text) => return self.paste(&text),
            Action::Accept => self.accept_prompt(),
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

    /// The unit of values. It is the same during a session, for one kind of clock.
    fn unit(&self) -> ValueUnit {
        match self.answer.as_ref().map_or(self.clock.value(), |answer| answer.facts.clock) {
            clock if clock.is_memory() => ValueUnit::for_report(clock, self.period_ns.value(), UNIT_TOTAL_BYTES),
            _ => self.unit,
        }
    }

    fn apply_answer(&mut self, answer: Arc<Answer>) {
        let facts = &answer.facts;
        self.clock.confirm(facts.clock);
        self.engine.confirm(facts.engine);
        self.period_ns.confirm(facts.period_ns);
        if let Some((ending, _)) = facts.ended {
            self.ended = Some(ending);
        }
        if let Some(why) = facts.unsampled.as_ref().and_then(|unsampled| unsampled.why.as_ref())
            && !std::mem::replace(&mut self.warned_unsampled, true)
        {
            self.message = Some(StatusMessage { text: format!("CPU time is not sampled: {why}"), is_sticky: true });
        }
        self.top.take(Arc::clone(&answer));
        if let Some(callers) = &answer.callers {
            self.callers.take(callers);
        }
        if let Some(flame) = &answer.flame {
            self.flame_rows.update(self.flame.count_levels(flame), answer.now_ns);
            self.fit_flame();
            self.flame.take(flame, self.top.is_firm());
        }
        self.source.apply_answer(&answer, self.top.is_firm());
        if answer.threads.is_some() {
            self.threads.take(Arc::clone(&answer));
        }
        self.answer = Some(answer);
    }

    /// The current question, including a filter that is being typed.
    pub(super) fn question(&self) -> Question {
        let filters = match &self.mode {
            Mode::Prompt(prompt, _) => match prompt.pattern() {
                Some(pattern) => filters::with(self.filters.now(), prompt.subject, pattern.clone()),
                None => self.filters.now().clone(),
            },
            _ => self.filters.now().clone(),
        };
        let shows = |pane| self.layout().is_some_and(|layout| layout.pane(pane).is_some());
        let details = self.card || self.shows_card();
        let centre = self.top.selected_name().filter(|_| details || shows(Pane::Callers)).map(str::to_owned);
        let listing = self.top.selected_name().filter(|_| details || shows(Pane::Source)).map(str::to_owned);
        let flame = shows(Pane::Flame).then(|| self.flame.query());
        let shows_threads = shows(Pane::Threads) || self.shows_waits();
        let threads = shows_threads.then(|| self.threads.query());
        Question {
            window_ns: self.window_ns,
            filters,
            sort: self.sort,
            group: self.group,
            roots: self.roots,
            relative: self.relative,
            fold_idle: self.fold_idle,
            hides_kernel: self.hides_kernel,
            own: self.own.clone(),
            centre,
            details,
            unfolded: if shows(Pane::Callers) { self.callers.unfolded().to_vec() } else { Vec::new() },
            listing,
            flame,
            threads,
            waits: shows(Pane::Top),
            past: self.past(),
            timeline: self.frozen,
        }
    }

    /// Everything that the panes draw from.
    pub(super) fn context(&self) -> PaneContext<'_> {
        PaneContext {
            options: &self.options,
            size: self.size,
            card: self.card,
            view: self.view,
            pane: self.pane,
            mode: &self.mode,
            answer: self.answer.as_deref(),
            is_current: self.answer.as_ref().is_some_and(|answer| answer.question == self.question()),
            top: &self.top,
            callers: &self.callers,
            flame_levels: self.flame_rows.levels(),
            flame: &self.flame,
            source: &self.source,
            threads: &self.threads,
            timeline: self.timeline,
            explanation: self.explanation.as_ref(),
            emulator: &self.emulator,
            filters: self.filters.now(),
            window_ns: self.window_ns,
            sort: self.sort,
            group: self.group,
            roots: self.roots,
            names: self.names,
            unit: self.unit(),
            relative: self.relative,
            frozen: self.frozen,
            past: self.past(),
            clock: self.clock.value(),
            message: self.message.as_ref(),
            ended: self.ended,
            successor: self.successor,
            last_search: self.last_search.as_ref(),
        }
    }

    /// Shows a message until the next key.
    pub fn say(&mut self, words: &str) {
        self.note(words);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.message = Some(StatusMessage { text: text.into(), is_sticky: false });
    }
}
