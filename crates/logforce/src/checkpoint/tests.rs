use super::*;
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

const NAME: &str = "checkpoint";

fn state(n: u64) -> Vec<u8> {
    (0..n * 300).map(|i| (i * 7 + n) as u8).collect()
}

/// Runs `act` on the simulated disk, with the checkpoint's path `/d/checkpoint`.
fn on<T: Send + 'static>(
    disk: &SimDisk,
    seed: u64,
    act: impl FnOnce(&dyn System, &Path) -> T + Send + 'static,
) -> T {
    SimRuntime::run(seed, |rt| {
        act(&*disk.system(rt), Path::new("/d/checkpoint"))
    })
}

/// Creates a disk with an empty directory, and with the checkpoint `before` in it if that is not 0.
fn disk(seed: u64, before: u64) -> SimDisk {
    let disk = SimDisk::new(SimOptions::default(), seed);
    SimRuntime::run(seed, |rt| {
        let system = disk.system(rt);
        system
            .make_directory(Path::new("/d"))
            .unwrap()
            .sync()
            .unwrap();
        if before > 0 {
            write_on(
                &*system,
                Path::new("/d/checkpoint"),
                Lsn(before),
                &state(before),
            )
            .unwrap();
        }
    });
    disk
}

/// Returns the number of the complete checkpoint on the disk, or 0 if there is none.
fn found(disk: &SimDisk, seed: u64) -> u64 {
    let read = on(disk, seed, |system, path| read_on(system, path)).unwrap();
    read.map_or(0, |found| {
        assert_eq!(found.state, state(found.lsn.0));
        found.lsn.0
    })
}

#[test]
fn a_missing_directory_is_not_a_missing_checkpoint() {
    let read = |system: &dyn System, _: &Path| {
        let of = |path: &str| read_on(system, Path::new(path));
        (of("/d/checkpoint"), of("/missing/checkpoint"))
    };
    let (file, directory) = on(&disk(1, 0), 1, read);
    assert_eq!(file.unwrap(), None);
    let message = directory.unwrap_err().to_string();
    assert!(message.contains("/missing/checkpoint"), "{message}");
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_or_the_new_one() {
    let mut seen = [0; 2];
    for before in [0, 1] {
        let whole = disk(1, before);
        let from = whole.ops();
        on(&whole, 1, |system, path| {
            write_on(system, path, Lsn(2), &state(2))
        })
        .unwrap();
        for op in from..=whole.ops() {
            for seed in 0..20 {
                let cut = disk(seed, before);
                assert_eq!(cut.ops(), from);
                cut.cut_at(op);
                let wrote = on(&cut, seed, |system, path| {
                    write_on(system, path, Lsn(2), &state(2))
                });
                if wrote.is_ok() {
                    cut.cut();
                }
                cut.reboot(seed);
                let left = found(&cut, seed);
                assert!(
                    left == 2 || (left == before && wrote.is_err()),
                    "{op}, seed {seed}: {left}"
                );
                seen[usize::from(left == 2)] += 1;
                // Remains of the crash do not disturb the next checkpoint.
                on(&cut, seed, |system, path| {
                    write_on(system, path, Lsn(3), &state(3))
                })
                .unwrap();
                assert_eq!(found(&cut, seed), 3);
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_missing_one_is_not_a_damaged_one() {
    let home = tempfile::tempdir_in(".").unwrap();
    let path = home.path().join(NAME);
    assert_eq!(read(&path).unwrap(), None);
    assert_eq!(read(path.join("below/nothing")).ok().flatten(), None);
    // A crash has left a file under the temporary name.
    std::fs::write(home.path().join("checkpoint.new"), "half").unwrap();
    let large = vec![7; 2 * CHUNK + 5];
    write(&path, Lsn(9), &large).unwrap();
    let names = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(names, 1);
    let whole = read(&path).unwrap().unwrap();
    assert!(whole.lsn == Lsn(9) && whole.state == large);
    write(&path, Lsn(10), b"").unwrap();
    assert_eq!(read(&path).unwrap().unwrap().state, b"");
    assert!(write(home.path().join(".."), Lsn(0), b"").is_err());
    assert!(write(home.path().join("no/such"), Lsn(0), b"").is_err());
}

#[test]
fn every_changed_bit_and_every_length_is_found() {
    let home = tempfile::tempdir_in(".").unwrap();
    let path = home.path().join(NAME);
    write(&path, Lsn(7), &state(1)[..40]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut newer = 0;
    let mut check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        match read(&path) {
            Err(Error::Damaged { .. }) => {}
            Err(Error::NewerFormat { version, .. }) if version > bytes::VERSION => newer += 1,
            other => panic!("{other:?}"),
        }
    };
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        check(&changed);
    }
    for len in 0..bytes.len() {
        check(&bytes[..len]);
    }
    check(&[&bytes[..], b"x"].concat());
    // The header names a length that exceeds memory: nothing is allocated for it.
    let mut huge = Header::decode(bytes[..HEADER].try_into().unwrap()).unwrap();
    huge.len = 1 << 40;
    std::fs::write(&path, huge.encode()).unwrap();
    assert!(matches!(read(&path), Err(Error::Damaged { .. })));
    assert_eq!(newer, 31);
}
