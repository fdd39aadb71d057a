//! Tests of the rules, with lines as `strace` prints them.

use super::calls::{Followed, TRACED};
use super::compare::differs;
use super::cut::{Chain, Cut};
use super::follow::Follower;
use super::history::{History, NEVER};
use super::tasks::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns a line as with `-xx`: strings in hexadecimal, `D` for the directory.
fn line(text: &str, dir: &Path) -> String {
    let (task, call) = text.split_once(' ').unwrap();
    let text: Vec<String> = call
        .split('"')
        .enumerate()
        .map(|(number, part)| match number % 2 {
            0 => part.to_owned(),
            _ => {
                let part = part.replace("/D", dir.to_str().unwrap());
                part.bytes().map(|b| format!("\\x{b:02x}")).collect()
            }
        })
        .collect();
    format!("{task} 1.000001 {}", text.join("\""))
}

/// Follows lines; the first thread works in a directory with a durable file `old`.
fn follow(lines: &[&str]) -> Followed<History> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old"), OLD.1).unwrap();
    follow_in(dir.path(), lines).map(|world| world.history)
}

/// Follows lines; the first thread works in this directory.
fn follow_in(dir: &Path, lines: &[&str]) -> Followed<World> {
    for line in lines {
        let call = line.split([' ', '(']).nth(1).unwrap();
        let is_traced = TRACED.split(',').any(|t| t.trim_start_matches('?') == call);
        // A call that forces nothing is not traced.
        assert!(
            is_traced || matches!(call, "<..." | "sync_file_range"),
            "{call}"
        );
    }
    let history = History::read(dir).unwrap();
    let world = World::new(history, dir, Path::new("/acks"), "/".into());
    let mut follower = Follower::new(world, Some(1));
    for text in ["1 execve(\"/w\") = 0", "1 chdir(\"/D\") = 0"]
        .iter()
        .chain(lines)
    {
        follower.line(&line(text, dir))?;
    }
    Ok(follower.world)
}

/// Returns the files after a cut at the end in which everything unsynced is lost, or nothing.
fn files(history: &History, loses: bool) -> BTreeMap<String, String> {
    files_without(history, |_| loses)
}

/// Returns the files after a cut at the end in which everything unsynced of some chains is lost.
fn files_without(history: &History, loses: impl Fn(&Chain) -> bool) -> BTreeMap<String, String> {
    let cut = Cut {
        at: history.now(),
        grain: 512,
        seed: 0,
    };
    let syncs: Vec<_> = history.ops.iter().map(|op| op.synced).collect();
    let pending = cut.pending(history, &syncs).into_iter();
    let lost = pending.flat_map(|(chain, ops)| ops.into_iter().map(move |op| (chain, op)));
    let lost: Vec<_> = lost.filter(|(chain, _)| loses(chain)).collect();
    let dir = tempfile::tempdir().unwrap();
    cut.write(history, &lost, dir.path()).unwrap();
    let (mut found, mut todo) = (BTreeMap::new(), vec![dir.path().to_owned()]);
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).unwrap().flatten() {
            let name = entry
                .path()
                .strip_prefix(dir.path())
                .unwrap()
                .display()
                .to_string();
            match entry.file_type().unwrap().is_dir() {
                true => {
                    todo.push(entry.path());
                    found.insert(name + "/", String::new());
                }
                false => drop(found.insert(name, fs::read_to_string(entry.path()).unwrap())),
            }
        }
    }
    found
}

/// Asserts what is left if everything unsynced is lost, and if nothing is.
fn assert_left(lines: &[&str], lost: &[(&str, &str)], kept: &[(&str, &str)]) {
    let history = follow(lines).unwrap();
    for (loses, expected) in [(true, lost), (false, kept)] {
        let found = files(&history, loses);
        let found: Vec<(&str, &str)> = found.iter().map(|(n, t)| (&**n, &**t)).collect();
        assert_eq!(found, expected, "{lines:?}");
    }
}

const OLD: (&str, &str) = ("old", "0123456789");

