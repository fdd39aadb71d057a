//! Scripts that make the logs to mutate. Together the logs have every kind of batch, records and atomic
//! appends across batches and segments, both truncations, metadata, recycled segments, several openings,
//! crashes, and two write units.

use logforce_testkit::Survival;

/// One action on a log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Append a record of this many bytes.
    Append(usize),
    /// Append a number of records of a number of bytes each, atomically.
    Group(usize, usize),
    /// Append and force.
    Commit(usize),
    /// Force everything.
    Force,
    /// Truncate at the front, keeping this many records.
    Front(usize),
    /// Truncate at the back, voiding this many records.
    Back(usize),
    /// Change the metadata.
    Meta(usize),
    /// Leave the log idle until a stamp is written.
    Idle,
    /// Remember the files as they are on the medium.
    Version,
}

/// End of an opening.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Close,
    /// Power is lost.
    Cut(Survival),
}

/// The actions from an opening to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boot {
    /// Physical sector of the device, bytes, which the write unit follows.
    pub(super) sector: u32,
    pub(super) acts: &'static [Act],
    pub(super) end: End,
}

/// Steps that make a log, boot by boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) segment_size: u64,
    pub(super) boots: &'static [Boot],
}

use Act::{Append, Back, Commit, Force, Front, Group, Idle, Meta, Version};

const fn boot(sector: u32, acts: &'static [Act], end: End) -> Boot {
    Boot { sector, acts, end }
}

pub(super) const SCRIPTS: &[Script] = &[
    Script {
        name: "one opening, one segment: the anchor is low, stamps tell",
        segment_size: 64 << 10,
        boots: &[boot(
            4096,
            &[
                Commit(40),
                Append(300),
                Append(0),
                Force,
                Version,
                Group(3, 200),
                Commit(20_000),
                Group(2, 9_000),
                Force,
                Commit(7),
                Idle,
                Commit(100),
            ],
            End::Cut(Survival::Lost),
        )],
    },
    Script {
        name: "crashes, the tail torn",
        segment_size: 16 << 10,
        boots: &[
            boot(
                4096,
                &[
                    Commit(100),
                    Commit(5_000),
                    Version,
                    Append(12_000),
                    Append(90),
                ],
                End::Cut(Survival::Sectors),
            ),
            boot(
                4096,
                &[Commit(60), Group(4, 3_000), Force, Idle, Append(9_000)],
                End::Cut(Survival::Lost),
            ),
            boot(
                4096,
                &[Commit(10), Commit(11), Commit(2_000), Append(3_000)],
                End::Cut(Survival::Kept),
            ),
        ],
    },
    Script {
        name: "truncated at both ends, recycled, metadata",
        segment_size: 16 << 10,
        boots: &[
            boot(
                4096,
                &[
                    Meta(50),
                    Commit(15_000),
                    Commit(14_000),
                    Version,
                    Commit(13_000),
                    Front(1),
                    Commit(12_000),
                    Back(1),
                    Version,
                    Commit(500),
                ],
                End::Close,
            ),
            boot(
                4096,
                &[
                    Commit(700),
                    Group(3, 400),
                    Force,
                    Back(3),
                    Meta(3_000),
                    Commit(900),
                    Commit(10_000),
                    Front(4),
                    Commit(30),
                    Idle,
                    Commit(31),
                ],
                End::Cut(Survival::Lost),
            ),
        ],
    },
    Script {
        name: "write units 4096, 8192 and 4096 again",
        segment_size: 32 << 10,
        boots: &[
            boot(
                4096,
                &[Commit(200), Commit(6_000), Version],
                End::Cut(Survival::Kept),
            ),
            boot(
                8192,
                &[Commit(300), Group(2, 10_000), Force, Back(2), Version],
                End::Close,
            ),
            boot(4096, &[Commit(400), Commit(20_000), Commit(5)], End::Close),
        ],
    },
    Script {
        name: "nothing but an opening",
        segment_size: 16 << 10,
        boots: &[boot(4096, &[], End::Close)],
    },
];
