//! Output of `logforce doctor` as text: the stack as a tree, the tests, the methods, and one line that answers.

use logforce_measure::doctor::{Doctor, MethodLine, StackLayer};
use logforce_terminal::layout::{self, wrap};
use logforce_terminal::numbers::bytes;

/// Column at which values begin.
const INDENT: usize = 15;

/// Returns the result for a terminal of `width` characters.
pub fn render(doctor: &Doctor, width: usize) -> String {
    let mut lines = Lines {
        text: String::new(),
        width: width.max(INDENT + 20),
    };
    lines.stack(&doctor.stack);
    lines.text.push('\n');
    lines.place(doctor);
    lines.tests(doctor);
    lines.methods(&doctor.methods);
    lines.text.push('\n');
    lines.log(doctor);
    lines.text.push('\n');
    lines.paragraph(&doctor.conclusion.sentence, 0);
    for advice in &doctor.conclusion.advice {
        lines.paragraph(&format!("→ {advice}"), 2);
    }
    lines.text
}

struct Lines {
    text: String,
    width: usize,
}

impl Lines {
    fn line(&mut self, what: &str, value: &str) {
        // Several spaces separate the two; wrapping would leave only one.
        let first = format!("{what:<INDENT$}");
        let rest = wrap(value, self.width - INDENT, 0);
        let rest = rest.trim_end().replace('\n', &format!("\n{:INDENT$}", ""));
        self.text.push_str(&format!("{first}{rest}\n"));
    }

    /// Adds a paragraph whose further lines are indented.
    fn paragraph(&mut self, text: &str, indent: usize) {
        self.text.push_str(&wrap(text, self.width, indent));
    }

    /// Adds the tree: a line for each layer with its own verdict, and below it what was read and where.
    fn stack(&mut self, stack: &[StackLayer]) {
        // True for each level whose line goes on below the present layer.
        let goes_on = |n: usize, level: u32| {
            let below = stack[n + 1..].iter().take_while(|l| l.level >= level);
            below.into_iter().any(|l| l.level == level)
        };
        for (n, layer) in stack.iter().enumerate() {
            let bar = |level| if goes_on(n, level) { "│  " } else { "   " };
            let above: String = (1..layer.level).map(bar).collect();
            let branch = match (layer.level, goes_on(n, layer.level)) {
                (0, _) => String::new(),
                (_, true) => format!("{above}├─ "),
                (_, false) => format!("{above}└─ "),
            };
            let about = match &*layer.about {
                "" => String::new(),
                about => format!(" ({about})"),
            };
            let verdict = format!("{}, {}", layer.survives, layer.verdict);
            self.text
                .push_str(&format!("{branch}{}{about}: {verdict}\n", layer.name));
            let own = match layer.level {
                0 => String::new(),
                level => bar(level).to_owned(),
            };
            let margin = format!("{above}{own}{}    ", bar(layer.level + 1).trim_end());
            let columns = margin.chars().count();
            let mut say = |text: &str| {
                let text = wrap(text, self.width.saturating_sub(columns).max(40), 2);
                for line in text.lines() {
                    self.text.push_str(&format!("{margin}{line}\n"));
                }
            };
            say(&layer.evidence);
            for read in &layer.readings {
                say(&format!("{}: {}  [{}]", read.what, read.value, read.from));
            }
        }
    }

    fn place(&mut self, doctor: &Doctor) {
        for asked in &doctor.asked {
            let (what, text) = match (&asked.answer, &asked.why_not) {
                (Some(answer), _) => ("asked", answer.as_str()),
                (_, why) => ("not asked", why.as_deref().unwrap_or_default()),
            };
            self.line(what, &format!("{}: {text}", asked.device));
        }
        let mut split = |sentence: &str| {
            let (what, text) = sentence.split_once(": ").unwrap_or(("", sentence));
            // Longer names would move the column.
            let what = what.strip_suffix(" protection").unwrap_or(what);
            self.line(what, text);
        };
        split(&doctor.fua);
        split(&doctor.atomic);
        split(&doctor.protection);
        split(&doctor.zeroes);
        let direct = match &doctor.direct {
            None => "not offered".to_owned(),
            Some(d) => format!("memory aligned to {}, offsets to {}", d.memory, d.offset),
        };
        let unit = doctor.machine.write_unit;
        self.line("direct I/O", &format!("{direct}; write unit {unit} bytes"));
        let volume = match &doctor.volume {
            None => "unknown".to_owned(),
            Some(volume) if doctor.volume_lasts => volume.clone(),
            Some(volume) => format!(
                "{volume}; another filesystem may have it after a restart, so verdicts are not stored"
            ),
        };
        let capacity = doctor.capacity.map_or("unknown size".to_owned(), bytes);
        self.line("volume", &format!("{volume}; {capacity}"));
        let m = &doctor.machine;
        if let Some(hypervisor) = &doctor.hypervisor {
            self.line("hypervisor", hypervisor);
        }
        self.line(
            "system",
            &format!("{} {}, {}, {} cpus", m.os, m.kernel, m.arch, m.cpus),
        );
        for (n, note) in m.notes.iter().enumerate() {
            self.line(if n == 0 { "notes" } else { "" }, note);
        }
    }

