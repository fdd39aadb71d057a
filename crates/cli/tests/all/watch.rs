//! `logforce watch`. Nothing here depends on how long a commit takes. The tests end it by signals.

use crate::common::{place, text};
use crate::logs::all_output;
use crate::methods::cached;
use crate::runs::assert_empty;
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Returns the command in `dir`, with commits as often as it permits.
fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command
        .args(["watch", "--method", cached(), "--dir"])
        .arg(dir);
    if !arguments.contains(&"--interval") {
        command.args(["--interval", "0.01"]);
    }
    command
        .args(arguments)
        .current_dir(dir.parent().unwrap())
        .stdin(Stdio::null());
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).to_end().unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    let parsed = |line| serde_json::from_str(line).unwrap();
    text.lines().map(parsed).collect()
}

/// A watch that runs.
struct Running(Child);

impl Running {
    fn start(dir: &Path, arguments: &[&str]) -> Running {
        let mut command = command(dir, arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.start().unwrap())
    }

    /// Reads the first lines, and returns the address of the metrics.
    fn address(&mut self) -> String {
        let mut out = BufReader::new(self.0.stdout.as_mut().unwrap());
        let mut head = String::new();
        while !head.contains("/metrics\n") {
            assert!(
                out.read_line(&mut head).unwrap() > 0,
                "it has ended: {head}"
            );
        }
        let (_, url) = head.split_once("http://").unwrap();
        url.split('/').next().unwrap().to_owned()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it by SIGTERM, and returns what it has printed since.
    fn ended(self) -> Output {
        self.signal(rustix::process::Signal::TERM);
        self.0.wait_with_output().unwrap()
    }
}

/// Waits until `is_so`; fails if the watch has ended.
fn until(running: &mut Running, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        if let Some(ended) = running.0.try_wait().unwrap() {
            let mut said = String::new();
            let errors = running.0.stderr.as_mut().unwrap();
            errors.read_to_string(&mut said).unwrap();
            panic!("it has ended: {ended}: {said}");
        }
        sleep(Duration::from_millis(5));
    }
}

