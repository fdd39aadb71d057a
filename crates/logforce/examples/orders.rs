//! A service with many tasks on one log: an order ledger behind a socket. Every order that was confirmed to a
//! client survives a crash, a `kill -9` or a loss of power. The numbers of the orders have no gaps.
//!
//! `cargo run -p logforce --example orders DIR` listens on 127.0.0.1:7070. Talk to it with
//! `nc 127.0.0.1 7070`: `order tea 250` is answered by `accepted 1` once the order is durable.
//!
//! The path of an order:
//!
//! 1. The task of its connection reserves space in the log ([`Service::order`]). This is the back-pressure.
//! 2. Under one lock, that task gives the order the next number and submits it. So the numbers have the order
//!    of the log.
//! 3. Another task ([`apply`]) takes the orders in that order and waits until each is durable. It puts the
//!    order into the ledger, and then has the client answered.
//!
//! So readers see only durable orders, and with each order all orders before it.
//!
//! All orders stay in memory and in the log. For checkpoints see `accounts.rs`.

use logforce::{CommitHandle, Error, ErrorKind, Log, Options, Policy};
use std::ffi::OsString;
use std::future::Future;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: orders DIR [PORT | ADDRESS:PORT]

Takes orders and keeps them in the log in DIR, which is created if it is missing. Listens on
127.0.0.1:7070 or the given address, and prints it; port 0 means any free port. Ctrl-C or SIGTERM
ends the service after it has finished and answered all accepted orders.

A client sends lines, and gets a line for each:
  order ITEM CENTS  accepted ID, once the order is durable. IDs are 1, 2, 3, …
  get ID            order ID ITEM CENTS, or none
  total             total ORDERS CENTS
An answer that begins with error means that the request failed.";

const PORT: u16 = 7070;
/// Maximum length of a line in bytes. This limits the memory that a client can use.
const MAX_LINE: usize = 1024;
/// Maximum number of connections. The log needs descriptors, too, so connections must not use all of them.
const CONNECTIONS: usize = 500;
/// Maximum time that a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same maximum while the service ends.
const GRACE: Duration = Duration::from_secs(2);

struct Order {
    item: String,
    cents: u32,
}

/// Encodes an order as a record: number, price, item. The length does not depend on the number.
fn encode(id: u64, order: &Order) -> Vec<u8> {
    let mut record = id.to_le_bytes().to_vec();
    record.extend_from_slice(&order.cents.to_le_bytes());
    record.extend_from_slice(order.item.as_bytes());
    record
}

fn encoded_len(order: &Order) -> usize {
    8 + 4 + order.item.len()
}

fn decode(record: &[u8]) -> Option<(u64, Order)> {
    let (id, rest) = record.split_first_chunk()?;
    let (cents, item) = rest.split_first_chunk()?;
    let order = Order {
        item: String::from_utf8(item.to_vec()).ok()?,
        cents: u32::from_le_bytes(*cents),
    };
    Some((u64::from_le_bytes(*id), order))
}

/// The durable orders, which clients may see.
#[derive(Default)]
struct Ledger {
    orders: Vec<Order>,
    total: u64,
}

impl Ledger {
    /// Returns the number of the last order.
    fn last(&self) -> u64 {
        self.orders.len() as u64
    }

    fn push(&mut self, order: Order) {
        self.total += u64::from(order.cents);
        self.orders.push(order);
    }

    fn get(&self, id: u64) -> Option<&Order> {
        self.orders.get(usize::try_from(id.checked_sub(1)?).ok()?)
    }

    /// Reads the ledger from the log.
    fn recover(log: &Log) -> Result<Ledger> {
        let mut ledger = Ledger::default();
        for record in log.read_from(log.front_lsn())? {
            let (id, order) = decode(&record?.data).ok_or("a record in the log is not an order")?;
            if id != ledger.last() + 1 {
                return Err(format!("order {id} follows order {}", ledger.last()).into());
            }
            ledger.push(order);
        }
        Ok(ledger)
    }
}

/// An order that has its number and its position in the log, and is not durable yet.
struct Accepted {
    id: u64,
    order: Order,
    handle: CommitHandle,
    /// Channel to the client, which may have disconnected.
    answer: oneshot::Sender<logforce::Result<u64>>,
}