#[test]
fn a_file_needs_its_sync_and_that_of_its_directory() {
    let made = [
        "1 openat(AT_FDCWD, \"a\", O_RDWR|O_CREAT, 0644) = 3",
        "1 write(3, \"abc\", 3) = 3",
    ];
    let (file, dir) = (
        "1 fsync(3) = 0",
        ["1 openat(AT_FDCWD, \".\", O_RDONLY) = 4", "1 fsync(4) = 0"],
    );
    let all = [("a", "abc"), OLD];
    assert_left(&made, &[OLD], &all);
    assert_left(&[&made[..], &[file]].concat(), &[OLD], &all);
    assert_left(&[&made[..], &dir].concat(), &[("a", ""), OLD], &all);
    assert_left(&[&made[..], &[file], &dir].concat(), &all, &all);
    assert_left(
        &[&made[..], &["1 sync_file_range(3, 0, 0, 7) = 0"], &dir].concat(),
        &[("a", ""), OLD],
        &all,
    );
    assert_left(
        &[
            &made[..],
            &["1 fsync(3) = -1 EIO (Input/output error)"],
            &dir,
        ]
        .concat(),
        &[("a", ""), OLD],
        &all,
    );
    for sync in ["1 sync() = 0", "1 syncfs(3) = 0"] {
        assert_left(&[&made[..], &[sync]].concat(), &all, &all);
    }
    let data = "1 fdatasync(3) = 0";
    assert_left(&[&made[..], &[data], &dir].concat(), &all, &all);
}

#[test]
fn a_lost_truncation_takes_what_was_written_after_it_along() {
    let lines = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY|O_TRUNC) = 3",
        "1 write(3, \"new\", 3) = 3",
    ];
    let history = follow(&lines).unwrap();
    for (lost, left) in [
        ((false, false), "new"),
        ((false, true), OLD.1),
        // A length that is kept without the data reads as zeroes.
        ((true, false), "\0\0\0"),
        ((true, true), OLD.1),
    ] {
        let found = files_without(&history, |chain| match chain {
            Chain::Data(..) => lost.0,
            _ => lost.1,
        });
        assert_eq!(found["old"], left, "data, length: {lost:?}");
    }
}

#[test]
fn cuts_lose_every_part_of_a_write() {
    let write = format!("1 pwrite64(3, \"{}\", 1024, 512) = 1024", "x".repeat(1024));
    let lines = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        &write,
        "1 write(1, \"1\n\", 2) = 2",
        "1 write(1, \"2\n\", 2) = 2",
    ];
    let history = follow(&lines).unwrap();
    let (mut parts, mut moments) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..2000 {
        let cut = Cut::choose(&history, seed);
        let pending = cut.pending(&history, &vec![NEVER; history.ops.len()]);
        let lost: BTreeSet<Chain> = cut.lose(&pending).into_iter().map(|(c, _)| c).collect();
        moments.insert(cut.at);
        if cut.grain == 512 && !pending.is_empty() {
            parts.insert(lost);
        }
    }
    // Any of the two pieces and the length.
    assert_eq!(parts.len(), 8, "{parts:?}");
    assert_eq!(moments.len(), history.now() + 1, "{moments:?}");
}

#[test]
fn two_names_are_one_file() {
    let history = follow(&["1 link(\"old\", \"twin\") = 0"]).unwrap();
    let cut = Cut {
        at: history.now(),
        grain: 512,
        seed: 0,
    };
    let dir = tempfile::tempdir().unwrap();
    cut.write(&history, &[], dir.path()).unwrap();
    let number = |name: &str| fs::metadata(dir.path().join(name)).unwrap().ino();
    assert_eq!(number("old"), number("twin"));
    // Also if they are before the run.
    let write = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        "1 write(3, \"ab\", 2) = 2",
    ];
    let world = follow_in(dir.path(), &write).unwrap();
    assert_eq!(files(&world.history, false)["twin"], "ab23456789");
}

#[test]
fn a_descriptor_can_be_made_to_append() {
    let lines = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        "1 fcntl(3, F_SETFL, O_WRONLY|O_APPEND) = 0",
        "1 write(3, \"end\", 3) = 3",
    ];
    assert_left(&lines, &[OLD], &[("old", "0123456789end")]);
}

#[test]
fn a_directory_that_the_calls_do_not_explain_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    fs::write(&old, OLD.1).unwrap();
    let world = follow_in(dir.path(), &[]).unwrap();
    let differs = || differs(&world, dir.path()).unwrap_or_default();
    assert_eq!(differs(), "");
    fs::write(&new, "").unwrap();
    assert!(differs().contains("new has appeared"), "{}", differs());
    fs::remove_file(&new).unwrap();
    fs::write(&old, "9876543210").unwrap();
    assert!(
        differs().contains("something else wrote it"),
        "{}",
        differs()
    );
    fs::remove_file(&old).unwrap();
    assert!(differs().contains("old is gone"), "{}", differs());
}

