//! `logforce archive` with stores, archives, directories and arguments that cannot be used.

use crate::archive::{archive, command, done, files, home};
use crate::common::{place, text};
use crate::logs::{all_output, filled};
use logforce_archive_testserver::{BUCKET, Options, Server};
use logforce_testkit::process::Start;
use std::fs;
use std::path::Path;
use std::process::Output;

/// Runs `logforce archive` against a server.
fn with(server: &Server, dir: &Path, arguments: &[&str]) -> Output {
    let mut command = command(dir, arguments);
    command.envs(server.environment()).to_end().unwrap()
}

/// Checks that the command has failed with this status and words.
fn assert_refused(out: &Output, status: i32, words: &[&str]) {
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(status), "{}", all_output(out));
    for words in words {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// Changes bytes of an object's header, and makes its checksum fit.
fn forge(object: &mut [u8], at: usize, bytes: &[u8]) {
    object[at..at + bytes.len()].copy_from_slice(bytes);
    object[8..12].fill(0);
    let checksum = crc32c::crc32c(&object[..160]);
    object[8..12].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn stores_that_cannot_be_used() {
    let (home, _) = home(5);
    let dir = home.path();
    let server = Server::start(Options::default()).unwrap();
    let url = format!("s3://{BUCKET}/sales");
    let run = ["run", "log", &url, "--once"];
    let out = with(&server, dir, &["run", "log", "s3://nosuch/sales", "--once"]);
    assert_refused(
        &out,
        4,
        &["NoSuchBucket", "create the bucket, or correct its name"],
    );
    server.refuse(Some((403, "AccessDenied")));
    assert_refused(
        &with(&server, dir, &run),
        4,
        &[
            "cannot create",
            "AccessDenied",
            "give these credentials the rights to list, read, create",
        ],
    );
    server.refuse(None);
    assert_refused(
        &with(&server, dir, &["list", &url]),
        4,
        &["no archive at this address"],
    );
    assert_eq!(
        server.with_objects(|objects| objects.len()),
        0,
        "nothing is left"
    );
    let out = with(&server, dir, &run);
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    // The address is also an option.
    let mut by_option = command(dir, &["list", &url, "--endpoint", &server.endpoint()]);
    by_option
        .envs(server.environment())
        .env("AWS_ENDPOINT", "http://127.0.0.1:1");
    let out = by_option.to_end().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));

    let mut unencrypted = command(dir, &["list", &url]);
    unencrypted
        .envs(server.environment())
        .env_remove("AWS_ALLOW_HTTP");
    let words = ["begins with http://", "set AWS_ALLOW_HTTP=true"];
    assert_refused(&unencrypted.to_end().unwrap(), 4, &words);

    let careless = Server::start(Options {
        has_conditional_create: false,
        ..Options::default()
    });
    let careless = careless.unwrap();
    let out = with(&careless, dir, &run);
    let words = [
        "replaces an object that it was asked to create",
        "use a store with conditional puts",
    ];
    assert_refused(&out, 4, &words);
    assert_eq!(
        careless.with_objects(|objects| objects.len()),
        0,
        "nothing is left"
    );
}

