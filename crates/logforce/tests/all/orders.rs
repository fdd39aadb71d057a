//! The example `orders`: concurrent clients, kills, orderly ends, a failing log, and misbehaving clients.

use crate::common::examples::{program, too_weak};
use crate::common::*;
use logforce::Options;
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 8;
/// Maximum time for an answer, even if all tests run at once under Wine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval at which a client checks if the service was killed.
const LOOK: Duration = Duration::from_secs(1);

/// Address of a service.
#[derive(Default)]
struct Address {
    at: String,
    /// True if the service was killed. Wine's server sometimes keeps the connection of a killed program, so
    /// that the other end would wait for ever.
    is_killed: AtomicBool,
}

struct Service {
    child: Killed,
    out: BufReader<ChildStdout>,
    err: ChildStderr,
    /// Number of orders at the start.
    found: u64,
    address: Arc<Address>,
}

impl Service {
    fn start(dir: &Path) -> Service {
        let mut child = Command::new(program("orders"));
        child.arg(dir).arg("0").stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::piped()).start().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut service = Service {
            out,
            err: child.stderr.take().unwrap(),
            child: Killed(child),
            found: 0,
            address: Arc::default(),
        };
        let found = service.line();
        let words: Vec<&str> = found.split(' ').collect();
        let ["found", found, _] = words[..] else {
            panic!("{found:?}");
        };
        service.found = found.parse().unwrap();
        let listens = service.line();
        let at = listens.strip_prefix("listening on ").unwrap().to_owned();
        service.address = Arc::new(Address {
            at,
            ..Address::default()
        });
        service
    }

    /// Returns the next line that the service prints, or its error output if there is none.
    fn line(&mut self) -> String {
        let mut line = String::new();
        if self.out.read_line(&mut line).unwrap() == 0 {
            self.err.read_to_string(&mut line).unwrap();
        }
        line.trim_end().to_owned()
    }

    fn client(&self) -> Client {
        Client::connect(&self.address).unwrap()
    }

    fn kill(&mut self) {
        self.child.kill();
        self.address.is_killed.store(true, SeqCst);
    }

    /// Waits for the end of the service. Returns true if it reports success, and its last output.
    #[cfg(unix)]
    fn end(mut self) -> (bool, String) {
        let began = Instant::now();
        while self.child.0.try_wait().unwrap().is_none() {
            assert!(began.elapsed().as_secs() < 60, "the service does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let last = self.line();
        (self.child.0.wait().unwrap().success(), last)
    }

    #[cfg(unix)]
    fn terminate(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child.0), Signal::TERM).unwrap();
    }
}

struct Client {
    stream: BufReader<TcpStream>,
    address: Arc<Address>,
}

impl Client {
    fn connect(address: &Arc<Address>) -> std::io::Result<Client> {
        let stream = TcpStream::connect(&address.at)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Client {
            stream: BufReader::new(stream),
            address: address.clone(),
        })
    }

    fn send(&self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_ref().write_all(bytes)
    }

    /// Returns the answer, or `None` if the service has ended. Ignores an incomplete answer.
    fn answer(&mut self) -> Option<String> {
        let began = Instant::now();
        let mut answer = Vec::new();
        while let Err(e) = self.stream.read_until(b'\n', &mut answer) {
            if !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                return None;
            }
            if cfg!(windows) && self.address.is_killed.load(SeqCst) {
                return None;
            }
            let waited = began.elapsed();
            assert!(waited < PATIENCE, "the service neither answers nor ends");
        }
        let answer = answer.strip_suffix(b"\n")?;
        Some(String::from_utf8(answer.to_vec()).unwrap())
    }

    fn ask(&mut self, line: &str) -> Option<String> {
        self.send(format!("{line}\n").as_bytes()).ok()?;
        self.answer()
    }
}

/// Orders that were confirmed to the clients, by number.
type Accepted = Mutex<BTreeMap<u64, String>>;

