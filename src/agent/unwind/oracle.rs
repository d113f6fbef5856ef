//! Test of the walks against framehop: a busy thread is stopped at arbitrary instructions, its
//! stack is copied, and both the agent and framehop walk the copy. framehop reads the unwind tables
//! of the files by itself, with rules and caches of its own.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};
use object::{Object, ObjectSection};

use crate::agent::os::maps;
use crate::agent::unwind::modules::{CodeLocation, Modules, Snapshot};
use crate::agent::unwind::registers::Registers;
use crate::agent::unwind::rules::RuleLookup;
use crate::agent::unwind::stack::Stack;
use crate::agent::unwind::walk::{WalkCache, walk};
use crate::arch::{FRAME_POINTER, LINK_REGISTER, PROGRAM_COUNTER, RED_ZONE, STACK_POINTER, page_size};
use crate::process::maps::{MapsEntry, entries, lines};
use crate::process::unwind::{CallerValue, PackedRule};
use crate::wire::{FrameAddress, MAX_FRAMES};

/// Maximum size of the copy of a stack in bytes, including the red zone below the stack pointer.
const COPIED: usize = 512 << 10;

/// The copy of the stopped thread's stack. The handler writes it.
static COPY: [AtomicU64; COPIED / 8] = [const { AtomicU64::new(0) }; COPIED / 8];
static WORDS: AtomicUsize = AtomicUsize::new(0);
static STACK_TOP: AtomicU64 = AtomicU64::new(0);
static THREAD: AtomicU64 = AtomicU64::new(0);
static STOPPED: AtomicBool = AtomicBool::new(false);
static REGISTERS: Mutex<Option<Registers>> = Mutex::new(None);

extern "C" fn stop(_signal: i32, _info: *const (), context: *const u64) {
    // SAFETY: the kernel's ucontext.
    let registers = unsafe { Registers::of(context) };
    // Only this handler locks it while STOPPED is false, and only the other side while it is true.
    if let Ok(mut place) = REGISTERS.try_lock() {
        *place = Some(registers);
    }
    let start = (registers.sp() - RED_ZONE) & !7;
    let words = ((STACK_TOP.load(Ordering::Relaxed).saturating_sub(start) / 8) as usize).min(COPY.len());
    for (index, word) in COPY[..words].iter().enumerate() {
        // SAFETY: within the live stack of this thread, and its red zone.
        word.store(unsafe { (start as *const u64).add(index).read_volatile() }, Ordering::Relaxed);
    }
    WORDS.store(words, Ordering::Relaxed);
    STOPPED.store(true, Ordering::Release);
}

/// A copied stack.
struct Copied {
    start: u64,
    words: usize,
}

impl Stack for Copied {
    fn read(&mut self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.start).filter(|at| at % 8 == 0)? / 8;
        COPY[..self.words].get(at as usize).map(|word| word.load(Ordering::Relaxed))
    }

    fn moved(&mut self, _sp: u64, _covered: bool) {}

    fn read_code(&mut self, _address: u64, _code: &mut [u8]) -> Option<()> {
        None
    }
}

type Bytes = Vec<u8>;

