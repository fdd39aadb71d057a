//! `tools/decoder/decode.py` reads logs by `docs/format.md` alone. Its output must equal that of
//! `logforce dump`, for whole logs, logs after crashes, and mutated logs.

mod changed;
mod made;

use crate::common::{place, text};
use crate::logs::logforce;
use crate::mutants::{Numbers, files, lay_out, mutate};
use changed::{aimed, one_by_one, stale};
use logforce::Error;
use logforce_testkit::process::Start;
use made::{golden, made};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Number of mutated logs.
const MUTANTS: u64 = 150;

/// The decoder, which answers for one directory at a time.
struct Decoder {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Decoder {
    /// Starts the decoder. Returns `None` if there is no Python.
    fn start() -> Option<Decoder> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/decoder/decode.py");
        let started = Command::new("python3")
            .arg("-B")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .start();
        let mut child = match started {
            Ok(child) => child,
            Err(e) => {
                logforce_testkit::skip!("python3: {e}");
                return None;
            }
        };
        Some(Decoder {
            questions: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        })
    }

    fn ask(&mut self, dir: &Path, mode: Mode) -> Value {
        let questions = self.questions.as_mut().unwrap();
        let flag = match mode {
            Mode::Strict => "",
            Mode::Salvage => "--salvage ",
        };
        writeln!(questions, "{flag}{}", dir.display()).unwrap();
        questions.flush().unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("an answer of the decoder")
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // The decoder ends at the end of its input.
        self.questions = None;
        self.child.wait().unwrap();
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Strict,
    Salvage,
}

/// Returns the output of `logforce dump` in the decoder's form.
fn dumped(dir: &Path, mode: Mode) -> Value {
    let mut arguments = vec!["--json", "-", "--data", "hex"];
    if mode == Mode::Salvage {
        arguments.push("--salvage");
    }
    let out = logforce(dir, "dump", &arguments);
    if out.stdout.is_empty() {
        return refused(dir, mode, &text(&out.stderr));
    }
    let dump: Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut entries: Vec<Value> = dump["entries"].as_array().unwrap().clone();
    for entry in &mut entries {
        for field in ["file", "offset", "found", "durable_to"] {
            entry.as_object_mut().unwrap().remove(field);
        }
    }
    let mut log = dump["log"].clone();
    for field in ["path", "in_use", "bytes", "segments", "spares", "strays"] {
        log.as_object_mut().unwrap().remove(field);
    }
    json!({ "log": log, "entries": entries, "end": dump["end"], "case": dump["case"] })
}

/// Returns the reason for which nothing is read.
fn refused(dir: &Path, mode: Mode, said: &str) -> Value {
    let opened = match mode {
        Mode::Strict => logforce::inspect::open(dir),
        Mode::Salvage => logforce::inspect::salvage(dir),
    };
    let error = opened.err().unwrap_or_else(|| panic!("dump alone: {said}"));
    let (word, damage) = match &error {
        Error::NoLog { .. } => ("no-log", None),
        Error::NotALog { .. } => ("not-a-log", None),
        Error::NewerFormat { .. } => ("newer", None),
        Error::Damaged(damage) => ("damaged", Some(damage)),
        other => panic!("{other}"),
    };
    json!({
        "error": word,
        "lsn": damage.map(|d| d.lsn.0),
        "case": damage.map(|d| d.case.label()),
    })
}

/// Number of times that each outcome was seen.
#[derive(Default)]
struct Seen(BTreeMap<String, u64>);

impl Seen {
    fn note(&mut self, answer: &Value) {
        let mut count = |what: String| *self.0.entry(what).or_default() += 1;
        if let Some(error) = answer["error"].as_str() {
            return count(format!("refused: {error}"));
        }
        count(format!("end: {}", answer["case"].as_str().unwrap()));
        for entry in answer["entries"].as_array().unwrap() {
            let what = entry["what"].as_str().unwrap();
            count(match what {
                "damage" => format!("damage: {}", entry["case"].as_str().unwrap()),
                _ => what.to_owned(),
            });
            if entry["void_from"].is_number() {
                count("void range".to_owned());
            }
        }
    }

