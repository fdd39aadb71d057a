//! The counters of a log.

use logforce_commit::counters;

// The order is documented in `docs/format.md`.
counters! {
    /// Atomic appends that were accepted.
    appends,
    /// Records that were accepted.
    records,
    /// Bytes of the accepted records, without frame headers.
    record_bytes,
    /// Batches that were written, including those without records.
    batches,
    /// Bytes of the written batches: headers, payload and padding.
    batch_bytes,
    /// Bytes of padding in the written batches.
    padding_bytes,
    /// Device writes of batches.
    writes,
    /// Device writes of batches by write-through.
    through_writes,
    /// Barriers on segments, for commits.
    barriers,
    /// Jobs that made records durable on request.
    forces,
    /// Jobs that wrote a stamp.
    stamps,
    /// Commits that waited until they were durable.
    commits_force,
    /// Commits that waited until they were written.
    commits_write,
    /// Commits that did not wait.
    commits_interval,
    /// Submissions.
    submits,
    /// Appends that had to wait for buffer space.
    buffer_waits,
    /// Appends that had to wait for prepared space.
    segment_waits,
    /// Segments that were prepared.
    segments_prepared,
    /// Segments that were prepared from the file of a truncated segment.
    segments_recycled,
    /// Device writes of all kinds: batches, segments being prepared, the control file.
    device_writes,
    /// Bytes of these writes.
    device_write_bytes,
    /// Barriers of all kinds.
    device_barriers,
    /// Syncs of the directory.
    directory_syncs,
    /// Segments that were prepared without filling them with zeroes: all segments if the filesystem does not
    /// overwrite in place, else those prepared while forces are large.
    segments_unfilled,
    /// Commits that waited until the replica had confirmed them.
    commits_replicated,
    /// Moves of the front that were held for a replica which had used three quarters of its limit.
    replica_alarms,
}
