//! Lists all processes for the picker: command, user, CPU usage, and whether each can be watched or
//! why not. Repeated surveys are cheap: of a known process only `stat` and the arguments are
//! read, which servers write anew as titles, and its mappings once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::unistd::{SysconfVar, User, sysconf};

use super::error::AttachError;
use super::error::Refusal;
use super::find::{self, WatchMethod};
use super::proc::{ProcStat, ProcStatus, command_line, processes};

/// Maximum number of user names that are cached.
const MAX_USERS: usize = 1024;

/// A process in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyedProcess {
    /// Its pid.
    pub pid: u32,
    /// Its parent's pid.
    pub parent: u32,
    /// Its start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Its name: at most 15 bytes of any value.
    pub comm: String,
    /// Its arguments; none for a kernel thread.
    pub words: Vec<OsString>,
    /// The name of its effective user, or the user's number.
    pub user: String,
    /// Its CPU usage since the previous survey, in percent of one CPU; `None` in the first survey.
    pub cpu: Option<f32>,
    /// The way in which the process is watched, if it can be.
    pub method: Option<WatchMethod>,
    /// The reason why the process cannot be watched, if it cannot.
    pub obstacle: Option<Obstacle>,
}

/// A reason why a process cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The kind of reason.
    pub refusal: Refusal,
    /// The complete sentence with the remedy.
    pub sentence: String,
}

impl SurveyedProcess {
    /// Returns whether `name` is the process's name, or that of the file it was started from.
    pub fn is_called(&self, name: &str) -> bool {
        let file = self.words.first().and_then(|word| Path::new(word).file_name());
        self.comm == name || file.is_some_and(|file| file == name)
    }

