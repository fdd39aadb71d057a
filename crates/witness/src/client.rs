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
    /// Connects to the witness at `HOST:PORT`, and asks what it knows of the run: `None` if nothing.
    ///
    /// # Errors
    /// If nothing listens there, or something that is no witness.
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
                "what listens at {witness} is no witness of `logforce powercut`"
            )));
        }
        if theirs != GREETING {
            return Err(CutError::Witness(format!(
                "the witness at {witness} speaks version {} of the protocol, this program {}: use \
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
                "the witness at {} said something unexpected",
                self.witness
            )),
        }
    }

    pub(super) fn gone(&self, e: &io::Error) -> CutError {
        CutError::Witness(format!("the witness at {} is gone: {e}", self.witness))
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

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, ask: &Ask) -> Result<Reply, CutError> {
        let sent = wire::send(&mut self.stream, &wire::message(ask));
        // Who has ended the connection may have said why.
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

    /// Asks for something to be done.
    pub(super) fn tell(&mut self, ask: &Ask) -> Result<(), CutError> {
        match self.ask(ask)? {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// What is acknowledged and not truncated, in order of LSNs.
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

/// `HOST` or `HOST:PORT`, with the usual port where it names none.
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
