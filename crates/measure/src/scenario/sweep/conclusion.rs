//! Conclusion from the cells, in sentences.

use super::knee::{DepthPoint, Finding};
use super::row::point;
use super::submission::{Queue, Unit, Way};
use super::{ROUNDS, Sweep};
use crate::result::Row;
use crate::run::Relation;
use crate::run::stats::median;
use crate::scenario::journal::conclusion::conclude as conclude_singles;
use logforce_device::{Facts, Method};
use logforce_terminal::numbers::{bytes, count, rounded, short};

/// The method that the conclusion is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommended {
    /// Method; `None` if none is safe.
    pub method: Option<Method>,
    /// Reason, as the beginning of a text.
    pub why: String,
}

impl Recommended {
    /// Chooses the method by single writes, as `bench journal` does. If these do not decide, chooses the
    /// default if it is safe and was measured, else the first safe method.
    pub fn new(singles: &[Row], methods: &[Row], facts: &Facts) -> Recommended {
        let measured = |method: Method| {
            let of = methods.iter().find(|m| m.method == method);
            of.is_some_and(Row::is_safe)
        };
        if let Some(method) = conclude_singles(singles, facts.platform).recommended {
            let why = format!(
                "Use {method} here: of the methods that survive loss of power it is the recommended one for single \
                 writes."
            );
            let method = Some(method);
            return Recommended { method, why };
        }
        let default = facts.default_method();
        let is_default = |method: &Method| *method == default;
        let known = methods.iter().filter_map(|m| m.method.known());
        let safe = known.filter(|m| measured(*m));
        let chosen = safe
            .clone()
            .find(is_default)
            .or_else(|| safe.clone().next());
        match chosen {
            Some(method) => Recommended {
                method: Some(method),
                why: format!(
                    "Too little was measured to say which of the methods that survive loss of power is the \
                     fastest for single writes. The following is about {method}, {}.",
                    if method == default {
                        "the default here"
                    } else {
                        "the first of those measured"
                    }
                ),
            },
            None => Recommended {
                method: None,
                why: "No method that was measured survives loss of power here, so none is recommended. The \
                      figures show the speed of the disk, not the cost of a durable commit."
                    .to_owned(),
            },
        }
    }
}

/// Describes the depth up to which more writes in flight pay and the best chunk sizes. Then describes the
/// consequences for a log, and compares `io_uring` with threads.
pub fn conclude(rows: &[Row], sweep: &Sweep) -> String {
    let mut sentences = vec![sweep.recommended.why.clone()];
    let Some(method) = sweep.recommended.method else {
        return sentences.remove(0);
    };
    let way = Way::threads(method);
    let knees: Vec<&Row> = sweep.knees.iter().filter(|k| way.is_of(k)).collect();
    let cells = Cells(rows);
    sentences.extend(cells.at_the_knee(way, sweep.usual_chunk, &knees));
    sentences.push(depths(way, &knees));
    if knees.iter().any(|k| is_told(k)) {
        sentences.extend(cells.most(method));
        sentences.extend(for_a_log(way, &cells));
    }
    // For the other methods too, because the gain from io_uring depends on the method.
    let others = sweep.methods.iter().filter(|m| m.is_safe());
    let others = others.filter_map(|m| m.method.known());
    let others = others.filter(|m| *m != method);
    let mut with_ring: Vec<Method> = vec![method];
    for other in others {
        if !with_ring.contains(&other) {
            with_ring.push(other);
        }
    }
    sentences.extend(with_ring.iter().filter_map(|m| cells.io_uring(*m)));
    sentences.extend(cells.another(method));
    sentences.join(" ")
}

fn is_told(knee: &Row) -> bool {
    knee.finding == Finding::Pays || knee.finding == Finding::Flat
}

/// Returns the finding of a chunk size, and its knee.
fn says(knee: &Row) -> (Finding, Option<u64>) {
    (knee.finding.known().unwrap_or(Finding::Nothing), knee.depth)
}

