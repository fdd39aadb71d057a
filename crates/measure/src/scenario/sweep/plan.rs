//! Plan of a sweep: the cells, those that are available, and those for which the time suffices.

use super::submission::{Queue, Way};
use super::{Options, ROUNDS, USUAL_CHUNK};
use crate::run::schedule::TIMED_SHARE;
use logforce_device::{Assessment, Facts, FileState, Guarantee};
use logforce_terminal::numbers::{bytes, count};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// A way, and the facts about it that are known before anything is measured.
pub(super) struct PlannedWay {
    pub(super) way: Way,
    /// Guarantee of a force; `None` if the way is not available.
    pub(super) assessment: Option<Assessment>,
    /// Reason why the way is not available.
    pub(super) reason: Option<String>,
}

/// A planned cell.
pub(super) struct PlannedCell {
    pub(super) way: Way,
    pub(super) chunk: u64,
    pub(super) depth: u32,
    /// Reason why the cell is not measured.
    pub(super) reason: Option<String>,
}

/// All cells.
pub(super) struct Plan {
    /// Ways, in the order of the report.
    pub(super) ways: Vec<PlannedWay>,
    /// Cells by way, then chunk size, then depth.
    pub(super) cells: Vec<PlannedCell>,
    /// Indexes of the cells to measure, the most important ones first.
    pub(super) order: Vec<usize>,
    /// Number of cells that could be measured with enough time.
    pub(super) could_be: usize,
    /// Chunk size at which methods are compared, bytes.
    pub(super) usual_chunk: u64,
}

impl Plan {
    /// Makes the plan for a file of `size` bytes. `has_queue` is true if the system can keep several writes
    /// of one thread in flight.
    pub(super) fn new(options: &Options, facts: &Facts, size: u64, has_queue: bool) -> Plan {
        let ways = ways(options, facts, has_queue);
        let mut cells = Vec::new();
        for planned in &ways {
            for &chunk in &options.chunks {
                for &depth in &options.depths {
                    let reason = planned.reason.clone();
                    cells.push(PlannedCell {
                        way: planned.way,
                        chunk,
                        depth,
                        reason: reason.or_else(|| refusal(planned.way, chunk, depth, facts, size)),
                    });
                }
            }
        }
        let usual_chunk = usual_chunk(&cells);
        let lines = lines(&ways, &cells, usual_chunk);
        let could_be = lines.iter().map(Vec::len).sum();
        let most = affordable(options);
        let mut order = Vec::new();
        for line in lines {
            if !order.is_empty() && order.len() + line.len() > most {
                break;
            }
            order.extend(line);
        }
        for (number, cell) in cells.iter_mut().enumerate() {
            if cell.reason.is_none() && !order.contains(&number) {
                cell.reason = Some("left out because there is too little time".to_owned());
            }
        }
        Plan {
            ways,
            cells,
            order,
            could_be,
            usual_chunk,
        }
    }

    /// Returns the number of cells that are left out for lack of time.
    pub(super) fn left_out(&self) -> usize {
        self.could_be - self.order.len()
    }

    /// Describes the plan and its duration, in sentences.
    pub(super) fn sentences(&self, options: &Options) -> String {
        let ways = self.ways.iter().filter(|w| w.reason.is_none()).count();
        let mut text = format!(
            "Sweep: {} (chunk size × writes in flight) of {}, with {ROUNDS} slices each in turn: about {:.0} s \
             (--seconds).",
            count(self.order.len() as u64, "cell"),
            count(ways as u64, "way"),
            options.time.as_secs_f64().max(1.0)
        );
        if let Some(sentence) = self.too_little_time(options) {
            text.push(' ');
            text.push_str(&sentence);
        }
        text
    }

