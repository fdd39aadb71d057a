//! `dump`, `verify` and `stat` on directories that hold anything: logs with flipped bits, cut,
//! exchanged and missing files, and headers that were forged under right checksums. They end in
//! bounded memory, with a documented status, and what they write as JSON is JSON.

use crate::common::{place, text};
use logforce::{Guarantee, Options};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Directories that are made. To start a program takes long on Windows.
const CASES: u64 = if cfg!(windows) { 10 } else { 100 };
/// A command that takes longer hangs.
const HANGS: Duration = Duration::from_secs(120);

/// Numbers that are always the same (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(dir: &Path) -> Files {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    entries
        .map(|e| {
            let name = e.file_name().into_string().unwrap();
            (name, fs::read(e.path()).unwrap())
        })
        .collect()
}

/// What has a checksum in this file: where it begins, and how long it is.
fn sealed(name: &str, bytes: &[u8], numbers: &mut Numbers) -> (usize, usize) {
    let pages = bytes.len() / 4096;
    match name {
        "control" => (numbers.one(&[0, 65_536, 131_072, 196_608]), 4096),
        "live" => (0, 4096),
        // The header of the segment or of a batch.
        _ => (4096 * numbers.below(pages.min(20)), 128),
    }
}

/// Puts something else into eight bytes of a structure, and makes its checksum right. What the
/// checksum does not catch must be caught by the checks behind it.
fn forge(name: &str, bytes: &mut [u8], numbers: &mut Numbers) {
    let (at, len) = sealed(name, bytes, numbers);
    let Some(of) = bytes.get_mut(at..at + len) else {
        return;
    };
    let word = 16 + 8 * numbers.below(16);
    let word = word.min(len - 8);
    let old = u64::from_le_bytes(of[word..word + 8].try_into().unwrap());
    let any = numbers.next();
    let new = numbers.one(&[
        0,
        1,
        u64::MAX,
        u64::MAX - 3,
        1 << 63,
        u64::from(u32::MAX),
        old.wrapping_add(8),
        old.wrapping_add(4096),
        old.wrapping_sub(512),
        old ^ 1 << (any % 64),
        any,
    ]);
    of[word..word + 8].copy_from_slice(&new.to_le_bytes());
    of[8..12].fill(0);
    let crc = crc32c::crc32c(of);
    of[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Does something to the files; says what.
fn mutate(files: &mut Files, numbers: &mut Numbers) -> String {
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return "nothing is left".to_owned();
    }
    let name = names[numbers.below(names.len())].clone();
    let other = names[numbers.below(names.len())].clone();
    let bytes = files.get_mut(&name).unwrap();
    let at = numbers.below(bytes.len());
    match numbers.below(12) {
        0 if !bytes.is_empty() => {
            bytes[at] ^= 1 << numbers.below(8);
            format!("{name}: a bit at {at}")
        }
        1 if !bytes.is_empty() => {
            let (at, len) = sealed(&name, bytes, numbers);
            let at = (at + numbers.below(len)).min(bytes.len() - 1);
            bytes[at] ^= 1 << numbers.below(8);
            format!("{name}: a bit of a header at {at}")
        }
        2 => {
            let from = at / 512 * 512;
            let to = (from + 4096).min(bytes.len());
            let fill = numbers.one(&[0, 0xff]);
            bytes[from..to].fill(fill);
            format!("{name}: {fill:#x} from {from}")
        }
        3 => {
            bytes.truncate(at);
            format!("{name}: cut at {at}")
        }
        4 => {
            files.remove(&name);
            format!("{name}: removed")
        }
        5 => {
            let a = files[&name].clone();
            let b = files.insert(other.clone(), a).unwrap();
            files.insert(name.clone(), b);
            format!("{name} and {other} exchanged")
        }
        6 => {
            let copy = numbers.one(&[
                "00000000000000ff.seg",
                "zz.seg",
                "x.spare",
                "control",
                "live",
            ]);
            let bytes = bytes.clone();
            files.insert(copy.to_owned(), bytes);
            format!("{name}: copied to {copy}")
        }
        7 => {
            let len = numbers.below(9000);
            bytes.clear();
            bytes.extend((0..len).map(|_| numbers.next() as u8));
            format!("{name}: {len} bytes of anything")
        }
        _ => {
            forge(&name, bytes, numbers);
            format!("{name}: forged")
        }
    }
}

#[cfg(target_os = "linux")]
fn limited(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1048576; exec \"$@\"", "sh", program]);
    command
}

