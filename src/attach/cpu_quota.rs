//! Reads how often the CPU quota of a process's control groups has stopped it, from `cpu.stat`.
//! The group of the process and all above it may have quotas.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder where control groups are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";
/// Maximum depth of a group.
const MAX_DEPTH: usize = 32;

/// The files that count for one process.
#[derive(Debug, Default)]
pub struct CpuQuota {
    files: Vec<PathBuf>,
}

impl CpuQuota {
    /// Finds the groups of a process.
    pub fn of_process(pid: u32) -> CpuQuota {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        CpuQuota::find(&groups, Path::new(MOUNTS))
    }

    /// Finds the groups that `/proc/PID/cgroup` names in a folder of mounts. Version 2 of control
    /// groups has one hierarchy, version 1 one for the CPU.
    pub fn find(groups: &str, mounts: &Path) -> CpuQuota {
        let mut files = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            let hierarchies = match controllers {
                "" => [mounts.to_owned(), mounts.join("unified")],
                _ if controllers.split(',').any(|controller| controller == "cpu") => {
                    [mounts.join(controllers), mounts.join("cpu")]
                }
                _ => continue,
            };
            // A group outside of the own namespace begins with `..`; its files are not here.
            let group = group.trim_start_matches('/');
            let Some(hierarchy) = hierarchies.into_iter().find(|hierarchy| hierarchy.join(group).is_dir()) else {
                continue;
            };
            let levels = Path::new(group).ancestors().take(MAX_DEPTH);
            let stats = levels.map(|level| hierarchy.join(level).join("cpu.stat"));
            files.extend(stats.filter(|file| throttled_periods(file).is_some()));
        }
        CpuQuota { files }
    }

    /// The number of periods in which a quota has stopped the process, of all groups together.
    pub fn throttled_periods(&self) -> u64 {
        self.files.iter().filter_map(|file| throttled_periods(file)).fold(0, u64::saturating_add)
    }
}

fn throttled_periods(file: &Path) -> Option<u64> {
    let stat = fs::read_to_string(file).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of mounts with these `cpu.stat`.
    fn mounts(name: &str, groups: &[(&str, &str)]) -> PathBuf {
        let mounts = std::env::temp_dir().join(format!("sigtop-quota-{name}-{}", std::process::id()));
        for (group, stat) in groups {
            fs::create_dir_all(mounts.join(group)).expect("a folder");
            fs::write(mounts.join(group).join("cpu.stat"), stat).expect("a file");
        }
        mounts
    }

    #[test]
    fn the_groups_above_count_too() {
        let stat = |count: u64| format!("nr_periods 90\nnr_throttled {count}\nthrottled_usec 1\n");
        // The group at the root has no quota.
        let root = "usage_usec 17\nuser_usec 9\n".to_owned();
        let two = mounts("two", &[("", &root), ("a", &stat(40)), ("a/b", &stat(2)), ("c", &stat(500))]);
        let one = mounts("one", &[("cpu", &stat(0)), ("cpu/a", &stat(7)), ("unified", &root), ("memory/a", &stat(9))]);
        let both = mounts("both", &[("cpu,cpuacct/a", &stat(3))]);
        for (folder, groups, periods) in [
            (&two, "0::/a/b\n", 42),
            (&two, "0::/a\n", 40),
            (&two, "0::/\n", 0),
            (&two, "0::/../other\n", 0),
            (&one, "2:memory:/a\n1:cpu:/a\n0::/\n", 7),
            (&both, "4:cpu,cpuacct:/a\n", 3),
            (&two, "broken", 0),
        ] {
            assert_eq!(CpuQuota::find(groups, folder).throttled_periods(), periods, "{groups}");
        }
        [two, one, both].iter().for_each(|folder| fs::remove_dir_all(folder).expect("ours"));
    }
}