    /// Describes the cells that are left out for lack of time, and the order; `None` if there are none.
    pub(super) fn too_little_time(&self, options: &Options) -> Option<String> {
        let left_out = self.left_out() as u64;
        let all = each(options) * self.could_be as f64;
        (left_out > 0).then(|| {
            format!(
                "That is too little time for {}, which {} left out. Methods that survive loss of power come \
                 first; of each method, chunks of {} come first, then the smallest and the largest, then those in \
                 between, each with all numbers in flight. All cells need --seconds {:.0}.",
                count(left_out, "more cell"),
                if left_out == 1 { "is" } else { "are" },
                bytes(self.usual_chunk),
                all.ceil()
            )
        })
    }
}

/// Returns the minimum time of a cell, seconds.
fn each(options: &Options) -> f64 {
    options.least_slice.as_secs_f64() * f64::from(ROUNDS) / TIMED_SHARE
}

fn affordable(options: &Options) -> usize {
    (options.time.as_secs_f64() / each(options)) as usize
}

/// Returns the ways: every method with threads, and with `io_uring` if the system has it for these writes.
fn ways(options: &Options, facts: &Facts, has_queue: bool) -> Vec<PlannedWay> {
    let mut ways = Vec::new();
    for &method in &options.methods {
        let assessment = facts.assess(method, FileState::Recycled);
        let reason = assessment.is_none().then(|| facts.why_not_offered(method));
        let mut queues = vec![Queue::Threads];
        if has_queue && method.plan().direct && assessment.is_some() {
            queues.push(Queue::IoUring);
        }
        for queue in queues {
            ways.push(PlannedWay {
                way: Way { method, queue },
                assessment: assessment.clone(),
                reason: reason.clone(),
            });
        }
    }
    ways
}

/// Returns the reason why a cell is not available here; `None` if it is.
fn refusal(way: Way, chunk: u64, depth: u32, facts: &Facts, size: u64) -> Option<String> {
    let unit = u64::from(facts.write_unit());
    if way.method.plan().direct && !chunk.is_multiple_of(unit) {
        return Some(format!(
            "direct I/O needs a chunk size that is a multiple of {} here",
            bytes(unit)
        ));
    }
    (chunk * u64::from(depth) > size).then(|| {
        format!(
            "{} of {} do not fit into a file of {}",
            count(depth, "write"),
            bytes(chunk),
            bytes(size)
        )
    })
}

/// Returns the available cells in lines, the most important ones first. A line is a chunk size of a way
/// with all its depths.
fn lines(ways: &[PlannedWay], cells: &[PlannedCell], usual: u64) -> Vec<Vec<usize>> {
    let mut ranked = Vec::new();
    for (nth, planned) in ways.iter().enumerate() {
        let is_safe = planned
            .assessment
            .as_ref()
            .is_some_and(|a| a.guarantee == Guarantee::PowerLoss);
        let mut lines: Vec<Vec<usize>> = Vec::new();
        for (number, cell) in cells.iter().enumerate() {
            if cell.way != planned.way || cell.reason.is_some() {
                continue;
            }
            match lines.last_mut() {
                Some(line) if cells[line[0]].chunk == cell.chunk => line.push(number),
                _ => lines.push(vec![number]),
            }
        }
        let ranks = coarse_first(lines.len());
        let is_usual = |line: &Vec<usize>| line.first().is_some_and(|n| cells[*n].chunk == usual);
        for (line, rank) in lines.into_iter().zip(ranks) {
            ranked.push(((!is_safe, !is_usual(&line), rank, nth), line));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, line)| line).collect()
}

/// Returns the chunk size that the most cells offer; among equals the one nearest to [`USUAL_CHUNK`].
fn usual_chunk(cells: &[PlannedCell]) -> u64 {
    let offered = |chunk: u64| {
        let of = cells.iter();
        of.filter(|c| c.chunk == chunk && c.reason.is_none())
            .count()
    };
    let distance = |chunk: u64| chunk.ilog2().abs_diff(USUAL_CHUNK.ilog2());
    cells
        .iter()
        .map(|c| c.chunk)
        .min_by_key(|&chunk| (Reverse(offered(chunk)), distance(chunk)))
        .unwrap_or(USUAL_CHUNK)
}

