//! `logforce advise` with real servers: the snippet is pasted, and read back from the server that runs with
//! it. PostgreSQL and SQLite run in every change, the others in deep runs.

use crate::common::{open_place, text};
use crate::logs::all_output;
use logforce_testkit::another_user::{NOBODY, unprivileged};
use logforce_testkit::process::Start;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest wait for a server.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of commits before the snippet is pasted, and after it.
const COMMITS: usize = 500;

/// A server, which ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a program as an unprivileged user, and waits until it answers.
    fn start(
        program: &Path,
        arguments: &[String],
        log: &Path,
        answers: impl Fn() -> bool,
    ) -> Option<Server> {
        let log_file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let mut server = Server(
            unprivileged(program)?
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(log_file.try_clone().unwrap())
                .stderr(log_file)
                .start()
                .unwrap(),
        );
        let start = Instant::now();
        while !answers() {
            let ended = server.0.try_wait().unwrap();
            assert!(
                ended.is_none() && start.elapsed() < PATIENCE,
                "{} {ended:?}: {}",
                program.display(),
                fs::read_to_string(log).unwrap()
            );
            sleep(Duration::from_millis(50));
        }
        Some(server)
    }
}

/// Returns the path of a program in the path or in one of `further` directories.
fn program(name: &str, further: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let further = further.iter().map(PathBuf::from);
    let mut dirs = std::env::split_paths(&path).chain(further);
    dirs.find_map(|dir| Some(dir.join(name)).filter(|p| p.is_file()))
}

/// Creates a directory that the user of servers owns.
fn home() -> tempfile::TempDir {
    let dir = open_place();
    // The superuser runs servers as another user.
    if chown(dir.path(), Some(NOBODY), Some(NOBODY)).is_err() {
        fs::metadata(dir.path()).unwrap();
    }
    dir
}

/// Returns the report on the settings in force.
fn advise(system: &str, arguments: &[&str]) -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args(["advise", "--for", system])
        .args(arguments)
        .args(["--json", "-"])
        .stdin(Stdio::null())
        .to_end()
        .unwrap();
    let report = serde_json::from_slice(&out.stdout);
    report.unwrap_or_else(|e| panic!("{e}: {}", all_output(&out)))
}

/// Runs a client with `input`, and returns its output.
fn asked(client: &mut Command, input: &str) -> String {
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .start()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", all_output(&out));
    text(&out.stdout)
}

fn append(path: &Path, lines: &str) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

/// Returns the setting of this name.
fn line<'r>(report: &'r Value, name: &str) -> &'r Value {
    let lines = report["in_force"].as_array().unwrap();
    lines.iter().find(|l| l["name"] == name).unwrap()
}

/// Asserts that the server runs with what was advised.
fn assert_as_advised(report: &Value) {
    for advised in report["advice"].as_array().unwrap() {
        let line = line(report, advised["name"].as_str().unwrap());
        let (value, read) = (&advised["value"], line["value"].as_str().unwrap());
        assert!(value.as_str().unwrap().eq_ignore_ascii_case(read), "{line}");
        assert_eq!(line["answer"], advised["answer"], "{line}");
    }
    assert_eq!(report["unread"], Value::Array(vec![]));
}

