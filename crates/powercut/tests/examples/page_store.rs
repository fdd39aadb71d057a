//! The example `page_store`: each transaction writes its number into some pages, and into page 0.

#[allow(dead_code)]
#[path = "../../../logforce/examples/page_store.rs"]
mod example;

use super::{Syncs, crashtest, options};
use example::{PAGE, PageStore};
use logforce::Method;
use logforce_crashtest::{Acknowledged, Acknowledger, TaskResult, Verdict};
use std::path::Path;

const SYNCED: Syncs = Syncs::By([Method::DirectFdatasync, Method::DirectDsync]);
/// Number of pages besides page 0. They nearly fill the file, so its free places are rarely side by side.
const PAGES: u64 = 215;
/// Distance of the two tables in which pages are. Their entries are in two sectors of the header, so that a
/// power cut can tear it.
const TABLES: u64 = 70;

/// Returns page number `n`, counted from 1.
fn page(n: u64) -> u32 {
    (n + n % 2 * TABLES * 512) as u32
}

/// Returns the pages of a transaction. Few pages make one run, many make several.
fn pages(number: u64) -> impl Iterator<Item = u32> {
    let count = [1, 3, 12][number as usize % 3];
    let numbers = (0..count).map(move |i: u64| 1 + (number * 7919 + i * 131) % PAGES);
    std::iter::once(0).chain(numbers.map(page))
}

fn page_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE / 8)
}

fn number_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

fn commit(dir: &Path, acks: &mut Acknowledger, syncs: Syncs) -> TaskResult {
    let mut store = PageStore::open(dir.join("pages"), options(syncs))?;
    for number in number_of(&store.read(0)?) + 1.. {
        for page in pages(number) {
            store.write(page, &page_of(number))?;
        }
        store.commit()?;
        acks.ack(number)?;
    }
    unreachable!("numbers have no end")
}

/// Compares all pages with those of the last transaction.
fn all_are_there(dir: &Path, acknowledged: &Acknowledged) -> TaskResult {
    let store = PageStore::open(dir.join("pages"), options(SYNCED))?;
    let last = number_of(&store.read(0)?);
    let acked = acknowledged.numbers()?.last().copied().unwrap_or(0);
    if last < acked {
        return Err(format!("acknowledged {acked}, the last is {last}").into());
    }
    // Every page was written within the last few transactions, if at all.
    let mut left: Vec<u32> = (1..=PAGES).map(page).collect();
    for number in (1..=last).rev() {
        for page in pages(number).skip(1) {
            let Some(at) = left.iter().position(|p| *p == page) else {
                continue;
            };
            left.swap_remove(at);
            if store.read(page)? != page_of(number) {
                return Err(format!("page {page} is not of transaction {number}").into());
            }
        }
        if left.is_empty() {
            break;
        }
    }
    store.check()?;
    store.close()
}

#[test]
fn the_page_store_keeps_what_it_acknowledged() {
    crashtest()
        .workload(|dir, acks| commit(dir, acks, SYNCED))
        .check(all_are_there)
        .run()
        .assert_survived();
}

#[test]
fn the_page_store_without_syncs_loses() {
    let outcome = crashtest()
        .workload(|dir, acks| commit(dir, acks, Syncs::None))
        .check(all_are_there)
        .states(0)
        .run();
    if let Some(verdict) = outcome.verdict() {
        assert_eq!(verdict, Verdict::Lost);
    }
}
