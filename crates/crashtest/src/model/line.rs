//! Lines of `strace -f -ttt -xx`, and the calls in them.

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The thread.
    pub(super) task: u32,
    /// Time in microseconds.
    pub(super) time: u64,
    pub(super) event: Event<'a>,
}

/// Kinds of lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A whole call.
    Call(&'a str),
    /// The beginning of a call that another thread interrupts in the log.
    Begun(&'a str),
    /// The rest of that call.
    Resumed(&'a str),
    /// The thread has ended.
    Exited,
    /// An `execve` of this other thread took the number of this one.
    Superseded(u32),
}

impl<'a> Line<'a> {
    /// Reads a line; `None` for signals and whatever else says nothing about files.
    pub(super) fn parse(line: &'a str) -> Option<Line<'a>> {
        let (task, rest) = line.split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(' ')?;
        let (seconds, micros) = time.split_once('.')?;
        let rest = rest.trim();
        let event = if let Some(rest) = rest.strip_prefix("<... ") {
            Event::Resumed(rest.split_once("resumed>")?.1)
        } else if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            Event::Begun(begun.trim_end())
        } else if let Some(text) = rest.strip_prefix("+++ ") {
            match text.strip_prefix("superseded by execve in pid ") {
                Some(other) => Event::Superseded(other.split(' ').next()?.parse().ok()?),
                None => Event::Exited,
            }
        } else if rest.starts_with("---") {
            return None;
        } else {
            Event::Call(rest)
        };
        Some(Line {
            task: task.parse().ok()?,
            time: seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?,
            event,
        })
    }
}

/// Calls that are a case of another: in each of the places that are listed that has the current directory.
const SHORT: [(&str, &str, &[usize]); 9] = [
    ("open", "openat", &[0]),
    ("mkdir", "mkdirat", &[0]),
    ("rmdir", "unlinkat", &[0]),
    ("unlink", "unlinkat", &[0]),
    ("symlink", "symlinkat", &[1]),
    ("link", "linkat", &[0, 2]),
    ("rename", "renameat2", &[0, 2]),
    ("renameat", "renameat2", &[]),
    ("truncate", "truncate", &[0]),
];

/// A system call. One with paths from the current directory is read as the general one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) name: String,
    arguments: Vec<String>,
    /// Result; `None` if the call has not returned.
    pub(super) result: Option<i64>,
}

impl Call {
    /// Reads a call, also one of which only the beginning is there.
    pub(super) fn parse(text: &str) -> Option<Call> {
        let (name, rest) = text.split_once('(')?;
        let (mut depth, mut quoted, mut from) = (0, false, 0);
        let (mut arguments, mut end) = (Vec::new(), rest.len());
        for (at, byte) in rest.bytes().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'(' | b'[' | b'{' => depth += 1,
                b')' if depth == 0 => {
                    end = at;
                    break;
                }
                b')' | b']' | b'}' => depth -= 1,
                b',' if depth == 0 => {
                    arguments.push(rest[from..at].trim().to_owned());
                    from = at + 1;
                }
                _ => {}
            }
        }
        arguments.push(rest[from..end].trim().to_owned());
        let result = rest[end..].split_once("= ");
        let result = result.and_then(|(_, value)| number(value.split(' ').next()?));
        let mut name = name;
        if let Some((_, general, paths)) = SHORT.iter().find(|(short, ..)| *short == name) {
            name = general;
            for path in *paths {
                arguments.insert((*path).min(arguments.len()), "AT_FDCWD".to_owned());
            }
        } else if name == "creat" {
            name = "openat";
            arguments.insert(0, "AT_FDCWD".to_owned());
            arguments.insert(
                arguments.len().min(2),
                "O_CREAT|O_WRONLY|O_TRUNC".to_owned(),
            );
        }
        Some(Call {
            name: name.to_owned(),
            arguments,
            result,
        })
    }

    /// Returns an argument as text; empty if there is none.
    pub(super) fn text(&self, at: usize) -> &str {
        self.arguments.get(at).map_or("", String::as_str)
    }

    /// Returns a number, or the first one of `[1] => [2]`; `None` for `NULL`.
    pub(super) fn number(&self, at: usize) -> Option<i64> {
        let text = self.text(at).trim_start_matches('[');
        number(text.split([']', ' ']).next()?)
    }

    /// Returns a number that is 0 or larger.
    pub(super) fn unsigned(&self, at: usize) -> Option<u64> {
        self.number(at).and_then(|n| n.try_into().ok())
    }

    /// Returns a descriptor.
    pub(super) fn fd(&self, at: usize) -> i32 {
        self.number(at).unwrap_or(-1) as i32
    }

    /// Returns true if an argument has this flag.
    pub(super) fn has(&self, at: usize, flag: &str) -> bool {
        let mut words = self
            .text(at)
            .split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == flag)
    }

    /// Returns an argument in octal, as modes are, or the field `mode` of a structure.
    pub(super) fn mode(&self, at: usize) -> u32 {
        let text = self.text(at);
        let text = text.split_once("mode=").map_or(text, |(_, mode)| mode);
        let digits = text.split(|c: char| !c.is_ascii_digit()).next();
        digits.map_or(0, |d| u32::from_str_radix(d, 8).unwrap_or(0))
    }

    /// Returns the bytes of a string, or of the buffers of a vector; `None` if `strace` has shortened them.
    pub(super) fn bytes(&self, at: usize) -> Option<Vec<u8>> {
        let (mut bytes, mut rest) = (Vec::new(), self.text(at));
        while let Some((_, text)) = rest.split_once('"') {
            let (text, after) = text.split_once('"')?;
            if after.starts_with("...") {
                return None;
            }
            for digits in text.split("\\x").skip(1) {
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            rest = after;
        }
        Some(bytes)
    }
}

