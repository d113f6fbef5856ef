//! The list of processes that can be watched: its appearance, and the effects of keys.

use ratatui::Terminal;
use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::layout::Rect;
use ratatui::{TerminalOptions, Viewport};
use sigtop::attach::Refusal;
use sigtop::attach::find::WatchMethod;
use sigtop::attach::survey::{Obstacle, SurveyedProcess};
use sigtop::tui::pane::picker::state::{Choice, Picker};
use sigtop::tui::term::input::KeyDecoder;
use sigtop::tui::theme::Depth;
use sigtop::tui::{Keymap, Theme, pane};

use crate::escapes::Guard;

fn candidate(pid: u32, user: &str, cpu: Option<f32>, command: &str, refusal: Option<Refusal>) -> SurveyedProcess {
    let words: Vec<_> = command.split(' ').map(Into::into).collect();
    let comm = command.split(' ').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let sentence = || match refusal {
        Some(Refusal::NotTraceable) => {
            format!("process {pid} cannot be traced: kernel.yama.ptrace_scope is 2; run: sudo sigtop --pid {pid}")
        }
        Some(Refusal::OtherUser) => format!("process {pid} belongs to user 0; run: sudo sigtop --pid {pid}"),
        _ => format!("process {pid} ({comm}) is a kernel thread; perf can profile it"),
    };
    let obstacle = refusal.map(|refusal| Obstacle { refusal, sentence: sentence() });
    let is_server = comm == "server";
    let method = refusal.is_none().then_some(if is_server { WatchMethod::Agent } else { WatchMethod::External });
    let words = if refusal == Some(Refusal::Kernel) { Vec::new() } else { words };
    let (comm, user) = (comm.to_owned(), user.to_owned());
    SurveyedProcess { pid, parent: 1, start_ticks: 0, comm, words, user, cpu, method, obstacle }
}

fn processes() -> Vec<SurveyedProcess> {
    vec![
        candidate(1, "root", Some(0.0), "/sbin/init splash", Some(Refusal::OtherUser)),
        candidate(2, "root", Some(0.0), "kthreadd", Some(Refusal::Kernel)),
        candidate(1201, "me", Some(1.04), "bash", Some(Refusal::NotTraceable)),
        candidate(4123, "me", Some(98.2), "/opt/shop/bin/server --port 8080 --workers 8 --verbose", None),
        candidate(4200, "me", Some(0.3), "redis-server *:6379", None),
        candidate(4207, "a-user-with-a-long-name", None, "redis-server *:6380", None),
        candidate(987_654, "me", Some(312.0), "./resize -w 800", Some(Refusal::NotTraceable)),
    ]
}

struct List {
    picker: Picker,
    table: Keymap,
    size: (u16, u16),
}

impl List {
    fn new(filter: &str, size: (u16, u16)) -> List {
        let mut list = List { picker: Picker::new(filter, false, true), table: Keymap::default(), size };
        list.picker.fit(pane::picker::draw::rows(size.1));
        list.picker.set_processes(processes());
        list
    }

    fn press(&mut self, keys: &str) -> Option<Choice> {
        let (mut decoder, mut heard) = (KeyDecoder::default(), Vec::new());
        decoder.feed(keys.as_bytes(), &mut heard);
        decoder.flush(&mut heard);
        let mut choice = None;
        for input in heard {
            choice = self.picker.input(self.table.bindings(), input, pane::picker::draw::HEAD);
        }
        choice
    }

    fn selected(&self) -> u32 {
        self.picker.selection().map_or(0, |candidate| candidate.pid)
    }

    fn text(&self, theme: Theme) -> String {
        let mut terminal = Terminal::new(TestBackend::new(self.size.0, self.size.1)).expect("a terminal");
        let frame = terminal.draw(|frame| pane::picker::draw::draw(frame, &self.picker, theme, self.table.bindings()));
        let buffer = frame.expect("a frame").buffer.clone();
        let row =
            |y| (0..self.size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
        (0..self.size.1).map(row).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        let viewport = Viewport::Fixed(Rect::new(0, 0, self.size.0, self.size.1));
        let mut bytes = Vec::new();
        let options = TerminalOptions { viewport };
        let mut terminal = Terminal::with_options(CrosstermBackend::new(&mut bytes), options).expect("a terminal");
        let theme = Theme::new(Depth::True, false);
        terminal
            .draw(|frame| pane::picker::draw::draw(frame, &self.picker, theme, self.table.bindings()))
            .expect("a frame");
        drop(terminal);
        bytes
    }
}

fn golden(name: &str, text: String) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(format!("picker-{name}"), text));
}

