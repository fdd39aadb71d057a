//! The functions of a program that changed an object last before an acknowledgement, by `strace -k`.

use super::object::{Object, numberless};
use super::symbols::Symbols;
use crate::stage::Stage;
use crate::testbed::programs::in_path;
use anyhow::Result;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that change contents.
const CONTENTS: [&str; 9] = [
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "ftruncate",
    "fallocate",
    "copy_file_range",
    "sync_file_range",
];
/// Calls that change names. `openat` does if it creates.
const NAMES: [&str; 10] = [
    "openat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
];
/// Variable with the path of the log, and its greatest length, bytes.
const LOG: &str = "CRASHTEST_STRACE";
const LONGEST_LOG: u64 = 32 << 20;
/// Largest number of functions that are reported.
const FUNCTIONS: usize = 6;

/// The last call on an object before acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// The object.
    pub object: Object,
    /// The system call.
    pub call: String,
    /// The functions that led to it, the innermost first. Empty if the program does not have their names.
    pub functions: Vec<String>,
}

/// Runs the program once more, without a cut, and returns the last call on each of `objects` before an acknowledgement,
/// the most frequent one. Returns nothing where there is no `strace` that walks stacks.
pub(super) fn stacks(stage: &mut Stage<'_>, objects: &[Object]) -> Result<Vec<Stack>> {
    if objects.is_empty() || !walks_stacks() {
        return Ok(Vec::new());
    }
    let log = stage.home.join("strace");
    let calls = [&CONTENTS[..], &NAMES[..]].concat();
    let calls: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let calls = format!("trace={}", calls.join(","));
    let mut file = OsString::from(format!("{LOG}="));
    file.push(&log);
    // A log that fills the directory for temporary files would stop the check.
    let bounded = format!("|head -c {LONGEST_LOG} >\"${LOG}\"; cat >/dev/null");
    stage.under = vec!["env".into(), file];
    let words = "strace -f -k -y -q -s 0 -e signal=none -e".split(' ');
    stage.under.extend(words.map(Into::into));
    stage
        .under
        .extend([&*calls, "-o", &bounded, "--"].map(Into::into));
    let worked = stage.rehearse(&mut |_| Ok(true));
    stage.under.clear();
    let text = fs::read(&log).unwrap_or_default();
    let _ = fs::remove_file(&log);
    // A workload that acknowledges nothing under `strace` leaves no stack.
    let _ = worked?;
    let acks = stage.acks.path();
    Ok(last_calls(
        &String::from_utf8_lossy(&text),
        stage.home,
        acks,
        objects,
    ))
}

/// Returns true if there is a `strace` that can walk stacks.
fn walks_stacks() -> bool {
    let version = || Command::new("strace").arg("-V").output();
    in_path("strace")
        && version().is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("stack-trace="))
}

/// A call in the log of `strace`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Call {
    name: String,
    arguments: String,
    functions: Vec<String>,
}

/// Reads the log: a line for each call, the stack below it. A call that another thread interrupts has two lines.
fn calls(log: &str) -> Vec<Call> {
    let mut symbols = Symbols::default();
    let mut calls: Vec<Call> = Vec::new();
    let mut unfinished = HashMap::new();
    for line in log.lines() {
        if let Some(frame) = line.strip_prefix(" > ") {
            if let (Some(call), Some(function)) = (calls.last_mut(), function(frame, &mut symbols))
            {
                call.functions.push(function);
            }
            continue;
        }
        let (process, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, begun);
            continue;
        }
        let begun = match rest.starts_with("<... ") {
            true => unfinished.remove(process).unwrap_or(""),
            false => rest,
        };
        let (name, arguments) = begun.split_once('(').unwrap_or((begun, ""));
        calls.push(Call {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            functions: Vec::new(),
        });
    }
    calls
}

/// Returns the function of a frame such as `/usr/lib/libx.so(f+0x1d) [0x1a2b]`; `None` for the C library, which only
/// passes calls on, and for a frame without a name.
fn function(frame: &str, symbols: &mut Symbols) -> Option<String> {
    let (file, rest) = frame.split_once('(')?;
    let module = file.rsplit('/').next().unwrap_or(file);
    let passes_on = ["libc.", "libc-", "libpthread"];
    if passes_on.iter().any(|name| module.starts_with(name)) {
        return None;
    }
    let (function, _) = rest.rsplit_once("+0x")?;
    let (_, offset) = rest.rsplit_once("[0x")?;
    let offset = u64::from_str_radix(offset.strip_suffix(']')?, 16).ok()?;
    // The address is that after the call.
    if !symbols.covers(Path::new(file), offset.saturating_sub(1)) {
        return None;
    }
    // Rust's names end with a hash.
    let is_hash = |tail: &str| tail.len() == 16 && tail.bytes().all(|b| b.is_ascii_hexdigit());
    let function = match function.rsplit_once("::h") {
        Some((name, tail)) if is_hash(tail) => name,
        _ => function,
    };
    (!function.is_empty()).then(|| function.to_owned())
}

