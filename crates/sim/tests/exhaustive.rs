//! Exhaustive tests: every bit of a log flipped, every length of every file, every subset of directory
//! changes, every pair of crashes of a short workload.
//!
//! Each test prints its counts. By default some cases are opened only in the cheaper ways.
//! `LOGFORCE_EXHAUSTIVE=all` opens each case in every way.

/// Prefix of each test's name, so that a run of all tests can leave these out (`--skip exhaustive::`) and
/// run them beside the others.
mod exhaustive {
    mod backups;
    mod bits;
    mod bounds;
    mod expect;
    mod failing_calls;
    mod imports;
    #[cfg(planted)]
    mod known_bugs;
    mod lengths;
    mod limit;
    mod logs;
    mod names;
    mod page_file;
    mod pairs;
    mod regions;
    mod repairs;
    mod standbys;
    mod workers;
}