#[test]
fn only_the_names_of_a_call_that_was_cut_short_are_excused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old"), OLD.1).unwrap();
    let begun = "1 openat(AT_FDCWD, \"new\", O_RDWR|O_CREAT, 0644) = ?";
    let world = follow_in(dir.path(), &[begun]).unwrap();
    let differs = || differs(&world, dir.path()).unwrap_or_default();
    assert_eq!(differs(), "");
    fs::write(dir.path().join("new"), "").unwrap();
    assert_eq!(differs(), "");
    fs::write(dir.path().join("old"), "9876543210").unwrap();
    assert!(
        differs().contains("something else wrote it"),
        "{}",
        differs()
    );
}

#[test]
fn one_write_can_be_durable_alone() {
    let lines = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        "1 pwrite64(3, \"early\", 5, 2000) = 5",
        "1 pwritev2(3, [{iov_base=\"AB\", iov_len=2}], 1, 2, RWF_DSYNC) = 2",
        "1 openat(AT_FDCWD, \"old\", O_WRONLY|O_APPEND|O_DSYNC) = 4",
        "1 write(4, \"end\", 3) = 3",
    ];
    let whole = |early: &str| format!("01AB456789{}{early}end", "\0".repeat(1990));
    assert_left(
        &lines[..3],
        &[("old", &whole("\0\0\0\0\0")[..2005])],
        &[("old", &whole("early")[..2005])],
    );
    // One piece is durable as a whole.
    assert_left(
        &lines,
        &[("old", &whole("early"))],
        &[("old", &whole("early"))],
    );
}

#[test]
fn names_hang_on_directories_that_move() {
    let lines = [
        "1 mkdir(\"d\", 0755) = 0",
        "1 openat(AT_FDCWD, \"d\", O_RDONLY|O_DIRECTORY) = 3",
        "1 openat(3, \"f\", O_WRONLY|O_CREAT, 0644) = 4",
        "1 rename(\"d\", \"e\") = 0",
        "1 renameat2(3, \"f\", 3, \"g\", RENAME_NOREPLACE) = 0",
        "1 link(\"e/g\", \"h\") = 0",
        "1 openat(AT_FDCWD, \"/D/e/../.\", O_RDONLY) = 5",
        "1 fsync(5) = 0",
        "1 fsync(3) = 0",
        "1 unlink(\"e/g\") = 0",
    ];
    assert_left(
        &lines[..7],
        &[OLD],
        &[("e/", ""), ("e/g", ""), ("h", ""), OLD],
    );
    assert_left(
        &lines[..8],
        &[("e/", ""), ("h", ""), OLD],
        &[("e/", ""), ("e/g", ""), ("h", ""), OLD],
    );
    assert_left(
        &lines,
        &[("e/", ""), ("e/g", ""), ("h", ""), OLD],
        &[("e/", ""), ("h", ""), OLD],
    );
}

#[test]
fn a_rename_between_directories_is_two_steps() {
    let lines = [
        "1 mkdir(\"d\", 0755) = 0",
        "1 sync() = 0",
        "1 rename(\"old\", \"d/new\") = 0",
        "1 openat(AT_FDCWD, \"d\", O_RDONLY) = 3",
        "1 fsync(3) = 0",
    ];
    let (both, moved) = (
        [("d/", ""), ("d/new", OLD.1), OLD],
        [("d/", ""), ("d/new", OLD.1)],
    );
    assert_left(&lines, &both, &moved);
}

#[test]
fn files_without_a_name_get_one() {
    let lines = [
        "1 openat(AT_FDCWD, \"/D\", O_RDWR|O_TMPFILE, 0600) = 3",
        "1 copy_file_range(4, NULL, 3, NULL, 4, 0) = -1 EBADF (Bad file descriptor)",
        "1 openat(AT_FDCWD, \"old\", O_RDONLY) = 4",
        "1 copy_file_range(4, [2] => [6], 3, NULL, 4, 0) = 4",
        "1 fallocate(3, 0, 0, 6) = 0",
        "1 fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 1, 2) = 0",
        "1 linkat(AT_FDCWD, \"/proc/self/fd/3\", AT_FDCWD, \"n\", AT_SYMLINK_FOLLOW) = 0",
    ];
    assert_left(&lines, &[OLD], &[("n", "2\0\x005\0\0"), OLD]);
}