impl Call {
    /// Returns true if the call changes the object. `home` is the directory of the mount points.
    fn changes(&self, object: &Object, home: &Path) -> bool {
        let changes_names = NAMES.contains(&&*self.name);
        if self.name == "openat" && !self.arguments.contains("O_CREAT") {
            return false;
        }
        match object {
            Object::File(wanted) => {
                let names = self
                    .paths('<', '>')
                    .into_iter()
                    .filter_map(|path| below(&path, home));
                !changes_names && names.into_iter().any(|name| name == *wanted)
            }
            Object::Directory(wanted) => {
                let names = self
                    .paths('"', '"')
                    .into_iter()
                    .filter_map(|path| below(&path, home));
                let parent = |name: &str| match name.rsplit_once('/') {
                    Some((parent, _)) => parent.to_owned(),
                    None => ".".to_owned(),
                };
                changes_names && names.into_iter().any(|name| parent(&name) == *wanted)
            }
            _ => false,
        }
    }

    /// Returns the parts of the arguments between these characters.
    fn paths(&self, open: char, close: char) -> Vec<PathBuf> {
        let mut rest = &*self.arguments;
        let mut found = Vec::new();
        while let Some((_, after)) = rest.split_once(open)
            && let Some((path, after)) = after.split_once(close)
        {
            found.push(PathBuf::from(path));
            rest = after;
        }
        found
    }
}

/// Returns the name of an object below the program's directory, which is on a mount point in `home`. A relative path is
/// taken as relative to that directory.
fn below(path: &Path, home: &Path) -> Option<String> {
    let name = match path.strip_prefix(home) {
        Ok(rest) => rest.components().skip(2).collect::<PathBuf>(),
        Err(_) if path.is_relative() => path.to_owned(),
        Err(_) => return None,
    };
    Some(numberless(&name.to_string_lossy()))
}

/// Returns the last change of each object before an acknowledgement, the most frequent one.
fn last_calls(log: &str, home: &Path, acks: &Path, objects: &[Object]) -> Vec<Stack> {
    let calls = calls(log);
    let acks = format!("<{}>", acks.display());
    let last_call = |object: &Object| {
        let mut last: Option<&Call> = None;
        let mut counts: Vec<(&Call, u64)> = Vec::new();
        for call in &calls {
            if call.changes(object, home) {
                last = Some(call);
            }
            if !call.arguments.contains(&acks) {
                continue;
            }
            if let Some(last) = last.take() {
                let is_like =
                    |known: &Call| (&known.name, &known.functions) == (&last.name, &last.functions);
                match counts.iter_mut().find(|(known, _)| is_like(known)) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((last, 1)),
                }
            }
        }
        let (call, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let functions = call.functions.iter().take(FUNCTIONS).cloned();
        Some(Stack {
            object: object.clone(),
            call: call.name.clone(),
            functions: functions.collect(),
        })
    };
    objects.iter().filter_map(last_call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"17 openat(AT_FDCWD</>, "/h/mnt/data/new", O_WRONLY|O_CREAT) = 3</h/mnt/data/new>
 > /usr/lib/x86_64-linux-gnu/libc.so.6(__open64+0x1) [0xf80]
 > /opt/db(store::replace::h0123456789abcdef+0x1d) [0x1]
17 write(3</h/mnt/data/new>, ""..., 5 <unfinished ...>
18 write(4</h/mnt/data/log-7>, ""..., 5) = 5
 > /opt/db(append+0x1d) [0x1]
17 <... write resumed>) = 5
 > /opt/db(write_all+0x2) [0x2]
 > /opt/db(store::replace::h0123456789abcdef+0x40) [0x1]
17 rename("/h/mnt/data/new", "/h/mnt/data/value") = 0
 > /opt/db(store::replace::h0123456789abcdef+0x99) [0x1]
 > /opt/db() [0x77]
17 write(1</h/acks/acks>, ""..., 2) = 2
 > /opt/db(main+0x1) [0x1]
17 write(5</elsewhere/new>, ""..., 2) = 2
"#;

    #[test]
    fn the_last_change_before_an_acknowledgement_is_found() {
        let objects = [
            Object::File("new".to_owned()),
            Object::File("log-#".to_owned()),
            Object::File("value".to_owned()),
            Object::Directory(".".to_owned()),
            Object::Directory("a".to_owned()),
        ];
        let found = last_calls(TRACE, Path::new("/h"), Path::new("/h/acks/acks"), &objects);
        let found: Vec<_> = found
            .iter()
            .map(|s| (&*s.call, s.functions.join(" < ")))
            .collect();
        let wanted = [
            ("write", "write_all < store::replace".to_owned()),
            ("write", "append".to_owned()),
            ("rename", "store::replace".to_owned()),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_log_that_ends_anywhere_is_read() {
        for end in 0..TRACE.len() {
            let objects = [Object::File("new".to_owned())];
            last_calls(
                &TRACE[..end],
                Path::new("/h"),
                Path::new("/h/acks/acks"),
                &objects,
            );
        }
    }
}
