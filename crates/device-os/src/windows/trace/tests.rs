use super::Call::{Flush, FlushEx, MoveFileEx, Open};
use super::*;
use crate::windows::directory::OsDirectory;
use crate::windows::{flush, handle};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, System, Write};
use std::ffi::c_void;
use std::path::Path;
use windows_sys::Win32::Foundation::{
    ERROR_ACCESS_DENIED, GENERIC_READ, GENERIC_WRITE, HANDLE, NTSTATUS, STATUS_DISK_FULL,
    STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_2,
    STATUS_NOT_IMPLEMENTED, STATUS_NOT_SUPPORTED, STATUS_PENDING,
};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

// Numbers instead of constants: a constant that is wrong in the code would be wrong here too.
const CREATE_NEW: u32 = 1;
const OPEN_EXISTING: u32 = 3;
const DELETE: u32 = 0x1_0000;
const SYNCHRONIZE: u32 = 0x10_0000;
const READ_ATTRIBUTES: u32 = 0x80;
const WRITE_THROUGH: u32 = 0x8000_0000;
const OVERLAPPED: u32 = 0x4000_0000;
const DELETE_ON_CLOSE: u32 = 0x0400_0000;
const BACKUP_SEMANTICS: u32 = 0x0200_0000;
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
/// `FLUSH_FLAGS_FILE_DATA_SYNC_ONLY`.
const DATA: Call = FlushEx { flags: 4 };
/// `MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH`.
const MOVE: Call = MoveFileEx { flags: 1 | 8 };

thread_local!(static ANSWER: Cell<NTSTATUS> = const { Cell::new(0) });

/// Replaces `NtFlushBuffersFileEx`.
pub extern "system" fn flushes(
    _: HANDLE,
    flags: u32,
    _: *const c_void,
    _: u32,
    _: *mut IO_STATUS_BLOCK,
) -> NTSTATUS {
    record(FlushEx { flags });
    ANSWER.get()
}

/// Makes a directory for the test.
pub fn opened() -> (tempfile::TempDir, OsDirectory) {
    let temp = tempfile::TempDir::new().unwrap();
    let dir = OsDirectory::open(temp.path()).unwrap();
    (temp, dir)
}

/// Simulates a system that has a flush of the data alone.
fn with_data_only() -> (tempfile::TempDir, OsDirectory) {
    pretend(Pretended {
        flush_ex: Some(flushes),
        filesystem: Some("NTFS"),
        ..Pretended::default()
    });
    opened()
}

/// Writes 4096 bytes of `byte`.
pub fn write(file: &dyn File, offset: u64, byte: u8, through: bool) {
    let mut buf = AlignedBuf::zeroed(4096, 4096);
    buf.fill(byte);
    let ticket = file.submit(Write {
        offset,
        buf,
        range: 0..4096,
        through,
    });
    file.complete(ticket).result.unwrap();
}

/// Returns the file's identity, by a separate handle.
fn identity(path: &Path) -> FileIdentity {
    handle::identity(&std::fs::File::open(path).unwrap().into()).unwrap()
}

fn full(path: &Path) -> Call {
    Flush {
        of: identity(path),
        ok: true,
    }
}

fn barrier(file: &dyn File, barrier: Barrier) -> Vec<Call> {
    let (result, calls) = calls(|| file.barrier(barrier));
    result.unwrap();
    calls
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn assert_synced_by_a_file(calls: &[Call]) {
    let made = Open {
        name: "~".to_owned(),
        access: GENERIC_WRITE | DELETE,
        disposition: CREATE_NEW,
        flags: WRITE_THROUGH | DELETE_ON_CLOSE,
    };
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], made);
    assert!(matches!(calls[1], Flush { ok: true, .. }), "{calls:?}");
}

