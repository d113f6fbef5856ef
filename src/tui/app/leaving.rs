//! Ways out: of a prompt, of a page, of the program; and what ends by itself.

use nix::sys::signal::Signal;

use super::{App, Message, Mode};
use crate::track::{Command, Ending};
use crate::tui::OnQuit;
use crate::tui::action::{Departure, Effect};
use crate::tui::layout::{Pane, View};

impl App {
    pub(super) fn back(&mut self) {
        match std::mem::replace(&mut self.mode, Mode::Panes) {
            Mode::Prompt(_, stand) => self.return_to(*stand),
            Mode::Panes if self.message.is_some() => self.message = None,
            Mode::Panes if self.frozen && self.walk.leave() => {}
            Mode::Panes if self.pane == Pane::Flame && self.flame.zoom_out(self.list.selected_name()) => {}
            Mode::Panes => self.view = View::Dashboard,
            Mode::Ending(times) => self.mode = Mode::Ending(times),
            Mode::Colon(_) | Mode::Save(_) | Mode::Page(..) | Mode::Typing => {}
            Mode::Question | Mode::ConfirmItimer(_) => {}
        }
    }

    /// Whether there is a target that this screen may end.
    fn holds_target(&self) -> bool {
        self.options.launched && self.ended.is_none() && !self.session_over
    }

    pub(super) fn quit(&mut self) -> Vec<Effect> {
        if !self.holds_target() {
            return self.depart(Departure::Left);
        }
        // What a prompt previewed is not kept.
        if matches!(self.mode, Mode::Prompt(..)) {
            self.back();
        }
        match self.options.on_quit {
            OnQuit::Ask => {
                if !matches!(self.mode, Mode::Ending(_)) {
                    self.mode = Mode::Question;
                }
                Vec::new()
            }
            OnQuit::End => self.end(),
            OnQuit::LetRun => self.depart(Departure::Left),
        }
    }

    pub(super) fn end(&mut self) -> Vec<Effect> {
        if !self.holds_target() {
            return self.depart(Departure::Left);
        }
        let times = if let Mode::Ending(times) = self.mode { times.saturating_add(1) } else { 1 };
        self.mode = Mode::Ending(times);
        vec![Effect::Send(Command::End)]
    }

    /// A signal told sigtop to go. SIGHUP says that the terminal is gone.
    pub fn signalled(&mut self, signal: i32) -> Vec<Effect> {
        if signal == Signal::SIGHUP as i32 { self.hung_up() } else { self.depart(Departure::Signal(signal)) }
    }

    /// The terminal is gone, which is passed on to the target unless it is to run on when the
    /// screen is left.
    pub(super) fn hung_up(&mut self) -> Vec<Effect> {
        let hands_on = self.holds_target() && self.options.on_quit != OnQuit::LetRun;
        let handed_on = hands_on.then_some(Effect::Send(Command::HangUp));
        handed_on.into_iter().chain(self.depart(Departure::Signal(Signal::SIGHUP as i32))).collect()
    }

    pub(super) fn depart(&mut self, departure: Departure) -> Vec<Effect> {
        let ended = self.ended.is_some();
        let departure = if ended && departure == Departure::Left { Departure::Over } else { departure };
        let told = (!ended && !self.session_over).then_some(Effect::Send(Command::Leave));
        told.into_iter().chain([Effect::Leave(departure)]).collect()
    }

    pub(super) fn target_ended(&mut self, ending: Ending) -> Vec<Effect> {
        self.ended = Some(ending);
        match self.mode {
            Mode::Ending(_) => return vec![Effect::Leave(Departure::Ended)],
            Mode::Typing | Mode::Question | Mode::ConfirmItimer(_) => self.mode = Mode::Panes,
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn session_ended(&mut self) -> Vec<Effect> {
        self.session_over = true;
        if matches!(self.mode, Mode::Ending(_)) {
            return vec![Effect::Leave(Departure::Ended)];
        }
        if self.ended.is_none() {
            self.message = Some(Message { text: "the session is over: nothing new will come".to_owned(), stays: true });
        }
        Vec::new()
    }
}