/// Reads a number, also the constant for the current directory.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|n| n as i64),
        None if text == "AT_FDCWD" => Some(-100),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(rest: &str) -> Option<String> {
        let line = format!("17    1795833175.000042 {rest}");
        Line::parse(&line).map(|line| {
            assert_eq!((line.task, line.time), (17, 1_795_833_175_000_042));
            format!("{:?}", line.event)
        })
    }

    #[test]
    fn lines_are_told_apart() {
        for (line, is) in [
            ("close(3)        = 0", r#"Call("close(3)        = 0")"#),
            (
                r#"write(1, "\x31", 1 <unfinished ...>"#,
                r#"Begun("write(1, \"\\x31\", 1")"#,
            ),
            ("<... write resumed>) = 1", r#"Resumed(") = 1")"#),
            ("+++ exited with 0 +++", "Exited"),
            ("+++ killed by SIGKILL +++", "Exited"),
            ("+++ superseded by execve in pid 19 +++", "Superseded(19)"),
        ] {
            assert_eq!(event(line).as_deref(), Some(is));
        }
        assert_eq!(event("--- SIGCHLD {si_signo=SIGCHLD, si_pid=3} ---"), None);
        assert_eq!(Line::parse("strace: Process 12 attached"), None);
    }

    #[test]
    fn calls_have_arguments_and_a_result() {
        let call = |text| Call::parse(text).unwrap();
        let open = call(r#"openat(AT_FDCWD, "\x61\x2c", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3"#);
        assert_eq!(
            (open.name.as_str(), open.fd(0), open.mode(3)),
            ("openat", -100, 0o644)
        );
        assert_eq!(
            (open.bytes(1).unwrap(), open.result),
            (b"a,".to_vec(), Some(3))
        );
        assert!(open.has(2, "O_CREAT") && !open.has(2, "O_CREA"));
        let how =
            call(r#"openat2(3, "\x61", {flags=O_RDWR|O_CREAT, mode=0600, resolve=0}, 24) = 5"#);
        assert_eq!((how.mode(2), how.has(2, "O_CREAT")), (0o600, true));
        let vector = call(
            r#"pwritev2(3, [{iov_base="\x61\x62", iov_len=2}, {iov_base="\x63", iov_len=1}], 2, 7, RWF_DSYNC) = 3"#,
        );
        assert_eq!(
            (vector.bytes(1).unwrap(), vector.number(3)),
            (b"abc".to_vec(), Some(7))
        );
        let shortened = call(r#"write(3, "\x61"..., 99) = 99"#);
        assert_eq!(shortened.bytes(1), None);
        let copied = call("copy_file_range(3, [5] => [9], 4, NULL, 4, 0) = 4");
        assert_eq!((copied.number(1), copied.number(3)), (Some(5), None));
        assert_eq!(call("read(0x3, 0x7ffe12, 0x1000) = 0x1a").result, Some(26));
        assert_eq!(
            call(r#"unlink("\x61") = -1 ENOENT (No such file or directory)"#).result,
            Some(-1)
        );
        assert_eq!(
            call("fsync(3) = ? ERESTARTSYS (To be restarted)").result,
            None
        );
        let cloned =
            "clone3({flags=CLONE_VM|CLONE_FILES, child_tid=0x7f} => {parent_tid=[7]}, 88) = 7";
        assert_eq!(
            (call(cloned).has(0, "CLONE_FILES"), call(cloned).result),
            (true, Some(7))
        );
        assert_eq!(call(r#"write(1, "\x31\x0a", 2"#).bytes(1).unwrap(), b"1\n");
    }
}
