//! Leaving prompts, pages and the program, and the end of target or session.

use nix::sys::signal::Signal;

use super::{App, Mode};
use crate::session::{Command, TargetExit};
use crate::tui::OnQuit;
use crate::tui::action::{Departure, Effect};
use crate::tui::layout::{Pane, View};

impl App {
    pub(super) fn leave_innermost(&mut self) {
        match std::mem::replace(&mut self.screen.mode, Mode::Panes) {
            Mode::Prompt(_, stand) => self.panes.restore_cursors(*stand, self.session.answer.as_deref()),
            Mode::Panes if self.screen.card => self.screen.card = false,
            Mode::Panes if self.screen.message.is_some() => self.screen.message = None,
            Mode::Panes if self.panes.timeline.is_frozen() && self.panes.timeline.leave() => {}
            Mode::Panes
                if self.screen.pane == Pane::Flame && self.panes.flame.zoom_out(self.panes.top.selected_name()) => {}
            Mode::Panes => self.screen.view = View::Dashboard,
            Mode::Ending(times) => self.screen.mode = Mode::Ending(times),
            Mode::Command(_) | Mode::Save(_) | Mode::Help(..) | Mode::Typing => {}
            Mode::ConfirmQuit | Mode::ConfirmItimer(_) => {}
        }
    }

    /// Whether there is a live target that sigtop may terminate.
    fn holds_target(&self) -> bool {
        self.options.launched && self.session.is_running()
    }

    pub(super) fn quit(&mut self) -> Vec<Effect> {
        if !self.holds_target() {
            return self.leave_screen(Departure::Left);
        }
        // The preview of an open prompt is discarded.
        if matches!(self.screen.mode, Mode::Prompt(..)) {
            self.leave_innermost();
        }
        match self.options.on_quit {
            OnQuit::Ask => {
                if !matches!(self.screen.mode, Mode::Ending(_)) {
                    self.screen.mode = Mode::ConfirmQuit;
                }
                Vec::new()
            }
            OnQuit::End => self.terminate_target(),
            OnQuit::LetRun => self.leave_screen(Departure::Left),
        }
    }

    pub(super) fn terminate_target(&mut self) -> Vec<Effect> {
        if !self.holds_target() {
            return self.leave_screen(Departure::Left);
        }
        let times = if let Mode::Ending(times) = self.screen.mode { times.saturating_add(1) } else { 1 };
        self.screen.mode = Mode::Ending(times);
        vec![Effect::Send(Command::End)]
    }

    /// Handles a termination signal to sigtop. SIGHUP means that the terminal is gone.
    pub fn handle_signal(&mut self, signal: i32) -> Vec<Effect> {
        if signal == Signal::SIGHUP as i32 {
            self.handle_hangup()
        } else {
            self.leave_screen(Departure::Signal(signal))
        }
    }

    /// Handles the loss of the terminal. The hangup is forwarded to the target, unless quitting
    /// leaves the target running.
    pub(super) fn handle_hangup(&mut self) -> Vec<Effect> {
        let hands_on = self.holds_target() && self.options.on_quit != OnQuit::LetRun;
        let handed_on = hands_on.then_some(Effect::Send(Command::HangUp));
        handed_on.into_iter().chain(self.leave_screen(Departure::Signal(Signal::SIGHUP as i32))).collect()
    }

    pub(super) fn leave_screen(&mut self, departure: Departure) -> Vec<Effect> {
        let ended = self.session.ended.is_some();
        let departure = if ended && departure == Departure::Left { Departure::Over } else { departure };
        let leave = self.session.is_running().then_some(Effect::Send(Command::Leave));
        leave.into_iter().chain([Effect::Leave(departure)]).collect()
    }

    pub(super) fn target_ended(&mut self, ending: TargetExit) -> Vec<Effect> {
        self.session.ended = Some(ending);
        match self.screen.mode {
            Mode::Ending(_) => return vec![Effect::Leave(Departure::Ended)],
            Mode::Typing | Mode::ConfirmQuit | Mode::ConfirmItimer(_) => self.screen.mode = Mode::Panes,
            _ => {}
        }
        self.options.successor.clone().map(Effect::FindSuccessor).into_iter().collect()
    }

    pub(super) fn attach_to_successor(&mut self) -> Vec<Effect> {
        self.session.successor.map(|pid| self.leave_screen(Departure::Attach(pid))).unwrap_or_default()
    }

    pub(super) fn session_ended(&mut self) -> Vec<Effect> {
        self.session.is_over = true;
        if matches!(self.screen.mode, Mode::Ending(_)) {
            return vec![Effect::Leave(Departure::Ended)];
        }
        if self.session.ended.is_none() {
            self.screen.warn("the session has ended: no new samples");
        }
        Vec::new()
    }
}
