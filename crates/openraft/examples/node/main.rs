//! A node of a replicated key-value store over TCP.
//!
//! ```text
//! node new ID DIR ADDRESS                     starts a node for the first time
//! node serve ID DIR ADDRESS                   starts it again
//! node init ADDRESS ID=ADDRESS ...            makes a cluster of running nodes, once
//! node set ADDRESS KEY VALUE                  asks the leader
//! node get ADDRESS KEY
//! ```

pub mod machine;
pub mod network;

use logforce::Options;
use logforce_openraft::v09::LogStore;
use machine::{Set, StateMachine};
use network::{Answer, Peer, Request};
use openraft::{BasicNode, Config, Raft, SnapshotPolicy};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Runs a node until its process ends.
pub async fn serve(
    id: u64,
    dir: &Path,
    address: &str,
    options: Options,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    let store = LogStore::open(dir.join("log"), options).await?;
    let machine = StateMachine::open(dir)?;
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 400,
        election_timeout_max: 800,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(1000),
        max_in_snapshot_log_to_keep: 100,
        ..Config::default()
    };
    let config = Arc::new(config.validate()?);
    let raft = Raft::new(id, config, network::Network, store, machine.clone()).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(network::answer(stream, raft.clone(), machine.clone()));
    }
}

/// Makes a cluster of running nodes, by a request to the one at `address`.
pub async fn initialize(address: &str, members: &BTreeMap<u64, String>) -> io::Result<()> {
    let node = |(id, at): (&u64, &String)| (*id, BasicNode::new(at));
    let members = members.iter().map(node).collect();
    done(address, Request::Initialize(members)).await?;
    Ok(())
}

/// Makes a request of a client.
pub async fn done(address: &str, request: Request) -> io::Result<Option<String>> {
    match Peer::new(address).call(&request).await? {
        Answer::Done(result) => result.map_err(io::Error::other),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [command @ ("new" | "serve"), id, dir, address] => {
            let is_new = command == "new";
            // A node whose log is lost must not start as a new one: it would vote a second time in a term.
            let options = Options::new().create_new(is_new);
            if is_new {
                std::fs::create_dir_all(dir)?;
            }
            serve(id.parse()?, Path::new(dir), address, options).await
        }
        ["init", address, ref members @ ..] => {
            let mut all = BTreeMap::new();
            for member in members {
                let (id, at) = member.split_once('=').ok_or("expected ID=ADDRESS")?;
                all.insert(id.parse()?, at.to_owned());
            }
            Ok(initialize(address, &all).await?)
        }
        ["set", address, key, value] => {
            let (key, value) = (key.to_owned(), value.to_owned());
            let before = done(address, Request::Set(Set { key, value })).await?;
            println!("before: {before:?}");
            Ok(())
        }
        ["get", address, key] => {
            let value = done(address, Request::Get(key.to_owned())).await?;
            println!("{value:?}");
            Ok(())
        }
        _ => Err("usage: node new|serve|init|set|get ...: see the source".into()),
    }
}