fn scrape(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metric(answer: &str, name: &str) -> f64 {
    let line = answer
        .lines()
        .find(|l| l.split(' ').next() == Some(name))
        .unwrap_or_else(|| panic!("no {name} in {answer}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
const COUNT: &str = "logforce_watch_commit_duration_seconds_count";

#[test]
fn a_signal_ends_it_with_a_summary_and_nothing_is_left() {
    let (dir, results) = (place(), place());
    let watched = dir.path().join("disk");
    fs::create_dir(&watched).unwrap();
    let at = |name: &str| results.path().join(name);
    let (csv, json) = (at("a.csv"), at("a.json"));
    let files = [
        "--csv",
        csv.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ];
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut running = Running::start(&watched, &[&files[..], &["--listen", "0"]].concat());
        let address = running.address();
        until(&mut running, || {
            metric(&scrape(&address, GET), COUNT) >= 5.0
        });
        running.signal(signal);
        let out = running.0.wait_with_output().unwrap();
        let said = all_output(&out);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(
            said.contains("watched for") && said.contains(" commits, p50"),
            "{said}"
        );
        assert_empty(&watched);
    }
    // Both runs are in the files, one after the other.
    let json = lines(&fs::read_to_string(json).unwrap());
    let named = |event: &str| json.iter().filter(|l| l["event"] == event).count();
    assert_eq!((named("start"), named("end"), named("minute")), (2, 2, 2));
    assert_eq!(json[0]["schema"], "logforce-watch");
    let counted =
        |event: &str| json.iter().find(|l| l["event"] == event).unwrap()["commits"].clone();
    assert_eq!(counted("minute"), counted("end"));
    let csv = fs::read_to_string(csv).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[0].starts_with("event,time,seconds,commits,"), "{csv}");
    // A busy machine may add stalls.
    let minutes = rows.iter().filter(|r| r.starts_with("minute,"));
    assert_eq!(minutes.count(), 2, "{csv}");
    let commas = |line: &str| line.matches(',').count();
    assert!(rows.iter().all(|r| commas(r) == commas(rows[0])), "{csv}");
    let documented = include_str!("../../../../docs/cli-json.md");
    let (_, section) = documented.split_once("\n## `logforce watch`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let names = json[..2].iter().flat_map(|l| l.as_object().unwrap().keys());
    for name in names {
        assert!(
            section.contains(&format!("`{name}`")),
            "{name} is not documented"
        );
    }
}

#[test]
fn prometheus_can_read_it_and_a_client_that_hangs_delays_nothing() {
    let dir = place();
    let watched = dir.path().join("a \"disk\"");
    fs::create_dir(&watched).unwrap();
    let mut running = Running::start(&watched, &["--listen", "localhost:0"]);
    let address = running.address();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    // Clients that send nothing, or half a request, as many as there may be.
    let hung: Vec<TcpStream> = (0..6)
        .map(|n| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(&GET.as_bytes()[..n]).unwrap();
            stream
        })
        .collect();
    let before = metric(&scrape(&address, GET), COUNT);
    until(&mut running, || {
        metric(&scrape(&address, GET), COUNT) >= before + 20.0
    });
    let answer = scrape(&address, GET);
    drop(hung);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("Content-Type: text/plain; version=0.0.4"),
        "{answer}"
    );
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body.contains("a \\\"disk\\\"\""), "{body}");
    // Buckets do not fall, and the last one has all commits.
    let buckets: Vec<f64> = body
        .lines()
        .filter(|l| l.starts_with("logforce_watch_commit_duration_seconds_bucket"))
        .map(|l| l.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(buckets.is_sorted() && buckets.len() > 10, "{body}");
    assert_eq!(buckets.last(), Some(&metric(body, COUNT)));
    assert!(metric(body, "logforce_watch_last_commit_timestamp_seconds") > 1.7e9);
    metric(body, "logforce_watch_stalls_total");
    metric(body, "logforce_watch_commit_in_progress_seconds");
    for line in body.lines().filter(|l| !l.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let kind = name.split('{').next().unwrap();
        let kind = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| kind.strip_suffix(end))
            .unwrap_or(kind);
        assert!(body.contains(&format!("# TYPE {kind} ")), "{line}");
    }
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
        ("\r\n\r\n", "405"),
    ] {
        let answer = scrape(&address, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    let head = scrape(&address, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let out = running.ended();
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
}

#[test]
fn a_file_that_was_rotated_is_left_and_a_new_one_begun() {
    let (dir, results) = (place(), place());
    let at = |name: &str| results.path().join(name);
    let (csv, json) = (at("a.csv"), at("a.json"));
    // Every commit counts as a stall, so that each has a line.
    let files = [
        "--csv",
        csv.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ];
    let arguments = [&files[..], &["--stall", "0.000001"]].concat();
    let mut running = Running::start(dir.path(), &arguments);
    let has = |path: &Path, word: &str| fs::read_to_string(path).is_ok_and(|t| t.contains(word));
    until(&mut running, || {
        has(&csv, "stall,") && has(&json, "\"stall\"")
    });
    fs::rename(&csv, at("a.csv.1")).unwrap();
    fs::rename(&json, at("a.json.1")).unwrap();
    until(&mut running, || {
        has(&csv, "stall,") && has(&json, "\"stall\"")
    });
    // The other way: the file is copied and emptied.
    File::options()
        .write(true)
        .open(&csv)
        .unwrap()
        .set_len(0)
        .unwrap();
    until(&mut running, || has(&csv, "stall,"));
    let out = running.ended();
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    for name in ["a.csv", "a.csv.1"] {
        let text = fs::read_to_string(at(name)).unwrap();
        assert!(text.starts_with("event,"), "{name}: {text}");
        assert_eq!(text.matches("event,").count(), 1, "{name}: {text}");
    }
    for name in ["a.json", "a.json.1"] {
        let lines = lines(&fs::read_to_string(at(name)).unwrap());
        assert_eq!(lines[0]["event"], "start", "{name}");
    }
}

#[test]
fn an_output_that_is_blocked_delays_no_commit() {
    let dir = place();
    let mut running = Running::start(
        dir.path(),
        &["--listen", "0", "--stall", "0.000001", "--json", "-"],
    );
    // Data go to standard output, which nothing reads, and text to standard error.
    let mut errors = BufReader::new(running.0.stderr.take().unwrap());
    let mut head = String::new();
    while !head.contains("/metrics\n") {
        assert!(errors.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let address = head.split_once("http://").unwrap().1;
    let address = address.split('/').next().unwrap().to_owned();
    // Neither pipe takes all of these lines.
    let reader = std::thread::spawn(move || errors.read_to_string(&mut head).map(|_| head));
    let count = || metric(&scrape(&address, GET), COUNT);
    let most = 64.0 * 1024.0 / 150.0;
    while count() < most + 200.0 {
        assert!(running.0.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(20));
    }
    running.signal(rustix::process::Signal::TERM);
    // Reading lets it write the rest and end.
    let out = running.0.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    let json = lines(&text(&out.stdout));
    assert_eq!(json.last().unwrap()["event"], "end");
    let said = reader.join().unwrap().unwrap();
    assert!(said.contains("watched for"), "{said}");
}

#[test]
fn unusable_arguments_are_told() {
    let dir = place();
    let other = dir.path().join("other.csv");
    fs::write(&other, "a,b\n").unwrap();
    let before = fs::read_dir(dir.path()).unwrap().count();
    for (arguments, status, why) in [
        (&["--interval", "0.001"][..], 2, "at least 0.01"),
        (&["--size", "2MiB"], 2, "at most 1 MiB"),
        (&["--listen", "0.0.0.0:0"], 2, "--allow-remote"),
        (&["--listen", "host:1"], 2, "give a port"),
        (&["--csv", "-", "--json", "-"], 2, "standard output"),
        (&["--csv", other.to_str().unwrap()], 4, "other columns"),
        (&["--json", "no/such/file"], 4, "create the directory"),
    ] {
        let out = run(dir.path(), arguments);
        let said = all_output(&out);
        assert_eq!(out.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    let missing = run(&dir.path().join("gone"), &[]);
    assert_eq!(missing.status.code(), Some(4), "{}", all_output(&missing));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let out = run(dir.path(), &["--listen", &port]);
    assert_eq!(out.status.code(), Some(4), "{}", all_output(&out));
    assert!(
        all_output(&out).contains("free port"),
        "{}",
        all_output(&out)
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_or_stands_still() {
    use logforce_testkit::loopfs::LoopFs;
    let home = place();
    let made = LoopFs::new("ext4", 16, home.path());
    let fs_ = match made {
        Ok(made) => made,
        Err(skip) => return logforce_testkit::skip!("{skip}"),
    };
    let json = home.path().join("lines.json");
    let arguments = ["--json", json.to_str().unwrap()];
    let mut running = Running::start(fs_.path(), &arguments);
    let is_made = || {
        let made = fs::read_dir(fs_.path()).unwrap().flatten();
        made.filter(|e| e.file_name().to_string_lossy().starts_with("logforce-"))
            .any(|e| {
                e.path()
                    .join("journal-recycled")
                    .metadata()
                    .is_ok_and(|m| m.len() > 0)
            })
    };
    until(&mut running, is_made);
    sleep(Duration::from_millis(300));
    match fs_.freeze() {
        Ok(frozen) => {
            sleep(Duration::from_millis(800));
            drop(frozen);
            let has = || fs::read_to_string(&json).unwrap().contains("\"stall\"");
            until(&mut running, has);
        }
        Err(skip) => logforce_testkit::skip!("{skip}"),
    }
    let out = running.ended();
    assert_eq!(out.status.code(), Some(0), "{}", all_output(&out));
    let left = fs::read_dir(fs_.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name()).collect();
    assert_eq!(left, ["lost+found"]);

    // Full: the watch's file does not fit.
    let mut rest = File::create(fs_.path().join("rest")).unwrap();
    while rest.write_all(&[1; 4096]).is_ok() {}
    let out = run(fs_.path(), &[]);
    let said = all_output(&out);
    assert_eq!(out.status.code(), Some(4), "{said}");
    assert!(said.contains("free space there"), "{said}");
}
