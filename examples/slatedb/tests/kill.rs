//! Puts that were acknowledged are there after a kill, though the bucket has none of them.

use logforce::{Guarantee, Options};
use logforce_example_slatedb::LocalWal;
use slatedb::Db;
use slatedb::config::Settings;
use slatedb::object_store::local::LocalFileSystem;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const HOME: &str = "LOGFORCE_EXAMPLE_HOME";

async fn open(home: &Path) -> Db {
    let bucket = Arc::new(LocalFileSystem::new_with_prefix(home).unwrap());
    let options = Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false);
    let settings = Settings {
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    };
    Db::builder("db", bucket)
        .with_settings(settings)
        .with_wal_writer(Box::new(LocalWal::new(home.join("wal"), options)))
        .build()
        .await
        .unwrap()
}

/// Puts numbers and prints each once it is durable, until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let db = open(Path::new(&home)).await;
    for n in 0_u64.. {
        let put = db.put(n.to_be_bytes(), n.to_string()).await.unwrap();
        put.await_durable().await.unwrap();
        println!("put {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_put_survives_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(HOME, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let puts = lines
            .map_while(Result::ok)
            .filter(|line| line.starts_with("put "));
        // Each child begins at 0 again, and puts more than the one before.
        let last = puts.take(100 * (round + 1)).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let last: u64 = last[4..].parse().unwrap();
        acknowledged = acknowledged.max(last);
        let db = open(home.path()).await;
        for n in 0..=acknowledged {
            let value = db.get(n.to_be_bytes()).await.unwrap();
            assert_eq!(
                value.as_deref(),
                Some(n.to_string().as_bytes()),
                "round {round}: {n} of {acknowledged}"
            );
        }
        db.close().await.unwrap();
    }
}