#[test]
fn threads_share_descriptors_and_processes_copy_them() {
    let clone = |flags: &str| format!("1 clone(child_stack=0x7f, flags={flags}, tls=0x7f) = 2");
    for (flags, text) in [
        ("CLONE_VM|CLONE_FS|CLONE_FILES", OLD.1),
        ("SIGCHLD", "ab23456789"),
    ] {
        let lines = [
            "1 openat(AT_FDCWD, \"old\", O_WRONLY|O_CLOEXEC) = 3",
            &clone(flags),
            "1 close(3) = 0",
            "2 write(3, \"ab\", 2) = 2",
            "2 execve(\"/w\", [\"w\"], 0x7f /* 3 vars */) = 0",
            "2 write(3, \"no\", 2) = -1 EBADF (Bad file descriptor)",
        ];
        assert_left(&lines, &[OLD], &[("old", text)]);
    }
    // The child of a vfork is seen before its parent goes on.
    let lines = [
        "1 vfork( <unfinished ...>",
        "2 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        "2 dup2(3, 1) = 1",
        "2 write(1, \"XY\", 2) = 2",
        "1 <... vfork resumed>) = 2",
        "1 write(1, \"7\n\", 2) = 2",
    ];
    let history = follow(&lines).unwrap();
    assert_eq!(history.lines_until(NEVER).0, ["7"]);
    assert_eq!(files(&history, false)["old"], "XY23456789");
}

#[test]
fn a_sync_covers_what_had_returned_when_it_was_called() {
    let lines = [
        "1 openat(AT_FDCWD, \"old\", O_WRONLY) = 3",
        "1 pwrite64(3, \"a\", 1, 0) = 1",
        "1 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_FS}, 88) = 2",
        "1 fsync(3 <unfinished ...>",
        "2 pwrite64(3, \"b\", 1, 1000) = 1",
        "2 write(1, \"early\n\", 6 <unfinished ...>",
        "1 <... fsync resumed>) = 0",
        "2 <... write resumed>) = 6",
        "2 write(1, \"?begun\n# no line\nla\", 19) = 19",
        "1 write(1, \"te\n\", 3) = 3",
    ];
    let history = follow(&lines).unwrap();
    let whole = format!("a123456789{}b", "\0".repeat(990));
    assert_eq!(
        [files(&history, true), files(&history, false)].map(|f| f["old"].clone()),
        ["a123456789".to_owned(), whole]
    );
    let lines = history.lines_until(NEVER);
    assert_eq!(
        (lines.0, lines.1),
        (
            vec!["early".to_owned(), "late".to_owned()],
            vec!["begun".to_owned()]
        )
    );
    // The acknowledgement came before the fsync returned.
    assert!(history.lines[0].at < history.ops[0].synced);
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let open = "1 openat(AT_FDCWD, \"old\", O_RDWR) = 3";
    for (line, why) in [
        (
            "1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000",
            "mmap maps old shared",
        ),
        ("1 io_uring_setup(8, {flags=0}) = 5", "io_uring_setup"),
        ("1 io_submit(0x7f0000000000, 1, [{}]) = 1", "io_submit"),
        (
            "1 fallocate(3, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) = 0",
            "FALLOC_FL_COLLAPSE_RANGE",
        ),
        ("1 splice(9, NULL, 3, NULL, 5, 0) = 5", "from a pipe"),
        (
            "1 write(3, \"a\"..., 9) = 9",
            "more data than strace prints",
        ),
        (
            "1 openat(AT_FDCWD, \"unknown\", O_RDONLY) = 4",
            "does not know",
        ),
        (
            "1 rename(\"/elsewhere\", \"new\") = 0",
            "outside of the program's directory",
        ),
    ] {
        let refused = follow(&[open, line]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    for line in [
        "1 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) = 0x7f0000000000",
        "1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE, 3, 0) = 0x7f0000000000",
        "1 rename(\"/elsewhere\", \"/other\") = 0",
    ] {
        follow(&[open, line]).unwrap();
    }
}
