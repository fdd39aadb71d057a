//! Backups of a log that is being written.

use super::Result;
use crate::common::*;
use logforce::Log;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

fn back_up(log: &Log, to: &Path) -> logforce::Result<()> {
    let backup = log.backup(to, logforce::BackupOptions::new())?; // other threads go on committing
    println!(
        "{} bytes: every record from {} to {}",
        backup.bytes, backup.front, backup.end
    );
    Ok(())
}

/// Guard that ends the writer. Otherwise a failing test would wait for it for ever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_backup_has_what_was_acknowledged_before_it() -> Result<()> {
    let home = temp();
    let dir = home.path().join("log");
    let log = logforce::create_new(&dir, options())?;
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    // Under Wine a backup by another process takes so long that the writer always truncates the records that
    // are being copied.
    let truncates = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let writer = scope.spawn(|| {
            for n in 0.. {
                if stop.load(SeqCst) {
                    break;
                }
                let end = log.commit(record(n, 3000)).unwrap().end;
                acknowledged.store(n + 1, SeqCst);
                if n % 100 == 99 && truncates.load(SeqCst) {
                    log.truncate_front(end).unwrap();
                }
            }
        });
        while acknowledged.load(SeqCst) < 300 {
            assert!(!writer.is_finished());
            std::thread::yield_now();
        }
        for n in 0..10 {
            let before = acknowledged.load(SeqCst);
            let copy = home.path().join(format!("copy{n}"));
            match n % 2 {
                0 => back_up(&log, &copy).unwrap(),
                // As in another process, the backup contains the records that stamps prove durable: at most
                // one commit less.
                _ => {
                    let require = log.guarantee().guarantee;
                    truncates.store(!cfg!(windows), SeqCst);
                    logforce::backup(&dir, &copy, logforce::BackupOptions::new().require(require))
                        .unwrap();
                    truncates.store(true, SeqCst);
                }
            }
            let copy = logforce::open_existing(copy, options()).unwrap();
            let found = read_all(&copy);
            let number = |data: &Vec<u8>| u64::from_le_bytes(data[..8].try_into().unwrap());
            // A truncation may leave a log empty for a moment.
            if let Some(first) = found.first().map(number) {
                let next = first + found.len() as u64;
                assert!(next + n % 2 >= before, "copy {n}: {next} of {before}");
                assert_holds(&copy, first, next, 3000);
            }
            assert_eq!(copy.id(), log.id());
        }
    });
    Ok(())
}