#[test]
fn postgresql_runs_with_the_snippet() {
    let dirs: Vec<String> = fs::read_dir("/usr/lib/postgresql")
        .map(|dirs| {
            dirs.flatten()
                .map(|d| format!("{}/bin", d.path().display()))
                .collect()
        })
        .unwrap_or_default();
    let dirs: Vec<&str> = dirs.iter().map(String::as_str).collect();
    let installed = ["initdb", "postgres", "psql"].map(|name| program(name, &dirs));
    let [Some(initdb), Some(postgres), Some(psql)] = installed else {
        logforce_testkit::skip!("PostgreSQL is not installed");
        return;
    };
    // Both stand in one directory; one in the path may be a link.
    let postgres = match initdb.with_file_name("postgres") {
        beside if beside.is_file() => beside,
        _ => postgres.canonicalize().unwrap(),
    };
    let home = home();
    let data = home.path().join("data");
    let Some(mut command) = unprivileged(&initdb) else {
        return;
    };
    let made = command
        .args([
            "--auth=trust",
            "--username=till",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
            "-D",
        ])
        .arg(&data)
        .stdin(Stdio::null())
        .to_end()
        .unwrap();
    assert!(made.status.success(), "{}", all_output(&made));
    let conf = data.join("postgresql.conf");
    append(&conf, "synchronous_commit = off\nfull_page_writes = off\n");
    let sockets = home.path().to_str().unwrap();
    let url = format!(
        "postgres://till@/postgres?host={}",
        sockets.replace('/', "%2F")
    );
    let client = || {
        let mut client = Command::new(&psql);
        client.args([
            "-X", "-q", "-A", "-t", "-h", sockets, "-U", "till", "postgres",
        ]);
        client
    };
    let start = || {
        let arguments = ["-D", data.to_str().unwrap(), "-k", sockets, "-h", ""].map(str::to_owned);
        let answers = || {
            let mut client = client();
            client.args(["-c", "select 1"]).stdin(Stdio::null());
            client.to_end().is_ok_and(|out| out.status.success())
        };
        Server::start(&postgres, &arguments, &home.path().join("log"), answers)
    };
    let commits = "insert into sales values (1);\n".repeat(COMMITS);
    let Some(server) = start() else { return };
    let made = asked(&mut client(), "create table sales (n int);\n");
    assert_eq!(made, "");
    asked(&mut client(), &commits);
    let found = advise("postgresql", &["--url", &url]);
    assert_eq!(found["answer"], "below");
    assert_eq!(found["directory"], data.join("pg_wal").to_str().unwrap());
    for (name, at) in [("full_page_writes", 1), ("synchronous_commit", 0)] {
        let line = line(&found, name);
        assert_eq!(line["answer"], "below", "{line}");
        let lines = fs::read_to_string(&conf).unwrap().lines().count();
        let place = format!("{}:{}", conf.display(), lines - 1 + at);
        assert_eq!(line["place"], place, "{line}");
    }
    drop(server);

    append(&conf, found["snippet"].as_str().unwrap());
    let Some(server) = start() else { return };
    asked(&mut client(), &commits);
    let count = asked(&mut client(), "select count(*) from sales;\n");
    assert_eq!(count.trim(), (2 * COMMITS).to_string());
    let pasted = advise("postgresql", &["--url", &url]);
    assert_as_advised(&pasted);
    assert_ne!(pasted["answer"], "below");
    // The file is judged like the server.
    let of_file = advise("postgresql", &["--config", conf.to_str().unwrap()]);
    assert_as_advised(&of_file);
    assert_eq!(of_file["directory"], pasted["directory"]);

    // A setting of a role counts for it, and does not hide the one of the server.
    let roles = "create role app login; alter role app set synchronous_commit = off;
                 alter role till set synchronous_commit = local;
                 alter system set synchronous_commit = off; select pg_reload_conf();\n";
    asked(&mut client(), roles);
    let hidden = advise("postgresql", &["--url", &url]);
    let lines = hidden["in_force"].as_array().unwrap();
    let commit = |place: &str| {
        let found = lines.iter().find(|l| {
            let at = l["place"].as_str().unwrap();
            l["name"] == "synchronous_commit" && at.contains(place)
        });
        found.unwrap_or_else(|| panic!("{place}: {hidden}"))["answer"].clone()
    };
    assert_eq!(commit("role app"), "below");
    assert_eq!(commit("postgresql.auto.conf:"), "below");
    assert_ne!(commit("role till"), "below");
    // The server does not show its files to every user, so not all is certain.
    let limited = advise("postgresql", &["--url", &url.replace("till@", "app@")]);
    assert!(limited["answer"] != "enough", "{limited}");
    drop(server);
}

#[test]
fn sqlite_runs_with_the_snippet() {
    let Some(python) = program("python3", &[]) else {
        logforce_testkit::skip!("python3 is not installed");
        return;
    };
    let dir = open_place();
    let file = dir.path().join("sales.db");
    let url = format!("sqlite:{}", file.display());
    // Runs the pragmas and commits; prints what is then in force, and the number of rows.
    let script = format!(
        "import sqlite3, sys\n\
         db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
         db.executescript(sys.argv[2])\n\
         db.execute('create table if not exists sales (n)')\n\
         for n in range({COMMITS}): db.execute('insert into sales values (?)', (n,))\n\
         one = lambda sql: db.execute(sql).fetchone()[0]\n\
         print(one('pragma journal_mode'), one('pragma synchronous'), one('select count(*) from sales'))\n"
    );
    let run = |pragmas: &str| {
        let mut command = Command::new(&python);
        command.args(["-c", &script]).arg(&file).arg(pragmas);
        asked(&mut command, "")
    };
    let printed = run("PRAGMA synchronous = OFF;");
    assert_eq!(printed.trim(), format!("delete 0 {COMMITS}"));
    let found = advise("sqlite", &["--url", &url]);
    assert_eq!(found["answer"], "below");
    let snippet = found["snippet"].as_str().unwrap();
    let printed = run(snippet);
    assert_eq!(printed.trim(), format!("wal 2 {}", 2 * COMMITS));
    let pasted = advise("sqlite", &["--url", &url]);
    assert_eq!(line(&pasted, "journal_mode")["value"], "wal");
    // The file does not tell what a program sets for its connection.
    assert_eq!(pasted["answer"], "doubtful");
}

