//! The connection to a witness.

use crate::ledger::{Ack, MOST_ACKS, State};
use crate::wire::{self, Ask, Frame, GREETING, Reply};
use crate::{CutError, RunId};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};

pub use crate::wire::Role;

/// A connection about one run.
pub struct Client {
    pub(super) stream: TcpStream,
    pub(super) witness: String,
}

impl Client {
    /// Connects to the witness at `HOST:PORT`, and asks for the state of the run. The state is `None` if the
    /// witness does not know the run.
    ///
    /// # Errors
    /// If no witness listens there.
    pub fn connect(
        witness: &str,
        role: Role,
        run: RunId,
    ) -> Result<(Client, Option<State>), CutError> {
        let witness = with_port(witness);
        let fail = |e: io::Error| {
            CutError::Witness(format!(
                "the witness at {witness} cannot be reached ({e}): is `logforce powercut witness` \
                 running there, and is the port open?"
            ))
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        let mut connected = None;
        for address in witness.to_socket_addrs().map_err(fail)? {
            match TcpStream::connect_timeout(&address, wire::TIMEOUT) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(e) => last = e,
            }
        }
        let Some(mut stream) = connected else {
            return Err(fail(last));
        };
        let mut theirs = [0; GREETING.len()];
        let greeted = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(wire::TIMEOUT)))
            .and_then(|()| stream.write_all(&GREETING))
            .and_then(|()| wire::fill(&mut stream, &mut theirs, wire::TIMEOUT, &|| false));
        if !greeted.map_err(fail)? || theirs[..6] != GREETING[..6] {
            return Err(CutError::Witness(format!(
                "the program that listens at {witness} is not `logforce powercut witness`"
            )));
        }
        if theirs != GREETING {
            return Err(CutError::Witness(format!(
                "the witness at {witness} uses version {} of the protocol, this program {}: use \
                 the same version of logforce on both machines",
                theirs[7],
                wire::VERSION
            )));
        }
        let mut client = Client { stream, witness };
        match client.ask(&Ask::Hello { role, run })? {
            Reply::Run(state) => Ok((client, state)),
            other => Err(client.unexpected(&other)),
        }
    }

    pub(super) fn unexpected(&self, reply: &Reply) -> CutError {
        match reply {
            Reply::Refused(why) => {
                CutError::Witness(format!("the witness at {} refused: {why}", self.witness))
            }
            _ => CutError::Witness(format!(
                "the witness at {} sent an unexpected answer",
                self.witness
            )),
        }
    }

    pub(super) fn gone(&self, e: &io::Error) -> CutError {
        CutError::Witness(format!(
            "lost the connection to the witness at {}: {e}",
            self.witness
        ))
    }

    fn receive(&mut self) -> Result<Frame<Reply>, CutError> {
        let received = wire::receive(&mut self.stream, wire::FROM_WITNESS, wire::TIMEOUT, &|| {
            false
        });
        let closed = || io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
        received
            .and_then(|payload| wire::parse(&payload.ok_or_else(closed)?))
            .map_err(|e| self.gone(&e))
    }

    /// Sends a request, and waits for the answer.
    pub(super) fn ask(&mut self, ask: &Ask) -> Result<Reply, CutError> {
        let sent = wire::send(&mut self.stream, &wire::message(ask));
        // Reads even if sending failed: a witness that has ended the connection may have sent the reason.
        let received = self.receive();
        match (received, sent) {
            (Err(_), Err(e)) => Err(self.gone(&e)),
            (received, _) => self.message(received?),
        }
    }

    fn message(&self, frame: Frame<Reply>) -> Result<Reply, CutError> {
        match frame {
            Frame::Message(reply) => Ok(reply),
            Frame::Acks(_) => Err(self.unexpected(&Reply::Done)),
        }
    }

    /// Sends a request that has no result, and waits until it is done.
    pub(super) fn tell(&mut self, ask: &Ask) -> Result<(), CutError> {
        match self.ask(ask)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the acknowledgements that are not truncated, in order of LSNs.
    pub(super) fn acks(&mut self) -> Result<Vec<Ack>, CutError> {
        let asked = wire::send(&mut self.stream, &wire::message(&Ask::Acks));
        asked.map_err(|e| self.gone(&e))?;
        let mut all = Vec::new();
        loop {
            match self.receive()? {
                Frame::Acks(acks) if all.len() + acks.len() <= MOST_ACKS => all.extend(acks),
                Frame::Message(Reply::Done) => break,
                Frame::Message(other) => return Err(self.unexpected(&other)),
                Frame::Acks(_) => return Err(self.unexpected(&Reply::Done)),
            }
        }
        all.sort_by_key(|a: &Ack| a.lsn);
        Ok(all)
    }
}

/// Returns `HOST:PORT` for `HOST` or `HOST:PORT`; the default port is [`PORT`](crate::PORT).
pub fn with_port(text: &str) -> String {
    if let Ok(address) = text.parse::<IpAddr>() {
        return SocketAddr::new(address, crate::PORT).to_string();
    }
    let has_port = text
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        text.to_owned()
    } else {
        format!("{text}:{}", crate::PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn the_usual_port_is_added_where_there_is_none() {
        for (text, whole) in [
            ("witness.example", "witness.example:7133"),
            ("witness.example:9", "witness.example:9"),
            ("10.0.0.7", "10.0.0.7:7133"),
            ("::1", "[::1]:7133"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(with_port(text), whole);
        }
    }
}
