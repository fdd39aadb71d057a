//! Code of `docs/guide/own-format.md`.

use super::Result;
use crate::common::*;
use logforce::Guarantee;
use logforce::file::{self, ErrorKind, File, Prepare, Prepared};

fn options() -> file::Options {
    File::options()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
}

#[test]
fn a_commit() -> Result<()> {
    let home = temp();
    let path = home.path().join("data.db");
    let options = options();
    let (page, offset, header) = ([7; 4096], 4096, [1; 512]);
    let file = options.create(true).lock(true).open(&path)?;
    file.write_at(&page, offset)?;
    file.commit()?; // durable: the page, and what other threads had written before
    file.write_commit(&header, 0)?; // durable: the header, which refers to the page
    assert_eq!(std::fs::metadata(&path)?.len(), 8192);
    Ok(())
}

#[test]
fn preparing() -> Result<()> {
    let home = temp();
    let file = options().create(true).open(home.path().join("journal"))?;
    match file.prepare(0..64 << 20, Prepare::Written) {
        Ok(Prepared::Written) => println!("commits below 64 MiB need no space and no metadata"),
        Ok(other) => println!("{other:?}: the filesystem promises less"),
        Err(e) if e.kind() == ErrorKind::NoSpace => println!("the file goes on: {e}"),
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

#[test]
fn after_an_error() -> Result<()> {
    let home = temp();
    let path = home.path().join("data.db");
    file::create_durably(&path, &[0; 8192])?;
    let file = options().open(&path)?;
    let page = [7; 4096];
    let file = match file.write_commit(&page, 4096) {
        Err(e) if e.kind() == ErrorKind::Poisoned => {
            drop(file); // acknowledge nothing more, and find out what is there
            options().lock(true).open(&path)?
        }
        other => {
            other?;
            file
        }
    };
    let mut header = [0; 512];
    file.read_medium_at(&mut header, 0)?; // past the cache, which may show what the medium lacks
    Ok(())
}

#[test]
fn names() -> Result<()> {
    let home = temp();
    let dir = home.path().to_owned();
    let config = b"size = 7";
    file::create_durably(dir.join("journal.1"), b"journal v1\n")?;
    file::replace_durably(dir.join("config"), config)?;
    file::rename_durably(dir.join("journal.1"), dir.join("journal.old"))?;
    std::fs::remove_file(dir.join("journal.old"))?;
    file::sync_parent(dir.join("journal.old"))?;
    assert_eq!(std::fs::read(dir.join("config"))?, config);
    Ok(())
}

#[test]
fn in_tasks() -> Result<()> {
    let home = temp();
    let file = options().create(true).open(home.path().join("f"))?;
    let (record, offset) = (*b"order 18", 0);
    smol::block_on(async {
        file.write_at(&record, offset)?;
        file.commit_async().await?;
        let handle = file.submit(&record, offset + 8)?; // does not wait for the sync
        handle.await?;
        Ok(())
    })
}