/// Chunk sizes with the same finding and knee.
struct Alike<'a> {
    knees: Vec<&'a Row>,
}

impl Alike<'_> {
    fn says(&self) -> (Finding, Option<u64>) {
        let of = |k: &&Row| says(k);
        self.knees.first().map_or((Finding::Nothing, None), of)
    }

    fn chunks(&self) -> String {
        let sizes: Vec<String> = self.knees.iter().map(|k| bytes(k.chunk_bytes)).collect();
        match sizes.as_slice() {
            [most @ .., last] if !most.is_empty() => format!("{} and {last}", most.join(", ")),
            one => one.concat(),
        }
    }

    fn gains(&self) -> String {
        let gains = || self.knees.iter().filter_map(|k| k.gain);
        let low = gains().fold(f64::INFINITY, f64::min);
        let high = gains().fold(0.0, f64::max);
        match (short(low, 1), short(high, 1)) {
            (low, high) if low == high => format!("{low} times"),
            (low, high) => format!("{low} to {high} times"),
        }
    }
}

fn depths(way: Way, knees: &[&Row]) -> String {
    let what = match way.unit() {
        Unit::Write => "writes in flight",
        Unit::Group => "writes for each barrier",
    };
    if knees.is_empty() {
        return format!("Nothing was measured with this method, so nothing is known about {what}.");
    }
    if knees.iter().all(|k| k.finding == Finding::OneDepth) {
        return format!("Only one number of {what} was measured, so the knee is unknown.");
    }
    if !knees.iter().any(|k| is_told(k)) {
        return match knees.iter().any(|k| k.finding == Finding::Noise) {
            true => format!(
                "No conclusion about {what}: the noise is larger than the differences. Measure longer with \
                 --seconds, or on a quieter machine."
            ),
            false => format!(
                "No conclusion about {what}: most cells have fewer than 3 of their {ROUNDS} slices. Measure \
                 longer with --seconds, or fewer --chunks and --depths."
            ),
        };
    }
    let mut groups: Vec<Alike> = Vec::new();
    for knee in knees {
        match groups.iter_mut().find(|g| g.says() == says(knee)) {
            Some(group) => group.knees.push(knee),
            None => groups.push(Alike { knees: vec![knee] }),
        }
    }
    // Chunk sizes with the largest knee come first, then those without a gain, then the unknown ones.
    let order = |g: &Alike| match g.says() {
        (Finding::Pays, depth) => (0, std::cmp::Reverse(depth)),
        (Finding::Flat, depth) => (1, std::cmp::Reverse(depth)),
        _ => (2, std::cmp::Reverse(None)),
    };
    groups.sort_by_key(order);
    let part = |group: &Alike| {
        let chunks = group.chunks();
        match group.says() {
            (Finding::Pays, Some(depth)) => {
                format!(
                    "up to {depth} in chunks of {chunks} ({} the rate)",
                    group.gains()
                )
            }
            (Finding::Flat, Some(depth)) => {
                format!("none above {depth} in chunks of {chunks}")
            }
            (Finding::Noise, _) => format!(
                "unknown in chunks of {chunks}, because the noise is larger than the differences"
            ),
            _ => format!("too little was measured in chunks of {chunks}"),
        }
    };
    let parts: Vec<String> = groups.iter().map(part).collect();
    format!("Gain from more {what}: {}.", parts.join("; "))
}

/// All cells.
struct Cells<'a>(&'a [Row]);

/// Returns the row with the highest value of `of`.
fn highest<'a>(
    rows: impl Iterator<Item = &'a Row>,
    of: impl Fn(&Row) -> Option<f64>,
) -> Option<&'a Row> {
    let mut found: Option<(&Row, f64)> = None;
    for row in rows {
        // Among equals the first, which needs fewer writes in flight.
        if let Some(value) = of(row)
            && found.is_none_or(|(_, most)| value > most)
        {
            found = Some((row, value));
        }
    }
    found.map(|(row, _)| row)
}