    fn at_least(&self, least: &[(&str, u64)]) {
        for (what, least) in least {
            let seen = self.0.get(*what).copied().unwrap_or(0);
            assert!(seen >= *least, "{what}: {seen} times in {:#?}", self.0);
        }
    }
}

/// Checks that both give the same output for the log in `dir`.
fn compare(decoder: &mut Decoder, dir: &Path, mode: Mode, seen: &mut Seen, what: &str) {
    let mut decoded = decoder.ask(dir, mode);
    let proven_to = decoded["proven_to"].clone();
    if let Some(fields) = decoded.as_object_mut() {
        fields.remove("void");
        fields.remove("proven_to");
    }
    let dumped = dumped(dir, mode);
    if decoded != dumped {
        let kept = place().keep();
        lay_out(&files(dir), &kept.join("log"));
        let (a, b) = first_difference(&decoded, &dumped);
        panic!(
            "{mode:?}: {what}\nby the page: {a}\nby the program: {b}\nkept in {}",
            kept.display()
        );
    }
    seen.note(&decoded);
    if mode == Mode::Strict && decoded["error"].is_null() {
        // Calls the library, because the command would be one more process for each log.
        let finding = logforce::inspect::open(dir)
            .unwrap()
            .walk(&mut |_| true)
            .unwrap();
        assert_eq!(proven_to, finding.proven_to.0, "{what}");
    }
}

/// Returns only the first difference of the two.
fn first_difference(a: &Value, b: &Value) -> (String, String) {
    if let (Value::Object(x), Value::Object(y)) = (a, b) {
        let parted = x.iter().find(|(k, v)| y.get(*k) != Some(v));
        if let Some((key, value)) = parted
            && let Some(other) = y.get(key)
        {
            let (a, b) = first_difference(value, other);
            return (format!("{key}: {a}"), format!("{key}: {b}"));
        }
    }
    if let (Value::Array(x), Value::Array(y)) = (a, b) {
        let at = x.iter().zip(y).take_while(|(x, y)| x == y).count();
        let shown = |of: &[Value]| {
            let next = of.get(at).map_or("nothing".to_owned(), Value::to_string);
            format!("[{at}] {next:.300}")
        };
        return (shown(x), shown(y));
    }
    (format!("{a:.600}"), format!("{b:.600}"))
}

#[test]
fn a_decoder_written_from_the_page_agrees() {
    let Some(mut decoder) = Decoder::start() else {
        return;
    };
    let made = made();
    let dir = made.path("case");
    let mut whole = Seen::default();
    for (name, files) in golden().iter().chain(&made.all) {
        lay_out(files, &dir);
        compare(&mut decoder, &dir, Mode::Strict, &mut whole, name);
    }
    let (mut strict, mut salvaged) = (Seen::default(), Seen::default());
    for (what, files) in one_by_one(&made) {
        lay_out(&files, &dir);
        compare(&mut decoder, &dir, Mode::Strict, &mut strict, &what);
    }
    for seed in 0..MUTANTS {
        let mut numbers = Numbers(seed);
        let (name, base) = numbers.pick(&made.all);
        let mut files = base.clone();
        let count = 1 + numbers.below(3);
        let done: Vec<String> = (0..count)
            .map(|_| match numbers.below(6) {
                0 => stale(&mut files, name, &made.all, &mut numbers),
                1..4 => aimed(&mut files, &mut numbers),
                _ => mutate(&mut files, &mut numbers),
            })
            .collect();
        let what = format!("mutant {seed} of {name}: {}", done.join("; "));
        lay_out(&files, &dir);
        compare(&mut decoder, &dir, Mode::Strict, &mut strict, &what);
        if seed % 5 == 0 && files.remove("control").is_some() {
            fs::remove_file(dir.join("control")).unwrap();
        }
        if seed % 5 < 2 {
            compare(&mut decoder, &dir, Mode::Salvage, &mut salvaged, &what);
        }
    }
    if !made.is_stamped {
        logforce_testkit::skip!("how much was seen: nothing survives a loss of power here");
        return;
    }
    whole.at_least(&[
        ("record", 400),
        ("void range", 30),
        ("damage: damaged", 2),
        ("end: clean-end", 10),
    ]);
    strict.at_least(&[
        ("part", 3),
        ("void range", 100),
        ("damage: damaged", 50),
        ("damage: written-wrong", 10),
        ("damage: segment-lost", 20),
        ("end: clean-end", 50),
        ("end: stale-end", 10),
        ("end: torn-end", 10),
        ("refused: not-a-log", 2),
    ]);
    salvaged.at_least(&[
        ("record", 500),
        ("damage: damaged", 20),
        ("damage: segment-lost", 5),
    ]);
}
