//! The cgroups that we are in and that limit our memory, of version 1 or 2 (`cgroups(7)`).

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use super::{Level, number, read_lossy};

/// A cgroup with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cgroup {
    folder: PathBuf,
    version: Version,
}

/// Which of the two versions; their files differ in name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A limit of version 1 that is none: the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

impl Cgroup {
    /// How much it may have, and how much of that is free or taken by files that the kernel can forget.
    pub(super) fn level(&self) -> Option<Level> {
        let (limit, usage, prefix) = match self.version {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
            Version::Two => ("memory.max", "memory.current", ""),
        };
        // Without a limit version 2 says `max`.
        let total = number(self.folder.join(limit)).filter(|&limit| limit < NO_LIMIT)?;
        let used = number(self.folder.join(usage))?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        Some(Level { total, available: total.saturating_sub(used.saturating_sub(files(&stat, prefix))) })
    }
}

impl Cgroup {
    /// The one of version 2 that this folder is.
    #[cfg(test)]
    pub(super) fn version_two(folder: &Path) -> Cgroup {
        Cgroup { folder: folder.to_owned(), version: Version::Two }
    }

    /// How many of its processes the kernel has killed for want of memory, its own or that of a cgroup around it.
    pub(super) fn kills(&self) -> Option<u64> {
        let files: &[&str] = match self.version {
            Version::One => &["memory.oom_control"],
            // The second one counts those below, too, and is there on older kernels.
            Version::Two => &["memory.events.local", "memory.events"],
        };
        let text = files.iter().find_map(|file| fs::read_to_string(self.folder.join(file)).ok())?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }
}

/// How much of what a cgroup holds are files that were not used lately, in bytes (`memory.stat`).
fn files(stat: &str, prefix: &str) -> u64 {
    let inactive = format!("{prefix}inactive_file ");
    stat.lines().find_map(|line| line.strip_prefix(&inactive)?.trim().parse().ok()).unwrap_or(0)
}

/// Those that we are in and those around them, innermost first.
pub(super) fn own() -> Vec<Cgroup> {
    around(&read_lossy("/proc/self/cgroup"), &read_lossy("/proc/self/mountinfo"))
}

/// Those that we are in and those around them, innermost first (`cgroups(7)`, `proc_pid_mountinfo(5)`).
fn around(cgroups: &str, mounts: &str) -> Vec<Cgroup> {
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version = match controllers {
            "" => Version::Two,
            _ if controllers.split(',').any(|controller| controller == "memory") => Version::One,
            _ => return None,
        };
        let (root, place) = mounts.lines().find_map(|line| mount(line, version))?;
        Some(folders(Path::new(path), root, place).into_iter().map(move |folder| Cgroup { folder, version }))
    };
    cgroups.lines().filter_map(of_line).flatten().collect()
}

/// The part of the tree that is mounted, and where, if this line of `mountinfo` is about the one with the memory controller.
fn mount(line: &str, version: Version) -> Option<(&Path, &Path)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let fits = match version {
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => kind == "cgroup2",
    };
    let mut before = before.split(' ').skip(3);
    fits.then_some((Path::new(before.next()?), Path::new(before.next()?)))
}

/// The folder of the cgroup `path`, and those above it up to where its tree is mounted. What lies outside of what is mounted,
/// as seen from a cgroup namespace, can't be looked at; the outermost that can be is what is mounted.
fn folders(path: &Path, root: &Path, place: &Path) -> Vec<PathBuf> {
    let inside = path.strip_prefix(root).unwrap_or(Path::new(""));
    let inside = if inside.components().any(|part| part == Component::ParentDir) { Path::new("") } else { inside };
    // Without a slash at the end.
    let folder: PathBuf = place.join(inside).components().collect();
    folder.ancestors().take_while(|folder| folder.starts_with(place)).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
23 28 0:21 / /proc rw,relatime - proc proc rw
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn found(cgroups: &str, mounts: &str) -> Vec<(String, Version)> {
        let found = around(cgroups, mounts).into_iter();
        found.map(|cgroup| (cgroup.folder.display().to_string(), cgroup.version)).collect()
    }

    #[test]
    fn both_versions_are_found_with_what_is_around_them() {
        let (one, two) = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified");
        let cgroups = "5:cpu,cpuacct:/x\n4:memory:/app/web\n0::/app\n";
        let expected = [
            (format!("{one}/app/web"), Version::One),
            (format!("{one}/app"), Version::One),
            (one.to_owned(), Version::One),
            (format!("{two}/app"), Version::Two),
            (two.to_owned(), Version::Two),
        ];
        assert_eq!(found(cgroups, MOUNTS), expected);
        assert_eq!(found("", MOUNTS), []);
        assert_eq!(found("nonsense\n4:memory\n", MOUNTS), []);
        assert_eq!(found(cgroups, ""), []);
    }

    #[test]
    fn in_a_container_what_is_mounted_is_what_we_are_in() {
        let mount = |root: &str| format!("9 8 0:30 {root} /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n");
        let only = [("/sys/fs/cgroup".to_owned(), Version::Two)];
        assert_eq!(found("0::/\n", &mount("/")), only);
        assert_eq!(found("0::/docker/3f\n", &mount("/docker/3f")), only);
        // The host's tree below a cgroup namespace of our own.
        assert_eq!(found("0::/\n", &mount("/../..")), only);
        assert_eq!(found("0::/../other\n", &mount("/")), only);
    }

    #[test]
    fn what_the_kernel_killed_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let kills = |version| Cgroup { folder: folder.path().to_owned(), version }.kills();
        assert_eq!((kills(Version::One), kills(Version::Two)), (None, None));
        write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        write("memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 0\n");
        assert_eq!((kills(Version::One), kills(Version::Two)), (Some(2), Some(3)));
        write("memory.events.local", "oom 1\noom_kill 1\n");
        assert_eq!(kills(Version::Two), Some(1));
    }

    #[test]
    fn files_that_the_kernel_can_forget_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 600\nactive_file 100\ninactive_file 200\n");
        write("memory.limit_in_bytes", "2000\n");
        write("memory.usage_in_bytes", "900\n");
        let level = |version| Cgroup { folder: folder.path().to_owned(), version }.level();
        assert_eq!(level(Version::Two), Some(Level { total: 1000, available: 300 }));
        // Version 1 counts those below with a prefix, which is not there.
        assert_eq!(level(Version::One), Some(Level { total: 2000, available: 1100 }));
        write("memory.max", "max\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!((level(Version::One), level(Version::Two)), (None, None));
    }
}
