//! The command that installs the debug symbols of a file. The package is looked up in the package
//! manager's lists where they are plain text (Debian); elsewhere the command looks it up.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::sanitize::sanitize;

/// Maximum size of a list of files, and maximum number of lists read.
const MAX_LIST_BYTES: u64 = 16 << 20;
const MAX_LISTS: usize = 20_000;
/// Maximum size of os-release.
const MAX_RELEASE_BYTES: u64 = 64 << 10;

/// Returns how to install the debug symbols of a file that belongs to a distribution; `None` for
/// other files.
pub(super) fn install_advice(path: &Path, build_id: &str, root: &Path) -> Option<String> {
    let systems = ["/usr/lib", "/usr/bin", "/usr/sbin", "/usr/libexec", "/lib", "/lib64", "/bin", "/sbin"];
    if !systems.iter().any(|system| path.starts_with(system)) {
        return None;
    }
    let release = text(&root.join("etc/os-release"), MAX_RELEASE_BYTES);
    let families = family(&release);
    let name = sanitize(&path.to_string_lossy());
    Some(match () {
        () if families.contains(&"debian") || families.contains(&"ubuntu") => {
            let archive = if families.first() == Some(&"ubuntu") { "ddebs.ubuntu.com" } else { "debian-debug" };
            match owner(path, &root.join("var/lib/dpkg/info")) {
                Some(package) if package == "libc6" => "apt install libc6-dbg".to_owned(),
                Some(package) => format!("apt install {package}-dbgsym (from the archive {archive})"),
                None => format!("apt install PACKAGE-dbgsym, the package being that of dpkg -S {name}"),
            }
        }
        () if families.iter().any(|family| ["fedora", "rhel", "centos"].contains(family)) => {
            format!("dnf debuginfo-install \"$(rpm -qf {name})\"")
        }
        () if families.iter().any(|family| family.starts_with("suse") || family.starts_with("opensuse")) => {
            format!("zypper install -C \"debuginfo(build-id)={build_id}\"")
        }
        () => format!("install its debug symbols, build id {build_id}"),
    })
}

fn text(path: &Path, limit_bytes: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // An unreadable file counts as empty.
        let _ = file.take(limit_bytes).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The words of `ID` and `ID_LIKE` of os-release(5).
fn family(release: &str) -> Vec<&str> {
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or("").trim_matches(['"', '\''])
    };
    [value("ID"), value("ID_LIKE")].iter().flat_map(|value| value.split_whitespace()).collect()
}

/// Returns the Debian package whose list contains a file, with or without `/usr` in front.
fn owner(path: &Path, lists: &Path) -> Option<String> {
    let name = path.as_os_str().as_bytes();
    let other = match name.strip_prefix(b"/usr") {
        Some(short) => short.to_vec(),
        None => [b"/usr", name].concat(),
    };
    let lists = std::fs::read_dir(lists).ok()?.flatten().map(|entry| entry.path());
    let lists = lists.filter(|list| list.extension() == Some(OsStr::new("list"))).take(MAX_LISTS);
    for list in lists {
        let Ok(file) = File::open(&list) else { continue };
        let lines = BufReader::new(file.take(MAX_LIST_BYTES)).split(b'\n').map_while(Result::ok);
        if lines.into_iter().any(|line| line == name || line == other) {
            let package = list.file_stem()?.to_str()?.split(':').next()?.to_owned();
            let harmless = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
            return Some(package).filter(|package| package.chars().all(harmless));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_package_of_the_file() {
        let root = std::env::temp_dir().join(format!("sigtop-package-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let advice = |path: &str| install_advice(Path::new(path), "12ab", &root);
        assert_eq!(advice("/opt/own/app"), None);
        assert_eq!(advice("/usr/lib/libz.so.1").as_deref(), Some("install its debug symbols, build id 12ab"));
        write("etc/os-release", "NAME=x\nID=debian\n");
        write("var/lib/dpkg/info/zlib1g:amd64.list", "/.\n/lib/libz.so.1\n");
        write("var/lib/dpkg/info/libc6:amd64.list", "/.\n/usr/lib/libc.so.6\n");
        write("var/lib/dpkg/info/evil\x1b[2J.list", "/usr/lib/evil.so\n");
        let zlib = Some("apt install zlib1g-dbgsym (from the archive debian-debug)");
        assert_eq!(advice("/usr/lib/libz.so.1").as_deref(), zlib);
        assert_eq!(advice("/lib/libc.so.6").as_deref(), Some("apt install libc6-dbg"));
        assert!(advice("/usr/lib/evil.so").unwrap().contains("dpkg -S /usr/lib/evil.so"));
        write("etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
        assert_eq!(advice("/usr/bin/a").as_deref(), Some("dnf debuginfo-install \"$(rpm -qf /usr/bin/a)\""));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