#[cfg(not(target_os = "linux"))]
fn limited(program: &str) -> Command {
    Command::new(program)
}

/// The command on the log in `dir`, with 1 GiB of memory at most where there is such a limit.
fn bounded(dir: &Path, words: &[&str], what: &str) -> Output {
    let out = |name: &str| dir.with_extension(name);
    let [stdout, stderr] = ["out", "err"].map(|n| fs::File::create(out(n)).unwrap());
    let mut child = limited(env!("CARGO_BIN_EXE_logforce"))
        .arg(words[0])
        .arg(dir)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .start()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{words:?} hangs: {what}");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let [stdout, stderr] = ["out", "err"].map(|n| fs::read(out(n)).unwrap());
    Output {
        status,
        stdout,
        stderr,
    }
}

/// Checks what a command answered; true if it found the log whole.
fn check(words: &[&str], out: &Output, what: &str) -> bool {
    let stderr = text(&out.stderr);
    let what = format!("{words:?}: {}: {what}\n{stderr}", out.status);
    // No code: a signal, as after an allocation that failed.
    let code = out.status.code();
    assert!(matches!(code, Some(0 | 1)), "{what}");
    assert!(!stderr.contains("panicked"), "{what}");
    let well = code == Some(0);
    assert!(well || !stderr.is_empty(), "silent: {what}");
    if !words.contains(&"--json") {
        return well;
    }
    if out.stdout.is_empty() {
        assert!(
            stderr.contains("error: "),
            "neither report nor error: {what}"
        );
        return false;
    }
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {what}\n{}", text(&out.stdout)));
    assert_eq!(report["schema"], format!("logforce-{}", words[0]));
    match words[0] {
        "verify" => assert_eq!(report["healthy"], well, "{what}"),
        "dump" => assert_eq!(report["damages"] == 0, well, "{what}"),
        _ => {}
    }
    well
}

#[test]
fn whatever_a_directory_holds_the_commands_end_well() {
    const COMMANDS: &[&[&str]] = &[
        &["verify", "--json", "-"],
        &["dump", "--json", "-", "--data", "hex"],
        &["dump", "--json", "-", "--salvage", "--data", "none"],
        &["stat", "--json", "-"],
        &["stat", "--scan"],
        &["dump", "--raw", "8192"],
    ];
    let place = place();
    let path = |name: &str| -> PathBuf { place.path().join(name) };
    let options = Options::new()
        .segment_size(64 << 10)
        .require(Guarantee::ProcessCrash);
    let log = logforce::create_new(path("log"), options).unwrap();
    for n in 0..40_u8 {
        log.commit(&[n; 1000]).unwrap();
    }
    log.set_meta(b"whatever").unwrap();
    // As after a crash, and closed in order.
    let crashed = files(&path("log"));
    log.close().unwrap();
    let bases = [crashed, files(&path("log"))];
    for base in &bases {
        assert!(base.keys().filter(|n| n.ends_with(".seg")).count() >= 3);
    }
    let dir = path("case");
    let (mut well, mut ill) = (0, 0);
    for case in 0..CASES {
        let mut numbers = Numbers(case);
        let mut files = bases[numbers.below(2)].clone();
        let count = 1 + numbers.below(4);
        let done: Vec<String> = (0..count)
            .map(|_| mutate(&mut files, &mut numbers))
            .collect();
        let what = format!("case {case}: {}", done.join("; "));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        for (name, bytes) in &files {
            fs::write(dir.join(name), bytes).unwrap();
        }
        for words in COMMANDS {
            let out = bounded(&dir, words, &what);
            match check(words, &out, &what) {
                true => well += 1,
                false => ill += 1,
            }
        }
        assert_eq!(self::files(&dir), files, "it changed something: {what}");
    }
    // Both happen, so both are tested.
    assert!(well > CASES && ill > CASES, "{well} well, {ill} not");
}
