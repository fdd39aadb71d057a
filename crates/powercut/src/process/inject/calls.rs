//! Which answers of the system a call may get that says no.

use std::fmt;
use std::str::FromStr;

/// An error number: its name, its value, and whether it says something about the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno {
    /// As `strace` writes it.
    pub name: &'static str,
    /// As errors print it.
    pub number: i32,
    /// Whether a read that is answered so may mean that the bytes are gone.
    pub of_medium: bool,
}

const fn errno(name: &'static str, number: i32) -> Errno {
    Errno {
        name,
        number,
        of_medium: false,
    }
}

const fn of_medium(name: &'static str, number: i32) -> Errno {
    Errno {
        name,
        number,
        of_medium: true,
    }
}

/// Linux' numbers, the same on every architecture that we run on.
const ERRNOS: [Errno; 31] = [
    errno("EPERM", 1),
    errno("EINTR", 4),
    of_medium("EIO", 5),
    errno("ENXIO", 6),
    errno("EAGAIN", 11),
    errno("ENOMEM", 12),
    errno("EACCES", 13),
    errno("EBUSY", 16),
    errno("ENODEV", 19),
    errno("EINVAL", 22),
    errno("ENFILE", 23),
    errno("EMFILE", 24),
    errno("ENOTTY", 25),
    errno("EFBIG", 27),
    errno("ENOSPC", 28),
    errno("EROFS", 30),
    errno("ENOLCK", 37),
    errno("ENOSYS", 38),
    errno("ELOOP", 40),
    of_medium("ENODATA", 61),
    errno("ENOLINK", 67),
    of_medium("EBADMSG", 74),
    of_medium("EILSEQ", 84),
    errno("EOPNOTSUPP", 95),
    errno("ETIMEDOUT", 110),
    errno("EHOSTDOWN", 112),
    errno("ESTALE", 116),
    of_medium("EUCLEAN", 117),
    of_medium("EREMOTEIO", 121),
    errno("EDQUOT", 122),
    errno("EKEYEXPIRED", 127),
];

/// What a call is answered instead of being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// It failed.
    Error(Errno),
    /// Nothing is there: a read of no bytes, a listing that is at its end.
    Nothing,
}

impl Answer {
    /// The part of `strace`'s expression.
    pub fn expression(self) -> String {
        match self {
            Answer::Error(e) => format!("error={}", e.name),
            Answer::Nothing => "retval=0".to_owned(),
        }
    }

    /// Whether it may be taken for a word about the medium.
    pub fn is_of_medium(self) -> bool {
        matches!(self, Answer::Error(e) if e.of_medium)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Error(e) => f.write_str(e.name),
            Answer::Nothing => f.write_str("nothing"),
        }
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "nothing" {
            return Ok(Answer::Nothing);
        }
        let found = ERRNOS.iter().find(|e| e.name == name);
        let found = found.ok_or_else(|| format!("no error number {name} is known here"))?;
        Ok(Answer::Error(*found))
    }
}

