//! Many logs in one environment.

use super::Result;
use crate::common::examples::too_weak;
use crate::common::*;
use logforce::{Environment, EnvironmentOptions, Options};
use std::path::Path;

fn open_shards(dir: &Path) -> Result<(Environment, Vec<logforce::Log>)> {
    let environment = logforce::environment(&EnvironmentOptions::new())?;
    let options = Options::new().create(true).environment(&environment);
    let shards: Vec<_> = (0..8).map(|n| dir.join(n.to_string())).collect();
    let mut logs = Vec::new();
    for log in options.open_many(&shards) {
        logs.push(log?);
    }
    let order = b"one coffee, 2.50";
    logs[3].commit(order)?;
    println!("{:?}", environment.stats());
    Ok((environment, logs))
}

fn close_shards(environment: &Environment) -> usize {
    let mut failed = 0;
    for (path, error) in environment.close_all() {
        eprintln!("{}: {error}", path.display());
        failed += 1;
    }
    failed
}

#[test]
fn shards_share_an_environment() {
    let dir = temp();
    if too_weak(dir.path()) {
        return;
    }
    unlimited_descriptors();
    for opened in 1..3 {
        let (environment, logs) = open_shards(dir.path()).unwrap();
        let count = |log: &logforce::Log| log.read_from(log.front_lsn()).unwrap().count();
        let counts: Vec<_> = logs.iter().map(count).collect();
        assert_eq!(counts, [0, 0, 0, opened, 0, 0, 0, 0]);
        assert_eq!(close_shards(&environment), 0);
        assert!(logs[3].commit(b"late").is_err());
    }
}
