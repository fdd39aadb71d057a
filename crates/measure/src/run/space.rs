//! Disk space that a measurement may use. Some space is always left free.

use crate::MeasureError;
use logforce_device::Directory;
use logforce_terminal::numbers::{bytes, count};

/// Smallest file unless the user asks for a smaller one, bytes. Smaller files fit into caches.
pub const SMALLEST: u64 = 64 << 20;

/// Most space that is left free, bytes. A tenth of a large disk would be more than other processes need
/// during half a minute. It would also exclude disks that are 90 % full.
const LEFT_FREE: u64 = 8 << 30;

/// Space of a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free space for this user.
    pub free: u64,
    /// Size of the whole filesystem.
    pub total: u64,
}

impl Space {
    /// Returns the space that stays free: a tenth of the disk, at most 8 GiB.
    fn left_free(self) -> u64 {
        (self.total / 10).min(LEFT_FREE)
    }

    /// Returns the space that may be used.
    pub fn usable(self) -> u64 {
        self.free.saturating_sub(self.left_free())
    }

    /// Describes the space, for the message of a refusal.
    fn sentence(self) -> String {
        format!(
            "{} are free, of which {} may be used ({} of the disk's {} are always left free)",
            bytes(self.free),
            bytes(self.usable()),
            bytes(self.left_free()),
            bytes(self.total)
        )
    }

    /// Fails unless `need` bytes may be used; `remedies` are the flags that would help.
    pub fn check(self, need: u64, remedies: &str) -> Result<(), MeasureError> {
        if need <= self.usable() {
            return Ok(());
        }
        Err(MeasureError::NoSpace(format!(
            "not enough free space: {} are needed, but {}. Free some space, or choose {remedies}.",
            bytes(need),
            self.sentence()
        )))
    }

    /// Returns the space of the filesystem that holds `directory`. If the filesystem does not report its
    /// size, the free space is taken as the total.
    pub fn of(directory: &dyn Directory) -> Result<Space, MeasureError> {
        let asking = || format!("asking {} for free space", directory.path().display());
        let free = directory.free_space().map_err(MeasureError::io(asking()))?;
        let facts = directory.facts().map_err(MeasureError::io(asking()))?;
        Ok(Space {
            free,
            total: facts.capacity.unwrap_or(free),
        })
    }
}

/// Returns the flags that help where space is short. Smaller files help only if the smallest ones fit.
pub fn remedies(smaller_fit: bool) -> &'static str {
    match smaller_fit {
        true => "another --dir or a smaller --size",
        false => "another --dir",
    }
}

/// Wishes and limits that decide the size of the files.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Wanted size of one file, bytes.
    pub size: u64,
    /// Bytes per commit; the result is a multiple of this.
    pub chunk: u64,
    /// Number of files that exist at the same time.
    pub files: u64,
    /// Bytes needed in addition to these files.
    pub beside: u64,
    /// Bytes needed in addition to the smallest files.
    pub least_beside: u64,
    /// True to fail rather than to use smaller files.
    pub exact: bool,
    /// Bytes that the disk can write in the time for preparation; `None` for no limit.
    pub fillable: Option<u64>,
}

