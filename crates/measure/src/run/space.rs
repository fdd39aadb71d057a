//! How much disk a measurement may use: never the last of it.

use crate::MeasureError;
use logforce_device::Directory;
use logforce_terminal::numbers::{bytes, count};

/// No smaller file than this unless the user asks for one: smaller ones fit into caches.
pub const SMALLEST: u64 = 64 << 20;

/// No more than this is left free, bytes. A tenth of a large disk is more than anybody beside the
/// measurement needs for its half a minute, and a disk that is nine tenths full is still one to ask.
const LEFT_FREE: u64 = 8 << 30;

/// What a disk has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free for this user.
    pub free: u64,
    /// The whole filesystem.
    pub total: u64,
}

impl Space {
    /// What stays free: a tenth of the disk, and of a large one 8 GiB.
    fn left_free(self) -> u64 {
        (self.total / 10).min(LEFT_FREE)
    }

    /// What may be used.
    pub fn usable(self) -> u64 {
        self.free.saturating_sub(self.left_free())
    }

    /// How much there is, for a message that refuses.
    fn sentence(self) -> String {
        format!(
            "of {} free {} may be used ({} of the disk's {} are always left free)",
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
            "not enough free space: {} are needed, and {}. Free some, or choose {remedies}.",
            bytes(need),
            self.sentence()
        )))
    }

    /// Of the filesystem that holds `directory`. Where that does not say how large it is, what is
    /// free is taken for all there is.
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

/// What decides the size of the files.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Wanted size of one file, bytes.
    pub size: u64,
    /// Bytes per commit; the result is a multiple of it.
    pub chunk: u64,
    /// Files that exist at the same time.
    pub files: u64,
    /// Bytes that are needed beside these files.
    pub beside: u64,
    /// No shrinking: the size or an error.
    pub exact: bool,
    /// What the disk writes in the time that may go into preparing; `None` for no limit.
    pub fillable: Option<u64>,
}

/// The size of one file in bytes, and why it is not the wished one.
pub fn choose(wish: Wish, space: Space) -> Result<(u64, Option<String>), MeasureError> {
    let Wish {
        size,
        chunk,
        files,
        beside,
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
            "not enough free space: {} of {}{} are needed, and {}. Free some, choose another --dir, or a \
             smaller --size.",
            count(files, "file"),
            bytes(least),
            if beside > 0 {
                format!(" and {} for the log", bytes(beside))
            } else {
                String::new()
            },
            space.sentence(),
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
        why = (chosen < size).then_some("what this disk can prepare in the time there is");
    }
    if per_file < chosen {
        chosen = per_file;
        why = Some("so as to leave some of the disk free");
    }
    // A round number reads better, and no file shrinks by much.
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
        assert!(why.unwrap().contains("some of the disk free"));
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
            message.contains("of 7 GiB free 2 GiB may be used (5 GiB of the disk's 50 GiB"),
            "{message}"
        );
        let none = Space {
            free: 5 * GIB,
            ..space
        };
        assert!(choose(wish(GIB), none).is_err());
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