#[test]
fn goldens() {
    let theme = Theme::new(Depth::True, false);
    for size in [(140, 20), (100, 30), (80, 12), (60, 12), (40, 8)] {
        let list = List::new("", size);
        golden(&format!("{}x{}", size.0, size.1), list.text(theme));
    }
    let mut list = List::new("", (80, 12));
    list.press("\x1b[B\x1b[B\x1b[B");
    golden("one-that-cannot-be-watched", list.text(theme));
    list.press("redis");
    golden("filtered", list.text(theme));
    list.press("xyz");
    golden("nothing-matches", list.text(Theme::new(Depth::None, true)));
    let waiting = List { picker: Picker::new("", false, true), table: Keymap::default(), size: (60, 12) };
    golden("waiting", waiting.text(theme));
    let mut hidden = List::new("", (140, 20));
    hidden.picker = Picker::new("", true, true);
    hidden.picker.set_processes(Vec::new());
    assert!(hidden.text(theme).contains("0 of 0 processes can be watched; /proc hides those of others"));
}

#[test]
fn the_busiest_that_can_be_watched_comes_first_and_enter_takes_it() {
    let mut list = List::new("", (80, 24));
    assert_eq!(list.selected(), 4123);
    assert_eq!(list.press("\r"), Some(Choice::Watch(vec![4123])));
    list.press("\x1b[F");
    assert_eq!(list.selected(), 2, "the kernel's come last");
    assert_eq!(list.press("\r"), None, "what cannot be watched is not taken");
    list.press("\x1b[H\x1b[B");
    assert_eq!(list.press("\r"), Some(Choice::Watch(vec![4200])));
    // A click selects a row; a click on the selected row chooses it.
    assert_eq!(list.press("\x1b[<0;9;6M"), None);
    assert_eq!((list.selected(), list.press("\x1b[<0;9;6M")), (4207, Some(Choice::Watch(vec![4207]))));
}

/// A server with three workers, one of which another user owns.
fn with_server() -> Vec<SurveyedProcess> {
    let worker = |pid, cpu, refusal| {
        let title = format!("postgres: app shop [local] {}", if pid == 5002 { "UPDATE waiting" } else { "idle" });
        SurveyedProcess {
            parent: 5000,
            comm: "postgres".to_owned(),
            ..candidate(pid, "me", Some(cpu), &title, refusal)
        }
    };
    let server = candidate(5000, "me", Some(0.1), "/usr/lib/postgresql/bin/postgres -D /data", None);
    let client = SurveyedProcess { parent: 1, ..candidate(5009, "me", Some(90.0), "pgbench postgres", None) };
    let workers = [worker(5001, 80.0, None), worker(5002, 0.0, None), worker(5003, 1.0, Some(Refusal::NotTraceable))];
    processes().into_iter().chain([server]).chain(workers).chain([client]).collect()
}

#[test]
fn marked_processes_are_watched_together() {
    let mut list = List::new("", (80, 24));
    list.press("  ");
    assert_eq!(list.selected(), 4207, "a mark goes on to the next row");
    assert_eq!(list.press("\x1b[F"), None);
    list.press(" ");
    assert_eq!(list.picker.marked().len(), 2, "what cannot be watched has no mark");
    golden("marked", list.text(Theme::new(Depth::True, false)));
    assert_eq!(list.press("\r"), Some(Choice::Watch(vec![4123, 4200])));
    list.press("\x1b[H ");
    assert_eq!(list.press("\r"), Some(Choice::Watch(vec![4200])));
    list.picker.set_processes(processes().into_iter().filter(|one| one.pid != 4200).collect());
    assert!(list.picker.marked().is_empty(), "it has ended");
    list.press("a");
    assert_eq!(list.picker.filter().text(), "a", "without a filter, a begins one");
    list.press("\x1b");
    list.press(" a");
    assert_eq!(list.picker.marked().iter().copied().collect::<Vec<_>>(), [4123, 4207]);
    list.press("a");
    assert!(list.picker.marked().is_empty());
    list.press("/serva");
    assert!(list.picker.marked().is_empty() && list.picker.filter().text() == "serva", "a is a letter of the filter");
    list.press("\x7fer\x1b[Ba");
    assert_eq!(list.picker.marked().len(), 2, "after a move, keys act on what the filter leaves");
    assert_eq!(list.press("\x1b"), None, "Esc removes the marks first");
    assert!(list.picker.marked().is_empty() && list.picker.filter().text() == "server");
}

