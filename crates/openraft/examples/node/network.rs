//! The network of a node: requests and answers over TCP, each as its length and MessagePack.

use super::machine::{Set, StateMachine, TypeConfig};
use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Raft};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum length of a message in bytes. A longer one comes from another program.
const MAX_LEN: usize = 64 << 20;

/// Request of a node or a client.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Entries or a heartbeat of the leader.
    Append(AppendEntriesRequest<TypeConfig>),
    /// Request for a vote.
    Vote(VoteRequest<u64>),
    /// Part of a snapshot.
    Snapshot(InstallSnapshotRequest<TypeConfig>),
    /// Members of a new cluster.
    Initialize(BTreeMap<u64, BasicNode>),
    /// Command of a client.
    Set(Set),
    /// Read of a client.
    Get(String),
}

/// Answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To [`Request::Append`].
    Append(Result<AppendEntriesResponse<u64>, RaftError<u64>>),
    /// To [`Request::Vote`].
    Vote(Result<VoteResponse<u64>, RaftError<u64>>),
    /// To [`Request::Snapshot`].
    Snapshot(Result<InstallSnapshotResponse<u64>, RaftError<u64, InstallSnapshotError>>),
    /// To a client: the value of the key, before a command.
    Done(Result<Option<String>, String>),
}

/// Answers the requests of a connection until it ends.
pub async fn answer(
    mut stream: TcpStream,
    raft: Raft<TypeConfig>,
    machine: StateMachine,
) -> io::Result<()> {
    loop {
        let text = |e: &dyn std::error::Error| e.to_string();
        let answer = match receive(&mut stream).await? {
            Request::Append(r) => Answer::Append(raft.append_entries(r).await),
            Request::Vote(r) => Answer::Vote(raft.vote(r).await),
            Request::Snapshot(r) => Answer::Snapshot(raft.install_snapshot(r).await),
            Request::Initialize(members) => {
                let done = raft.initialize(members).await;
                Answer::Done(done.map(|()| None).map_err(|e| text(&e)))
            }
            Request::Set(set) => {
                let written = raft.client_write(set).await;
                Answer::Done(written.map(|w| w.data.0).map_err(|e| text(&e)))
            }
            Request::Get(key) => {
                let current = raft.ensure_linearizable().await;
                Answer::Done(current.map(|_| machine.get(&key)).map_err(|e| text(&e)))
            }
        };
        send(&mut stream, &answer).await?;
    }
}

async fn send(stream: &mut TcpStream, message: &impl Serialize) -> io::Result<()> {
    let body = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let len = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&len.to_be_bytes()).await?;
    stream.write_all(&body).await
}

async fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let len = stream.read_u32().await? as usize;
    if len > MAX_LEN {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).await?;
    rmp_serde::from_slice(&body).map_err(io::Error::other)
}

/// Connects a node with the others.
#[derive(Debug)]
pub struct Network;

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _: u64, node: &BasicNode) -> Peer {
        Peer::new(&node.addr)
    }
}

/// Connection to a node, made again after an error.
#[derive(Debug)]
pub struct Peer {
    address: String,
    stream: Option<TcpStream>,
}

type RpcError<E = RaftError<u64>> = RPCError<u64, BasicNode, E>;

impl Peer {
    /// Returns a peer that is not connected yet.
    pub fn new(address: &str) -> Peer {
        let address = address.to_owned();
        let stream = None;
        Peer { address, stream }
    }

    /// Makes a request. After an error, or if the future is dropped, the connection is not used again,
    /// because an answer to this request may still come.
    pub async fn call(&mut self, request: &Request) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        send(&mut stream, request).await?;
        let answer = receive(&mut stream).await?;
        self.stream = Some(stream);
        Ok(answer)
    }

    async fn rpc<E: std::error::Error>(&mut self, request: Request) -> Result<Answer, RpcError<E>> {
        let called = self.call(&request).await;
        called.map_err(|e| match e.kind() {
            io::ErrorKind::ConnectionRefused => RPCError::Unreachable(Unreachable::new(&e)),
            _ => RPCError::Network(NetworkError::new(&e)),
        })
    }
}

/// Returns the answer of the other node; `None` is an answer to another request.
#[allow(clippy::result_large_err, reason = "the error is openraft's")]
fn remote<T, E: std::error::Error>(answer: Option<Result<T, E>>) -> Result<T, RpcError<E>> {
    match answer {
        Some(answer) => answer.map_err(|e| RPCError::RemoteError(RemoteError::new(0, e))),
        None => {
            let other = io::Error::from(io::ErrorKind::InvalidData);
            Err(RPCError::Network(NetworkError::new(&other)))
        }
    }
}

impl RaftNetwork<TypeConfig> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        let answer = self.rpc(Request::Append(request)).await?;
        remote(match answer {
            Answer::Append(answer) => Some(answer),
            _ => None,
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        _: RPCOption,
    ) -> Result<VoteResponse<u64>, RpcError> {
        let answer = self.rpc(Request::Vote(request)).await?;
        remote(match answer {
            Answer::Vote(answer) => Some(answer),
            _ => None,
        })
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RpcError<RaftError<u64, InstallSnapshotError>>> {
        let answer = self.rpc(Request::Snapshot(request)).await?;
        remote(match answer {
            Answer::Snapshot(answer) => Some(answer),
            _ => None,
        })
    }
}