#[test]
fn archives_of_another_log_and_of_a_newer_format() {
    let (home, _) = home(5);
    let dir = home.path();
    let server = Server::start(Options::default()).unwrap();
    let url = format!("s3://{BUCKET}/sales");
    let out = with(&server, dir, &["run", "log", &url, "--once"]);
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let (other, _) = filled(&dir.join("other"), 3);
    other.close().unwrap();
    let out = with(&server, dir, &["run", "other", &url, "--once"]);
    assert_refused(
        &out,
        4,
        &["the archive belongs to log", "use an address for each log"],
    );
    assert!(!dir.join("other/hold").exists());
    let out = with(&server, dir, &["list", &url, "--log", "other"]);
    assert_refused(
        &out,
        4,
        &[
            "the archive belongs to log",
            "name the directory of that log",
        ],
    );

    server.with_objects(|objects| {
        let identity = objects.get_mut("sales/archive").unwrap();
        forge(&mut std::sync::Arc::make_mut(identity)[..], 6, &[2, 0]);
    });
    for arguments in [
        &["run", "log", &url, "--once"][..],
        &["list", &url],
        &["verify", &url],
        &["restore", &url, "to"],
        &["prune", &url, "--older-than", "1d"],
        &["mark", &url, "m"],
        &["takeover", &url, "to", "--owner", "b"],
    ] {
        let words = ["has format version 2", "use the newer Logforce"];
        assert_refused(&with(&server, dir, arguments), 4, &words);
    }
    assert!(!dir.join("to").exists());
    // A file of another program.
    server.with_objects(|objects| {
        objects.insert("sales/archive".to_owned(), b"#!/bin/sh".to_vec().into())
    });
    assert_refused(
        &with(&server, dir, &["list", &url]),
        4,
        &["some other program wrote it"],
    );
}

#[test]
fn directories_that_cannot_be_used() {
    let (home, _) = home(5);
    let dir = home.path();
    done(dir, &["run", "log", "bucket", "--once"]);
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join("full/mine"), "x").unwrap();
    let accept = ["--require", "process-crash"];
    let restore = |to: &str| archive(dir, &[&["restore", "bucket", to], &accept[..]].concat());
    assert_refused(
        &restore("full"),
        4,
        &["it is not empty: choose a directory that is missing or empty"],
    );
    assert_refused(&restore("log"), 4, &["not empty"]);
    let takeover = ["takeover", "bucket", "full", "--owner", "b"];
    assert_refused(
        &archive(dir, &[&takeover, &accept[..]].concat()),
        4,
        &["not empty"],
    );
    assert_eq!(fs::read_dir(dir.join("full")).unwrap().count(), 1);
    // The refused takeover has cost the owner nothing.
    done(dir, &["run", "log", "bucket", "--once"]);
    assert_refused(
        &archive(dir, &["run", "nosuch", "bucket", "--once"]),
        4,
        &["nosuch", "does not exist"],
    );
    for command in ["list", "verify"] {
        assert_refused(&archive(dir, &[command, "nosuch"]), 4, &["nosuch"]);
        assert!(!dir.join("nosuch").exists());
    }
    fs::write(dir.join("file"), "x").unwrap();
    assert_refused(&archive(dir, &["list", "file"]), 4, &["file"]);
    fs::create_dir(dir.join("empty")).unwrap();
    assert_refused(
        &archive(dir, &["list", "empty"]),
        4,
        &["no archive at this address"],
    );
}

/// A part that was dropped before it was archived cannot be archived later.
#[test]
fn a_log_that_has_gone_on_without_its_archive() {
    let (home, _) = home(50);
    let dir = home.path();
    done(dir, &["run", "log", "bucket", "--once"]);
    done(dir, &["run", "log", "--release"]);
    let log = logforce::open_existing(dir.join("log"), crate::logs::options()).unwrap();
    for _ in 0..300 {
        let at = log.commit([7; 1000]).unwrap();
        log.truncate_front(at.start).unwrap();
    }
    log.close().unwrap();
    let out = archive(dir, &["run", "log", "bucket", "--once"]);
    assert_refused(&out, 4, &["egin an archive at another"]);
}

/// A log has one hold. A second archive that takes it makes the first one lose a part of the log.
#[test]
fn a_second_archive_of_one_log() {
    let (home, _) = home(50);
    let dir = home.path();
    fs::create_dir(dir.join("second")).unwrap();
    done(dir, &["run", "log", "bucket", "--once"]);
    let out = archive(dir, &["run", "log", "second", "--once"]);
    assert_refused(&out, 4, &["is held for another archive", "--release"]);
    assert!(!dir.join("second/archive").exists());
    let log = logforce::open_existing(dir.join("log"), crate::logs::options()).unwrap();
    for _ in 0..300 {
        let at = log.commit([7; 1000]).unwrap();
        log.truncate_front(at.start).unwrap();
    }
    log.close().unwrap();
    done(dir, &["run", "log", "bucket", "--once"]);
    done(dir, &["run", "log", "--release"]);
    done(dir, &["run", "log", "second", "--once"]);
    let out = archive(dir, &["run", "log", "bucket", "--once"]);
    assert_refused(&out, 4, &["is held for another archive"]);
}