/// Returns true in a deep run (`cargo xtask test --deep`).
fn is_deep() -> bool {
    std::env::var_os("LOGFORCE_DEEP").is_some()
}

#[test]
fn mariadb_runs_with_the_snippet() {
    if !is_deep() {
        return;
    }
    let sbin = &["/usr/sbin"];
    let installed = [
        program("mariadb-install-db", &[]),
        program("mariadbd", sbin),
        program("mariadb", &[]),
    ];
    let [Some(install), Some(mariadbd), Some(mariadb)] = installed else {
        logforce_testkit::skip!("MariaDB is not installed");
        return;
    };
    let home = home();
    let (data, conf) = (home.path().join("data"), home.path().join("my.cnf"));
    let socket = home.path().join("socket");
    // It is a script.
    let Some(mut command) = unprivileged(Path::new("/bin/sh")) else {
        return;
    };
    let made = command
        .arg(install)
        .args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ])
        .arg(format!("--datadir={}", data.display()))
        // The tests' own is closed to this user in some checkouts.
        .env("TMPDIR", home.path())
        .stdin(Stdio::null())
        .to_end()
        .unwrap();
    assert!(made.status.success(), "{}", all_output(&made));
    let settings = format!(
        "[mariadbd]\ntmpdir = {}\ndatadir = {}\nsocket = {}\npid_file = {}\nskip_networking\n\
         log_bin = binlog\ninnodb_flush_log_at_trx_commit = 2\ninnodb_doublewrite = OFF\n",
        home.path().display(),
        data.display(),
        socket.display(),
        home.path().join("pid").display()
    );
    fs::write(&conf, settings).unwrap();
    let client = || {
        let mut client = Command::new(&mariadb);
        client.args([
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--user=root",
        ]);
        client.arg(format!("--socket={}", socket.display()));
        client
    };
    let start = || {
        let arguments = [format!("--defaults-file={}", conf.display())];
        let answers = || {
            let mut client = client();
            client.args(["-e", "select 1"]).stdin(Stdio::null());
            client.to_end().is_ok_and(|out| out.status.success())
        };
        Server::start(&mariadbd, &arguments, &home.path().join("log"), answers)
    };
    let url = format!("mysql://root@/mysql?socket={}", socket.display());
    let commits = "insert into shop.sales values (1);\n".repeat(COMMITS);
    let Some(server) = start() else { return };
    asked(
        &mut client(),
        "create database shop; create table shop.sales (n int) engine=innodb;\n",
    );
    asked(&mut client(), &commits);
    let found = advise("mariadb", &["--url", &url]);
    for name in [
        "innodb_flush_log_at_trx_commit",
        "innodb_doublewrite",
        "sync_binlog",
    ] {
        assert_eq!(line(&found, name)["answer"], "below", "{found}");
    }
    // The version tells that it is not MySQL.
    let as_mysql = advise("mysql", &["--url", &url]);
    assert_eq!(as_mysql["system"], "mariadb");
    assert!(as_mysql["notes"][0].as_str().unwrap().contains("not MySQL"));
    assert!(line(&as_mysql, "debug_no_sync").is_object());
    // The server ends it with a separator.
    let directory = found["directory"].as_str().unwrap();
    assert_eq!(Path::new(directory), data);
    drop(server);
    append(&conf, found["snippet"].as_str().unwrap());
    let Some(server) = start() else { return };
    asked(&mut client(), &commits);
    let count = asked(&mut client(), "select count(*) from shop.sales;\n");
    assert_eq!(count.trim(), (2 * COMMITS).to_string());
    let pasted = advise("mariadb", &["--url", &url]);
    assert_as_advised(&pasted);
    assert_ne!(pasted["answer"], "below");
    assert_as_advised(&advise("mariadb", &["--config", conf.to_str().unwrap()]));
    drop(server);
}

