//! Durable files: commits of several threads, durable writes, submissions, preparing, and the end of a file.

use crate::harness::explore;
use crate::world::{METHODS, Word, World, below, one_in, pick};
use logforce_commit::file::{Acknowledged, CommitHandle, File, Options, Prepare, Result};
use logforce_core::Guarantee;
use logforce_device::Runtime;
use logforce_device::sync::AtomicU32;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

pub const DIR: &str = "/files";
pub const NAME: &str = "slots";
/// Size of a slot, bytes: the unit of aligned writes.
pub const SLOT: usize = 4096;

/// Returns options with any method that survives a power cut here. Nothing gathers, so that every wait needs a
/// wake.
pub fn options() -> Options {
    let options = Options::new().create(true).method(pick(&METHODS));
    options.aligned(true).in_flight_at_first(pick(&[1, 4]))
}

/// A file whose slots are each written once, by any thread.
#[derive(Clone)]
pub struct Slots {
    pub file: Arc<File>,
    /// Slots whose write has completed.
    completed: Arc<Mutex<Vec<u64>>>,
}

impl Slots {
    pub fn open(world: &World, options: Options) -> Slots {
        let system = world.disk.system(&world.rt);
        let dir = system.make_directory(Path::new(DIR));
        dir.expect("nothing fails in opening");
        let file = options.open(&*system, &Path::new(DIR).join(NAME));
        Slots {
            file: Arc::new(file.expect("nothing fails in opening")),
            completed: Arc::default(),
        }
    }

    pub fn write(&self, slot: u64) -> Result<()> {
        self.file.write_at(&image(slot), slot * SLOT as u64)?;
        self.complete(slot);
        Ok(())
    }

    fn complete(&self, slot: u64) {
        self.completed.lock().expect("no panic").push(slot);
    }

    /// Returns the slots whose write has completed.
    pub fn completed(&self) -> Vec<u64> {
        self.completed.lock().expect("no panic").clone()
    }

    pub fn commit(&self, world: &World) -> Result<()> {
        let covers = self.completed();
        let done = self.file.commit()?;
        acknowledged(world, done, &covers);
        Ok(())
    }

    pub fn write_commit(&self, world: &World, slot: u64) -> Result<()> {
        let done = self.file.write_commit(&image(slot), slot * SLOT as u64)?;
        self.complete(slot);
        acknowledged(world, done, &[slot]);
        Ok(())
    }

    /// Submits a slot. Returns the handle and the slots that it covers.
    pub fn submit(&self, slot: u64) -> Result<(CommitHandle, Vec<u64>)> {
        let mut covers = self.completed();
        let handle = self.file.submit(&image(slot), slot * SLOT as u64)?;
        self.complete(slot);
        covers.push(slot);
        Ok((handle, covers))
    }

    pub fn commit_async(&self, world: &World) -> Result<()> {
        let covers = self.completed();
        let done = world.block_on(self.file.commit_async())?;
        acknowledged(world, done, &covers);
        Ok(())
    }

    /// Drops the file, which makes all submissions durable.
    pub fn drop(self) {
        drop(Arc::into_inner(self.file).expect("the last one"));
    }
}

/// Returns the bytes of a slot.
fn image(slot: u64) -> Vec<u8> {
    (0xf11e_0000 + slot).to_le_bytes().repeat(SLOT / 8)
}

/// Checks that the slots are on the medium.
pub fn stable(world: &World, slots: &[u64]) {
    let bytes = world.disk.file_bytes(DIR, NAME);
    let bytes = bytes.expect("the name is durable");
    for &slot in slots {
        let found = bytes.get(slot as usize * SLOT..(slot as usize + 1) * SLOT);
        assert!(
            found == Some(&image(slot)),
            "slot {slot} was acknowledged, but a power cut loses it"
        );
    }
}

/// Checks an acknowledgement of these slots.
pub fn acknowledged(world: &World, done: Acknowledged, slots: &[u64]) {
    assert_eq!(done.guarantee, Guarantee::PowerLoss);
    stable(world, slots);
}

