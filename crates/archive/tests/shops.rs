//! The example `shops`: a seller is killed, a standby takes over, the seller comes back.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

fn program() -> PathBuf {
    // Cargo builds the examples of a crate with its tests, into the folder beside theirs.
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().unwrap().parent().unwrap();
    let file = format!("shops{}", std::env::consts::EXE_SUFFIX);
    profile.join("examples").join(file)
}

struct Shops {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Shops {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(home: &Path, arguments: &[&str]) -> Shops {
    let mut child = Command::new(program())
        .current_dir(home)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Shops { child, lines }
}

impl Shops {
    /// Reads on until a line of the shop has this verb. Returns its first number.
    fn hear(&mut self, shop: &str, verb: &str) -> Option<u64> {
        let begins = format!("{shop}: {verb} ");
        let line = self
            .lines
            .find_map(|line| line.ok()?.strip_prefix(&begins).map(str::to_owned))?;
        line.split([' ', ',']).next()?.parse().ok()
    }
}

#[test]
fn a_standby_takes_a_shop_over_and_no_receipt_is_lost() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut seller = start(
        home.path(),
        &["sell", "archives", "first", "north", "south"],
    );
    assert_eq!(seller.hear("south", "found"), Some(0));
    let mut standby = start(home.path(), &["stand-by", "archives", "second", "north"]);
    let mut receipts = 0;
    while receipts < 50 {
        receipts = seller.hear("north", "sale").unwrap();
    }
    seller.child.kill().unwrap();
    while let Some(receipt) = seller.hear("north", "sale") {
        receipts = receipt;
    }
    standby
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n")
        .unwrap();
    let found = standby.hear("north", "found").unwrap();
    // The last sale may have been archived without its receipt.
    assert!(
        (receipts..=receipts + 1).contains(&found),
        "{receipts} {found}"
    );
    assert_eq!(standby.hear("north", "sale"), Some(found + 1));
    // The seller comes back, and must not sell.
    let returned = Command::new(program())
        .current_dir(home.path())
        .args(["sell", "archives", "first", "north"])
        .output()
        .unwrap();
    let error = String::from_utf8(returned.stderr).unwrap();
    assert!(
        !returned.status.success() && error.contains("another opening owns"),
        "{error}"
    );
    // The other shop goes on where it was.
    let mut south = start(home.path(), &["sell", "archives", "first", "south"]);
    assert!(south.hear("south", "found").is_some());
    // Taken over while it sells: its receipts end below the successor's first sale.
    let mut third = start(home.path(), &["stand-by", "archives", "third", "north"]);
    third
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n")
        .unwrap();
    let found = third.hear("north", "found").unwrap();
    let mut last = 0;
    while let Some(receipt) = standby.hear("north", "sale") {
        last = receipt;
    }
    assert!(last <= found, "{last} {found}");
    assert_eq!(third.hear("north", "sale"), Some(found + 1));
}
