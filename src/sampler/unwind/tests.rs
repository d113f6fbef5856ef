//! Walks of a sleeping thread of this process, and of hostile tables.

use std::sync::mpsc;

use super::frame_section::{FrameSection, FrameSectionKind};
use super::tables::{TableLookup, TableReader};
use super::*;
use crate::arch::recorded_call;
use crate::process::waits::SleepLocation;
use crate::sampler::ptrace::read_memory;

fn own_maps() -> ProcessMaps {
    let own = std::process::id();
    ProcessMaps::read(own, own).unwrap()
}

#[inline(never)]
fn sleep_until_told(wait: &mpsc::Receiver<()>) {
    // An error ends the sleep too.
    let _told = wait.recv();
    std::hint::black_box(wait);
}

/// Instruction and stack pointer of a thread of this process, once it sleeps.
fn sleeper(tid: u32) -> ThreadRegisters {
    loop {
        let line = std::fs::read(format!("/proc/self/task/{tid}/syscall")).unwrap();
        if let Some(SleepLocation { ip, sp, call: Some(call) }) = SleepLocation::parse(&line)
            && call.number == Some(recorded_call(libc::SYS_futex as u32))
        {
            return ThreadRegisters::of_sleeper(ip, sp);
        }
        std::thread::yield_now();
    }
}

fn copy_of_own_stack(maps: &ProcessMaps, sp: u64, limit: u64) -> StackCopy {
    let mut stack = StackCopy::default();
    let mapping = maps.entries().find(|mapping| mapping.contains(sp)).unwrap();
    let length = (mapping.end - sp).min(limit);
    assert!(stack.add(sp, length as usize, |bytes| read_memory(std::process::id(), sp, bytes)));
    stack
}

#[test]
fn sleeping_thread_is_walked_to_its_root_by_two_registers() {
    let (send_tid, tids) = mpsc::channel();
    let (end, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        send_tid.send(nix::unistd::gettid()).unwrap();
        sleep_until_told(&wait);
    });
    let registers = sleeper(tids.recv().unwrap().as_raw() as u32);
    let maps = own_maps();
    let mut unwinder = ProcessUnwinder::new(UnwindSource::Process(std::process::id()));
    let modules = unwinder.refresh(&maps);
    let own_code = sleep_until_told as *const () as u64;
    let own = modules.iter().find(|module| (module.start..module.end).contains(&own_code)).unwrap();
    assert!(modules.iter().any(|module| *module.path == *b"[vdso]") && !own.build_id.is_empty());

    let sp = registers.get(STACK_POINTER).unwrap();
    let mut frames = Vec::new();
    let end_of_walk = unwinder.walk(&registers, &copy_of_own_stack(&maps, sp, 1 << 16), &mut frames);
    assert_eq!(end_of_walk, WalkEnd::Root, "{frames:x?}");
    let addresses: Vec<u64> = frames.iter().map(|&frame| FrameAddress::unpack(frame).lookup()).collect();
    let is_here = |&address: &u64| address.checked_sub(own_code).is_some_and(|distance| distance < 4096);
    assert!(addresses.iter().any(is_here) && addresses.len() > 5, "{addresses:x?}");
    assert!(!unwinder.wants_maps() && !unwinder.crossed_signal());

    let whole = frames.clone();
    let cut = unwinder.walk(&registers, &copy_of_own_stack(&maps, sp, 64), &mut frames);
    assert_eq!((cut, whole.starts_with(&frames)), (WalkEnd::WantsMoreStack, true));
    let nowhere = unwinder.walk(&ThreadRegisters::new(8), &StackCopy::default(), &mut frames);
    assert_eq!((nowhere, frames.len(), unwinder.wants_maps()), (WalkEnd::Truncated, 1, true));
    drop(end);
    thread.join().unwrap();
}

/// Returns `.eh_frame` of this program.
fn own_tables() -> (u64, Vec<u8>) {
    use object::{Object as _, ObjectSection as _};
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".eh_frame").unwrap();
    // Some thousand entries are enough, and quick.
    let contents = section.data().unwrap();
    (section.address(), contents[..contents.len().min(1 << 16)].to_vec())
}

#[test]
fn damaged_tables_are_survived() {
    let (address, tables) = own_tables();
    let mut random = 88_172_645_463_325_252u64;
    let mut next = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % limit as u64) as usize
    };
    let (mut rules, mut others) = (0, 0);
    for round in 0..200 {
        let mut damaged = tables.clone();
        for _ in 0..round / 8 {
            let at = next(damaged.len());
            damaged[at] = next(256) as u8;
        }
        damaged.truncate(damaged.len() - next(round + 1));
        let Some(section) = FrameSection::new(FrameSectionKind::Loaded, address, damaged) else { continue };
        let mut reader = TableReader::default();
        let mut registers = ThreadRegisters::new(address);
        (0..16).for_each(|number| registers.set(number, 0x7fff_0000_0000));
        let mut stack = StackCopy::default();
        stack.add(0x7fff_0000_0000, 4096, |bytes| bytes.len());
        for function in section.first_addresses().into_iter().step_by(7) {
            match reader.compile_in(&section, function.wrapping_add(next(200) as u64)) {
                TableLookup::Rule { rule, .. } => {
                    rule.apply(&registers, &stack, &reader.expressions);
                    rules += 1;
                }
                TableLookup::Broken | TableLookup::Missing => others += 1,
            }
        }
    }
    assert!(rules > 100 && others > 100, "{rules} rules, {others} addresses without one");
}