/// Returns the rank of each of `count` positions: the ends first, then the middle, then the middles of
/// the halves, and so on.
fn coarse_first(count: usize) -> Vec<usize> {
    let mut ranks = vec![usize::MAX; count];
    let mut next = 0;
    let mut rank = |at: usize, ranks: &mut Vec<usize>| {
        if ranks[at] == usize::MAX {
            ranks[at] = next;
            next += 1;
        }
    };
    let Some(last) = count.checked_sub(1) else {
        return ranks;
    };
    rank(0, &mut ranks);
    rank(last, &mut ranks);
    let mut between = VecDeque::from([(0, last)]);
    while let Some((low, high)) = between.pop_front() {
        if high - low < 2 {
            continue;
        }
        let middle = low.midpoint(high);
        rank(middle, &mut ranks);
        between.extend([(low, middle), (middle, high)]);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::sweep::LEAST_SLICE;
    use crate::testing::facts;
    use logforce_device::Method;
    use std::time::Duration;

    fn options(seconds: f64) -> Options {
        Options {
            methods: Method::LINUX.to_vec(),
            depths: vec![1, 8],
            chunks: vec![512, 4096, 16384, 65536],
            size: 64 << 20,
            time: Duration::from_secs_f64(seconds),
            least_slice: LEAST_SLICE,
            writes: None,
        }
    }

    #[test]
    fn the_ends_come_before_the_middle() {
        assert!(coarse_first(0).is_empty());
        assert_eq!(coarse_first(1), [0]);
        assert_eq!(coarse_first(2), [0, 1]);
        assert_eq!(coarse_first(5), [0, 3, 2, 4, 1]);
        let mut all = coarse_first(10);
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_direct_write_below_the_unit_and_one_too_long_for_the_file_say_why() {
        let plan = Plan::new(&options(60.0), &facts(), 256 << 10, true);
        // Seven methods, and the three direct ones also with a queue.
        assert_eq!((plan.ways.len(), plan.cells.len()), (10, 80));
        for cell in &plan.cells {
            let below = cell.way.method.plan().direct && cell.chunk == 512;
            let too_long = cell.chunk == 65536 && cell.depth == 8;
            let said = |part: &str| cell.reason.as_ref().is_some_and(|r| r.contains(part));
            assert_eq!(said("multiple of 4 KiB here"), below);
            assert_eq!(
                said("8 writes of 64 KiB do not fit into a file of 256 KiB"),
                too_long
            );
            assert_eq!(cell.reason.is_some(), below || too_long);
        }
        assert_eq!(plan.left_out(), 0);
        assert_eq!(plan.too_little_time(&options(60.0)), None);
    }

    #[test]
    fn without_time_for_all_the_safe_and_the_ends_come_first() {
        let all = Plan::new(&options(60.0), &facts(), 1 << 30, false);
        let short = options(2.0);
        let plan = Plan::new(&short, &facts(), 1 << 30, false);
        assert_eq!(all.could_be, 50);
        assert_eq!((plan.could_be, plan.order.len()), (50, 20));
        let words = plan.sentences(&short);
        assert!(
            words.contains("20 cells") && words.contains("of 7 ways"),
            "{words}"
        );
        assert!(
            words.contains("about 2 s") && words.contains("30 more cells, which are left out"),
            "{words}"
        );
        let measured = |c: &PlannedCell| c.reason.is_none();
        for cell in plan.cells.iter().filter(|c| measured(c)) {
            assert!(!matches!(
                cell.way.method,
                Method::Buffered | Method::Direct
            ));
            let least = if cell.way.method.plan().direct {
                4096
            } else {
                512
            };
            let is_first = [16384, least].contains(&cell.chunk);
            assert!(is_first, "{} of {}", cell.chunk, cell.way);
        }
        // A chunk size has all its depths or none.
        for pair in plan.cells.chunks(2) {
            assert_eq!(measured(&pair[0]), measured(&pair[1]));
        }
        // Even the shortest time measures something.
        let plan = Plan::new(&options(0.001), &facts(), 1 << 30, false);
        assert_eq!(plan.order.len(), 2);
    }
}