/// Returns the size of one file in bytes. If it is not the wanted size, returns the reason too.
pub fn choose(wish: Wish, space: Space) -> Result<(u64, Option<String>), MeasureError> {
    let Wish {
        size,
        chunk,
        files,
        beside,
        least_beside,
        exact,
        fillable,
    } = wish;
    let whole = |n: u64| n / chunk * chunk;
    let per_file = space.usable().saturating_sub(beside) / files;
    let least = if exact {
        size
    } else {
        size.min(SMALLEST.max(chunk))
    };
    if per_file < least {
        return Err(MeasureError::NoSpace(format!(
            "not enough free space: {} are needed ({} of {}{}), but {}. Free some space, or choose {}.",
            bytes(files * least + beside),
            count(files, "file"),
            bytes(least),
            if beside > 0 {
                format!(", and {} for the log", bytes(beside))
            } else {
                String::new()
            },
            space.sentence(),
            remedies(least > chunk && files * chunk + least_beside <= space.usable()),
        )));
    }
    if exact {
        return Ok((whole(size), None));
    }
    let mut chosen = size;
    let mut why = None;
    if let Some(fillable) = fillable
        && fillable < chosen
    {
        chosen = fillable.max(least);
        why = (chosen < size).then_some("this disk cannot prepare more in the available time");
    }
    if per_file < chosen {
        chosen = per_file;
        why = Some("some of the disk must be left free");
    }
    // A multiple of 64 MiB reads better and is not much smaller.
    let chosen = if chosen < size && chosen >= SMALLEST {
        chosen / SMALLEST * SMALLEST
    } else {
        chosen
    };
    let chosen = whole(chosen).max(chunk);
    Ok((
        chosen,
        why.map(|why| {
            format!(
                "Files are {} instead of {}: {why}",
                bytes(chosen),
                bytes(size)
            )
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn wish(size: u64) -> Wish {
        Wish {
            size,
            chunk: 16384,
            files: 4,
            beside: 0,
            least_beside: 0,
            exact: false,
            fillable: None,
        }
    }

    #[test]
    fn leaves_a_tenth_free() {
        let space = Space {
            free: 7 * GIB,
            total: 50 * GIB,
        };
        let (size, why) = choose(wish(GIB), space).unwrap();
        assert_eq!(size, 512 * MIB);
        assert!(why.unwrap().contains("some of the disk must be left free"));
        let full = Wish {
            exact: true,
            ..wish(GIB)
        };
        let message = choose(full, space).unwrap_err().to_string();
        assert!(
            message.contains("4 files of 1 GiB") && message.contains("--dir"),
            "{message}"
        );
        assert!(
            message
                .contains("7 GiB are free, of which 2 GiB may be used (5 GiB of the disk's 50 GiB"),
            "{message}"
        );
        let none = Space {
            free: 5 * GIB,
            ..space
        };
        assert!(choose(wish(GIB), none).is_err());
        // A smaller size is advised only if the smallest files fit.
        let log = |beside| Wish {
            beside,
            least_beside: 5 * MIB,
            ..wish(64 * MIB)
        };
        let disk = |free| Space { free, total: free };
        for (free, size_helps) in [(MIB, false), (64 * MIB, true)] {
            let message = choose(log(320 * MIB), disk(free)).unwrap_err().to_string();
            assert!(
                message.contains("576 MiB are needed (4 files of 64 MiB, and 320 MiB for the log)")
            );
            assert_eq!(message.contains("--size"), size_helps, "{message}");
        }
        assert!(none.check(1, "less").is_err());
    }

    #[test]
    fn a_large_disk_that_is_nearly_full_is_measured() {
        let space = Space {
            free: 24 * GIB,
            total: 252 * GIB,
        };
        assert_eq!(space.usable(), 16 * GIB);
        assert_eq!(choose(wish(GIB), space).unwrap(), (GIB, None));
        let nearly = Space {
            free: 8 * GIB + MIB,
            ..space
        };
        assert_eq!(nearly.usable(), MIB);
        assert!(nearly.check(2 * MIB, "less").is_err());
    }

    #[test]
    fn shrinks_to_the_time_but_not_below_the_least() {
        let space = Space {
            free: 100 * GIB,
            total: 100 * GIB,
        };
        let with = |fillable, size| {
            choose(
                Wish {
                    fillable: Some(fillable),
                    ..wish(size)
                },
                space,
            )
            .unwrap()
        };
        assert_eq!(with(1, GIB).0, 64 * MIB);
        assert_eq!(with(1, MIB), (MIB, None));
        assert_eq!(with(200 * MIB, GIB).0, 192 * MIB);
        assert_eq!(with(2 * GIB, GIB), (GIB, None));
        assert_eq!(choose(wish(MIB + 5), space).unwrap().0, MIB);
    }
}
