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
use super::keys;
use super::layout::{self, Pane, View};
use super::pane::context::PaneContext;
use super::pane::flame::state::Colour;
use super::pane::help::pages::HelpPage;
use super::pane::help::summary::TimeSummary;
use super::pane::mode::Mode;
use super::pane::panes::Panes;
use super::pane::prompt::state::Prompt;
use super::pane::save::state::SaveHistory;
use super::pane::screen_state::ScreenState;
use super::session_mirror::SessionMirror;
use super::term::input::Input;
use super::term::key_bytes;
use crate::keyword::Keyword;
use crate::session::{Answer, Command, Question};
use crate::tally::query::{Filters, Sort};
use crate::wire::Clock;

/// State of the terminal interface.
pub struct App {
    pub(super) options: Options,
    pub(super) screen: ScreenState,
    /// The question that the session answers. [`App::complete_question`] derives from the panes
    /// what they need.
    pub(super) question: Question,
    /// The filters in force. Those of the question may include one that is being typed.
    pub(super) filters: FilterHistory,
    /// The window of live bytes while another clock is on, and the other way round. All live bytes
    /// are shown, unless the user chooses otherwise.
    other_window_ns: Option<u64>,
    pub(super) session: SessionMirror,
    pub(super) panes: Panes,
    command_history: CommandHistory,
    pub(super) saves: SaveHistory,
    /// The size last sent to the target's terminal.
    sent_size: Option<(u16, u16)>,
}

impl App {
    /// Creates the initial state.
    pub fn new(options: Options) -> App {
        let mut question = Question { fold_idle: true, ..options.question.clone() };
        let mut other_window_ns = None;
        if options.clock == Clock::Live {
            std::mem::swap(&mut question.window_ns, &mut other_window_ns);
        }
        let screen = ScreenState::new(options.names);
        App {
            filters: FilterHistory::new(question.filters.clone()),
            session: SessionMirror::new(&options),
            panes: Panes::new(layout::target_size(screen.size)),
            screen,
            question,
            other_window_ns,
            command_history: CommandHistory::default(),
            saves: SaveHistory::default(),
            sent_size: None,
            options,
        }
    }

    /// Returns the effects to start with on a screen of this size: the first question is one.
    pub fn start(&mut self, size: (u16, u16)) -> Vec<Effect> {
        let mut effects = self.resize(size);
        self.resize_panes();
        self.complete_question();
        effects.push(Effect::Send(Command::Ask(self.question.clone().into())));
        effects
    }

