//! All processes as a list to choose from: what each is, how busy, whether it can be watched and if not why. Looking again is
//! cheap: of a process that was there before only its `stat` is read, its mappings once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, User, sysconf};

use super::error::Refusal;
use super::proc::{Stat, Status, command_line, processes};
use super::{AttachError, find};

/// Users whose names are remembered, at most.
const MAX_USERS: usize = 1024;

/// A process.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its pid.
    pub pid: u32,
    /// Its name, at most 15 bytes of anything.
    pub comm: String,
    /// Its arguments; none for the kernel's.
    pub words: Vec<OsString>,
    /// Name of its effective user, or their number.
    pub user: String,
    /// Its share of a CPU since the look before, percent; unknown at the first.
    pub cpu: Option<f32>,
    /// Why it cannot be watched, if it cannot.
    pub obstacle: Option<Obstacle>,
}

/// Why a process cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Which kind of reason.
    pub refusal: Refusal,
    /// The whole sentence, with what to do instead.
    pub sentence: String,
}

impl Candidate {
    /// Whether somebody who types `name` means it: its name, or the file that it was started from.
    pub fn is_called(&self, name: &str) -> bool {
        let file = self.words.first().and_then(|word| Path::new(word).file_name());
        self.comm == name || file.is_some_and(|file| file == name)
    }

