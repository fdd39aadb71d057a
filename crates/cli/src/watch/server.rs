//! The HTTP server of the metrics. It answers one request a connection, each in a separate thread.

use crate::exit::Usage;
use anyhow::{Context, bail};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of connections at a time; further ones are closed.
const MOST: usize = 8;
/// Maximum size of a request, bytes. Nothing in it is needed but the first line.
const LONGEST: usize = 8 << 10;
/// Maximum duration of a connection.
const LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Address to listen at: `PORT`, `ADDRESS:PORT` or `localhost:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(SocketAddr);

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> Result<Address, String> {
        let loopback = |port: &str| Some((IpAddr::from(Ipv4Addr::LOCALHOST), port.parse().ok()?));
        let port = text.strip_prefix("localhost:").unwrap_or(text);
        let address = loopback(port).map(SocketAddr::from);
        let address = address.or_else(|| text.parse().ok());
        address.map(Address).ok_or_else(|| {
            format!("'{text}' is not an address: give a port, or ADDRESS:PORT as in 127.0.0.1:9750")
        })
    }
}

/// A server that is bound and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the address. An address that other machines may reach needs `allow_remote`.
    pub fn bind(Address(address): Address, allow_remote: bool) -> anyhow::Result<Server> {
        if !address.ip().is_loopback() && !allow_remote {
            bail!(Usage(format!(
                "--listen {address}: other machines can reach this address, and everyone there could read \
                 the metrics; use 127.0.0.1, or add --allow-remote"
            )));
        }
        let listener = TcpListener::bind(address);
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.with_context(|| {
            format!("cannot listen at {address}: use an address of this machine and a free port")
        })?;
        Ok(Server { listener, address })
    }

    /// Returns the address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with the text that `metrics` returns, from now on until the process ends.
    pub fn start(self, metrics: impl Fn() -> String + Send + Sync + 'static) -> anyhow::Result<()> {
        let source: Arc<Source> = Arc::new(metrics);
        let accept = move || {
            let busy = Arc::new(AtomicUsize::new(0));
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) => serve_in_thread(stream, &source, &busy),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        thread
            .spawn(accept)
            .context("cannot start the thread that serves the metrics")?;
        Ok(())
    }
}

/// Function that returns the metrics.
type Source = dyn Fn() -> String + Send + Sync;

/// Number of connections, which counts one for as long as it exists.
struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

fn serve_in_thread(stream: TcpStream, source: &Arc<Source>, busy: &Arc<AtomicUsize>) {
    let before = busy.fetch_add(1, SeqCst);
    let counted = Busy(Arc::clone(busy));
    if before >= MOST {
        return;
    }
    let source = Arc::clone(source);
    let serve = move || {
        let _counted = counted;
        // A client that has gone is not an error.
        let _ = serve(stream, &*source);
    };
    // Without a thread the connection is closed, and the client tries again.
    let _ = thread::Builder::new()
        .name("scrape".to_owned())
        .spawn(serve);
}

fn serve(mut stream: TcpStream, source: &Source) -> io::Result<()> {
    let until = Instant::now() + LIMIT;
    stream.set_write_timeout(Some(LIMIT))?;
    let line = first_line(&mut stream, until)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ("200 OK", kind, source())
        }
        ("GET" | "HEAD", _) => {
            let words = "The metrics are at /metrics.\n".to_owned();
            ("404 Not Found", plain, words)
        }
        _ => {
            let words = "Only GET and HEAD are served.\n".to_owned();
            ("405 Method Not Allowed", plain, words)
        }
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nAllow: GET, HEAD\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes())
}

/// Reads a whole request, so that closing the connection does not discard the answer. Returns its first
/// line.
fn first_line(stream: &mut TcpStream, until: Instant) -> io::Result<String> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > LONGEST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => request.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback() {
        let parsed = |text: &str| text.parse::<Address>().map(|Address(a)| a.to_string());
        for (text, address) in [
            ("9750", "127.0.0.1:9750"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(address));
        }
        for text in ["", "99999", "host:80", "127.0.0.1", "localhost:"] {
            let refusal = parsed(text).unwrap_err();
            assert!(refusal.contains("give a port"), "{refusal}");
        }
    }

    #[test]
    fn an_address_that_others_reach_has_to_be_asked_for() {
        let everywhere = "0.0.0.0:0".parse::<Address>().unwrap();
        let refusal = Server::bind(everywhere, false).err().unwrap();
        assert!(refusal.is::<Usage>(), "{refusal:#}");
        assert!(refusal.to_string().contains("--allow-remote"));
        assert!(Server::bind(everywhere, true).is_ok());
    }
}