    /// Handles an input event of the terminal; returns the effects to carry out.
    pub fn input(&mut self, input: Input) -> Vec<Effect> {
        if !matches!(input, Input::Gone) && self.screen.message.as_ref().is_some_and(|message| !message.is_sticky) {
            self.screen.message = None;
        }
        let digit = match &input {
            Input::Key(key, _) => key_bytes::character(*key).and_then(|c| c.to_digit(10)),
            _ => None,
        };
        let action = match input {
            Input::Key(key, bytes) => {
                let known = keys::find_action(self.options.keys.bindings(), &self.context().key_contexts(), key);
                known.or_else(|| match self.screen.mode {
                    Mode::Prompt(..) | Mode::Command(_) | Mode::Save(_) => {
                        key_bytes::character(key).map(Action::Insert)
                    }
                    Mode::Typing => Some(Action::Type(key_bytes::of_key(key, bytes, &self.panes.emulator))),
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
        let asked = self.question.clone();
        let before = self.panes.top.selected_name().map(str::to_owned);
        let others = self.screen.pane != Pane::Flame && !matches!(action, Action::Answer(_));
        // Numbers that change under a moving cursor cannot be read.
        let moves_cursor =
            action.moves_cursor() && matches!(self.screen.mode, Mode::Panes) && !self.panes.timeline.is_frozen();
        let mut effects = self.act(action);
        self.resize_panes();
        if let Some(flame) = self.session.answer.as_ref().and_then(|answer| answer.flame.as_ref())
            && others
            && before.as_deref() != self.panes.top.selected_name()
        {
            self.panes.flame.reveal(flame, self.panes.top.selected_name());
        }
        if moves_cursor {
            effects.insert(0, Effect::Send(Command::Hold));
        }
        self.complete_question();
        if self.question != asked {
            effects.insert(0, Effect::Send(Command::Ask(self.question.clone().into())));
        }
        effects
    }

    fn act(&mut self, action: Action) -> Vec<Effect> {
        if let Some(effects) = self.update_command_line(&action).or_else(|| self.update_save_line(&action)) {
            return effects;
        }
        if action.is_by_user() {
            self.panes.top.keep_selection();
        }
        match action {
            Action::Answer(answer) => self.apply_answer(&answer),
            Action::Output(bytes) => self.panes.emulator.write(&bytes),
            Action::Banner(text) => self.screen.warn(text),
            Action::Found(found) => {
                if let Some(why) = &mut self.panes.explanation {
                    why.found = Some(found);
                }
            }
            Action::Answers(answers) => {
                self.panes.summary = answers.first().map(|answer| TimeSummary::new(answer, answers.get(1)));
            }
            Action::Ended(ending) => return self.target_ended(ending),
            Action::Successor(pid) => self.session.successor = Some(pid),
            Action::Attach => return self.attach_to_successor(),
            Action::Saved(saved) => self.report_save(saved),
            Action::SessionOver => return self.session_ended(),
            Action::Resize(columns, rows) => return self.resize((columns, rows)),

            Action::Help => self.screen.toggle_page(HelpPage::Help),
            Action::Losses => self.screen.toggle_page(HelpPage::Losses),
            Action::Why => return self.toggle_explanation(),
            Action::Explain => return self.explain_time(),
            Action::Holder => self.toggle_holder(),
            Action::DeepestStack => self.toggle_deepest_stack(),
            Action::Quit => return self.quit(),
            Action::Interrupt if matches!(self.screen.mode, Mode::ConfirmQuit | Mode::Ending(_)) => {
                return self.terminate_target();
            }
            Action::Interrupt => return self.quit(),
            Action::End => return self.terminate_target(),
            Action::LetRun => return self.leave_screen(Departure::Left),
            Action::Back => self.leave_innermost(),
            Action::NextPane(step) => self.next_pane(step),
            Action::Dashboard => self.screen.show_view(View::Dashboard),
            Action::Alone(pane) => self.screen.show_view(View::Alone(pane)),
            Action::Zoom => self.screen.show_view(match self.screen.view {
                View::Dashboard => View::Alone(self.screen.pane),
                View::Alone(_) => View::Dashboard,
            }),
            Action::Move(motion) => self.move_cursor(motion),
            Action::Enter => self.activate_selection(),
            Action::Center => self.center_selection(),
            Action::Out => self.go_back(),
            Action::Forward => self.go_forward(),
            Action::TurnFlame => self.panes.flame.root_below = !self.panes.flame.root_below,
            Action::TurnListing => self.panes.source.cycle_mode(),
            Action::BottomUp => self.panes.flame.toggle_bottom_up(),
            Action::Colour => {
                self.panes.flame.colour = match self.panes.flame.colour {
                    Colour::Module => Colour::Heat,
                    Colour::Heat => Colour::Module,
                }
            }

            Action::Clock(clock) => return self.switch_clock(clock),
            Action::Engine => return self.switch_engine(),
            Action::Confirm => return self.confirm_itimer(),
            Action::Rate(step) => return self.step_rate(step),
            Action::Prompt(subject) => {
                self.screen.leave_page();
                self.screen.mode = Mode::Prompt(Prompt::new(subject), Box::new(self.panes.save_cursors()));
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
            Action::SortColumn(step) if self.screen.pane == Pane::Threads => self.panes.threads.step_sort(step),
            Action::SortColumn(step) => self.step_sort(step),
            Action::FlatOrCum => {
                self.question.sort = if self.question.sort == Sort::Flat { Sort::Cum } else { Sort::Flat }
            }
            Action::Sort(sort) => self.question.sort = sort,
            Action::Group => self.step_group(),
            Action::GroupWaits => self.step_group_of_waits(),
            Action::Roots => self.step_roots(),
            Action::Names => self.screen.names = self.screen.names.next(),
            Action::Idle => self.toggle_idle(),
            Action::Kernel => self.toggle_kernel(),
            Action::OwnCode => self.toggle_own_code(),
            Action::Card => self.screen.card = !self.screen.card,
            Action::Base => self.question.relative = !self.question.relative,
            Action::Window(step) => self.step_window(step),
            Action::Reset => {
                (self.session.is_diff, self.options.base) = (false, None);
                self.screen.note("totals reset");
                return vec![Effect::Send(Command::Reset)];
            }
            Action::Freeze => return self.freeze(!self.panes.timeline.is_frozen()),
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
                self.panes.emulator.scroll_to_end(true);
                return vec![Effect::Send(Command::Input(bytes))];
            }
            Action::StopTyping => self.screen.mode = Mode::Panes,
            Action::Click(column, row) => self.click(column, row),
            Action::Wheel(column, row, step) => self.wheel(column, row, step),
        }
        Vec::new()
    }

    fn apply_answer(&mut self, answer: &Arc<Answer>) {
        if let Some(why) = self.session.apply_answer(answer) {
            self.screen.warn(format!("CPU time is not sampled: {why}"));
        }
        self.panes.top.take(Arc::clone(answer));
        if let Some(callers) = &answer.callers {
            self.panes.callers.take(callers);
        }
        if let Some(flame) = &answer.flame {
            self.panes.flame_rows.update(self.panes.flame.count_levels(flame), answer.now_ns);
            self.fit_flame();
            self.panes.flame.take(flame, self.panes.top.is_firm());
        }
        self.panes.source.apply_answer(answer, self.panes.top.is_firm());
        if answer.threads.is_some() {
            self.panes.threads.take(Arc::clone(answer));
        }
    }

    /// Sets the members of the question that follow from the panes on the screen, and includes a
    /// filter that is being typed.
    fn complete_question(&mut self) {
        let panes = &self.panes;
        let layout = self.layout();
        let shows = |pane| layout.as_ref().is_some_and(|layout| layout.pane(pane).is_some());
        let details = self.screen.card || self.shows_card();
        let selected = |pane| panes.top.selected_name().filter(|_| details || shows(pane)).map(str::to_owned);
        let shows_threads = shows(Pane::Threads) || self.shows_waits();
        let typed = match &self.screen.mode {
            Mode::Prompt(prompt, _) => prompt.pattern().map(|pattern| (prompt.subject, pattern)),
            _ => None,
        };
        self.question = Question {
            filters: match typed {
                Some((subject, pattern)) => filters::with(self.filters.now(), subject, pattern.clone()),
                None => self.filters.now().clone(),
            },
            centre: selected(Pane::Callers),
            details,
            unfolded: if shows(Pane::Callers) { panes.callers.unfolded().to_vec() } else { Vec::new() },
            listing: selected(Pane::Source),
            flame: shows(Pane::Flame).then(|| panes.flame.query()),
            threads: shows_threads.then(|| panes.threads.query()),
            waits: shows(Pane::Top),
            past: panes.timeline.past(self.question.window_ns),
            timeline: panes.timeline.is_frozen(),
            // These are what the user chose.
            window_ns: self.question.window_ns,
            sort: self.question.sort,
            group: self.question.group,
            roots: self.question.roots,
            relative: self.question.relative,
            fold_idle: self.question.fold_idle,
            hides_kernel: self.question.hides_kernel,
            own: self.question.own.clone(),
        };
    }

    /// Everything that the panes draw from.
    pub(super) fn context(&self) -> PaneContext<'_> {
        PaneContext {
            options: &self.options,
            screen: &self.screen,
            question: &self.question,
            filters: self.filters.now(),
            session: &self.session,
            answer: self.session.answer.as_deref(),
            panes: &self.panes,
        }
    }
}