#[test]
fn redis_runs_with_the_snippet() {
    if !is_deep() {
        return;
    }
    let [Some(redis), Some(cli)] = ["redis-server", "redis-cli"].map(|name| program(name, &[]))
    else {
        logforce_testkit::skip!("Redis is not installed");
        return;
    };
    let home = home();
    let (conf, socket) = (home.path().join("redis.conf"), home.path().join("socket"));
    let settings = format!(
        "port 0\nunixsocket {}\nunixsocketperm 777\ndir {}\nrequirepass secret\nappendonly no\n",
        socket.display(),
        home.path().display()
    );
    fs::write(&conf, settings).unwrap();
    let client = || {
        let mut client = Command::new(&cli);
        client.arg("-s").arg(&socket).env("REDISCLI_AUTH", "secret");
        client
    };
    let start = || {
        let arguments = [conf.to_str().unwrap().to_owned()];
        let answers = || {
            let mut client = client();
            client.arg("ping").stdin(Stdio::null());
            client
                .to_end()
                .is_ok_and(|out| text(&out.stdout).contains("PONG"))
        };
        Server::start(&redis, &arguments, &home.path().join("log"), answers)
    };
    let url = format!(
        "redis://:secret@{}/0",
        socket.to_str().unwrap().replace('/', "%2F")
    );
    let commits = "rpush sales 1\n".repeat(COMMITS);
    let Some(server) = start() else { return };
    asked(&mut client(), &commits);
    let found = advise("redis", &["--url", &url]);
    assert_eq!(line(&found, "appendonly")["answer"], "below");
    assert_eq!(found["directory"], home.path().to_str().unwrap());
    assert!(!found.to_string().contains("secret"), "{found}");
    // Without the password the server tells nothing.
    let refused = Command::new(env!("CARGO_BIN_EXE_logforce"))
        .args([
            "advise",
            "--for",
            "redis",
            "--url",
            &url.replace(":secret@", ""),
        ])
        .to_end()
        .unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", all_output(&refused));
    assert!(
        all_output(&refused).contains("NOAUTH"),
        "{}",
        all_output(&refused)
    );
    asked(&mut client(), "save\n");
    drop(server);
    append(&conf, found["snippet"].as_str().unwrap());
    let Some(server) = start() else { return };
    // The append-only file is new, so the list of before is not in it.
    asked(&mut client(), &commits);
    let count = asked(&mut client(), "llen sales\n");
    assert!(count.trim().parse::<usize>().unwrap() >= COMMITS, "{count}");
    let pasted = advise("redis", &["--url", &url]);
    assert_as_advised(&pasted);
    assert_ne!(pasted["answer"], "below");
    assert_as_advised(&advise("redis", &["--config", conf.to_str().unwrap()]));
    drop(server);
}

#[test]
fn etcd_starts_with_the_snippet() {
    if !is_deep() {
        return;
    }
    let [Some(etcd), Some(etcdctl)] = ["etcd", "etcdctl"].map(|name| program(name, &[])) else {
        logforce_testkit::skip!("etcd is not installed");
        return;
    };
    let home = home();
    let conf = home.path().join("etcd.conf.yml");
    let [peer, clients] = [(); 2].map(|()| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", free.local_addr().unwrap())
    });
    let settings = format!(
        "name: a\ndata-dir: {}\nlisten-peer-urls: {peer}\nlisten-client-urls: {clients}\n\
         initial-advertise-peer-urls: {peer}\nadvertise-client-urls: {clients}\n\
         initial-cluster: a={peer}\n",
        home.path().join("data").display()
    );
    File::create(&conf)
        .unwrap()
        .write_all(settings.as_bytes())
        .unwrap();
    let found = advise("etcd", &["--config", conf.to_str().unwrap()]);
    append(&conf, found["snippet"].as_str().unwrap());
    let client = |arguments: &[&str]| {
        let mut client = Command::new(&etcdctl);
        client
            .args(["--endpoints", &clients])
            .args(arguments)
            .env("ETCDCTL_API", "3")
            .current_dir(home.path())
            .stdin(Stdio::null());
        client.to_end().unwrap()
    };
    let arguments = [
        "--config-file".to_owned(),
        conf.to_str().unwrap().to_owned(),
    ];
    let answers = || client(&["endpoint", "health"]).status.success();
    let Some(server) = Server::start(&etcd, &arguments, &home.path().join("log"), answers) else {
        return;
    };
    for n in 0..20 {
        let put = client(&["put", &format!("k{n}"), "v"]);
        assert!(put.status.success(), "{}", all_output(&put));
    }
    let kept = client(&["get", "--prefix", "k", "--keys-only"]);
    assert_eq!(text(&kept.stdout).split_whitespace().count(), 20);
    assert_as_advised(&advise("etcd", &["--config", conf.to_str().unwrap()]));
    drop(server);
}