#[test]
fn the_server_is_proposed_with_its_workers() {
    let theme = Theme::new(Depth::True, false);
    let mut list = List::new("postgres", (80, 12));
    list.picker.set_processes(with_server());
    assert_eq!((list.selected(), list.picker.children()), (5000, 2));
    golden("server", list.text(theme));
    assert_eq!(list.press("\r"), Some(Choice::Watch(vec![5000])));
    // Without a filter, the busiest is selected, and a key goes to its server.
    let mut list = List::new("", (80, 12));
    list.picker.set_processes(with_server());
    list.press("\x1b[B\x1b[B");
    assert_eq!(list.selected(), 5001);
    golden("worker", list.text(theme));
    list.press("\x1b[D");
    assert_eq!(list.selected(), 5000);
    list.press("\x1b[D");
    assert_eq!(list.selected(), 5000, "a server has no other");
    // A watch of one process alone does not propose its children.
    let mut list = List { picker: Picker::new("postgres", false, false), table: Keymap::default(), size: (80, 12) };
    list.picker.set_processes(with_server());
    assert_eq!((list.selected(), list.picker.children()), (5001, 0));
}

#[test]
fn the_selection_is_a_process_and_not_a_row() {
    let mut list = List::new("", (80, 24));
    list.press("\x1b[B");
    assert_eq!(list.selected(), 4200);
    let mut busy = processes();
    busy[4].cpu = Some(99.9);
    list.picker.set_processes(busy);
    assert_eq!(list.selected(), 4200);
    list.picker.set_processes(processes().into_iter().filter(|one| one.pid != 4200).collect());
    assert_eq!(list.selected(), 4123, "it has ended");
    // Before the first key, the first row is selected, even if the order changes.
    let mut list = List::new("", (80, 24));
    let mut busy = processes();
    busy[4].cpu = Some(99.9);
    list.picker.set_processes(busy);
    assert_eq!(list.selected(), 4200);
}

#[test]
fn letters_filter_and_escape_goes_back() {
    let mut list = List::new("", (80, 24));
    list.press("redis");
    assert_eq!(list.picker.counts(), (2, 7));
    list.press(" 6380");
    assert_eq!((list.picker.counts().0, list.selected()), (1, 4207), "every word must match");
    list.press("\x17\x7f");
    assert_eq!(list.picker.counts().0, 2);
    list.press("q");
    assert_eq!(list.picker.counts().0, 0, "while a filter is typed, q is a letter");
    assert_eq!(list.press("\r"), None);
    assert_eq!(list.press("\x1b"), None);
    assert_eq!(list.picker.counts().0, 7);
    list.press("/q");
    assert_eq!((list.picker.filter().text(), list.press("\x1b")), ("q".to_owned(), None));
    list.press("98");
    assert_eq!(list.selected(), 987_654, "a pid is matched from its beginning");
    list.press("\x1b");
    for keys in ["q", "\x1b", "\x03", "\x1b[21~"] {
        assert_eq!(list.press(keys), Some(Choice::Leave), "{keys:?}");
    }
    assert_eq!(List::new("redis", (80, 24)).picker.counts().0, 2);
}

#[test]
fn every_size_and_hostile_names_are_drawn() {
    let hostile = ["\x1b]52;c;cm0=\x07", "\u{202e}evil", "漢字漢字漢字", "e\u{301}\u{301}", "\u{9b}31m", "a\nb/\tc"];
    for columns in (1..150).step_by(9).chain([39, 40, 57, 58, 69, 70]) {
        for rows in [1, 7, 8, 9, 12, 45] {
            let mut list = List::new("", (columns, rows));
            let names = hostile.iter().map(|name| candidate(7, name, Some(f32::MAX), &name.repeat(300), None));
            list.picker.set_processes(names.chain(processes()).collect());
            list.press("\u{202e}漢a");
            list.press("\x15\x1b[B");
            let bytes = list.bytes();
            Guard::default().read(&bytes).unwrap_or_else(|fault| panic!("{fault} at {columns}×{rows}"));
        }
    }
}
