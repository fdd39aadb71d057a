//! Judgement of a value on a given stack: the promise of the manual, weakened by the facts of the disk.

use super::{Beyond, Promise, SystemSettings, Value};
use logforce_device::{
    Assessment, Facts, FileState, Granted, Guarantee, Method, Platform, Source, Verdict,
};

/// Judgement of a value: what an acknowledged commit survives.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// Promise of the system's manual.
    pub promise: Promise,
    /// Failures that are survived here.
    pub survives: Granted,
    /// Assessment of the force that the promise relies on; `None` if it relies on none, or if the facts
    /// of the disk are not known.
    pub force: Option<Assessment>,
    /// Reason why it is not certain; empty if there is none.
    pub doubt: String,
}

/// Answer to the question of whether a value gives a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It gives less.
    Below,
    /// It is not certain.
    Doubtful,
    /// It gives it.
    Enough,
}

impl Judgement {
    /// Returns whether the value gives the guarantee `asked`. A value under which a failure may damage the
    /// data never does.
    pub fn answer(&self, asked: Guarantee) -> Answer {
        let damages = matches!(self.promise.beyond, Beyond::Damages(_))
            && self.survives.guarantee < Guarantee::PowerLoss;
        if damages || self.survives.guarantee < asked {
            return Answer::Below;
        }
        let is_open = !self.doubt.is_empty() || self.survives.is_doubted;
        match is_open && asked > Guarantee::ProcessCrash {
            true => Answer::Doubtful,
            false => Answer::Enough,
        }
    }

    /// Returns what is survived, and whether that is certain. A stronger judgement is greater.
    pub fn strength(&self) -> (Guarantee, bool) {
        let is_certain = self.doubt.is_empty() && !self.survives.is_doubted;
        (self.survives.guarantee, is_certain)
    }

    /// Returns true if the disk gives less than the manual promises.
    pub fn is_limited_by_disk(&self) -> bool {
        self.survives.guarantee < self.promise.survives
    }
}

/// Returns how much a force of the system gives on the disk with these facts. A stronger disk is greater.
pub fn strength(settings: &SystemSettings, facts: &Facts) -> (Guarantee, bool) {
    judge(settings, &super::VALUE, &|_| None, Some(facts)).strength()
}

/// Judges `value` on all disks that hold data of the system: the weakest decides. `None` is a disk that was not
/// examined.
pub fn judge_all(
    settings: &SystemSettings,
    value: &Value,
    read: &dyn Fn(&str) -> Option<String>,
    disks: &[Option<&Facts>],
) -> Judgement {
    let judged = disks
        .iter()
        .map(|facts| judge(settings, value, read, *facts));
    let weakest = judged.min_by_key(Judgement::strength);
    weakest.unwrap_or_else(|| judge(settings, value, read, None))
}

/// Judges `value` on the disk with these facts; `None` if the disk was not examined. `read` returns the text of
/// another setting in force.
pub fn judge(
    settings: &SystemSettings,
    value: &Value,
    read: &dyn Fn(&str) -> Option<String>,
    facts: Option<&Facts>,
) -> Judgement {
    let promise = match value.unless {
        Some((condition, other)) if condition.holds(read) => other,
        _ => value.promise,
    };
    let promise = whole_pages(value, promise, read, facts);
    let mut doubt = promise.doubt.to_owned();
    let alone = |survives: Guarantee, doubt: String| Judgement {
        promise,
        survives: survives.into(),
        force: None,
        doubt,
    };
    // The system's memory keeps data of a process that crashed, on any disk.
    if promise.survives <= Guarantee::ProcessCrash {
        return alone(promise.survives, doubt);
    }
    let Some(facts) = facts else {
        if doubt.is_empty() {
            doubt = "the disk of the server was not examined".to_owned();
        }
        return alone(promise.survives, doubt);
    };
    let force = assess(settings, value, facts);
    let weaker = force.granted().guarantee.min(promise.survives);
    let survives = match force.granted() {
        granted if granted.guarantee == weaker => granted,
        _ => weaker.into(),
    };
    // The doubt about a power loss is part of what is survived. A weaker failure needs the repair too.
    let is_repaired = facts.journalled == Some(false) && force.verdict == Verdict::Unknown;
    if is_repaired && survives == Guarantee::OsCrash && doubt.is_empty() {
        doubt = force.evidence.clone();
    }
    Judgement {
        promise,
        survives,
        force: Some(force),
        doubt,
    }
}

/// Returns the promise of a value that relies on pages being written whole. A device that writes pages of
/// this size whole makes the promise of the manual possible, and no more: the filesystem and the kernel may
/// still split a write.
fn whole_pages(
    value: &Value,
    promise: Promise,
    read: &dyn Fn(&str) -> Option<String>,
    facts: Option<&Facts>,
) -> Promise {
    let Some(page) = value.page else {
        return promise;
    };
    let page = read("innodb_page_size").map_or(Some(page), |text| bytes(&text));
    let whole = facts.and_then(|f| f.atomic_write);
    match (page, whole) {
        (Some(page), Some(whole)) if (whole.unit_min..=whole.unit_max).contains(&page) => Promise {
            doubt: "the device writes a page whole; the filesystem must not split it: direct I/O, and \
                    extents aligned to the page",
            ..Promise::POWER_LOSS
        },
        _ => promise,
    }
}

/// Parses a size such as `16384` or `16k`.
fn bytes(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1024),
        None => (text.as_str(), 1),
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

/// Returns the assessment of the call that a value relies on. Where direct I/O is not offered, a direct write
/// goes through the cache.
fn assess(settings: &SystemSettings, value: &Value, facts: &Facts) -> Assessment {
    facts.after_repair(force(settings, value, facts))
}

/// Returns the assessment of the call alone.
fn force(settings: &SystemSettings, value: &Value, facts: &Facts) -> Assessment {
    let method = settings.method(value, facts.platform);
    // A force also records the blocks of a file that grows. A write without one does not, so it counts
    // only on blocks that were written before.
    let state = FileState::Recycled;
    facts
        .assess(method, state)
        .or_else(|| facts.assess(through_cache(method, facts.platform), state))
        .unwrap_or_else(|| {
            let why = facts.why_not_offered(method);
            Assessment::new(Guarantee::Nothing, Verdict::Unknown, Source::Nobody, why)
        })
}

/// Returns the method that forces as `method` does, but writes through the cache.
fn through_cache(method: Method, platform: Platform) -> Method {
    let force = method.plan().force;
    let same = |m: &&Method| !m.plan().direct && m.plan().force == force;
    let found = platform.methods().iter().find(same);
    found.copied().unwrap_or(Method::Buffered)
}