/// Polls once, with a waker that wakes nothing.
fn poll_once(world: &World, handle: &mut CommitHandle) -> Poll<Result<Acknowledged>> {
    let waker = Word::new(world).into();
    Pin::new(handle).poll(&mut Context::from_waker(&waker))
}

/// Ends a handle in one of several ways. Returns `None` if it was dropped.
pub fn finish(world: &World, mut handle: CommitHandle) -> Option<Result<Acknowledged>> {
    match below(5) {
        0 => Some(handle.wait()),
        1 => Some(world.block_on(handle)),
        2 => Some(match poll_once(world, &mut handle) {
            Poll::Ready(done) => done,
            // Another task's waker; the last one counts.
            Poll::Pending => world.block_on(handle),
        }),
        3 => None,
        _ => {
            let _ = poll_once(world, &mut handle);
            None
        }
    }
}

/// Each commit covers all writes that had completed before it, in any thread.
#[test]
fn file_commits() {
    explore("file_commits", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        let threads: Vec<_> = (0..2 + below(2))
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        slots.write(10 * n + i).expect("nothing fails");
                        slots.commit(world).expect("nothing fails");
                    }
                })
            })
            .collect();
        let writes = one_in(2);
        for slot in 90..92 {
            if writes {
                slots.write(slot).expect("nothing fails");
            }
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let completed = slots.completed();
        let counters = slots.file.stats().counters;
        assert!(counters.syncs <= counters.commits, "{counters:?}");
        let file = Arc::into_inner(slots.file).expect("the last one");
        file.close().expect("nothing fails");
        stable(&world, &completed);
    });
}

/// Durable writes, alone and at once, beside commits. A write-through makes no other write durable.
#[test]
fn file_write_commits() {
    explore("file_write_commits", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        slots.write_commit(&world, 90).expect("nothing fails");
        let threads: Vec<_> = (0..2 + below(2))
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        let slot = 10 * n + i;
                        match one_in(3) {
                            true => slots.write(slot).and_then(|()| slots.commit(world)),
                            false => slots.write_commit(world, slot),
                        }
                        .expect("nothing fails");
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        slots.commit(&world).expect("nothing fails");
        slots.drop();
    });
}

/// The first submissions of several threads at once, beside commits. Dropping the file makes all submissions
/// durable, also those whose handle was dropped.
#[test]
fn file_submissions() {
    explore("file_submissions", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        let threads: Vec<_> = (0..2 + below(2))
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    for i in 0..2 {
                        let (handle, covers) = slots.submit(10 * n + i).expect("nothing fails");
                        if let Some(done) = finish(world, handle) {
                            acknowledged(world, done.expect("nothing fails"), &covers);
                        }
                        if one_in(3) {
                            slots.commit_async(world).expect("nothing fails");
                        }
                    }
                })
            })
            .collect();
        if one_in(2) {
            slots.write(90).expect("nothing fails");
            slots.commit(&world).expect("nothing fails");
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let submitted = slots.completed();
        slots.drop();
        stable(&world, &submitted);
    });
}

/// A single handle while no other thread works, so only one wake can reach it.
#[test]
fn file_with_one_handle() {
    explore("file_with_one_handle", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        for slot in 0..2 {
            let (handle, covers) = slots.submit(slot).expect("nothing fails");
            let done = world.block_on(handle).expect("nothing fails");
            acknowledged(&world, done, &covers);
        }
        slots.write(2).expect("nothing fails");
        slots.commit_async(&world).expect("nothing fails");
        let (handle, covers) = slots.submit(3).expect("nothing fails");
        slots.drop();
        // The file is gone, and its thread has made the submission durable.
        assert!(handle.is_done());
        acknowledged(&world, handle.wait().expect("nothing fails"), &covers);
    });
}

/// A waker that drops a file.
struct Drops {
    file: Mutex<Option<Arc<File>>>,
    then: Arc<Word>,
}

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        drop(self.file.lock().expect("no panic").take());
        self.then.add();
    }
}

