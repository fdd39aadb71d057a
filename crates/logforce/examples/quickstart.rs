//! The shortest use: commit a record, read everything back.
//!
//! `cargo run -p logforce --example quickstart [DIR]` (`sales.log` in the current directory)

use logforce::{Options, Result};

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or("sales.log".into());
    if dir.as_encoded_bytes().starts_with(b"-") {
        println!("usage: quickstart [DIR]");
        std::process::exit(if dir == "--help" { 0 } else { 2 });
    }
    let log = logforce::open_or_create(dir, Options::new())?;
    let sale = log.commit(b"one coffee, 2.50")?; // survives a loss of power from here on
    println!("committed at {}: {}", sale.start, sale.guarantee);
    for record in log.read_from(log.front_lsn())? {
        println!("{}", String::from_utf8_lossy(&record?.data));
    }
    log.close()
}