impl Cells<'_> {
    fn of(&self, way: Way) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |r| way.is_of(r))
    }

    /// Compares the knee of the usual chunk size with one write at a time.
    fn at_the_knee(&self, way: Way, chunk: u64, knees: &[&Row]) -> Option<String> {
        let knee = knees.iter().find(|k| k.chunk_bytes == chunk)?;
        let cell = |depth: u64| {
            let is_it = |r: &&Row| r.chunk_bytes == chunk && r.depth == Some(depth);
            self.of(way).find(is_it)
        };
        let (one, at) = (cell(1)?, cell(knee.depth?)?);
        let says = |row: &Row| {
            Some(format!(
                "{} a second, {} µs each at p50",
                rounded(row.chunks_per_s?),
                rounded(row.p50_us?)
            ))
        };
        (knee.finding == Finding::Pays && at.depth > Some(1)).then(|| {
            let unit = match way.unit() {
                Unit::Write => "",
                Unit::Group => " (the group)",
            };
            Some(format!(
                "Chunks of {}: one at a time {}; {} {}{unit}; more in flight gain at most a tenth beyond the noise.",
                bytes(chunk),
                says(one)?,
                in_flight(at),
                says(at)?
            ))
        })?
    }

    /// Names the chunk size with the most commits, and the one with the most bytes.
    fn most(&self, method: Method) -> Option<String> {
        let way = Way::threads(method);
        let commits = highest(self.of(way), |r| r.chunks_per_s)?;
        let rate = highest(self.of(way), |r| r.mb_per_s)?;
        Some(format!(
            "Most commits a second, with one chunk per commit: {} of {} with {}. Most bytes: {} MB/s in chunks \
             of {} with {}.",
            rounded(commits.chunks_per_s?),
            bytes(commits.chunk_bytes),
            in_flight(commits),
            rounded(rate.mb_per_s?),
            bytes(rate.chunk_bytes),
            in_flight(rate)
        ))
    }

    /// Compares one thread with `io_uring` with one thread for each write.
    fn io_uring(&self, method: Method) -> Option<String> {
        let ring = Way {
            method,
            queue: Queue::IoUring,
        };
        let pairs: Vec<(DepthPoint, DepthPoint)> = self
            .of(Way::threads(method))
            .filter_map(|t| {
                let same = |r: &&Row| r.chunk_bytes == t.chunk_bytes && r.depth == t.depth;
                Some((point(t)?, point(self.of(ring).find(same)?)?))
            })
            .collect();
        let deep: Vec<&(DepthPoint, DepthPoint)> =
            pairs.iter().filter(|(t, _)| t.depth > 1).collect();
        if deep.is_empty() {
            return None;
        }
        let (faster, slower) = (
            deep.iter().filter(|(t, r)| r.is_beyond(t)).count(),
            deep.iter().filter(|(t, r)| t.is_beyond(r)).count(),
        );
        let ratios: Vec<f64> = deep.iter().map(|(t, r)| r.rate / t.rate).collect();
        let (typical, all) = (median(&ratios), deep.len());
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        let spread = format!(
            "{} times the rate of threads in the median of {all} cells with more than one in flight, from {} to {}",
            short(typical, 2),
            short(low, 2),
            short(high, 2)
        );
        Some(match (2 * faster > all, 2 * slower > all) {
            (true, _) => {
                format!(
                    "One thread with io_uring is faster than threads with {method} here: {spread}."
                )
            }
            (_, true) => format!(
                "Threads are faster than io_uring with {method} here: io_uring has {spread}."
            ),
            _ if deep
                .iter()
                .all(|(t, r)| r.ratio(t).relation() == Relation::Same) =>
            {
                format!("io_uring and threads are the same with {method} here: {spread}.")
            }
            _ if faster + slower == 0 => {
                format!("io_uring or threads with {method} here is too noisy to tell: {spread}.")
            }
            _ => format!(
                "io_uring with {method} is faster than threads beyond the noise in {} and slower in {slower}: \
                 {spread}.",
                count(faster as u64, "cell")
            ),
        })
    }

    /// Names another safe way that makes more commits than the method, at the method's best chunk size.
    fn another(&self, method: Method) -> Option<String> {
        let best = highest(self.of(Way::threads(method)), |r| r.chunks_per_s)?;
        let ours = point(best)?;
        let others = self.0.iter().filter(|r| {
            let is_more = point(r).is_some_and(|p| p.is_beyond(&ours));
            r.is_safe()
                && is_more
                && Way::of(r) != Way::of(best)
                && r.chunk_bytes == best.chunk_bytes
        });
        let other = highest(others, |r| r.chunks_per_s)?;
        let theirs = point(other)?;
        Some(format!(
            "Of all safe ways {} makes the most commits of {}: {} a second with {}, {} times as many.",
            Way::of(other)?,
            bytes(other.chunk_bytes),
            rounded(theirs.rate),
            in_flight(other),
            short(theirs.rate / ours.rate, 1)
        ))
    }
}