/// A waker drops the last reference to the file: in the file's thread, or in one that waits for a handle.
#[test]
fn file_dropped_in_a_waker() {
    explore("file_dropped_in_a_waker", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        let (mut first, covers) = slots.submit(0).expect("nothing fails");
        let waits = one_in(2).then(|| {
            let (handle, covers) = slots.submit(1).expect("nothing fails");
            world.spawn(move |world| {
                acknowledged(world, handle.wait().expect("nothing fails"), &covers);
            })
        });
        let (last, last_covers) = slots.submit(2).expect("nothing fails");
        let woken = Word::new(&world);
        let drops = Arc::new(Drops {
            file: Mutex::new(Some(slots.file)),
            then: woken.clone(),
        });
        let waker = drops.into();
        let done = match Pin::new(&mut first).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => done,
            Poll::Pending => {
                woken.reaches(1);
                first.wait()
            }
        };
        acknowledged(&world, done.expect("nothing fails"), &covers);
        drop(waker);
        let done = match one_in(2) {
            true => last.wait(),
            false => world.block_on(last),
        };
        acknowledged(&world, done.expect("nothing fails"), &last_covers);
        if let Some(waits) = waits {
            waits.join().expect("no thread panics");
        }
    });
}

/// A file that has one sync at a time waits for the threads that commit again. The wait ends by itself.
#[test]
fn file_gathers() {
    explore("file_gathers", || {
        let world = World::new();
        let clock = world.rt.with_clock();
        let slots = Slots::open(&world, options().in_flight_at_first(0));
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    // One thread does not commit again.
                    for i in 0..3 - n.min(2) {
                        match one_in(2) {
                            true => slots.write_commit(world, 10 * n + i),
                            false => {
                                let written = slots.write(10 * n + i);
                                written.and_then(|()| slots.commit(world))
                            }
                        }
                        .expect("nothing fails");
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        slots.drop();
        drop(clock);
    });
}

/// Ranges are prepared while other threads commit. Size and present bytes are durable on return.
#[test]
fn file_prepares() {
    explore("file_prepares", || {
        let world = World::new();
        let slots = Slots::open(&world, options());
        let committing = {
            let slots = slots.clone();
            world.spawn(move |world| {
                for slot in 0..3 {
                    match one_in(2) {
                        true => slots.write_commit(world, slot),
                        false => slots.write(slot).and_then(|()| slots.commit(world)),
                    }
                    .expect("nothing fails");
                }
            })
        };
        let preparing = {
            let slots = slots.clone();
            world.spawn(move |world| {
                let is_there = one_in(2);
                if is_there {
                    slots.write(10).expect("nothing fails");
                }
                let range = 10 * SLOT as u64..14 * SLOT as u64;
                let how = pick(&[Prepare::Written, Prepare::Reserved]);
                let prepared = slots.file.prepare(range.clone(), how);
                prepared.expect("nothing fails");
                let bytes = world.disk.file_bytes(DIR, NAME).expect("it is there");
                assert!(bytes.len() as u64 >= range.end, "the size is not durable");
                if is_there {
                    stable(world, &[10]);
                }
                slots.write_commit(world, 12).expect("nothing fails");
            })
        };
        committing.join().expect("no thread panics");
        preparing.join().expect("no thread panics");
        slots.drop();
    });
}

/// Commits within bounds become durable in time by the file's thread, also if a later one has a shorter bound.
#[test]
fn file_commits_within() {
    explore("file_commits_within", || {
        let world = World::new();
        let clock = world.rt.with_clock();
        let slots = Slots::open(&world, options());
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let slots = slots.clone();
                world.spawn(move |world| {
                    for slot in 10 * n..10 * n + 2 {
                        let bound = Duration::from_millis(pick(&[4, 40]));
                        slots.write(slot).expect("nothing fails");
                        let committed = slots.file.commit_within(bound);
                        committed.expect("nothing fails");
                        if one_in(2) {
                            let word = AtomicU32::new(0);
                            world.rt.wait(&word, 0, Some(bound));
                            stable(world, &[slot]);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let completed = slots.completed();
        slots.drop();
        stable(&world, &completed);
        drop(clock);
    });
}