/// Returns a framehop unwinder with the tables of every file that is mapped as code.
fn framehop_of_this_process() -> UnwinderNative<Bytes, MayAllocateDuringUnwind> {
    let mut unwinder = UnwinderNative::new();
    let maps = maps::read();
    // A file's code is mapped in one piece; the agent also maps the file elsewhere, to read its
    // tables.
    let mut images: Vec<(&[u8], u64, u64, bool)> = Vec::new();
    for MapsEntry { start, end, offset, path, executable, .. } in entries(&maps).filter(|entry| !entry.path.is_empty())
    {
        match images.last_mut() {
            Some(last) if last.0 == path && offset != 0 => (last.2, last.3) = (end, last.3 | executable),
            _ => images.push((path, start, end, executable)),
        }
    }
    for (path, start, end, _) in images.into_iter().filter(|&(path, _, _, is_run)| is_run && path.starts_with(b"/")) {
        let Ok(bytes) = fs::read(OsStr::from_bytes(path)) else { continue };
        let Ok(file) = object::File::parse(&*bytes) else { continue };
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            Some((section.address()..section.address() + section.size(), section.data().ok()?.to_vec()))
        };
        let (text, frames, header) = (section(".text"), section(".eh_frame"), section(".eh_frame_hdr"));
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: text.as_ref().map(|(range, _)| range.clone()),
            text: text.map(|(_, bytes)| bytes),
            eh_frame_svma: frames.as_ref().map(|(range, _)| range.clone()),
            eh_frame: frames.map(|(_, bytes)| bytes),
            eh_frame_hdr_svma: header.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: header.map(|(_, bytes)| bytes),
            ..ExplicitModuleSectionInfo::default()
        };
        unwinder.add_module(Module::new(String::from_utf8_lossy(path).into_owned(), start..end, start, info));
    }
    unwinder
}

/// Does work of many kinds, with frames of std, libc, libm and hand-written assembly, shallow and
/// deep, with callbacks.
fn work(round: u64) -> u64 {
    #[inline(never)]
    fn deep(depth: u64, numbers: &mut Vec<u64>) -> u64 {
        if depth == 0 {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            return numbers.iter().fold(0, |sum, number| sum ^ number);
        }
        let more = black_box(deep(depth - 1, numbers));
        black_box([more; 6]).iter().fold(depth, |sum, more| sum.rotate_left(7) ^ more)
    }
    unsafe extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> i32 {
        // SAFETY: qsort gives pointers into the array.
        unsafe { (*a.cast::<u64>()).cmp(&*b.cast::<u64>()) as i32 }
    }
    let mut numbers: Vec<u64> = (0..100).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round).collect();
    // SAFETY: an array of so many words.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
    let words: HashMap<String, f64> =
        (0..20).map(|n| (format!("{round} {n} {:.3}", n as f64 / 7.0), (n as f64 + 0.5).ln().sin())).collect();
    let text: String = words.iter().map(|(word, value)| format!("{word}={:.2};", value.powf(1.7).exp())).collect();
    let copied = text.repeat(3).replace('1', "one").into_bytes();
    let lines = regex::Regex::new("o[a-z]e|[0-9]{2}").map_or(0, |pattern| pattern.find_iter(&text).count());
    deep(round % 60, &mut numbers) ^ copied.len() as u64 ^ lines as u64 ^ u64::from(std::process::id())
}

/// Walks from where the thread was stopped in both ways; root last.
fn both_ways(
    snapshot: &Snapshot,
    cache: &mut WalkCache,
    (unwinder, rules): (&UnwinderNative<Bytes, MayAllocateDuringUnwind>, &mut CacheNative<MayAllocateDuringUnwind>),
    start: Registers,
) -> (Vec<u64>, Vec<u64>) {
    let copied = || Copied { start: (start.sp() - RED_ZONE) & !7, words: WORDS.load(Ordering::Relaxed) };
    let mut frames = [0; MAX_FRAMES];
    let walked = walk(snapshot, cache, start, &mut copied(), &mut frames);
    let ours = frames[..walked.depth].iter().map(|&frame| FrameAddress::unpack(frame).lookup()).collect();
    let (mut stack, mut theirs) = (copied(), Vec::new());
    let mut read = |address| stack.read(address).ok_or(());
    // framehop takes the link register where there is one, and otherwise the instruction pointer.
    let link = start.values[LINK_REGISTER.unwrap_or(PROGRAM_COUNTER)];
    let registers = UnwindRegsNative::new(link, start.sp(), start.bp());
    let mut frames = unwinder.iter_frames(start.ip(), registers, rules, &mut read);
    while let Ok(Some(frame)) = frames.next() {
        theirs.push(frame.address_for_lookup());
        if theirs.len() == MAX_FRAMES {
            break;
        }
    }
    (ours, theirs)
}

