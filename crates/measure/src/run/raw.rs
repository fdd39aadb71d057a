//! The raw journal loop: the system calls of a commit, without the library.

use crate::run::prepare::{PreparedFile, restamp, scramble};
use crate::run::recorder::Limit;
use crate::run::subject::{RowKey, Subject, SubjectKind};
use crate::{MeasureError, Recorder};
use logforce_device::{AlignedBuf, Assessment, File, ForceBy, Method, Plan, Write};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// One method on one shared file: writes a chunk, forces it, and continues with the next.
pub struct RawJournal {
    key: RowKey,
    assessment: Assessment,
    plan: Plan,
    chunk: usize,
    file: Rc<RefCell<PreparedFile>>,
    buf: Option<AlignedBuf>,
    alignment: usize,
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
            bytes: chunk as u64,
        };
        RawJournal {
            key,
            assessment,
            plan: method.plan(),
            chunk,
            file,
            buf: None,
            alignment,
        }
    }

    fn fresh_buffer(&self) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(self.chunk, self.alignment.max(4096));
        scramble(&mut buf, 0xc0ff_ee00);
        buf
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
        self.plan.force == ForceBy::None
    }

    fn prepare(&mut self) -> Result<(), MeasureError> {
        if self.buf.is_none() {
            self.buf = Some(self.fresh_buffer());
        }
        let mut file = self.file.borrow_mut();
        file.begin(self.key.bytes)?;
        file.open(self.plan.direct)?;
        Ok(())
    }

    fn run(&mut self, limit: &Limit, recorder: &mut Recorder) -> Result<(), MeasureError> {
        let mut shared = self.file.borrow_mut();
        let (plan, bytes) = (self.plan, self.key.bytes);
        while recorder.more(limit) {
            shared.ensure(bytes)?;
            let file = shared.open(plan.direct)?;
            let mut offset = shared.cursor();
            let end = offset + shared.room() / bytes * bytes;
            let slot = &mut self.buf;
            let mut number = recorder.commits();
            let result = recorder.timed(|laps| {
                while offset < end && laps.more(limit) {
                    // The write takes the buffer; its completion returns it.
                    let Some(mut buf) = slot.take() else {
                        return Err(MeasureError::NotOffered(
                            "the slice was not prepared".to_owned(),
                        ));
                    };
                    restamp(&mut buf, number);
                    let (buf, result) = commit(&*file, plan, offset, buf);
                    *slot = Some(buf);
                    if let Err(cause) = result {
                        return Err(MeasureError::Io {
                            what: format!("commit at offset {offset}"),
                            cause,
                        });
                    }
                    laps.commit();
                    number += 1;
                    offset += bytes;
                }
                Ok(())
            });
            if let Err(e) = result {
                // The contents of the file are unknown now.
                shared.spoil();
                return Err(e);
            }
            recorder.count_log_bytes(offset - shared.cursor());
            shared.advance_to(offset);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MeasureError> {
        self.file.borrow_mut().quiet(self.leaves_dirty_bytes())
    }
}
