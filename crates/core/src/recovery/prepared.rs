//! Space that earlier openings prepared, and its current state on the filesystem.
//!
//! A segment's header records how the segment was prepared. A copy of the log may lack the zeroes, or may
//! share its blocks with the original (`cp --sparse`, `cp --reflink`, `fallocate -d`).

use crate::error::{Error, Result};
use crate::recovery::opening::Opening;
use crate::storage::builder::SegmentBuilder;
use crate::storage::durability::{Why, barrier};
use crate::storage::segment::Segment;
use crate::storage::segments::Segments;
use crate::storage::zero_fill::Filling;
use logforce_device::{Access, Barrier, Blocks, OpenFile};
use logforce_format::{Lsn, planted};
use std::io;
use std::ops::Range;
use std::sync::Arc;

impl Opening {
    /// Makes sure that commits can use the prepared space from `tail` on. Returns false if the disk lacks
    /// space for the missing blocks.
    pub(super) fn check_prepared(
        &self,
        builder: &SegmentBuilder<'_>,
        segments: &Segments,
        tail: Lsn,
    ) -> Result<bool> {
        if self.filling == Filling::Never {
            return Ok(true);
        }
        for segment in segments
            .containing(tail)
            .into_iter()
            .chain(segments.above(tail))
        {
            let from = segment.offset(tail.max(segment.header.first_batch()));
            match self.check_segment(builder, &segment, from..segment.header.len) {
                Err(e) if e.is_full() => return Ok(false),
                other => other?,
            }
        }
        Ok(true)
    }

    /// Writes zeroes to the range if a commit there would change more than its own bytes, such as the
    /// allocation of blocks. The range lies behind the end of the log, so a crash in between leaves the
    /// same end.
    fn check_segment(
        &self,
        builder: &SegmentBuilder<'_>,
        segment: &Arc<Segment>,
        range: Range<u64>,
    ) -> Result<()> {
        let blocks = builder.blocks(&*segment.file()?, range.clone(), segment.header.unwritten);
        let fills = match blocks {
            Blocks::Written => false,
            // If the method does not force first writes, a crash loses the first write to a block, but keeps
            // an overwrite.
            Blocks::Reserved => {
                self.filling == Filling::Always && !planted!("unwritten-by-any-method")
            }
            Blocks::Missing | Blocks::Unknown => true,
        };
        if fills {
            let (name, path) = (segment.name(), segment.path());
            // A fill must not use up the free space. It would leave none for the segment to which an opening
            // falls back, nor for other files. If the free space is unknown, the fill is tried.
            let need = range.end - range.start;
            let takes_space = blocks != Blocks::Reserved;
            if takes_space && builder.dir.free_space().is_ok_and(|free| free < need) {
                let full = io::Error::from(io::ErrorKind::StorageFull);
                return Err(Error::io("fill the missing blocks of", path)(full));
            }
            let how = OpenFile {
                access: Access::Write,
                direct: builder.direct,
            };
            let file = self.dir.open(&name, how);
            let file = file.map_err(Error::io("open for writing", &path))?;
            builder.fill(&*file, &path, range, segment.header.write_unit, true)?;
            barrier(&*file, Barrier::Full, Why::NewSegment).map_err(Error::io("sync", path))?;
        }
        segment.set_unwritten(blocks == Blocks::Reserved && !fills);
        Ok(())
    }
}
