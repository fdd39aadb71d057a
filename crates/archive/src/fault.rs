//! Planted faults: each shows that the tests would find a protocol without the line it changes.

/// Returns true if the planted fault of that name is enabled. Constant `false` in every usual build.
///
/// The exhaustive tests of this crate choose it by thread. In a build with `--cfg planted` it is the one whose
/// name is in the environment variable `LOGFORCE_PLANTED`, for the nodes of the chaos tests.
macro_rules! fault {
    ($name:ident) => {{
        #[cfg(test)]
        let is_planted = $crate::fault::is($crate::fault::Fault::$name);
        #[cfg(all(planted, not(test)))]
        let is_planted = $crate::fault::is_named(stringify!($name));
        #[cfg(not(any(planted, test)))]
        let is_planted = false;
        is_planted
    }};
}
pub(crate) use fault;

/// Returns true if the environment names this fault.
#[cfg(all(planted, not(test)))]
pub(crate) fn is_named(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("LOGFORCE_PLANTED").ok());
    chosen.as_deref() == Some(name)
}

/// Name of a planted fault.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A writer acknowledges what lies behind a hole.
    AcknowledgedBehindAHole,
    /// An object that exists is taken for one's own.
    ExistingIsMine,
    /// A writer that met a seal goes on at the next place.
    SealPassedOver,
    /// Chunks are deleted before the floor is confirmed.
    DeletedBeforeTheFloor,
    /// The seal of an old epoch is deleted with its chunks.
    SealDeleted,
    /// A floor that arrives late counts.
    FloorMovesBack,
    /// A taker does not look at the floor again after its own seal.
    NoLookAfterOwnSeal,
    /// A taker does not look at the floor again after another's seal.
    NoLookAfterOthersSeal,
    /// The hint is written before the second look at the floor.
    HintTooEarly,
    /// A machine that was deposed goes on with its log.
    DeposedGoesOn,
    /// A machine whose log lacks the end of the chain goes on with it.
    ShorterGoesOn,
    /// A restorer does not look at the floor again.
    RestorerLooksOnce,
    /// History is pruned below the local front.
    PrunedBelowLocalFront,
    /// History is deleted before the deletion is on record.
    DeletedBeforePruned,
    /// The floor rises over chunks that no segment covers.
    FloorAboveSegments,
    /// A chunk says of places in flight that they hold chunks.
    SettledTooEarly,
    /// A taker counts the first of its seals that is created, not the first seal of the epoch.
    AnySealCounts,
    /// A claim does not compare the end of the chain again once it has sealed it.
    EndComparedOnce,
    /// A segment is put before its end is confirmed.
    SegmentTooEarly,
    /// Each round of a takeover puts as many seals as the first.
    SealsNotDoubled,
    /// A scan ends at a place whose chunk was removed.
    HoleIsTheEnd,
    /// A taker seals an epoch without a look for later ones.
    SealedWithoutALook,
    /// A restorer ends at the first epoch without a seal.
    RestorerEndsEarly,
    /// The floor of an old epoch rises although no chunk of the new one is confirmed.
    SweptTooEarly,
}

#[cfg(test)]
impl Fault {
    /// All planted faults.
    pub(crate) const ALL: &[Fault] = &[
        Fault::AcknowledgedBehindAHole,
        Fault::ExistingIsMine,
        Fault::SealPassedOver,
        Fault::DeletedBeforeTheFloor,
        Fault::SealDeleted,
        Fault::FloorMovesBack,
        Fault::NoLookAfterOwnSeal,
        Fault::NoLookAfterOthersSeal,
        Fault::HintTooEarly,
        Fault::DeposedGoesOn,
        Fault::ShorterGoesOn,
        Fault::RestorerLooksOnce,
        Fault::PrunedBelowLocalFront,
        Fault::DeletedBeforePruned,
        Fault::FloorAboveSegments,
        Fault::SettledTooEarly,
        Fault::AnySealCounts,
        Fault::EndComparedOnce,
        Fault::SegmentTooEarly,
        Fault::SealsNotDoubled,
        Fault::HoleIsTheEnd,
        Fault::SealedWithoutALook,
        Fault::RestorerEndsEarly,
        Fault::SweptTooEarly,
    ];
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Returns true if the fault is enabled on this thread.
#[cfg(test)]
pub(crate) fn is(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Enables a fault on this thread, or none.
#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}
