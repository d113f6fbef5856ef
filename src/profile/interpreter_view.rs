//! The frames that are shown of threads that run an interpreter.

use super::module::ModuleId;
use super::stack::Frame;
use crate::keyword::{Keyword, Word};

/// The frames that are shown of threads that run an interpreter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterpreterView {
    /// The interpreter's functions, and native frames outside of the interpreter.
    #[default]
    Functions,
    /// The interpreter's functions and all native frames.
    Mixed,
    /// Native frames only.
    Native,
}

impl Keyword for InterpreterView {
    const ALL: &'static [InterpreterView] =
        &[InterpreterView::Functions, InterpreterView::Mixed, InterpreterView::Native];

    fn word(self) -> Word {
        match self {
            InterpreterView::Functions => {
                Word::new("functions", "Python functions, and native frames outside of the interpreter")
            }
            InterpreterView::Mixed => Word::new("mixed", "Python functions and all native frames"),
            InterpreterView::Native => Word::new("native", "native frames only"),
        }
    }
}

/// A frame of a sample before it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampledFrame {
    /// A native frame, or a mark.
    Native(Frame),
    /// A frame of an interpreter's function.
    Script(Frame),
}

/// Chooses the frames to show of a stack, leaf first.
///
/// The native frame after a frame of the interpreter is the interpreter's loop. Its module is the
/// interpreter, whose frames [`InterpreterView::Functions`] leaves out. It also leaves out generated
/// code between its frames: CPython's trampolines for perf.
pub(super) fn choose_frames(view: InterpreterView, frames: &[SampledFrame]) -> Vec<Frame> {
    let native = |frame: &SampledFrame| match *frame {
        SampledFrame::Native(frame) => Some(frame),
        SampledFrame::Script(_) => None,
    };
    let module_of = |frame| match frame {
        Frame::Code { module, .. } => Some(module),
        _ => None,
    };
    let is_native = frames.iter().all(|frame| native(frame).is_some());
    if is_native || view == InterpreterView::Native {
        return frames.iter().filter_map(native).collect();
    }
    let pairs = || frames.windows(2).map(|pair| (pair[0], pair[1]));
    let mut interpreters: Vec<ModuleId> = pairs()
        .filter(|(inner, _)| native(inner).is_none())
        .filter_map(|(_, outer)| native(&outer).and_then(module_of))
        .collect();
    interpreters.sort_unstable();
    interpreters.dedup();
    let is_interpreter = |frame| module_of(frame).is_some_and(|module| interpreters.binary_search(&module).is_ok());
    let is_shown = |(index, frame): (usize, &SampledFrame)| match (*frame, view) {
        (SampledFrame::Script(frame), _) | (SampledFrame::Native(frame), InterpreterView::Mixed) => Some(frame),
        (SampledFrame::Native(frame), _) => {
            let neighbor = |index: Option<usize>| index.and_then(|index| native(frames.get(index)?));
            let is_between = [index.checked_sub(1), index.checked_add(1)]
                .into_iter()
                .all(|index| neighbor(index).is_some_and(is_interpreter));
            let is_trampoline = is_between && matches!(frame, Frame::Unmapped { .. });
            (!is_interpreter(frame) && !is_trampoline).then_some(frame)
        }
    };
    frames.iter().enumerate().filter_map(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::process::ProcessId;
    use crate::profile::script::ScriptFunctionId;

    fn code(module: u32, address: u64) -> SampledFrame {
        SampledFrame::Native(Frame::Code { module: ModuleId(module), address })
    }

    fn script(line: u32) -> SampledFrame {
        SampledFrame::Script(Frame::Script { function: ScriptFunctionId(0), line })
    }

    fn trampoline() -> SampledFrame {
        let frame = Frame::Unmapped { process: ProcessId(0), code_version: 0, address: 7 };
        SampledFrame::Native(frame)
    }

    /// The shown frames as text: `m1` is a frame of module 1, `7` line 7 of a function.
    fn shown(view: InterpreterView, frames: &[SampledFrame]) -> String {
        let text = |frame| match frame {
            Frame::Code { module, .. } => format!("m{}", module.0),
            Frame::Script { line, .. } => line.to_string(),
            Frame::Unmapped { .. } => "jit".to_owned(),
            _ => "…".to_owned(),
        };
        choose_frames(view, frames).into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_view_chooses_the_frames() {
        let mark = SampledFrame::Native(Frame::LeftOut);
        // libc, the interpreter, an extension that calls back, trampolines, main.
        let frames = [
            code(3, 1),
            code(1, 1),
            script(7),
            script(6),
            code(1, 2),
            trampoline(),
            code(1, 4),
            code(2, 1),
            script(5),
            code(1, 2),
            mark,
            code(1, 3),
            code(3, 2),
        ];
        assert_eq!(shown(InterpreterView::Functions, &frames), "m3 7 6 m2 5 … m3");
        assert_eq!(shown(InterpreterView::Mixed, &frames), "m3 m1 7 6 m1 jit m1 m2 5 m1 … m1 m3");
        assert_eq!(shown(InterpreterView::Native, &frames), "m3 m1 m1 jit m1 m2 m1 … m1 m3");
    }

    #[test]
    fn without_frames_of_the_interpreter_all_native_ones_are_shown() {
        let frames = [code(3, 1), code(1, 2), trampoline(), code(1, 3)];
        for &view in InterpreterView::ALL {
            assert_eq!(shown(view, &frames), "m3 m1 jit m1");
        }
    }
}