#[test]
fn arguments_that_cannot_be_used() {
    let (home, _) = home(1);
    let dir = home.path();
    let long = "b".repeat(3000);
    let too_long = "has 3000 bytes, and an archive stores at most 1024";
    fs::create_dir(dir.join("made")).unwrap();
    let before = files(dir);
    for (arguments, words) in [
        (
            &["restore", "bucket", "to", "--to", "yesterday"][..],
            "or mark:NAME",
        ),
        (&["restore", "bucket", "to", "--to", "-1"], "or mark:NAME"),
        (
            &["restore", "bucket", "to", "--to", "2096-01-01T00:00:00Z"],
            "is in the future",
        ),
        (
            &["restore", "bucket", "to", "--to", "7", "--follow"],
            "cannot be used with",
        ),
        (
            &["restore", "bucket", "to", "--require", "luck"],
            "unknown guarantee 'luck'",
        ),
        (&["verify", "bucket", "--sample", "0.1"], "such as 10%"),
        (&["verify", "bucket", "--sample", "101%"], "such as 10%"),
        (&["prune", "bucket", "--older-than", "30"], "2h or 30d"),
        (&["prune", "bucket"], "--older-than"),
        (&["mark", "bucket", "m", "--lsn", "x"], "'x' is not an LSN"),
        (&["takeover", "bucket", "to"], "--owner"),
        (&["run", "log"], "<URL>"),
        (&["run", "log", "bucket", "--limit", "1GiB"], "--at-limit"),
        (
            &[
                "run",
                "log",
                "bucket",
                "--limit",
                "1GiB",
                "--at-limit",
                "wait",
            ],
            "drop, refuse",
        ),
        (&["run", "log", "bucket", "--window", "0"], "from 1 to 256"),
        (
            &["run", "log", "bucket", "--chunk-size", "1KiB"],
            "from 64 KiB to 64 MiB",
        ),
        (
            &["run", "log", "bucket", "--segment-size", "1GiB"],
            "from 1 MiB to 128 MiB",
        ),
        (&["run", "log", "bucket", "--owner", &long], too_long),
        (&["takeover", "bucket", "to", "--owner", &long], too_long),
        (
            &["run", "log", "bucket", "--delay", "soon"],
            "is not a duration",
        ),
        (
            &["run", "log", "bucket", "--release", "--once"],
            "cannot be used with",
        ),
        (
            &["run", "log", "bucket", "--listen", "0.0.0.0:0"],
            "--allow-remote",
        ),
        (&["list", "ftp://host/x"], "s3://bucket/prefix"),
        (&["run", "log", "s3:///x"], "it names no bucket"),
        (&["mark", "made", "a/b"], "cannot be the name of a mark"),
        (&["nosuch"], "Available commands: run, base, restore, list"),
    ] {
        assert_refused(&archive(dir, arguments), 2, &[words]);
    }
    assert_eq!(files(dir), before);
}