    /// Returns its arguments as one line, or its name in brackets.
    pub fn command(&self) -> String {
        if self.words.is_empty() {
            return format!("[{}]", self.comm);
        }
        self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// The facts about a process that change only by an exec.
struct CachedProcess {
    start_ticks: u64,
    comm: String,
    is_dead: bool,
    cpu_ticks: u64,
    user: u32,
    verdict: Result<WatchMethod, Obstacle>,
}

/// The results of the previous survey.
#[derive(Default)]
pub struct Survey {
    known: HashMap<u32, CachedProcess>,
    names: HashMap<u32, String>,
    surveyed_at: Option<Instant>,
}

impl Survey {
    /// Returns all processes by pid, except this one.
    pub fn look(&mut self) -> Vec<SurveyedProcess> {
        let own = std::process::id();
        let listed = processes().into_iter().filter(|&pid| pid != own);
        let listed: Vec<(u32, ProcStat)> = listed.filter_map(|pid| Some((pid, ProcStat::of(pid).ok()?))).collect();
        self.update(listed, Instant::now(), command_line, inspect)
    }

    fn update(
        &mut self,
        listed: Vec<(u32, ProcStat)>,
        now: Instant,
        read_words: impl Fn(u32) -> Vec<OsString>,
        mut inspect: impl FnMut(u32) -> (u32, Result<WatchMethod, Obstacle>),
    ) -> Vec<SurveyedProcess> {
        let passed = self.surveyed_at.replace(now).map(|before| now.duration_since(before));
        let mut known = HashMap::with_capacity(listed.len());
        let mut candidates = Vec::with_capacity(listed.len());
        for (pid, stat) in listed {
            let is_dead = stat.is_dead();
            let cpu_ticks = stat.user_ticks + stat.system_ticks;
            let earlier = self.known.remove(&pid).filter(|earlier| earlier.start_ticks == stat.start_ticks);
            let before = earlier.as_ref().map(|earlier| earlier.cpu_ticks);
            let cpu = before.zip(passed).map(|(before, passed)| cpu_percent(cpu_ticks.saturating_sub(before), passed));
            // An exec usually changes the name. A chosen process is checked once more.
            let same = earlier.filter(|earlier| earlier.comm == stat.comm && earlier.is_dead == is_dead);
            let entry = match same {
                Some(earlier) => CachedProcess { cpu_ticks, ..earlier },
                None => {
                    let (user, verdict) = inspect(pid);
                    let comm = stat.comm.clone();
                    CachedProcess { start_ticks: stat.start_ticks, comm, is_dead, cpu_ticks, user, verdict }
                }
            };
            candidates.push(SurveyedProcess {
                pid,
                parent: stat.parent,
                start_ticks: stat.start_ticks,
                comm: entry.comm.clone(),
                words: if stat.is_kernel_thread() { Vec::new() } else { read_words(pid) },
                user: self.name(entry.user),
                cpu,
                method: entry.verdict.as_ref().ok().copied(),
                obstacle: entry.verdict.as_ref().err().cloned(),
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

fn inspect(pid: u32) -> (u32, Result<WatchMethod, Obstacle>) {
    let user = ProcStatus::of(pid).map_or(u32::MAX, |status| status.users[1]);
    let verdict = find::check(pid)
        .map(|process| process.method)
        .map_err(|error| Obstacle { refusal: refusal(&error), sentence: error.to_string() });
    (user, verdict)
}

fn refusal(error: &AttachError) -> Refusal {
    match error {
        AttachError::NotWatchable { refusal, .. } => *refusal,
        _ => Refusal::Ended,
    }
}

/// Returns the usage in percent of one CPU.
fn cpu_percent(ticks: u64, passed: Duration) -> f32 {
    let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0).unwrap_or(100);
    let seconds = passed.as_secs_f32().max(1e-3);
    100.0 * ticks as f32 / a_second as f32 / seconds
}

/// Returns the pid of the process with this name.
///
/// # Errors
/// [`AttachError::NoName`] if there is none; the error of [`find::check`] if the only one cannot be
/// watched; [`AttachError::ManyNames`] if several can.
pub fn find_by_name(name: &str, candidates: &[SurveyedProcess]) -> Result<u32, AttachError> {
    let matching: Vec<&SurveyedProcess> = candidates.iter().filter(|candidate| candidate.is_called(name)).collect();
    let watchable: Vec<&SurveyedProcess> =
        matching.iter().copied().filter(|candidate| candidate.obstacle.is_none()).collect();
    match (&watchable[..], &matching[..]) {
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

/// Returns the descendants of a process among these that can be watched.
pub fn watchable_descendants(pid: u32, candidates: &[SurveyedProcess]) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    // A pid that is used again may be its own ancestor, as the processes are not read at one time.
    while let Some(&parent) = found.get(next) {
        let children = candidates.iter().filter(|one| one.parent == parent).map(|one| one.pid);
        let new: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
        next += 1;
    }
    let is_watchable = |pid: &u32| candidates.iter().any(|one| one.pid == *pid && one.obstacle.is_none());
    found.into_iter().skip(1).filter(is_watchable).collect()
}

/// Returns the first process of the name among the ancestors of a process: the server that started
/// it as a worker. That may be the process itself.
pub fn first_of_name(pid: u32, candidates: &[SurveyedProcess]) -> u32 {
    let find = |pid: u32| candidates.iter().find(|one| one.pid == pid);
    let Some(mut at) = find(pid) else { return pid };
    // Every step goes to another process.
    for _ in candidates {
        match find(at.parent).filter(|parent| parent.comm == at.comm && parent.obstacle.is_none()) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    at.pid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &str, cpu_ticks: u64, start_ticks: u64) -> ProcStat {
        let line = format!("7 ({comm}) S 1 7 7 0 7 64 0 0 0 0 {cpu_ticks} 0 0 0 20 0 1 0 {start_ticks}");
        ProcStat::parse(line.as_bytes()).unwrap()
    }

    fn obstacle(refusal: Refusal) -> Option<Obstacle> {
        Some(Obstacle { refusal, sentence: "process 7 is as it is".to_owned() })
    }

    #[test]
    fn mappings_are_read_once_and_cpu_time_in_each_survey() {
        let (mut survey, start) = (Survey::default(), Instant::now());
        let mut inspected = Vec::new();
        let mut look = |listed: &[(u32, ProcStat)], seconds: u64| {
            let title = |pid: u32| vec![format!("app: {pid} at {seconds} s").into()];
            survey.update(listed.to_vec(), start + Duration::from_secs(seconds), title, |pid| {
                inspected.push(pid);
                (u32::MAX, Ok(WatchMethod::External))
            })
        };
        let cpu = |seen: &[SurveyedProcess]| seen.iter().map(|one| one.cpu).collect::<Vec<_>>();
        let ticks = u64::try_from(sysconf(SysconfVar::CLK_TCK).unwrap().unwrap()).unwrap();
        let first = look(&[(7, stat("app", 0, 1)), (8, stat("idle", 50, 2))], 0);
        assert_eq!(cpu(&first), [None, None], "not known yet is not 0");
        assert_eq!((first[0].user.as_str(), first[0].command().as_str()), ("4294967295", "app: 7 at 0 s"));
        let second = look(&[(7, stat("app", ticks, 1)), (8, stat("idle", 50, 2))], 2);
        assert_eq!(cpu(&second), [Some(50.0), Some(0.0)]);
        assert_eq!(second[0].command(), "app: 7 at 2 s", "a title that changed is read again");
        // Process 8 has ended and its pid was reused; process 7 has executed another program.
        let third = look(&[(7, stat("other", ticks, 1)), (8, stat("idle", 90, 3))], 3);
        assert_eq!(cpu(&third), [Some(0.0), None]);
        assert_eq!(inspected, [7, 8, 7, 8]);
    }

    #[test]
    fn a_name_finds_one_process_or_lists_several() {
        let candidate = |pid: u32, comm: &str, word: &str, obstacle| SurveyedProcess {
            pid,
            parent: 1,
            start_ticks: 0,
            comm: comm.to_owned(),
            words: vec![word.into(), "-x".into()],
            user: String::new(),
            cpu: None,
            method: None,
            obstacle,
        };
        let list = [
            candidate(1, "init", "/sbin/init", obstacle(Refusal::OtherUser)),
            candidate(20, "a-very-long-nam", "/opt/a-very-long-name", None),
            candidate(30, "redis-server", "redis-server", None),
            candidate(31, "redis-server", "redis-server", obstacle(Refusal::NotTraceable)),
            candidate(40, "nginx", "nginx: worker", None),
            candidate(41, "nginx", "nginx: worker", None),
        ];
        assert_eq!(find_by_name("a-very-long-name", &list).unwrap(), 20);
        assert_eq!(find_by_name("redis-server", &list).unwrap(), 30, "the only one that can be watched");
        let said = |name: &str| find_by_name(name, &list).unwrap_err().to_string();
        assert_eq!(said("nginx"), "2 processes are called nginx; name one, or several: sigtop --pid 40,41");
        assert_eq!(said("redis"), "no process is called redis; sigtop alone lists what can be watched");
    }

    #[test]
    fn a_server_is_found_with_its_workers() {
        let process = |pid: u32, parent: u32, comm: &str, is_open: bool| SurveyedProcess {
            pid,
            parent,
            start_ticks: 0,
            comm: comm.to_owned(),
            words: Vec::new(),
            user: String::new(),
            cpu: None,
            method: None,
            obstacle: if is_open { None } else { obstacle(Refusal::NotTraceable) },
        };
        let list = [
            process(1, 0, "init", false),
            process(10, 1, "nginx", true),
            process(11, 10, "nginx", true),
            process(12, 10, "nginx", false),
            process(13, 11, "gzip", true),
            process(20, 21, "loop", true),
            process(21, 20, "loop", true),
        ];
        assert_eq!(watchable_descendants(10, &list), [11, 13]);
        assert_eq!((watchable_descendants(13, &list), watchable_descendants(20, &list)), (vec![], vec![21]));
        assert_eq!([11, 10, 13, 99].map(|pid| first_of_name(pid, &list)), [10, 10, 13, 99]);
        assert!([20, 21].contains(&first_of_name(20, &list)), "the search of a loop ends");
    }

    #[test]
    fn a_survey_lists_the_parent_and_not_this_process() {
        let mut survey = Survey::default();
        let seen = survey.look();
        assert!(seen.iter().all(|one| one.pid != std::process::id()));
        let parent = std::os::unix::process::parent_id();
        let parent = seen.iter().find(|one| one.pid == parent).unwrap();
        assert!(parent.obstacle.is_some() != parent.method.is_some() && !parent.words.is_empty());
    }
}
