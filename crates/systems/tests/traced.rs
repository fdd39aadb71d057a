//! Commits of real systems, traced by `strace`: are they the writes and calls that `commit` has? In deep runs
//! only, because each system needs seconds to start.

#![cfg(target_os = "linux")]

mod servers;
mod trace;

use logforce_device::Method;
use logforce_systems::System;
use logforce_systems::commit::Force;
use servers::{Place, Server, client, installed};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use trace::Trace;

/// Number of commits of each system.
const COMMITS: usize = 20;

/// Returns true in a deep run (`cargo xtask test --deep`).
fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

/// Returns the only write of a system's commit.
fn force(system: System) -> &'static Force {
    let [force] = system.commit().unwrap().forces else {
        panic!("{system} forces several files");
    };
    force
}

/// Checks that as many commits as were made wrote `bytes` bytes and were forced by the system's call.
fn check(system: System, trace: &Trace, file: &str, bytes: u64) {
    let call = match force(system).call {
        Method::Fdatasync | Method::DirectFdatasync => "fdatasync",
        other => other.name(),
    };
    let forced = trace.forced(file);
    let alike = forced.iter().filter(|f| f.call == call && f.bytes == bytes);
    let alike = alike.count();
    assert!(alike >= COMMITS, "{system}: {alike} of {forced:?}");
}

#[test]
fn sqlite_writes_a_frame() {
    if !is_deep() || !installed(&["sqlite3"]) {
        return;
    }
    let place = Place::new();
    let mut script =
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(a);".to_owned();
    for n in 0..=COMMITS {
        script.push_str(&format!("INSERT INTO t VALUES({n});"));
    }
    let mut server = Server::start(&place, "sqlite3", &["file.db", &script]);
    let trace = server.end_of_itself();
    check(
        System::Sqlite,
        &trace,
        "file.db-wal",
        force(System::Sqlite).bytes,
    );
}

#[test]
fn redis_writes_a_command() {
    if !is_deep() || !installed(&["redis-server", "redis-benchmark"]) {
        return;
    }
    let place = Place::new();
    let socket = place.path("socket");
    let arguments = [
        "--port",
        "0",
        "--unixsocket",
        &socket,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ];
    let server = Server::start(&place, "redis-server", &arguments);
    client(&place, "redis-cli", &["-s", &socket, "ping"]);
    // The first one also selects the database.
    let count = (COMMITS + 1).to_string();
    let benchmark = ["-s", &socket, "-t", "set", "-n", &count, "-c", "1"];
    client(&place, "redis-benchmark", &benchmark);
    let trace = server.stop("TERM");
    check(System::Redis, &trace, ".aof", force(System::Redis).bytes);
}

#[test]
fn postgresql_writes_a_page_of_a_full_segment() {
    let programs = servers::beside("/usr/lib/postgresql", "initdb");
    let Some(programs) = programs.filter(|_| is_deep()) else {
        return;
    };
    let place = Place::new();
    let data = place.path("data");
    let program = |name: &str| programs.join(name).display().to_string();
    place.run(
        &program("initdb"),
        &["-D", &data, "-A", "trust", "-U", "u", "--no-sync"],
    );
    let sockets = place.path("");
    let server = Server::start(
        &place,
        &program("postgres"),
        &["-D", &data, "-k", &sockets, "-h", ""],
    );
    let sql = |text: &str| {
        client(
            &place,
            "psql",
            &["-h", &sockets, "-U", "u", "-d", "postgres", "-qc", text],
        )
    };
    sql("CREATE TABLE t(a int)");
    for n in 0..=COMMITS {
        sql(&format!("INSERT INTO t VALUES({n})"));
    }
    let trace = server.stop("INT");
    check(
        System::Postgresql,
        &trace,
        "pg_wal/",
        force(System::Postgresql).bytes,
    );
}

#[test]
fn mariadb_writes_a_block_past_the_cache() {
    if !is_deep() || !installed(&["mariadbd", "mariadb-install-db", "mariadb"]) {
        return;
    }
    let place = Place::new();
    let (data, socket) = (place.path("data"), place.path("socket"));
    let datadir = format!("--datadir={data}");
    let install = [
        "--no-defaults",
        &datadir,
        "--auth-root-authentication-method=normal",
    ];
    place.run("mariadb-install-db", &install);
    let at = format!("--socket={socket}");
    let server = Server::start(
        &place,
        "mariadbd",
        &["--no-defaults", &datadir, &at, "--skip-networking"],
    );
    let sql = |text: &str| {
        client(
            &place,
            "mariadb",
            &["--no-defaults", "-uroot", &at, "-e", text],
        )
    };
    sql("CREATE DATABASE d; CREATE TABLE d.t(a int PRIMARY KEY) ENGINE=InnoDB");
    for n in 0..=COMMITS {
        sql(&format!("INSERT INTO d.t VALUES({n})"));
    }
    let trace = server.stop("TERM");
    // A block is one physical sector, at most 4096 bytes.
    let forced = trace.forced("ib_logfile0");
    let sector = forced.iter().map(|f| f.bytes).filter(|b| *b > 0).min();
    let sector = sector.unwrap_or_default();
    assert!(
        (512..=force(System::Mariadb).bytes).contains(&sector),
        "{forced:?}"
    );
    check(System::Mariadb, &trace, "ib_logfile0", sector);
    assert!(
        trace.opened("ib_logfile0", "O_DIRECT"),
        "not past the cache"
    );
}

#[test]
fn etcd_forces_a_file_with_reserved_blocks() {
    if !is_deep() || !installed(&["etcd"]) {
        return;
    }
    let place = Place::new();
    let address = |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let [clients, peers] = [(), ()].map(address);
    let (clients_url, peers_url) = (format!("http://{clients}"), format!("http://{peers}"));
    let data = place.path("data");
    let arguments = [
        "--data-dir",
        &data,
        "--listen-client-urls",
        &clients_url,
        "--advertise-client-urls",
        &clients_url,
        "--listen-peer-urls",
        &peers_url,
    ];
    let server = Server::start(&place, "etcd", &arguments);
    servers::until("etcd answers", || put(&clients, 0));
    for n in 1..=COMMITS {
        assert!(put(&clients, n), "commit {n}");
    }
    let trace = server.stop("TERM");
    let forced = trace.forced(".wal");
    let forces = forced
        .iter()
        .filter(|f| f.call == "fdatasync" && f.bytes > 0)
        .count();
    assert!(forces >= COMMITS, "{forced:?}");
    let bytes = trace.reserved("/wal/");
    assert_eq!(bytes, Some(force(System::Etcd).file_bytes));
}

/// Puts a key by etcd's JSON gateway. Returns true if that is committed.
fn put(address: &str, n: usize) -> bool {
    let body = format!(r#"{{"key":"Zm9v","value":"YmFy{n:04}"}}"#);
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("revision"))
}
