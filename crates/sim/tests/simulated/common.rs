//! Functions that several of these tests use.

use logforce_core::{Error, Log, OpenMode, Options, RepairReport};
use logforce_device::Runtime;
use logforce_format::{CONTROL_SLOT_LEN, CONTROL_SLOT_OFFSETS, Control};
use logforce_sim::mending::{self, OnDamage};
use logforce_sim::model::PATH;
use logforce_testkit::{SimDisk, SimRuntime};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};

/// Opens the log, or creates one.
pub fn open(disk: &SimDisk, rt: &SimRuntime, options: &Options) -> Result<Log, Error> {
    let system = disk.system(rt);
    Log::open(&*system, PATH, OpenMode::OpenOrCreate, options.clone())
}

/// Opens the log like [`open`], and panics on an error.
pub fn opened(disk: &SimDisk, rt: &SimRuntime, options: Options) -> Log {
    open(disk, rt, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Opens a log, perhaps after a repair. Returns the report of the repair.
pub fn mended(
    disk: &SimDisk,
    rt: &SimRuntime,
    options: &Options,
    on_damage: OnDamage,
) -> Result<(Log, Option<RepairReport>), Error> {
    on_damage.open(&*disk.system(rt), options)
}

/// Opens a log like [`mended`], after a repair that must succeed.
pub fn repaired(disk: &SimDisk, rt: &SimRuntime, options: &Options) -> (Log, RepairReport) {
    mending::repaired(&*disk.system(rt), options)
}

/// Changes the control slots and corrects their checksums.
pub fn forge_control(disk: &SimDisk, change: impl Fn(&mut Control)) {
    let mut bytes = disk.file_bytes(PATH, "control").expect("a control file");
    for at in CONTROL_SLOT_OFFSETS {
        let slot = &mut bytes[at as usize..][..CONTROL_SLOT_LEN];
        let mut control = Control::decode(slot).expect("a slot");
        change(&mut control);
        slot.copy_from_slice(&control.encode());
    }
    disk.put_file(PATH, "control", &bytes);
}

/// Polls a future in a simulated thread.
pub fn block_on<T>(rt: &SimRuntime, future: impl Future<Output = T>) -> T {
    struct Word(AtomicU32, SimRuntime);
    impl Wake for Word {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
            self.1.wake_all(&self.0);
        }
    }
    let word = Arc::new(Word(AtomicU32::new(0), rt.clone()));
    let waker = word.clone().into();
    let mut future = pin!(future);
    loop {
        let seen = word.0.load(SeqCst);
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        rt.wait(&word.0, seen, None);
    }
}