/// A clock that was not set makes times of chunks that a restore to a time cannot use.
#[test]
fn a_clock_in_1970() {
    let (home, _) = home(5);
    let dir = home.path();
    done(dir, &["run", "log", "bucket", "--once"]);
    let right = done(dir, &["list", "bucket"]);
    assert!(!right.contains("note:"), "{right}");
    let set_times = |time: u64| {
        for path in files(&dir.join("bucket/e")) {
            let mut object = fs::read(&path).unwrap();
            forge(&mut object, 88, &time.to_le_bytes());
            fs::write(&path, object).unwrap();
        }
    };
    let accept = ["--require", "process-crash"];
    for (time, words) in [
        (
            60_000_000_000,
            "1970-01-01T00:01:00Z: the clock of the machine that writes the archive is not set",
        ),
        (4_000_000_000_000_000_000, "one of the two clocks is wrong"),
    ] {
        set_times(time);
        let said = done(dir, &["list", "bucket"]);
        assert!(
            said.contains(words) && said.contains("restore to an LSN or a mark"),
            "{said}"
        );
        let out = archive(dir, &["prune", "bucket", "--older-than", "1d"]);
        assert_refused(&out, 4, &["cannot prune by age", words]);
        let to = time.to_string();
        let out = archive(
            dir,
            &[&["restore", "bucket", &to, "--to", "0s ago"], &accept[..]].concat(),
        );
        assert!(text(&out.stderr).contains(words), "{}", all_output(&out));
        // Positions do not depend on clocks.
        done(
            dir,
            &[&["restore", "bucket", &format!("all{to}")], &accept[..]].concat(),
        );
    }
}

/// Nothing is left on a disk that is full, and the advice is for the user of the command.
#[cfg(target_os = "linux")]
#[test]
fn onto_a_full_disk() {
    let home = place();
    let dir = home.path();
    fs::create_dir(dir.join("bucket")).unwrap();
    let disk = match logforce_testkit::loopfs::LoopFs::new("ext4", 8, dir) {
        Ok(disk) => disk,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let log = logforce::create_new(
        dir.join("log"),
        crate::logs::options().segment_size(1 << 20),
    );
    let log = log.unwrap();
    for n in 0..5_000_u32 {
        log.append(n.to_le_bytes().repeat(600)).unwrap();
    }
    log.close().unwrap();
    done(dir, &["run", "log", "bucket", "--once"]);
    let to = disk.path().join("new").display().to_string();
    let before = files(disk.path());
    let accept = ["--require", "process-crash"];
    for arguments in [
        &["restore", "bucket", &to][..],
        &["takeover", "bucket", &to, "--owner", "b"],
    ] {
        let out = archive(dir, &[arguments, &accept].concat());
        let words = [
            "Free space there, or name a directory on another filesystem",
            "os error 28",
        ];
        assert_refused(&out, 4, &words);
        assert!(
            !text(&out.stderr).contains("truncate_front"),
            "{}",
            all_output(&out)
        );
    }
    assert!(files(disk.path()) == before, "{:?}", files(disk.path()));
    // The owner still owns the archive.
    done(dir, &["run", "log", "bucket", "--once"]);
}

/// Sizes of the objects, by options of `run`.
#[test]
fn sizes_of_chunks_and_segments() {
    let home = place();
    let dir = home.path();
    let log = logforce::create_new(dir.join("log"), crate::logs::options()).unwrap();
    for n in 0..40 {
        log.commit(vec![n; 60_000]).unwrap();
    }
    log.close().unwrap();
    for (arguments, chunks, has_segments) in [
        (&[][..], 1..5, false),
        (&["--chunk-size", "64KiB"], 20..200, false),
        (&["--segment-size", "1MiB"], 1..5, true),
    ] {
        fs::create_dir(dir.join("bucket")).unwrap();
        done(
            dir,
            &[&["run", "log", "bucket", "--once"], arguments].concat(),
        );
        let made = files(&dir.join("bucket/e")).len();
        assert!(chunks.contains(&made), "{arguments:?}: {made} chunks");
        let segments = files(&dir.join("bucket/s")).len();
        assert_eq!(segments > 0, has_segments, "{arguments:?}");
        done(dir, &["run", "log", "--release"]);
        fs::remove_dir_all(dir.join("bucket")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_directory_whose_path_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let (home, _) = home(1);
    let url = std::ffi::OsStr::from_bytes(b"buck\xff");
    for arguments in [&["list"][..], &["run", "log"]] {
        let out = command(home.path(), arguments).arg(url).to_end().unwrap();
        assert_refused(&out, 2, &["is not UTF-8", "name a symbolic link"]);
    }
}
