//! The raw journal loop: the system calls of a commit, without the library.

use crate::run::generator::Generator;
use crate::run::prepare::PreparedFile;
use crate::run::recorder::Limit;
use crate::run::subject::{RowKey, Subject, SubjectKind};
use crate::{MeasureError, Recorder};
use logforce_device::{AlignedBuf, Assessment, File, ForceBy, Method, Plan, Write};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// One method on one shared file: writes a chunk, forces it, and continues with the next. A commit may
/// consist of several such writes, each to another file ([`RawJournal::then`]).
pub struct RawJournal {
    key: RowKey,
    assessment: Assessment,
    parts: Vec<Part>,
    alignment: usize,
}

/// One write of each commit.
struct Part {
    plan: Plan,
    chunk: usize,
    file: Rc<RefCell<PreparedFile>>,
    buf: Option<AlignedBuf>,
    generator: Generator,
}

/// Handle and position of one part while the clock runs.
struct OpenPart {
    file: Arc<dyn File>,
    offset: u64,
}

impl RawJournal {
    /// Creates the row of commits of `chunk` bytes by `method`, whose guarantee on this file is
    /// `assessment`. `alignment` is the write unit in bytes.
    pub fn new(
        scenario: &'static str,
        method: Method,
        chunk: usize,
        alignment: usize,
        assessment: Assessment,
        file: Rc<RefCell<PreparedFile>>,
    ) -> Self {
        let key = RowKey {
            scenario,
            subject: SubjectKind::Raw,
            method,
            file_state: Some(file.borrow().state()),
            threads: 1,
            bytes: 0,
        };
        RawJournal {
            key,
            assessment,
            parts: Vec::new(),
            alignment,
        }
        .then(method, chunk, file)
    }

    /// Adds a write of `chunk` bytes by `method` to each commit, made after the others are durable.
    pub fn then(
        mut self,
        method: Method,
        chunk: usize,
        file: Rc<RefCell<PreparedFile>>,
    ) -> RawJournal {
        self.key.bytes += chunk as u64;
        self.parts.push(Part {
            plan: method.plan(),
            chunk,
            file,
            buf: None,
            generator: Generator::fresh(),
        });
        self
    }
}

impl Part {
    fn bytes(&self) -> u64 {
        self.chunk as u64
    }

    /// Makes the bytes of the next commit.
    fn renew(&mut self) {
        if let Some(buf) = &mut self.buf {
            self.generator.fill(buf);
        }
    }

    /// Writes and forces the chunk.
    fn commit(&mut self, open: &mut OpenPart) -> Result<(), MeasureError> {
        // The write takes the buffer; its completion returns it.
        let Some(buf) = self.buf.take() else {
            return Err(MeasureError::NotOffered(
                "the slice was not prepared".to_owned(),
            ));
        };
        let (buf, result) = commit(&*open.file, self.plan, open.offset, buf);
        self.buf = Some(buf);
        if let Err(cause) = result {
            let what = format!("commit at offset {}", open.offset);
            return Err(MeasureError::Io { what, cause });
        }
        open.offset += self.bytes();
        Ok(())
    }
}

/// Writes and forces one chunk. Returns the buffer even after an error.
pub fn commit(
    file: &dyn File,
    plan: Plan,
    offset: u64,
    buf: AlignedBuf,
) -> (AlignedBuf, io::Result<()>) {
    let range = 0..buf.len();
    let through = plan.force == ForceBy::Through;
    let done = file.complete(file.submit(Write {
        offset,
        buf,
        range,
        through,
    }));
    let result = match (done.result, plan.force) {
        (Ok(()), ForceBy::Barrier(barrier)) => file.barrier(barrier),
        (result, _) => result,
    };
    (done.buf, result)
}

impl Subject for RawJournal {
    fn key(&self) -> &RowKey {
        &self.key
    }

    fn assessment(&self) -> &Assessment {
        &self.assessment
    }

    fn leaves_dirty_bytes(&self) -> bool {
        self.parts.iter().any(|p| p.plan.force == ForceBy::None)
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        for part in &mut self.parts {
            if part.buf.is_none() {
                part.buf = Some(AlignedBuf::zeroed(part.chunk, self.alignment.max(4096)));
            }
            let mut file = part.file.borrow_mut();
            file.begin(part.bytes())?;
            file.open(part.plan.direct)?;
        }
        Ok(())
    }

    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
        while recorder.more(limit) {
            let mut fitting = u64::MAX;
            let mut open = Vec::with_capacity(self.parts.len());
            for part in &self.parts {
                let mut shared = part.file.borrow_mut();
                shared.ensure(part.bytes())?;
                fitting = fitting.min(shared.room() / part.bytes());
                open.push(OpenPart {
                    file: shared.open(part.plan.direct)?,
                    offset: shared.cursor(),
                });
            }
            let parts = &mut self.parts;
            let mut number = recorder.commits();
            let end = number + fitting;
            let result = recorder.timed(|laps| {
                while number < end && laps.more(limit) {
                    laps.untimed(|| parts.iter_mut().for_each(Part::renew));
                    for (part, open) in parts.iter_mut().zip(&mut open) {
                        part.commit(open)?;
                    }
                    laps.commit();
                    number += 1;
                }
                Ok(())
            });
            for (part, open) in self.parts.iter().zip(&open) {
                let mut shared = part.file.borrow_mut();
                match result {
                    // The contents of the file are unknown now.
                    Err(_) => shared.spoil(),
                    Ok(()) => {
                        recorder.count_log_bytes(open.offset - shared.cursor());
                        shared.advance_to(open.offset);
                    }
                }
            }
            result?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MeasureError> {
        for part in &self.parts {
            let is_dirty = part.plan.force == ForceBy::None;
            part.file.borrow_mut().quiet(is_dirty)?;
        }
        Ok(())
    }
}
