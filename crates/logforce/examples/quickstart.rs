//! The program of the README: commits a record, and reads back all records.
//!
//! `cargo run --release -p logforce --example quickstart` (the log is `sales.log` in the current
//! directory)

use logforce::{Options, Result, open_or_create};

fn main() -> Result<()> {
    let log = open_or_create("sales.log", Options::new())?;

    let sale = log.commit(b"one coffee, 2.50")?; // survives a power cut from here on
    println!("committed at {}: {}", sale.start, sale.guarantee);

    for record in log.read_from(log.front_lsn())? {
        println!("{}", String::from_utf8_lossy(&record?.data));
    }
    log.close()
}