/// What a call may be answered; nothing for those that cannot fail, and for those that are not the
/// log's: the runtime's own, and the one by which the subject reports.
pub fn answers(call: &str) -> Vec<Answer> {
    let names: &[&str] = match call {
        "open" | "openat" | "openat2" | "creat" => &[
            "EMFILE",
            "ENFILE",
            "ENOMEM",
            "EACCES",
            "EINTR",
            "EIO",
            "ELOOP",
            "EBUSY",
            "EPERM",
            "ESTALE",
            "ENODEV",
            "ETIMEDOUT",
        ],
        "pread64" | "preadv" | "preadv2" => &[
            "EIO",
            "ENOMEM",
            "EAGAIN",
            "EINTR",
            "EBUSY",
            "EINVAL",
            "ESTALE",
            "ETIMEDOUT",
            "EPERM",
            "ENODEV",
            "EBADMSG",
            "nothing",
        ],
        // Of the system's own files, whose text the kernel does not cut short.
        "read" | "readv" => &[
            "EIO",
            "ENOMEM",
            "EAGAIN",
            "EINTR",
            "EBUSY",
            "EINVAL",
            "ESTALE",
            "ETIMEDOUT",
            "EPERM",
            "ENODEV",
        ],
        "write" | "pwrite64" | "pwritev" | "pwritev2" | "writev" => &[
            "EIO", "ENOSPC", "EDQUOT", "EINTR", "EAGAIN", "ENOMEM", "EFBIG", "EROFS", "EPERM",
        ],
        "fsync" | "fdatasync" | "sync_file_range" | "syncfs" => {
            &["EIO", "ENOSPC", "EDQUOT", "EINTR", "ENOMEM", "EROFS"]
        }
        "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "access" | "faccessat"
        | "faccessat2" => &[
            "ENOMEM",
            "EACCES",
            "EINTR",
            "EIO",
            "ESTALE",
            "ENODEV",
            "ETIMEDOUT",
            "ELOOP",
        ],
        "getdents64" => &["ENOMEM", "EIO", "EINTR", "ESTALE", "EACCES", "nothing"],
        "readlink" | "readlinkat" => &["ENOMEM", "EACCES", "EIO", "EINTR", "ELOOP", "ESTALE"],
        "statfs" | "fstatfs" => &["ENOMEM", "EACCES", "EIO", "EINTR", "ENOSYS", "ESTALE"],
        "rename" | "renameat" | "renameat2" | "link" | "linkat" | "unlink" | "unlinkat"
        | "mkdir" | "mkdirat" | "rmdir" => &[
            "EIO", "ENOMEM", "EINTR", "EACCES", "EPERM", "EBUSY", "ENOSPC", "EROFS", "EDQUOT",
        ],
        "fallocate" => &[
            "ENOSPC",
            "EDQUOT",
            "EIO",
            "EINTR",
            "ENOMEM",
            "EOPNOTSUPP",
            "EFBIG",
        ],
        "ftruncate" => &["EIO", "EINTR", "ENOSPC", "ENOMEM", "EPERM", "EFBIG"],
        "ioctl" => &["ENOTTY", "EPERM", "EIO", "EINTR", "ENOMEM", "EINVAL"],
        "fcntl" => &["EINTR", "ENOMEM", "EACCES", "EAGAIN", "ENOLCK"],
        "flock" => &["EINTR", "ENOLCK", "EAGAIN"],
        "clone" | "clone3" => &["EAGAIN", "ENOMEM", "EPERM"],
        "close" => &["EIO", "EINTR"],
        "mmap" | "munmap" | "mremap" | "mprotect" | "madvise" => &["ENOMEM"],
        "getrandom" | "poll" | "ppoll" | "nanosleep" | "clock_nanosleep" => &["EINTR"],
        "fadvise64" | "lseek" => &["EINTR", "EINVAL", "ENOMEM"],
        // They answer always, or end the process or thread.
        "exit" | "exit_group" | "execve" | "gettid" | "getpid" | "getppid" | "getuid"
        | "geteuid" | "getgid" | "getegid" | "uname" | "sched_yield" | "rseq"
        | "set_robust_list" | "set_tid_address" | "arch_prctl" | "restart_syscall"
        | "rt_sigreturn" | "brk" | "rt_sigprocmask" | "rt_sigaction" | "sigaltstack" => &[],
        // The subject's own; and a wake that is not made is no error that the kernel has.
        "sendto" | "futex" => &[],
        _ => &["ENOMEM", "EINTR", "EIO", "EPERM", "ENOSYS"],
    };
    names.iter().filter_map(|n| n.parse().ok()).collect()
}

/// Whether what a log promises hangs on it.
pub fn is_of_writing(call: &str) -> bool {
    let calls = [
        "write",
        "pwrite64",
        "pwritev",
        "pwritev2",
        "fsync",
        "fdatasync",
    ];
    calls.contains(&call)
}

/// Whether it is about memory: a program that gets none may end at once.
pub fn is_about_memory(call: &str) -> bool {
    matches!(call, "mmap" | "munmap" | "mremap" | "mprotect" | "madvise")
}

/// Whether it is of a thread's beginning: whatever the system answers, the C library makes `EAGAIN`
/// of it.
pub fn is_about_threads(call: &str) -> bool {
    is_about_memory(call) || matches!(call, "clone" | "clone3")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn names_and_numbers_fit() {
        for errno in ERRNOS {
            let text = io::Error::from_raw_os_error(errno.number).to_string();
            assert!(!text.starts_with("Unknown"), "{errno:?}: {text}");
            assert_eq!(errno.name.parse(), Ok(Answer::Error(errno)));
        }
        assert!("ENOENT".parse::<Answer>().is_err(), "that the medium says");
    }

    /// As the library sees it: else the suite would look for the wrong thing.
    #[test]
    fn the_library_has_the_same_opinion_of_the_medium() {
        for errno in ERRNOS {
            let error = io::Error::from_raw_os_error(errno.number);
            let theirs = logforce_device::failure::is_of_medium(&error);
            assert_eq!(theirs, errno.of_medium, "{}", errno.name);
        }
    }

    #[test]
    fn every_name_in_the_table_is_known() {
        for (call, count) in [
            ("openat", 12),
            ("pread64", 12),
            ("pwritev2", 9),
            ("fsync", 6),
        ] {
            assert_eq!(answers(call).len(), count, "{call}");
        }
        assert_eq!(answers("a call that is new").len(), 5);
        assert!(answers("sendto").is_empty());
    }
}
