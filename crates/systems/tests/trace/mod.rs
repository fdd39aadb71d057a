//! Output of `strace -f -y -s 0`: writes and forces by file.

/// System calls of a program and of all that it has started.
pub struct Trace(String);

/// A force, and the bytes that were written to the file since the last one.
#[derive(Debug)]
pub struct Forced {
    pub call: String,
    pub bytes: u64,
}

/// A call on an open file.
struct Call<'a> {
    name: &'a str,
    path: &'a str,
    /// Arguments after the file, with the result behind the last one.
    rest: Vec<&'a str>,
}

impl Trace {
    pub fn new(text: String) -> Trace {
        Trace(text)
    }

    fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        self.0.lines().filter_map(|line| {
            let (head, rest) = line.split_once('(')?;
            let (_, name) = head.rsplit_once(' ')?;
            let (_, rest) = rest.split_once('<')?;
            let (path, rest) = rest.split_once('>')?;
            let rest = rest.split(',').skip(1).map(str::trim).collect();
            Some(Call { name, path, rest })
        })
    }

    /// Returns the forces of all files whose path contains `file`.
    pub fn forced(&self, file: &str) -> Vec<Forced> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for call in self.calls().filter(|c| c.path.contains(file)) {
            match call.name {
                // The buffer comes first, then the number of bytes.
                "write" | "pwrite64" => bytes += number(call.rest.get(1)),
                "fdatasync" | "fsync" => {
                    let call = call.name.to_owned();
                    all.push(Forced { call, bytes });
                    bytes = 0;
                }
                _ => {}
            }
        }
        all
    }

    /// Returns the size to which blocks were reserved for a file whose path contains `file`.
    pub fn reserved(&self, file: &str) -> Option<u64> {
        let mut calls = self.calls().filter(|c| c.path.contains(file));
        let call = calls.find(|c| c.name == "fallocate")?;
        Some(number(call.rest.get(2)))
    }

    /// Returns true if a file whose path contains `file` was opened with this flag.
    pub fn opened(&self, file: &str, flag: &str) -> bool {
        let mut lines = self.0.lines().filter(|l| l.contains(" openat("));
        lines.any(|l| l.contains(file) && l.contains(flag))
    }
}

/// Returns the number at the beginning of an argument.
fn number(argument: Option<&&str>) -> u64 {
    let text = argument.copied().unwrap_or_default();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

#[test]
fn writes_are_counted_up_to_their_force() {
    let trace = Trace::new(
        "7  openat(AT_FDCWD</d>, \"./ib_logfile0\", O_RDWR|O_DIRECT|O_CLOEXEC) = 12</d/ib_logfile0>\n\
         7  fallocate(9</d/wal/0.tmp>, 0, 0, 64000000) = 0\n\
         7  pwrite64(4</d/a-wal>, \"\"..., 24, 32) = 24\n\
         8  write(5</d/other>, \"\"..., 9) = 9\n\
         7  pwrite64(4</d/a-wal>, \"\"..., 4096, 56 <unfinished ...>\n\
         8  <... pwrite64 resumed>) = 4096\n\
         7  fdatasync(4</d/a-wal>) = 0\n\
         7  fsync(4</d/a-wal> <unfinished ...>\n"
            .to_owned(),
    );
    let forced = trace.forced("-wal");
    let of = |n: usize| (forced[n].call.as_str(), forced[n].bytes);
    assert_eq!((of(0), of(1)), (("fdatasync", 4120), ("fsync", 0)));
    assert_eq!((forced.len(), trace.forced("nothing").len()), (2, 0));
    assert_eq!(trace.reserved("/wal/"), Some(64_000_000));
    assert!(trace.opened("ib_logfile0", "O_DIRECT") && !trace.opened("ib_logfile0", "O_SYNC"));
}