#[test]
fn walks_are_framehops_walks() {
    // A million with SIGTOP_LONG=1.
    let samples = if std::env::var_os("SIGTOP_LONG").is_some() { 1_000_000 } else { 20_000 };
    // SAFETY: all zeros is an action: the default one.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (stop as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART);
    let signal = libc::SIGRTMIN() + 7;
    // SAFETY: a whole action for a signal that nobody else here uses.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let top = 0u64;
            // SAFETY: it only returns the calling thread.
            THREAD.store(unsafe { libc::pthread_self() }, Ordering::Relaxed);
            STACK_TOP.store((&raw const top as u64).next_multiple_of(page_size() as u64), Ordering::Release);
            let mut sum = 0;
            for round in 0.. {
                sum ^= work(round);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            black_box(sum)
        });
        let _end = End(&done);
        while STACK_TOP.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let mut modules = Modules::new();
        assert!(modules.refresh().is_some_and(|update| update.has_new_code));
        let (snapshot, unwinder) = (modules.snapshot(), framehop_of_this_process());
        let (mut cache, mut rules) = (WalkCache::boxed(), CacheNative::new());
        let (mut equal, mut frames, mut explained) = (0, 0, 0);
        for _ in 0..samples {
            STOPPED.store(false, Ordering::Release);
            // SAFETY: the thread lives until `done` is set.
            assert_eq!(unsafe { libc::pthread_kill(THREAD.load(Ordering::Relaxed), signal) }, 0);
            while !STOPPED.load(Ordering::Acquire) {
                assert!(!worker.is_finished(), "it works until it is asked to end");
                std::hint::spin_loop();
            }
            let start = REGISTERS.lock().expect("no panic").expect("it was stopped");
            let (ours, theirs) = both_ways(&snapshot, &mut cache, (&unwinder, &mut rules), start);
            // Where calls leave the return address in a register, framehop ends at a frame pointer
            // of zero, which a thread's first function may have, too.
            let outermost = usize::from(LINK_REGISTER.is_some() && ours.len() == theirs.len() + 1);
            if ours[..ours.len() - outermost] == theirs {
                (equal, frames) = (equal + 1, frames + ours.len());
                continue;
            }
            // Where no table covers the code both guess, and framehop does not know the vdso.
            let parted = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
            let last = ours[..parted].last().copied().unwrap_or_default();
            let is_told = !is_vdso(last) && is_told(&snapshot, last);
            assert!(!is_told, "after {parted} frames, at {last:#x}:\n{ours:x?}\n{theirs:x?}\n{}", maps_of(last));
            explained += 1;
        }
        println!(
            "{equal} walks are equal, {frames} frames; {explained} went through code of which no table tells framehop enough"
        );
        assert!(explained * 100 < samples && frames > 10 * equal);
    });
}

/// Returns whether a table locates the caller of the code at an address in terms that framehop
/// understands: it knows three registers.
fn is_told(snapshot: &Snapshot, address: u64) -> bool {
    const BASE_OR_STACK_POINTER: [u8; 2] = [FRAME_POINTER as u8, STACK_POINTER as u8];
    let CodeLocation::Module(index) = snapshot.locate(address) else { return false };
    match WalkCache::boxed().rules().rule(address, snapshot.rule_table(), snapshot.lookup(index, address)) {
        RuleLookup::Rule(PackedRule { cfa, .. }) => match cfa {
            CallerValue::Register(register, _)
            | CallerValue::AtRegister(register, _)
            | CallerValue::AtPlus { register, .. } => BASE_OR_STACK_POINTER.contains(&register),
            _ => false,
        },
        RuleLookup::Inexpressible => true,
        RuleLookup::Missing => false,
    }
}

fn maps_of(address: u64) -> String {
    let maps = maps::read();
    let mut all = lines(&maps);
    let found = all.find(|(_, entry)| entry.contains(address)).map_or(&b"nowhere"[..], |(line, _)| line);
    String::from_utf8_lossy(found).into_owned()
}

fn is_vdso(address: u64) -> bool {
    maps_of(address).contains("[vdso]")
}