/// Sends orders from several clients until the service has ended or does not accept an order. Calls `after`
/// with the number of accepted orders. Returns the other answers.
fn order_until_gone(
    address: &Arc<Address>,
    clients: u64,
    round: u64,
    accepted: &Accepted,
    after: impl Fn(u64) + Sync,
) -> Vec<String> {
    let count = AtomicU64::new(0);
    let others = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for c in 0..clients {
            let (count, others, after) = (&count, &others, &after);
            scope.spawn(move || {
                let Ok(mut client) = Client::connect(address) else {
                    return;
                };
                for n in 0.. {
                    let order = format!("item-{round}-{c}-{n} {}", 1 + n % 7);
                    let Some(answer) = client.ask(&format!("order {order}")) else {
                        break;
                    };
                    let Some(id) = answer.strip_prefix("accepted ") else {
                        others.lock().unwrap().push(answer);
                        break;
                    };
                    let id = id.parse().unwrap();
                    let before = accepted.lock().unwrap().insert(id, order.clone());
                    assert_eq!(before, None, "number {id} twice");
                    // A client can read an order that was confirmed to it.
                    if n % 16 == 0
                        && let Some(found) = client.ask(&format!("get {id}"))
                    {
                        assert_eq!(found, format!("order {id} {order}"));
                    }
                    after(count.fetch_add(1, Relaxed) + 1);
                }
            });
        }
    });
    others.into_inner().unwrap()
}

/// Reads the orders in the log with the library. Checks that they are numbered without gaps, and include all
/// confirmed orders. Returns their number.
#[track_caller]
fn check(dir: &Path, accepted: &Accepted, is_clean: bool) -> u64 {
    let log = logforce::open_existing(dir, Options::new().segment_size(4 << 20)).unwrap();
    assert_eq!(log.recovered().clean, is_clean);
    let records = read_all(&log);
    log.close().unwrap();
    let accepted = accepted.lock().unwrap();
    let mut items = BTreeSet::new();
    for (n, record) in (1..).zip(&records) {
        let (id, rest) = record.split_first_chunk().unwrap();
        let (cents, item) = rest.split_first_chunk().unwrap();
        assert_eq!(u64::from_le_bytes(*id), n);
        let item = String::from_utf8(item.to_vec()).unwrap();
        assert!(items.insert(item.clone()), "{item} twice");
        if let Some(order) = accepted.get(&n) {
            assert_eq!(*order, format!("{item} {}", u32::from_le_bytes(*cents)));
        }
    }
    let found = records.len() as u64;
    let last = accepted.last_key_value().map_or(0, |(id, _)| *id);
    assert!(last <= found, "{last} was accepted, {found} are there");
    found
}

#[test]
fn killed_again_and_again_it_has_what_it_accepted() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let dir = home.path().join("orders");
    let mut rng = Rng::new(1);
    let accepted = Accepted::default();
    let mut found = 0;
    for round in 0..8 {
        let service = Service::start(&dir);
        assert_eq!(service.found, found, "round {round}");
        let (address, service) = (service.address.clone(), Mutex::new(service));
        let until = 1 + rng.below(400);
        let before = accepted.lock().unwrap().len();
        let others = order_until_gone(&address, CLIENTS, round, &accepted, |count| {
            if count == until {
                service.lock().unwrap().kill();
            }
        });
        assert!(others.is_empty(), "{others:?}");
        let answered = (accepted.lock().unwrap().len() - before) as u64;
        let now = check(&dir, &accepted, false);
        // Each client has at most one order without an answer.
        assert!(now <= found + answered + CLIENTS, "{now} after {found}");
        assert!(answered >= until);
        found = now;
    }
}

/// Every accepted order is answered before the service ends.
#[cfg(unix)]
#[test]
fn at_its_end_it_answers_what_it_has_accepted() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let dir = home.path().join("orders");
    let accepted = Accepted::default();
    for round in 0..3 {
        let service = Service::start(&dir);
        let others = order_until_gone(&service.address, CLIENTS, round, &accepted, |count| {
            if count == 100 {
                service.terminate();
            }
        });
        assert!(others.is_empty(), "{others:?}");
        let (success, last) = service.end();
        let found = check(&dir, &accepted, true);
        assert_eq!(found, accepted.lock().unwrap().len() as u64);
        assert!(
            success && last.starts_with(&format!("total {found} ")),
            "{last}"
        );
    }
}