/// Numbering of the orders, and their queue.
struct Intake {
    next: u64,
    /// Queue to [`apply`]; `None` once the service ends. The log limits its length: queued orders wait for
    /// the device, and `reserve` waits while the log's buffer is full.
    queue: Option<mpsc::UnboundedSender<Accepted>>,
}

/// Reason for which the service ends.
enum End {
    Asked,
    Failed(Error),
}

struct Service {
    log: Log,
    intake: Mutex<Intake>,
    ledger: Mutex<Ledger>,
    end: watch::Sender<Option<End>>,
}

/// Locks the mutex. No task holds a lock across an await, so waiting for one is short.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Ends the service. Keeps the first reason.
    fn end(&self, why: End) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(why);
            is_first
        });
    }

    async fn ended(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Completes when the client's time to read is over.
    async fn patience(&self) {
        tokio::select! {
            () = sleep(PATIENCE) => {}
            () = async { self.ended().await; sleep(GRACE).await } => {}
        }
    }

    /// Takes an order, and returns the answer to the client.
    async fn order(&self, order: Order) -> String {
        let answered = match self.submit(order).await {
            Ok(answered) => answered,
            Err(e) => {
                // The log continues after a full disk, but not after a failed write.
                if matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::Closed) {
                    self.end(End::Failed(e.clone()));
                }
                return format!("error: not accepted: {e}");
            }
        };
        match answered.await {
            Ok(Ok(id)) => format!("accepted {id}"),
            // The order may be durable or not. "rejected" could make the client order twice, and "accepted"
            // could lose the order. Only the next opening of the log finds out.
            Ok(Err(e)) => format!(
                "error: outcome unknown: {e}. When the service runs again, look for the order before you send it again"
            ),
            // Happens only when `apply` has ended: it answers every order in its queue.
            Err(_) => "error: outcome unknown: the service has ended".to_owned(),
        }
    }

    /// Gives the order its number and its position in the log. After an error it has neither.
    async fn submit(
        &self,
        order: Order,
    ) -> logforce::Result<oneshot::Receiver<logforce::Result<u64>>> {
        // Waits here while the device is busy, without a lock and before the order has a number.
        let permit = self.log.reserve(encoded_len(&order)).await?;
        let (answer, answered) = oneshot::channel();
        let mut intake = lock(&self.intake);
        let queue = intake.queue.clone().ok_or(Error::Closed)?;
        let id = intake.next;
        // Submits under the lock, so that numbers and records have the same order. So a kill between two
        // records loses the last orders, and leaves no gap.
        let handle = permit.submit(encode(id, &order), Policy::Force)?;
        intake.next += 1;
        // Nothing awaits from here on, so a client that disconnects does not cancel the order.
        let accepted = Accepted {
            id,
            order,
            handle,
            answer,
        };
        queue.send(accepted).map_err(|_| Error::Closed)?;
        Ok(answered)
    }

    /// Returns the answer to a line of a client.
    async fn answer(&self, line: &[u8]) -> String {
        let Ok(line) = std::str::from_utf8(line) else {
            return "error: this line is not UTF-8 text".to_owned();
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["order", item, cents] => match cents.parse() {
                Ok(cents) => {
                    let item = item.to_owned();
                    self.order(Order { item, cents }).await
                }
                Err(_) => format!("error: CENTS must be a number from 0 to {}", u32::MAX),
            },
            ["get", id] => match id.parse() {
                Ok(id) => match lock(&self.ledger).get(id) {
                    Some(Order { item, cents }) => format!("order {id} {item} {cents}"),
                    None => "none".to_owned(),
                },
                Err(_) => "error: ID must be a number".to_owned(),
            },
            ["total"] => {
                let ledger = lock(&self.ledger);
                format!("total {} {}", ledger.last(), ledger.total)
            }
            _ => "error: send order ITEM CENTS, get ID or total".to_owned(),
        }
    }
}

