//! Comparison of two directories whose slices took turns in one run, row by row.

use super::conclusion::candidate::candidates;
use super::row::is_written;
use crate::result::{Document, Name, Row, legend};
use crate::run::ratio::multiple;
use crate::run::{Ratio, Relation, SubjectKind};
use logforce_terminal::layout::{Column, fitted, sections, wrap};
use logforce_terminal::numbers::{count, number, short};
use serde::Serialize;

/// Value of `schema`.
pub const SCHEMA: &str = "logforce-bench-places";
/// Value of `version`.
pub const VERSION: u32 = 1;

/// Results of two directories.
#[derive(Debug, Clone, Serialize)]
pub struct Places {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Command line.
    pub command: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// True if the user stopped the run.
    pub interrupted: bool,
    /// Directories A and B, as on the command line.
    pub names: [String; 2],
    /// Conclusion, in sentences.
    pub conclusion: String,
    /// Rows of both.
    pub rows: Vec<PlaceRow>,
    /// Result of each directory, in the form of a run that measured it alone.
    pub places: [Document; 2],
}

/// A row in both directories.
#[derive(Debug, Clone, Serialize)]
pub struct PlaceRow {
    /// Name of the row, in words.
    pub row: String,
    /// Milliseconds per commit in A.
    pub a_ms: Option<f64>,
    /// Milliseconds per commit in B.
    pub b_ms: Option<f64>,
    /// Guarantee of a commit in A, with its mark.
    pub a_survives: String,
    /// Guarantee of a commit in B, with its mark.
    pub b_survives: String,
    /// Time of B as a multiple of A's.
    pub time_ratio: Option<f64>,
    /// Lower edge of the interval of that ratio; null if it is unknown.
    pub time_ratio_low: Option<f64>,
    /// Upper edge.
    pub time_ratio_high: Option<f64>,
    /// Result for B: `faster`, `slower`, `same`, `noisy` or `unmeasured`.
    pub verdict: &'static str,
    #[serde(skip)]
    ratio: Option<Ratio>,
}

impl Places {
    /// Compares two results, whose rows are the same and in the same order.
    pub fn new(names: [String; 2], places: [Document; 2]) -> Places {
        let [a, b] = &places;
        let rows = a.rows.iter().zip(&b.rows);
        let rows: Vec<PlaceRow> = rows.map(|(a, b)| PlaceRow::new(&places[0], a, b)).collect();
        Places {
            schema: SCHEMA,
            version: VERSION,
            command: a.command.clone(),
            started: a.started.clone(),
            interrupted: a.interrupted || b.interrupted,
            conclusion: conclude(a, b, &rows),
            names,
            rows,
            places,
        }
    }

    /// Returns whether any row has figures in both directories.
    pub fn is_measured(&self) -> bool {
        self.rows.iter().any(|row| row.ratio.is_some())
    }

    /// Returns the report for a terminal of `width` characters: the conclusion, then the rows if `all` is true.
    pub fn text(&self, all: bool, width: usize) -> String {
        let mut text = String::new();
        for (which, name, document) in [
            ("A", &self.names[0], &self.places[0]),
            ("B", &self.names[1], &self.places[1]),
        ] {
            text.push_str(&wrap(
                &format!("{which}: {name}: {}", document.machine),
                width,
                3,
            ));
        }
        if self.interrupted {
            text.push_str(legend::CUT);
        }
        text.push('\n');
        text.push_str(&wrap(&self.conclusion, width, 0));
        let safe = |row: &PlaceRow| row.ratio.is_some() && is_safe(row);
        let all = all || !self.rows.iter().any(safe);
        let shown = |row: &&PlaceRow| all || safe(row);
        let rows = self.rows.iter().filter(shown);
        let (table, _) = fitted(
            &COLUMNS,
            &sections(rows.map(|r| (String::new(), r.clone()))),
            width,
        );
        text.push_str(&table);
        text.push('\n');
        text.push_str(&wrap(
            "B's time: of a commit in B as a multiple of that in A, of the same row in the same round; the interval holds \
             its median with nine tenths probability. Same: within 0.8 to 1.25.",
            width,
            2,
        ));
        let mut notes: Vec<&String> = Vec::new();
        for note in self.places.iter().flat_map(|place| &place.notes) {
            if note.starts_with(crate::run::cpu::BUSY_NOTE) && !notes.contains(&note) {
                notes.push(note);
            }
        }
        for note in notes {
            text.push_str(&wrap(note, width, 2));
        }
        if !all {
            text.push_str("--all shows every row, --json writes both results.\n");
        }
        text
    }
}