/// Checks that the code tried to flush the directory, and flushed a file in it.
fn assert_synced(calls: &[Call], path: &Path) {
    let of = OsDirectory::open(path).unwrap().identity();
    let open = Open {
        name: name_of(path),
        access: GENERIC_READ | GENERIC_WRITE,
        disposition: OPEN_EXISTING,
        flags: BACKUP_SEMANTICS,
    };
    assert_eq!(calls.first(), Some(&open), "{calls:?}");
    match &calls[1..] {
        [Flush { of: flushed, .. }, rest @ ..] if *flushed == of => assert_synced_by_a_file(rest),
        // Opening the directory was refused.
        rest => assert_synced_by_a_file(rest),
    }
}

#[test]
fn a_flush_asks_the_system() {
    // A filesystem without flushes of data alone; another test covers those.
    pretend(Pretended {
        filesystem: Some("FAT32"),
        ..Pretended::default()
    });
    let (temp, dir) = opened();
    let path = temp.path().join("a");
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    let reading = std::fs::File::open(&path).unwrap().into();
    // A handle that may not write is refused, which shows that the system was called.
    let (result, calls) = calls(|| flush::all(&reading));
    let refused = Some(ERROR_ACCESS_DENIED as i32);
    assert_eq!(result.unwrap_err().raw_os_error(), refused);
    let of = identity(&path);
    assert_eq!(calls, [Flush { of, ok: false }]);
    // A file that was opened for reading is flushed by another handle.
    write(&*file, 0, 0, false);
    let reader = dir.open("a", OpenFile::READ).unwrap();
    for each in [Barrier::Full, Barrier::Data, Barrier::Fsync, Barrier::Order] {
        assert_eq!(
            barrier(&*reader, each).last(),
            Some(&full(&path)),
            "{each:?}"
        );
    }
}

#[test]
fn data_alone_is_flushed_where_the_ends_are_durable_and_nowhere_else() {
    let (temp, dir) = with_data_only();
    let path = temp.path().join("a");
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    write(&*file, 0, 0, false);
    let full = [full(&path)];
    assert_eq!(barrier(&*file, Barrier::Data), full, "it has grown");
    assert_eq!(barrier(&*file, Barrier::Data), [DATA]);
    write(&*file, 0, 0, false);
    assert_eq!(barrier(&*file, Barrier::Data), [DATA], "overwritten");
    assert_eq!(barrier(&*file, Barrier::Full), full);
    write(&*file, 4096, 0, false);
    assert_eq!(barrier(&*file, Barrier::Full), full);
    assert_eq!(barrier(&*file, Barrier::Data), [DATA]);
    write(&*file, 8192, 0, false);
    assert_eq!(barrier(&*file, Barrier::Data), full, "grown again");
}

#[test]
fn a_flush_of_data_that_is_refused_is_a_full_one_and_one_that_failed_is_an_error() {
    let (temp, dir) = with_data_only();
    let file = dir.open("a", OpenFile::CREATE).unwrap();
    let full = full(&temp.path().join("a"));
    for refusal in [
        STATUS_NOT_SUPPORTED,
        STATUS_NOT_IMPLEMENTED,
        STATUS_INVALID_DEVICE_REQUEST,
        STATUS_INVALID_PARAMETER,
        STATUS_INVALID_PARAMETER_2,
        STATUS_PENDING,
    ] {
        ANSWER.set(refusal);
        let calls = barrier(&*file, Barrier::Data);
        assert_eq!(calls, [DATA, full.clone()], "{refusal:#x}");
    }
    ANSWER.set(STATUS_DISK_FULL);
    let (result, calls) = calls(|| file.barrier(Barrier::Data));
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(calls, [DATA], "a second flush would hide the failure");
}

#[test]
fn a_file_that_is_not_overwritten_in_place_is_flushed_whole() {
    for (filesystem, attributes) in [
        ("ReFS", 0),
        ("exFAT", 0),
        ("NTFS", 0x200),
        ("NTFS", 0x800),
        ("NTFS", 0x4000),
    ] {
        pretend(Pretended {
            flush_ex: Some(flushes),
            filesystem: Some(filesystem),
            attributes,
            ..Pretended::default()
        });
        let (temp, dir) = opened();
        let file = dir.open("a", OpenFile::CREATE).unwrap();
        let calls = barrier(&*file, Barrier::Data);
        assert_eq!(
            calls,
            [full(&temp.path().join("a"))],
            "{filesystem} {attributes:#x}"
        );
    }
}

