//! Logs for the reading commands.

use crate::common::text;
use logforce::{Guarantee, Log, Lsn, Options};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Size of a segment, bytes.
pub const SEGMENT: u64 = 64 << 10;

/// Divisor for repetitions. Starting a program takes long on Windows, and longer under Wine.
pub const LESS: usize = if cfg!(windows) { 4 } else { 1 };

/// Returns options with small segments that accept any guarantee.
pub fn options() -> Options {
    Options::new()
        .segment_size(SEGMENT)
        .require(Guarantee::ProcessCrash)
}

/// Runs the command on the log in `dir`.
pub fn logforce(dir: &Path, command: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_logforce"))
        .arg(command)
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::null())
        .to_end()
        .unwrap()
}

/// Returns the printed text: standard output, then standard error.
pub fn all_output(out: &Output) -> String {
    text(&out.stdout) + &text(&out.stderr)
}

/// Returns the standard output, parsed as JSON.
pub fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", all_output(out)))
}

/// Creates a log of `count` records `record <n>` with 1000 bytes each, committed one by one.
pub fn filled(path: &Path, count: u64) -> (Log, Vec<Lsn>) {
    let log = logforce::create_new(path, options()).unwrap();
    let starts = (0..count)
        .map(|n| {
            let mut record = format!("record {n} ").into_bytes();
            record.resize(1000, b'.');
            log.commit(&record).unwrap().start
        })
        .collect();
    (log, starts)
}

/// Returns the segments in order.
pub fn segments(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|x| x == "seg"))
        .collect();
    found.sort();
    found
}

/// Flips a bit.
pub fn flip(file: &Path, offset: u64) {
    let mut file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&[byte[0] ^ 4]).unwrap();
}

/// Copies all files of a log, as they are now.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