fn in_flight(row: &Row) -> String {
    let depth = row.depth.unwrap_or(0);
    match Way::of(row).map(Way::unit) {
        Some(Unit::Group) => format!("{depth} for each barrier"),
        _ => format!("{depth} in flight"),
    }
}

/// Compares two ways to commit waiting records: several writes in flight, or one longer write.
fn for_a_log(way: Way, cells: &Cells) -> Option<String> {
    let small = cells.of(way).filter(|r| r.chunks_per_s.is_some());
    let small = small.map(|r| r.chunk_bytes).min()?;
    let apart = highest(cells.of(way).filter(|r| r.chunk_bytes == small), |r| {
        r.chunks_per_s
    })?;
    let commits_in = |r: &Row| (r.chunk_bytes / small) as f64;
    let longer = |r: &&Row| r.chunk_bytes > small && r.chunk_bytes.is_multiple_of(small);
    let alone = cells.of(way).filter(longer).filter(|r| r.depth == Some(1));
    let gathered = highest(alone, |r| Some(r.chunks_per_s? * commits_in(r)))?;
    let apart_point = point(apart)?;
    let gathered_point = point(gathered)?.times(commits_in(gathered));
    let size = bytes(small);
    let by_one = format!(
        "one write of {} at a time ({} µs at p50) carries {} commits of {size}, {} a second",
        bytes(gathered.chunk_bytes),
        rounded(gathered.p50_us?),
        commits_in(gathered),
        rounded(gathered_point.rate)
    );
    let by_many = format!(
        "separate writes, {} at best ({} µs at p50), carry {}",
        in_flight(apart),
        rounded(apart.p50_us?),
        rounded(apart_point.rate)
    );
    let ratio = gathered_point.ratio(&apart_point);
    Some(if gathered_point.is_beyond(&apart_point) {
        format!(
            "For a log: gather waiting commits into one write (group commit) before you use more writes in \
             flight: {by_one}; {by_many}."
        )
    } else if apart_point.is_beyond(&gathered_point) {
        format!(
            "For a log: several writes in flight carry more commits than one gathered write at a time: \
             {by_many}; {by_one}. A log can do both."
        )
    } else if ratio.relation() == Relation::Same {
        format!(
            "For a log: one gathered write at a time and several writes in flight carry the same number of \
             commits ({} times): {by_one}; {by_many}.",
            ratio.interval()
        )
    } else {
        format!(
            "For a log: whether one gathered write at a time or several writes in flight carry more commits is \
             {}: {by_one}; {by_many}.",
            ratio.unclear()
        )
    })
}