/// If the log's directory is moved away, the log fails. Waiting clients get the answer that the outcome is
/// unknown.
#[cfg(unix)]
#[test]
fn when_the_log_fails_the_outcome_is_unknown_and_it_ends() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let (dir, moved) = (home.path().join("orders"), home.path().join("moved"));
    let accepted = Accepted::default();
    let mut rounds_told = 0;
    for round in 0..12 {
        // Mostly a client is waiting when the log fails, but on a busy machine not always.
        if round >= 3 && rounds_told > 0 {
            break;
        }
        // Also runs with a single client, so that no other order notices that the log has failed.
        let clients = if round < 2 { 1 } else { CLIENTS };
        let service = Service::start(&dir);
        let others = order_until_gone(&service.address, clients, round, &accepted, |count| {
            if count == 20 {
                std::fs::rename(&dir, &moved).unwrap();
            }
        });
        let unknown = |a: &&String| a.starts_with("error: outcome unknown: the log stopped");
        for answer in others.iter().filter(|a| !unknown(a)) {
            assert!(
                answer.starts_with("error: not accepted: the log stopped"),
                "{answer}"
            );
        }
        let (success, last) = service.end();
        assert!(
            !success && last.starts_with("error: the log stopped"),
            "{last}"
        );
        std::fs::rename(&moved, &dir).unwrap();
        check(&dir, &accepted, false);
        rounds_told += u64::from(others.iter().any(|a| unknown(&a)));
    }
    assert!(rounds_told > 0);
}

#[test]
fn lines_that_are_no_commands_do_nothing() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let service = Service::start(&home.path().join("orders"));
    let mut client = service.client();
    for line in [
        "",
        "order",
        "order tea",
        "order tea 2.50",
        "order tea -1",
        "order tea 4294967296",
        "order tea 1 2",
        "get",
        "get tea",
        "get -1",
        "total 1",
        "ORDER tea 1",
        &"x".repeat(1025),
        &"order tea 250 ".repeat(100_000),
    ] {
        let answer = client.ask(line).unwrap();
        assert!(answer.starts_with("error: "), "{line}: {answer}");
    }
    for bytes in [&b"order \xff 250\n"[..], b"\0\x1b\xfe\n"] {
        client.send(bytes).unwrap();
        let answer = client.answer().unwrap();
        assert_eq!(answer, "error: this line is not UTF-8 text");
    }
    for id in ["0", "1", "18446744073709551615"] {
        assert_eq!(client.ask(&format!("get {id}")).unwrap(), "none");
    }
    // A line of the maximum length.
    let item = "x".repeat(1024 - "order  250".len());
    let answer = client.ask(&format!("order {item} 250")).unwrap();
    assert_eq!(answer, "accepted 1");
    // Several lines at once are answered in their order.
    client.send(b"order tea 100\r\nget 2\ntotal\n").unwrap();
    let answers: Vec<_> = (0..3).map(|_| client.answer().unwrap()).collect();
    assert_eq!(answers, ["accepted 2", "order 2 tea 100", "total 2 350"]);
    // An incomplete line is ignored, because its end could change its meaning.
    let mut cut = service.client();
    cut.send(b"order tea 25").unwrap();
    cut.stream.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(cut.answer(), None);
    assert_eq!(client.ask("total").unwrap(), "total 2 350");
}

/// A client that sends and never reads fills all buffers between the service and itself, and blocks no other
/// client.
#[test]
fn a_client_that_never_reads_holds_nobody_up() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let service = Service::start(&home.path().join("orders"));
    let mut client = service.client();
    let order = format!("order {} 1", "x".repeat(1000));
    assert_eq!(client.ask(&order).unwrap(), "accepted 1");
    let deaf = service.client();
    let mut stream = deaf.stream.get_ref();
    stream.set_nonblocking(true).unwrap();
    let requests = "get 1\n".repeat(10_000);
    let (mut sent, mut refused) = (0, 0);
    while refused < 20 {
        match stream.write(&requests.as_bytes()[sent % "get 1\n".len()..]) {
            Ok(now) => (sent, refused) = (sent + now, 0),
            Err(_) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    for id in 2..50 {
        assert_eq!(client.ask("order tea 1").unwrap(), format!("accepted {id}"));
    }
    // The client does not keep the service from ending.
    #[cfg(unix)]
    {
        service.terminate();
        let (success, last) = service.end();
        assert!(success && last.starts_with("total 49 "), "{last}");
    }
}
