//! Dated answers of devices. `logforce doctor` asks the devices and stores what they say; an opening only reads
//! it, because a command may disturb a device (USB bridges are known to reset).
//!
//! An answer is valid for one device until the next start of the system. It lies in `/run`, which a start
//! empties, and names the boot and the device. Only the administrator can write there. An answer of anybody
//! else is ignored, because it decides what a log believes.

use super::block::Located;
use super::error::{at, uninterrupted_io};
use super::sysfs::{self, Roots};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// First line of a file.
const FORMAT: &str = "logforce device answer 1";
/// Maximum length of a file, bytes. A longer one is ignored.
const LONGEST: u64 = 4096;

/// State of a device's volatile cache, by its own report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// It has one, and it is on.
    On,
    /// It has one, and it is switched off.
    Off,
    /// It has none.
    None,
    /// It was asked, and its answer does not say.
    Silent,
    /// It has no cache that could be asked about: a mapped device.
    Mapped,
}

const CACHES: [(Cache, &str); 5] = [
    (Cache::On, "on"),
    (Cache::Off, "off"),
    (Cache::None, "none"),
    (Cache::Silent, "silent"),
    (Cache::Mapped, "mapped"),
];

/// Answer of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub cache: Cache,
    /// Command that was sent, such as `NVMe Identify Controller`.
    pub command: String,
    /// Answer in a few words, such as `VWC 1`. For a mapped device the types of its targets.
    pub said: String,
    /// Time of the answer, in seconds since 1970 by the system's clock.
    pub at: u64,
}

impl Answer {
    /// Makes an answer that was given now.
    pub fn new(cache: Cache, command: &str, said: String) -> Answer {
        Answer {
            cache,
            command: command.to_owned(),
            said: said.replace(char::is_control, " "),
            at: now(),
        }
    }
}

/// Returns the text that identifies a device until the next start of the system. A device that took the place
/// of another one differs in it.
fn identity(device: &Located) -> io::Result<String> {
    let mut parts = vec![device.whole.display().to_string()];
    for file in [
        "dev",
        "size",
        "wwid",
        "device/wwid",
        "device/serial",
        "device/vendor",
        "device/model",
        "dm/uuid",
        "dm/name",
    ] {
        parts.push(device.line(file)?.unwrap_or_default());
    }
    // A mapped device can get other targets while it is in use: a snapshot, a cache.
    parts.extend(device.made_of()?);
    Ok(parts.join("|").replace(char::is_control, "?"))
}

fn boot(roots: &Roots) -> io::Result<Option<String>> {
    sysfs::line(&roots.proc.join("sys/kernel/random/boot_id"))
}

fn file(device: &Located, roots: &Roots) -> PathBuf {
    roots.run.join(device.whole_name().replace('/', "!"))
}

/// Returns the stored answer of a device, if it is one of this device since the system started.
///
/// # Errors
/// Any error except "not found". The answer may be the one that contradicts a guarantee.
pub fn stored(device: &Located, roots: &Roots) -> io::Result<Option<Answer>> {
    let path = file(device, roots);
    if let Some(text) = held().get(&path) {
        return valid(text, device, roots);
    }
    let is_safe = |stat: &fs::Metadata| {
        let own = rustix::process::geteuid().as_raw();
        [0, own].contains(&stat.uid()) && stat.mode() & 0o022 == 0
    };
    // Whoever may write to the directory may put a file of root there that was meant for another device.
    let look = || fs::symlink_metadata(&roots.run);
    match sysfs::found(uninterrupted_io(look), "look at", &roots.run)? {
        Some(stat) if stat.is_dir() && is_safe(&stat) => {}
        _ => return Ok(None),
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || rustix::fs::open(&path, flags, Mode::empty()).map_err(io::Error::from);
    // A link is not followed: it may lead to a file that root wrote for another purpose.
    let opened = match uninterrupted_io(open) {
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Ok(None);
        }
        opened => sysfs::found(opened, "open", &path)?,
    };
    let Some(opened) = opened else {
        return Ok(None);
    };
    let opened = fs::File::from(opened);
    let stat = opened.metadata().map_err(|e| at(e, "look at", &path))?;
    if !is_safe(&stat) || !stat.is_file() || stat.len() > LONGEST {
        return Ok(None);
    }
    let mut text = String::new();
    match opened.take(LONGEST).read_to_string(&mut text) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Ok(None),
        Err(e) => return Err(at(e, "read", &path)),
    }
    valid(&text, device, roots)
}

