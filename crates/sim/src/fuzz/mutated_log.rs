//! Fuzz targets that open a mutated log in one way or in all ways.

use super::agree::agree;
use super::base::{self, Base, disk_options};
use super::mutated::Mutated;
use super::mutation::{Mutation, mutated};
use super::opening;
use super::oracle::Case;
use crate::mending::OnDamage;
use crate::model::PATH;
use arbitrary::Arbitrary;
use logforce_testkit::SimDisk;
use std::sync::Arc;

/// Largest number of mutations. With more, one would hide another.
const MUTATIONS: usize = 12;

#[derive(Debug, Arbitrary)]
pub(super) struct Input<'a> {
    base: u8,
    how: How,
    mutations: Vec<Mutation<'a>>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum How {
    Walk,
    Salvage,
    Read,
    Follow,
    Write,
    Truncate,
}

/// Returns a disk with the mutated log.
fn disk(base: &Base, m: &Mutated<'_>) -> SimDisk {
    let disk = SimDisk::new(disk_options(), 1);
    disk.restore(&base.disk);
    for name in base.files.keys().filter(|n| !m.files.contains_key(*n)) {
        disk.remove_file(PATH, name);
    }
    for (name, bytes) in &m.files {
        let before = base.files.get(name);
        if before.is_none_or(|b| !Arc::ptr_eq(b, bytes)) {
            disk.put_file(PATH, name, bytes);
        }
    }
    m.make_unreadable(&disk);
    disk
}

pub(super) fn run(input: Input<'_>) {
    let bases = base::all();
    let base = &bases[usize::from(input.base) % bases.len()];
    let mutations = &input.mutations[..input.mutations.len().min(MUTATIONS)];
    let m = mutated(base, mutations);
    if super::says() {
        let sizes = m.files.iter().map(|(name, bytes)| (name, bytes.len()));
        eprintln!("'{}': {:?}", base.name, sizes.collect::<Vec<_>>());
        eprintln!("{:#?}\n{:#?}", base.segments, base.batches);
    }
    let disk = disk(base, &m);
    let case = Case::new(&m);
    match input.how {
        How::Walk | How::Salvage => {
            let salvage = matches!(input.how, How::Salvage);
            if let Ok(walked) = opening::walk(&disk, salvage) {
                case.walked(&walked);
            }
        }
        How::Read => {
            if let Ok(shown) = opening::read_only(&disk) {
                case.shown(&shown, "read");
            }
        }
        How::Follow => {
            if let Some(records) = opening::follow(&disk) {
                case.followed(&records);
            }
        }
        How::Write | How::Truncate => {
            let truncating = matches!(input.how, How::Truncate);
            let on_damage = match truncating {
                true => OnDamage::Repair,
                false => OnDamage::Refuse,
            };
            let written = opening::write(&disk, &base.options, on_damage);
            if super::says() {
                eprintln!("{written:?}");
            }
            if let Ok(written) = written {
                case.written(&written, truncating);
            }
        }
    }
}

/// Opens the same log in all ways.
pub(super) fn all_ways(input: Input<'_>) {
    let bases = base::all();
    let base = &bases[usize::from(input.base) % bases.len()];
    let mutations = &input.mutations[..input.mutations.len().min(MUTATIONS)];
    let m = mutated(base, mutations);
    agree(&disk(base, &m), &m, &Case::new(&m));
}