fn is_safe(row: &PlaceRow) -> bool {
    [&row.a_survives, &row.b_survives]
        .iter()
        .any(|survives| survives.starts_with("power-loss"))
}

impl PlaceRow {
    fn new(document: &Document, a: &Row, b: &Row) -> PlaceRow {
        let ms = |row: &Row| row.ms_per_commit.filter(|_| row.error.is_none());
        let ratio = ms(a).zip(ms(b)).map(|(of_a, of_b)| {
            let slices = b.each.iter().copied().zip(a.each.iter().copied());
            Ratio::of(of_b / of_a, slices)
        });
        let known = ratio.filter(|r| r.high.is_finite());
        PlaceRow {
            row: a.name(document.kind()),
            a_ms: ms(a),
            b_ms: ms(b),
            a_survives: a.survives(),
            b_survives: b.survives(),
            time_ratio: ratio.map(|r| r.figure),
            time_ratio_low: known.map(|r| r.low),
            time_ratio_high: known.map(|r| r.high),
            verdict: match ratio.map(|r| r.relation()) {
                None => "unmeasured",
                Some(Relation::Less) => "faster",
                Some(Relation::More) => "slower",
                Some(Relation::Same) => "same",
                Some(Relation::Unclear) => "noisy",
            },
            ratio,
        }
    }

    fn words(&self) -> String {
        match &self.ratio {
            None => "n/a".to_owned(),
            Some(ratio) if ratio.relation() == Relation::Unclear => ratio.unclear(),
            Some(ratio) => format!("B {} ({})", self.verdict, ratio.interval()),
        }
    }
}

const COLUMNS: [Column<PlaceRow>; 6] = [
    Column::text("", 0, |r| r.row.clone()),
    Column::number("A\nms", 0, |r| number(r.a_ms, 4)),
    Column::number("B\nms", 0, |r| number(r.b_ms, 4)),
    Column::number("B's\ntime", 0, |r| {
        r.time_ratio.map_or_else(|| "-".to_owned(), multiple)
    }),
    Column::text("", 0, PlaceRow::words),
    Column::text("survives\nin A, in B", 1, |r| {
        match r.a_survives == r.b_survives {
            true => r.a_survives.clone(),
            false => format!("{}, {}", r.a_survives, r.b_survives),
        }
    }),
];

/// Compares the recommended methods, then counts the rows.
fn conclude(a: &Document, b: &Document, rows: &[PlaceRow]) -> String {
    let mut sentences: Vec<String> = vec![best(a, b)];
    let of = |verdict: &str| rows.iter().filter(|r| r.verdict == verdict).count();
    let measured = rows.iter().filter(|r| r.ratio.is_some()).count();
    sentences.push(format!(
        "Of {} in both, B is slower in {}, faster in {}, the same in {}; {} too noisy to tell.",
        count(measured as u64, "row"),
        of("slower"),
        of("faster"),
        of("same"),
        of("noisy")
    ));
    sentences.join(" ")
}