/// Puts each order into the ledger once it is durable, in the order of the log. Tasks that each waited for
/// one order and applied it could do so in any order.
async fn apply(service: Arc<Service>, mut queue: mpsc::UnboundedReceiver<Accepted>) {
    while let Some(accepted) = queue.recv().await {
        let outcome = accepted.handle.await;
        match &outcome {
            Ok(_) => lock(&service.ledger).push(accepted.order),
            Err(e) => service.end(End::Failed(e.clone())),
        }
        // Answers after the ledger contains the order, so that the client can read a confirmed order.
        let _ = accepted.answer.send(outcome.map(|_| accepted.id));
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line. Reads a line that is too long to its end without keeping it. Ignores an unfinished line at
/// the end of the connection: `order tea 25` may be the beginning of `order tea 250`.
async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<Line> {
    line.clear();
    let mut is_too_long = false;
    loop {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Ok(Line::End);
        }
        let end = read.iter().position(|b| *b == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        is_too_long |= line.len() + part.len() > MAX_LINE;
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        match end {
            Some(_) if is_too_long => return Ok(Line::TooLong),
            Some(_) => return Ok(Line::Whole),
            None => {}
        }
    }
}

/// Serves a client until it disconnects, does not read its answers in time, or the service ends.
async fn serve(service: Arc<Service>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        let read = tokio::select! {
            read = read_line(&mut reader, &mut line) => read?,
            () = service.ended() => return Ok(()),
        };
        let mut answer = match read {
            Line::Whole => service.answer(&line).await,
            Line::TooLong => format!("error: line too long: maximum {MAX_LINE} bytes"),
            Line::End => return Ok(()),
        };
        answer.push('\n');
        // While this task waits for its client, it holds no lock or space that others need.
        tokio::select! {
            written = writer.write_all(answer.as_bytes()) => written?,
            () = service.patience() => return Ok(()),
        }
    }
}

/// Accepts clients until the service ends. Returns when each client has read its last answer or its time is
/// over.
async fn listen(service: &Arc<Service>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let mut clients = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => {
                service.end(End::Asked);
                break;
            }
            () = service.ended() => break,
            Some(_) = clients.join_next() => {}
            client = listener.accept(), if clients.len() < CONNECTIONS => match client {
                Ok((stream, _)) => drop(clients.spawn(serve(service.clone(), stream))),
                Err(e) => {
                    // For example, no descriptor is left. Other clients continue, and one of them may
                    // disconnect.
                    eprintln!("cannot accept a connection: {e}");
                    sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(listener);
    while clients.join_next().await.is_some() {}
}

/// Returns a future that completes at Ctrl-C or SIGTERM. From now on they do not end the process.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Returns a future that completes at Ctrl-C. From now on Ctrl-C does not end the process.
#[cfg(windows)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move { drop(interrupt.recv().await) })
}

async fn run(log: Log, ledger: Ledger, address: SocketAddr) -> Result<()> {
    let stop = stop_signal()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|e| format!("cannot listen on {address}: {e}"))?;
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;

    let (queue, queued) = mpsc::unbounded_channel();
    let service = Arc::new(Service {
        log,
        intake: Mutex::new(Intake {
            next: ledger.last() + 1,
            queue: Some(queue),
        }),
        ledger: Mutex::new(ledger),
        end: watch::Sender::new(None),
    });
    let applying = tokio::spawn(apply(service.clone(), queued));
    listen(&service, listener, stop).await;

    // No task submits orders any more. Closing the queue lets `apply` finish the queued orders.
    lock(&service.intake).queue = None;
    applying.await?;
    let closed = service.log.clone().blocking(|log| log.close()).await;
    if let Some(End::Failed(e)) = &*service.end.borrow() {
        return Err(e.clone().into());
    }
    closed?;
    let ledger = lock(&service.ledger);
    writeln!(io::stdout(), "total {} {}", ledger.last(), ledger.total)?;
    Ok(())
}

/// Parses the arguments: the log's directory and the address. Returns `None` if they are invalid.
fn arguments(args: &[OsString]) -> Option<(&OsString, SocketAddr)> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match args {
        [dir, ..] if dir.as_encoded_bytes().starts_with(b"-") => None,
        [dir] => Some((dir, local(PORT))),
        [dir, to] => {
            let to = to.to_str()?;
            let port = to.parse().map(local).ok();
            Some((dir, port.or_else(|| to.parse().ok())?))
        }
        _ => None,
    }
}

fn start(dir: &OsString, address: SocketAddr) -> Result<()> {
    // There are no tasks yet, so this may block. Use `open_async` to open a log in a task.
    let log = logforce::open_or_create(dir, Options::new().segment_size(4 << 20))?;
    let ledger = Ledger::recover(&log)?;
    writeln!(io::stdout(), "found {} {}", ledger.last(), ledger.total)?;
    tokio::runtime::Runtime::new()?.block_on(run(log, ledger, address))
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((dir, address)) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match start(dir, address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