    /// Its arguments, or its name.
    pub fn command(&self) -> String {
        if self.words.is_empty() {
            return format!("[{}]", self.comm);
        }
        self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// What does not change while a process lives, but for an exec.
struct Known {
    start_ticks: u64,
    comm: String,
    is_dead: bool,
    cpu_ticks: u64,
    words: Vec<OsString>,
    user: u32,
    obstacle: Option<Obstacle>,
}

/// What was seen at the last look.
#[derive(Default)]
pub struct Survey {
    known: HashMap<u32, Known>,
    names: HashMap<u32, String>,
    looked: Option<Instant>,
}

impl Survey {
    /// All processes, by pid; this one and what it started for itself left out.
    pub fn look(&mut self) -> Vec<Candidate> {
        let own = std::process::id();
        let there = processes().into_iter().filter(|&pid| pid != own);
        let there: Vec<(u32, Stat)> = there.filter_map(|pid| Some((pid, Stat::of(pid).ok()?))).collect();
        self.take(there, Instant::now(), judge)
    }

    fn take(
        &mut self,
        there: Vec<(u32, Stat)>,
        now: Instant,
        mut judge: impl FnMut(u32) -> (Vec<OsString>, u32, Option<Obstacle>),
    ) -> Vec<Candidate> {
        let passed = self.looked.replace(now).map(|before| now.duration_since(before));
        let mut known = HashMap::with_capacity(there.len());
        let mut candidates = Vec::with_capacity(there.len());
        for (pid, stat) in there {
            let is_dead = stat.is_dead();
            let cpu_ticks = stat.user_ticks + stat.system_ticks;
            let earlier = self.known.remove(&pid).filter(|earlier| earlier.start_ticks == stat.start_ticks);
            let before = earlier.as_ref().map(|earlier| earlier.cpu_ticks);
            let cpu = before.zip(passed).map(|(before, passed)| share(cpu_ticks.saturating_sub(before), passed));
            // An exec brings another name, most often; what is chosen is looked at once more.
            let same = earlier.filter(|earlier| earlier.comm == stat.comm && earlier.is_dead == is_dead);
            let entry = match same {
                Some(earlier) => Known { cpu_ticks, ..earlier },
                None => {
                    let (words, user, obstacle) = judge(pid);
                    let (start_ticks, comm) = (stat.start_ticks, stat.comm);
                    Known { start_ticks, comm, is_dead, cpu_ticks, words, user, obstacle }
                }
            };
            candidates.push(Candidate {
                pid,
                comm: entry.comm.clone(),
                words: entry.words.clone(),
                user: self.name(entry.user),
                cpu,
                obstacle: entry.obstacle.clone(),
            });
            known.insert(pid, entry);
        }
        self.known = known;
        candidates
    }

    fn name(&mut self, user: u32) -> String {
        if self.names.len() > MAX_USERS {
            self.names.clear();
        }
        let named = || User::from_uid(user.into()).ok().flatten().map_or_else(|| user.to_string(), |user| user.name);
        self.names.entry(user).or_insert_with(named).clone()
    }
}

fn judge(pid: u32) -> (Vec<OsString>, u32, Option<Obstacle>) {
    let user = Status::of(pid).map_or(u32::MAX, |status| status.users[1]);
    let obstacle =
        find::check(pid).err().map(|error| Obstacle { refusal: refusal(&error), sentence: error.to_string() });
    (command_line(pid), user, obstacle)
}

fn refusal(error: &AttachError) -> Refusal {
    match error {
        AttachError::NotWatchable { refusal, .. } => *refusal,
        AttachError::WithoutAgent { .. } => Refusal::WithoutAgent,
        _ => Refusal::Ended,
    }
}

/// Percent of a CPU.
fn share(ticks: u64, passed: Duration) -> f32 {
    let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0).unwrap_or(100);
    let seconds = passed.as_secs_f32().max(1e-3);
    100.0 * ticks as f32 / a_second as f32 / seconds
}

/// The processes that somebody means by a name.
///
/// # Errors
/// [`AttachError::NoName`] if none is called so; the one's own sentence if none that is can be watched;
/// [`AttachError::ManyNames`] if several can.
pub fn named(name: &str, candidates: &[Candidate]) -> Result<u32, AttachError> {
    let called: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.is_called(name)).collect();
    let watchable: Vec<&Candidate> = called.iter().copied().filter(|candidate| candidate.obstacle.is_none()).collect();
    match (&watchable[..], &called[..]) {
        ([one], _) => Ok(one.pid),
        ([], []) => Err(AttachError::NoName { name: name.to_owned() }),
        ([], [one]) => find::check(one.pid).map(|carrier| carrier.pid),
        ([], several) => {
            let pids = several.iter().map(|candidate| candidate.pid).collect();
            Err(AttachError::ManyNames { name: name.to_owned(), pids, watchable: false })
        }
        (several, _) => {
            let pids = several.iter().map(|candidate| candidate.pid).collect();
            Err(AttachError::ManyNames { name: name.to_owned(), pids, watchable: true })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &str, cpu_ticks: u64, start_ticks: u64) -> Stat {
        let line = format!("7 ({comm}) S 1 7 7 0 7 64 0 0 0 0 {cpu_ticks} 0 0 0 20 0 1 0 {start_ticks}");
        Stat::parse(line.as_bytes()).unwrap()
    }

    fn obstacle(refusal: Refusal) -> Option<Obstacle> {
        Some(Obstacle { refusal, sentence: "process 7 is as it is".to_owned() })
    }

    #[test]
    fn a_process_is_looked_into_once_and_its_cpu_time_each_time() {
        let (mut survey, start) = (Survey::default(), Instant::now());
        let mut judged = Vec::new();
        let mut look = |there: &[(u32, Stat)], seconds: u64| {
            survey.take(there.to_vec(), start + Duration::from_secs(seconds), |pid| {
                judged.push(pid);
                (vec!["./app".into()], u32::MAX, obstacle(Refusal::WithoutAgent))
            })
        };
        let cpu = |seen: &[Candidate]| seen.iter().map(|one| one.cpu).collect::<Vec<_>>();
        let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).unwrap().unwrap()).unwrap();
        let first = look(&[(7, stat("app", 0, 1)), (8, stat("idle", 50, 2))], 0);
        assert_eq!(cpu(&first), [None, None], "not known yet is not 0");
        assert_eq!((first[0].user.as_str(), first[0].command().as_str()), ("4294967295", "./app"));
        let second = look(&[(7, stat("app", ticks, 1)), (8, stat("idle", 50, 2))], 2);
        assert_eq!(cpu(&second), [Some(50.0), Some(0.0)]);
        // 8 has ended and its pid is another's; 7 is another program.
        let third = look(&[(7, stat("other", ticks, 1)), (8, stat("idle", 90, 3))], 3);
        assert_eq!(cpu(&third), [Some(0.0), None]);
        assert_eq!(judged, [7, 8, 7, 8]);
    }

    #[test]
    fn a_name_is_one_process_or_says_which() {
        let candidate = |pid: u32, comm: &str, word: &str, obstacle| Candidate {
            pid,
            comm: comm.to_owned(),
            words: vec![word.into(), "-x".into()],
            user: String::new(),
            cpu: None,
            obstacle,
        };
        let list = [
            candidate(1, "init", "/sbin/init", obstacle(Refusal::OtherUser)),
            candidate(20, "a-very-long-nam", "/opt/a-very-long-name", None),
            candidate(30, "redis-server", "redis-server", None),
            candidate(31, "redis-server", "redis-server", obstacle(Refusal::WithoutAgent)),
            candidate(40, "nginx", "nginx: worker", None),
            candidate(41, "nginx", "nginx: worker", None),
        ];
        assert_eq!(named("a-very-long-name", &list).unwrap(), 20);
        assert_eq!(named("redis-server", &list).unwrap(), 30, "the only one that can be watched");
        let said = |name: &str| named(name, &list).unwrap_err().to_string();
        assert_eq!(said("nginx"), "2 processes are called nginx; name one, or several: sigtop --pid 40,41");
        assert_eq!(said("redis"), "no process is called redis; sigtop alone lists what can be watched");
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let mut survey = Survey::default();
        let seen = survey.look();
        assert!(seen.iter().all(|one| one.pid != std::process::id()));
        let parent = std::os::unix::process::parent_id();
        let parent = seen.iter().find(|one| one.pid == parent).unwrap();
        assert!(parent.obstacle.is_some() && !parent.words.is_empty());
    }
}
