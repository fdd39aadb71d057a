//! A durable sale with rusqlite: `cargo run -p logforce-sqlite --example sale`.

use rusqlite::{Connection, OpenFlags};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    logforce_sqlite::register()?;
    let flags = OpenFlags::default();
    let db = Connection::open_with_flags_and_vfs("sale.db", flags, logforce_sqlite::VFS)?;
    db.query_row("SELECT logforce_vfs_in_use()", (), |_| Ok(()))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.execute_batch("CREATE TABLE IF NOT EXISTS sale(cents INTEGER)")?;
    db.execute("INSERT INTO sale VALUES (250)", ())?; // durable when it returns
    let answer = "SELECT logforce_durability('main') ->> '$.summary'";
    let survives: String = db.query_row(answer, (), |row| row.get(0))?;
    println!("{survives}");
    Ok(())
}