#[test]
fn a_directory_is_flushed_or_a_file_in_it() {
    let (temp, dir) = opened();
    let (result, made) = calls(|| dir.sync());
    result.unwrap();
    assert_synced(&made, temp.path());
    let (result, made) = calls(|| dir.opened().sync_by_a_file());
    result.unwrap();
    assert_synced_by_a_file(&made);
    pretend(Pretended {
        refuses_directories: true,
        ..Pretended::default()
    });
    let (result, made) = calls(|| dir.sync());
    result.unwrap();
    let of = dir.identity();
    assert_eq!(made[1], Flush { of, ok: false });
    assert_synced(&made, temp.path());
    assert!(dir.entries().unwrap().is_empty());
}

#[test]
fn an_entry_is_made_durable_in_its_parent() {
    let (temp, dir) = opened();
    let (result, made) = calls(|| dir.sync_parent());
    result.unwrap();
    let parent = temp.path().parent().unwrap();
    let opening = Open {
        name: name_of(parent),
        access: GENERIC_READ,
        disposition: OPEN_EXISTING,
        flags: BACKUP_SEMANTICS,
    };
    assert_eq!(made.first(), Some(&opening));
    assert_synced(&made[1..], parent);
    // The entry of a new directory is forced, and that of an existing one.
    for _ in 0..2 {
        let path = temp.path().join("new");
        let system = crate::OsSystem::new();
        let (result, made) = calls(|| system.make_directory(&path));
        result.unwrap();
        assert!(matches!(&made[0], Open { name, .. } if name == "new"));
        assert_synced(&made[2..], temp.path());
    }
}

#[test]
fn names_are_changed_by_calls_that_wait_for_the_disk() {
    let (_temp, dir) = opened();
    drop(dir.open("a", OpenFile::CREATE).unwrap());
    let (result, made) = calls(|| dir.rename("a", "b"));
    result.unwrap();
    assert_eq!(made, [MOVE]);
    // Replaces a file that is open.
    let open = dir.open("a", OpenFile::CREATE).unwrap();
    let (result, made) = calls(|| dir.rename("b", "a"));
    result.unwrap();
    let waits = |call: &Call| match call {
        Open { flags, .. } => *flags == OPEN_REPARSE_POINT | WRITE_THROUGH,
        call => *call == MOVE,
    };
    assert!(
        made.first() == Some(&MOVE) && made.iter().all(waits),
        "{made:?}"
    );
    drop(open);
    let (result, made) = calls(|| dir.remove("a"));
    result.unwrap();
    let opening = Open {
        name: "a".to_owned(),
        access: DELETE | SYNCHRONIZE | READ_ATTRIBUTES,
        disposition: OPEN_EXISTING,
        flags: OPEN_REPARSE_POINT | WRITE_THROUGH,
    };
    assert_eq!(made.first(), Some(&opening));
    assert!(made.iter().all(waits), "{made:?}");
}

/// Tests the order in which the control file is made: written under another name, forced, renamed, and the
/// name forced.
#[test]
fn a_file_is_forced_before_it_has_its_name_and_the_name_after() {
    let (temp, dir) = opened();
    let (of, made) = calls(|| {
        let file = dir.open("new", OpenFile::CREATE).unwrap();
        write(&*file, 0, 0, false);
        file.barrier(Barrier::Full).unwrap();
        drop(file);
        let of = identity(&temp.path().join("new"));
        dir.rename("new", "control").unwrap();
        dir.sync().unwrap();
        of
    });
    let opening = Open {
        name: "new".to_owned(),
        access: GENERIC_READ | GENERIC_WRITE,
        disposition: CREATE_NEW,
        flags: OVERLAPPED | OPEN_REPARSE_POINT,
    };
    assert_eq!(made[..3], [opening, Flush { of, ok: true }, MOVE]);
    assert_synced(&made[3..], temp.path());
}