/// Compares a commit by the method that is recommended for each directory.
fn best(a: &Document, b: &Document) -> String {
    let safe = |document: &Document, name: &Name| -> Vec<Row> {
        let rows = document.rows.iter().filter(|r| {
            r.subject == SubjectKind::Raw
                && r.is_safe()
                && r.method == *name.as_str()
                && is_written(r)
        });
        rows.cloned().collect()
    };
    let (of_a, of_b) = (safe(a, &a.recommended), safe(b, &b.recommended));
    let first = |rows: &[Row]| -> Option<(f64, String)> {
        let rows: Vec<&Row> = rows.iter().collect();
        let found = candidates(&rows).into_iter().next()?;
        Some((found.ms, found.method.to_string()))
    };
    let (Some((a_ms, a_method)), Some((b_ms, b_method))) = (first(&of_a), first(&of_b)) else {
        let reason = |(which, rows, document): (&str, &[Row], &Document)| {
            let nothing_safe = !document.rows.iter().any(Row::is_safe);
            match (rows.is_empty(), nothing_safe) {
                (true, true) => Some(format!(
                    "nothing measured in {which} survives loss of power"
                )),
                (true, false) => Some(format!("no method is recommended for {which}")),
                _ => None,
            }
        };
        let reasons = [("A", &of_a[..], a), ("B", &of_b[..], b)];
        let reasons: Vec<String> = reasons.into_iter().filter_map(reason).collect();
        return format!(
            "The cost of a durable commit is not compared: {}.",
            reasons.join(", and ")
        );
    };
    let slices = of_b.iter().flat_map(|b| {
        let same = of_a.iter().filter(move |a| a.file_state == b.file_state);
        same.flat_map(|a| b.each.iter().copied().zip(a.each.iter().copied()))
    });
    let ratio = Ratio::of(b_ms / a_ms, slices.collect::<Vec<_>>());
    let words = match ratio.relation() {
        Relation::Same => format!("as long as in A ({} times)", ratio.interval()),
        Relation::Unclear => format!("longer or shorter than in A: {}", ratio.unclear()),
        _ => format!(
            "{} times as long as in A ({})",
            short(ratio.figure, 2),
            ratio.interval()
        ),
    };
    format!(
        "A commit that survives loss of power takes {} ms in A by {a_method} and {} ms in B by {b_method}: {words}.",
        short(a_ms, 3),
        short(b_ms, 3)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Kind;
    use crate::testing::{document, row};
    use logforce_device::{FileState, Guarantee, Method};

    fn place(ms: f64, each: &[f64]) -> Document {
        let mut document = document(Kind::Journal);
        document.recommended = Method::DirectDsync.into();
        document.rows = [Method::Buffered, Method::DirectDsync]
            .map(|method| Row {
                each: each.to_vec(),
                ..row(method, FileState::Zeroed, ms)
            })
            .to_vec();
        document
    }

    fn of(b: Document) -> Places {
        let names = ["/a".to_owned(), "/b".to_owned()];
        Places::new(names, [place(0.2, &[0.19, 0.2, 0.21, 0.2]), b])
    }

    #[test]
    fn each_row_has_the_interval_of_its_rounds() {
        let found = of(place(0.4, &[0.38, 0.4, 0.42, 0.44]));
        let verdicts: Vec<_> = found.rows.iter().map(|r| r.verdict).collect();
        assert_eq!(verdicts, ["slower", "slower"]);
        assert!(found.rows[0].time_ratio_low.unwrap() > 1.99);
        let words = found.text(false, 120);
        for part in [
            "A: /a: ext4 on sdx",
            "takes 0.200 ms in A by direct+dsync and 0.400 ms in B by direct+dsync: 2.00 times as long as in A (2.00 to 2.20).",
            "Of 2 rows in both, B is slower in 2, faster in 0, the same in 0; 0 too noisy to tell.",
        ] {
            let all: Vec<&str> = words.split_whitespace().collect();
            assert!(all.join(" ").contains(part), "{part}\n{words}");
        }
        assert!(!words.contains("buffered"), "only durable rows\n{words}");
        assert!(found.text(true, 120).contains("buffered"));
        let back = of(place(0.2, &[0.6, 0.2, 0.1, 0.2]));
        assert_eq!(back.rows[1].verdict, "noisy");
        assert!(
            back.text(false, 120)
                .contains("too noisy to tell (0.48 to 3.16)")
        );
        assert_eq!(of(place(0.2, &[0.2; 4])).rows[1].verdict, "same");
    }

    #[test]
    fn a_place_without_a_safe_method_is_named() {
        let mut b = place(0.01, &[0.01; 4]);
        b.recommended = Name::default();
        for row in &mut b.rows {
            row.guarantee = Some(Guarantee::ProcessCrash);
        }
        b.rows[0].error = Some("planted".to_owned());
        let found = of(b);
        assert_eq!(found.rows[0].verdict, "unmeasured");
        let words = found.text(false, 120);
        assert!(
            words.contains("nothing measured in B survives loss of power"),
            "{words}"
        );
        assert!(words.contains("power-loss, process-crash"), "{words}");
    }
}