/// Returns the answer of that text, if it is one of this device since the system started.
fn valid(text: &str, device: &Located, roots: &Roots) -> io::Result<Option<Answer>> {
    let is_here = [boot(roots)?, Some(identity(device)?)];
    let answer = parse(text).and_then(|(boot, device, answer)| {
        (is_here == [Some(boot.to_owned()), Some(device.to_owned())]).then_some(answer)
    });
    // No device answers tomorrow.
    const DAY: u64 = 86_400;
    Ok(answer.filter(|answer| answer.at > 0 && answer.at <= now() + DAY))
}

/// Answers that could not be stored, which count for this process alone. A container may have no `/run`.
fn held() -> MutexGuard<'static, BTreeMap<PathBuf, String>> {
    static HELD: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}

/// Returns boot, device and answer of a file.
fn parse(text: &str) -> Option<(&str, &str, Answer)> {
    let mut lines = text.lines();
    if lines.next()? != FORMAT {
        return None;
    }
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let (boot, device) = (value("boot")?, value("device")?);
    let at = value("at")?.parse().ok()?;
    let cache = value("cache")?;
    let (cache, _) = CACHES.iter().find(|(_, name)| *name == cache)?;
    let answer = Answer {
        cache: *cache,
        command: value("command")?.to_owned(),
        said: value("said")?.to_owned(),
        at,
    };
    lines.next().is_none().then_some((boot, device, answer))
}

/// Stores the answer of a device for openings.
///
/// # Errors
/// If the file cannot be written, or the system does not name the boot.
pub fn store(device: &Located, answer: &Answer, roots: &Roots) -> io::Result<()> {
    let Some(boot) = boot(roots)? else {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the answer was not stored for logs: the system does not name its boot in /proc",
        ));
    };
    let name = CACHES.iter().find(|(cache, _)| *cache == answer.cache);
    let text = format!(
        "{FORMAT}\nboot {boot}\ndevice {}\nat {}\ncache {}\ncommand {}\nsaid {}\n",
        identity(device)?,
        answer.at,
        name.map_or("silent", |(_, name)| name),
        answer.command,
        answer.said
    );
    let path = file(device, roots);
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        fs::create_dir_all(&roots.run)?;
        fs::write(&temporary, &text)?;
        // Everybody may read it, whatever the umask is: a log is opened by other users.
        fs::set_permissions(&roots.run, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644))?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|e| {
        held().insert(path.clone(), text.clone());
        at(e, "store the answer for logs in", &path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_parsed() {
        let text =
            format!("{FORMAT}\nboot b\ndevice d|1\nat 7\ncache on\ncommand x y\nsaid VWC 1\n");
        let (boot, device, answer) = parse(&text).unwrap();
        assert_eq!(
            (boot, device, answer.cache, answer.at),
            ("b", "d|1", Cache::On, 7)
        );
        assert_eq!((&*answer.command, &*answer.said), ("x y", "VWC 1"));
        for end in 0..text.len() - "VWC 1\n".len() {
            assert!(parse(&text[..end]).is_none(), "{end}");
        }
        for (from, to) in [
            ("answer 1", "answer 2"),
            ("cache on", "cache of"),
            ("at 7", "at x"),
        ] {
            assert!(parse(&text.replace(from, to)).is_none(), "{to}");
        }
    }
}