    fn tests(&mut self, doctor: &Doctor) {
        self.text.push('\n');
        if let Some(why) = &doctor.untested {
            self.line("tests", why);
            return;
        }
        self.text.push_str("Tests in this directory:\n");
        for test in &doctor.tests {
            let mark = match test.passed {
                Some(true) => "ok  ",
                Some(false) => "BAD ",
                None => "    ",
            };
            let text = wrap(
                &format!("{} {}.", test.question, test.finding),
                self.width - 6,
                2,
            );
            for (n, line) in text.lines().enumerate() {
                let mark = if n == 0 { mark } else { "    " };
                self.text.push_str(&format!("  {mark}{line}\n"));
            }
        }
    }

    /// Adds the table, and below it each reason once.
    fn methods(&mut self, methods: &[MethodLine]) {
        self.text.push_str(
            "\nWhat a force survives, on a file that was filled beforehand, as the log does:\n",
        );
        let mut reasons: Vec<String> = Vec::new();
        let mut cell = |guarantee: &str, verdict: &str, reason: &str| {
            let n = match reasons.iter().position(|r| r == reason) {
                Some(n) => n,
                None => {
                    reasons.push(reason.to_owned());
                    reasons.len() - 1
                }
            };
            format!("{guarantee}, {verdict} [{}]", n + 1)
        };
        let rows: Vec<Vec<String>> = methods
            .iter()
            .map(|m| {
                let prepared = match (m.guarantee, m.verdict, &m.evidence, &m.why_not) {
                    (Some(guarantee), Some(verdict), Some(why), _) => cell(guarantee, verdict, why),
                    (.., why) => cell("n/a", "not offered", why.as_deref().unwrap_or_default()),
                };
                let unprepared = m.unprepared.as_ref().map_or("the same".to_owned(), |u| {
                    cell(u.guarantee, u.verdict, &u.evidence)
                });
                let mark = if m.is_default { " (default)" } else { "" };
                vec![format!("{}{mark}", m.method), prepared, unprepared]
            })
            .collect();
        let headings = ["method", "filled file", "other file"].map(str::to_owned);
        self.text
            .push_str(&layout::plain(&headings, rows, &[0, 1, 2]));
        for (n, reason) in reasons.iter().enumerate() {
            let note = wrap(&format!("[{}] {reason}", n + 1), self.width, 4);
            self.text.push_str(&note);
        }
    }

    fn log(&mut self, doctor: &Doctor) {
        self.line("a log here now", &doctor.next.sentences());
        for path in &doctor.next.stored_in {
            self.line("calibrated in", path);
        }
        if doctor.next.stored_in.is_empty() {
            self.line("calibrated", "nothing is stored (see `logforce calibrate`)");
        }
        for (n, cuts) in doctor.power_cuts.iter().enumerate() {
            let what = if n == 0 { "power cuts" } else { "" };
            let outcome = if cuts.kept { "proven" } else { "contradicted" };
            self.line(
                what,
                &format!("{} {outcome}: {}", cuts.method, cuts.evidence),
            );
        }
        for unread in &doctor.power_cuts_unread {
            self.line("NOT READ", unread);
        }
        if doctor.power_cuts.is_empty() && doctor.power_cuts_unread.is_empty() {
            self.line(
                "power cuts",
                "none are recorded for this filesystem (see `logforce powercut`)",
            );
        }
    }
}
