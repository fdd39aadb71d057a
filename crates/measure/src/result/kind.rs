//! The scenarios that have results, and the fields that each of them writes.

/// A scenario of `logforce bench`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// One commit per chunk, by each method.
    #[default]
    Journal,
    /// Commits to one log by many threads.
    Group,
    /// Commits of pages and a header.
    Pages,
    /// Small commits to a large file.
    Map,
    /// Several writes in flight, by chunk size.
    Sweep,
    /// Inserts of sales, as a shop's till makes them.
    Inserts,
}

/// Names of fields, separated by spaces, in the order in which they are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields(&'static str);

impl Fields {
    /// Returns the names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.split_whitespace()
    }
}

impl Kind {
    /// All scenarios.
    pub const ALL: [Kind; 6] = [
        Kind::Journal,
        Kind::Group,
        Kind::Pages,
        Kind::Map,
        Kind::Sweep,
        Kind::Inserts,
    ];

    /// Returns the value of `schema`.
    pub fn schema(self) -> &'static str {
        match self {
            Kind::Journal => "logforce-bench",
            Kind::Group => "logforce-group",
            Kind::Pages => "logforce-bench-pages",
            Kind::Map => "logforce-bench-map",
            Kind::Sweep => "logforce-sweep",
            Kind::Inserts => "logforce-inserts",
        }
    }

    /// Returns the value of `version`. It grows only when a field changes its meaning or is removed.
    pub fn version(self) -> u64 {
        1
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::Group => "group",
            Kind::Pages => "pages",
            Kind::Map => "map",
            Kind::Sweep => "journal --sweep",
            Kind::Inserts => "inserts",
        }
    }

    /// Returns the fields of a document.
    pub(super) fn document(self) -> Fields {
        Fields(match self {
            Kind::Journal => {
                "schema version command started interrupted machine cpu conclusion recommended notes rows"
            }
            Kind::Group => {
                "schema version command started interrupted machine cpu method guarantee verdict conclusion notes rows"
            }
            Kind::Pages | Kind::Map | Kind::Inserts => {
                "schema version command started interrupted machine cpu conclusion notes rows"
            }
            Kind::Sweep => {
                "schema version command started interrupted machine cpu conclusion recommended notes \
                 usual_chunk_bytes methods rows knees"
            }
        })
    }

    /// Returns the fields of a row.
    pub fn row(self) -> Fields {
        Fields(match self {
            Kind::Journal => {
                "scenario subject method file_state threads bytes commits total_ms \
                 ms_per_commit ms_per_commit_p10 ms_per_commit_p90 \
                 p50_us p90_us p99_us p999_us max_us latencies_us commits_per_s \
                 device_writes_per_commit device_flushes_per_commit device_bytes_per_commit \
                 file_bytes_per_commit cpu_wait_percent guarantee verdict evidence error"
            }
            Kind::Group => {
                "threads record_bytes slices commits \
                 commits_per_s commits_per_s_p10 commits_per_s_p90 \
                 p50_us p90_us p99_us p999_us max_us latencies_us \
                 records_per_write bytes_per_write forces_per_commit \
                 device_writes_per_commit device_flushes_per_commit cpu_wait_percent error"
            }
            Kind::Pages => {
                "layout way pages slices commits \
                 commits_per_s commits_per_s_p10 commits_per_s_p90 \
                 p50_us p99_us max_us latencies_us ratio ratio_p10 ratio_p90 \
                 writes_per_commit through_per_commit barriers_per_commit \
                 device_writes_per_commit device_flushes_per_commit cpu_wait_percent \
                 guarantee verdict evidence error"
            }
            Kind::Map => {
                "file_bytes method slices commits \
                 ms_per_commit ms_per_commit_p10 ms_per_commit_p90 \
                 p50_us p99_us max_us latencies_us system_us_per_commit user_us_per_commit \
                 ratio ratio_p10 ratio_p90 system_ratio msyncs_per_commit \
                 writes_per_commit through_per_commit barriers_per_commit \
                 device_writes_per_commit device_flushes_per_commit cpu_wait_percent \
                 guarantee verdict evidence error"
            }
            Kind::Sweep => {
                "method queue chunk_bytes depth slices chunks \
                 chunks_per_s chunks_per_s_p10 chunks_per_s_p90 mb_per_s \
                 p50_us p99_us max_us writes_per_chunk through_per_chunk barriers_per_chunk \
                 device_writes_per_chunk device_flushes_per_chunk guarantee verdict error"
            }
            Kind::Inserts => {
                "system system_version settings policy second_log clients rounds \
                 pairs_s pairs_s_p10 pairs_s_p90 commits seconds commits_per_s \
                 p50_us p99_us max_us latencies_us forces_per_commit \
                 device_writes_per_commit device_flushes_per_commit cpu_wait_percent rows_checked redone \
                 guarantee verdict evidence error"
            }
        })
    }

    /// Fields of `methods` in a sweep.
    pub const METHODS: Fields =
        Fields("method queue in_flight unit guarantee verdict evidence error");

    /// Fields of `knees` in a sweep.
    pub const KNEES: Fields = Fields(
        "method queue chunk_bytes finding depth chunks_per_s gain best_depth best_chunks_per_s",
    );
}
