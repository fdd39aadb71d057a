//! Tests of the contents of pages, charts and comparisons.

mod common;

use common::{SAMPLES, changed, documents, sample, value};
use logforce_report::compare::{Change, CompareError, Verdict, compare, text};
use logforce_report::{Document, ReportError, compare_html, html, svgs};
use serde_json::{Value, json};

#[test]
fn a_page_holds_the_conclusion_every_row_and_the_command() {
    for (name, document) in documents() {
        let page = html(&document);
        let raw = value(name);
        let escaped = |text: &str| {
            text.replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;")
        };
        let command = escaped(raw["command"].as_str().unwrap());
        assert!(page.contains(&format!("<pre>{command}</pre>")), "{name}");
        let words = page.replace("<code>", "").replace("</code>", "");
        for sentence in raw["conclusion"].as_str().unwrap_or("").split(". ") {
            let sentence = escaped(sentence.trim_end_matches('.')).replace('`', "");
            assert!(words.contains(&sentence), "{name}: {sentence}");
        }
        assert!(!page.contains('`'), "{name}: what is typed is set as code");
        let rows = page
            .split("id=\"all\"")
            .nth(1)
            .unwrap()
            .matches("<tr>")
            .count();
        assert_eq!(rows, 1 + raw["rows"].as_array().unwrap().len(), "{name}");
        // Each figure has two drawings and one table.
        let count = |what: &str| page.matches(what).count();
        assert!(count("<figure") >= 4, "{name}: {}", count("<figure"));
        assert_eq!(count("<svg"), 2 * count("<figure"), "{name}");
        assert_eq!(count("<table"), count("<figure") + 1, "{name}");
        assert_eq!(svgs(&document).len(), count("<figure"), "{name}");
        for no in ["<script", "http://", "https://", "NaN", "inf", "null"] {
            assert!(
                !page.replace("default-src", "").contains(no),
                "{name}: {no}"
            );
        }
    }
}

/// Returns the numbers in a text that have one of these units, with their decimals.
fn numbers(text: &str) -> Vec<(f64, usize)> {
    const UNITS: [&str; 9] = [
        "ms", "µs", "s", "times", "%", "a second", "MB/s", "commits", "KiB",
    ];
    let mut found = Vec::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    for (n, word) in words.iter().enumerate() {
        let word = word.trim_start_matches('(').replace(',', "");
        let Ok(number) = word.parse::<f64>() else {
            continue;
        };
        let after = words[n + 1..].join(" ");
        let has_unit = |unit: &&str| {
            let rest = after.strip_prefix(*unit);
            rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        if UNITS.iter().any(has_unit) {
            let decimals = word.split('.').nth(1).map_or(0, str::len);
            found.push((number, decimals));
        }
    }
    found
}

/// Returns the numbers in the cells of the tables, apart from the one of all rows.
fn in_tables(page: &str) -> Vec<f64> {
    let page = page.split("id=\"all\"").next().unwrap();
    let tables = page.split("<table>").skip(1);
    let tables = tables.map(|t| t.split("</table>").next().unwrap());
    let is_part = |c: char| !c.is_ascii_digit() && c != '.' && c != '<' && c != '>';
    let cells = tables.flat_map(|t| t.split(is_part).map(str::to_owned).collect::<Vec<_>>());
    let cells = cells.flat_map(|c| c.split(['<', '>']).map(str::to_owned).collect::<Vec<_>>());
    cells.filter_map(|c| c.parse().ok()).collect()
}

/// Returns the numbers of the first sentence of the conclusion that are in no table.
fn missing(document: &Document) -> Vec<f64> {
    let headline = document.conclusion.split(". ").next().unwrap();
    let shown = in_tables(&html(document));
    let is_missing = |(number, decimals): &(f64, usize)| {
        let unit = 10_f64.powi(*decimals as i32);
        // A table may have microseconds, and more digits.
        let is_it = |shown: &f64| {
            let rounded = [1.0, 1e-3].map(|factor| (shown * factor * unit).round());
            rounded.iter().any(|r| (r - number * unit).abs() < 0.5)
        };
        !shown.iter().any(is_it)
    };
    let found = numbers(headline).into_iter().filter(is_missing);
    found.map(|(number, _)| number).collect()
}

/// A reader finds each figure of the first sentence below.
#[test]
fn every_figure_of_the_headline_is_in_a_table() {
    use logforce_device::Platform;
    use logforce_measure::{journal, map, pages};
    for (name, document) in documents() {
        // The sentence of the program that measured, and the present one.
        let rows = &document.rows;
        let now = match name {
            "journal" => journal::conclusion::conclude(rows, Platform::Linux).text,
            "map" => map::conclude(rows),
            "pages" => pages::conclude(rows),
            _ => document.conclusion.clone(),
        };
        for conclusion in [document.conclusion.clone(), now] {
            let mut document = document.clone();
            document.conclusion = conclusion;
            let missing = missing(&document);
            assert_eq!(missing, [0.0; 0], "{name}: {}", document.conclusion);
        }
    }
    let wrong = changed("journal", |value| {
        value["conclusion"] = "Use dsync: 0.777 ms per commit, 7.7 times the rest.".into();
    });
    assert_eq!(missing(&wrong), [0.777, 7.7]);
}

#[test]
fn the_title_names_the_computer_the_directory_the_volume_and_its_size() {
    let known = changed("journal", |value| {
        value["machine"]["host"] = "db1 <x>".into();
        value["machine"]["directory"] = "/srv/pg".into();
        value["machine"]["model"] = "A DISK".into();
        value["machine"]["capacity"] = (3_u64 << 40).into();
    });
    let place = "db1 &lt;x&gt;, /srv/pg, ext4 on vda (A DISK), 3 TiB";
    let page = html(&known);
    let title = format!("<title>Cost of a commit on this disk: {place}</title>");
    assert!(page.contains(&title), "{page}");
    assert!(page.contains(&format!(">{place}</span></h1>")), "{page}");
    // An older program has written less.
    let page = html(&sample("journal"));
    assert!(
        page.contains("on this disk: /, ext4 on vda</title>"),
        "{page}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_of_a_crash_test_holds_the_loss_and_its_events() {
    let report = common::crash_test();
    let page = logforce_report::crashtest_html(&report);
    let explanation = report.explanation.as_ref().unwrap();
    let least = explanation.least.as_ref().unwrap();
    for text in [
        &report.sentence,
        &report.plan.command,
        &explanation.conclusion,
        &report.untested[0],
        &report.notes[0],
    ] {
        assert!(page.contains(text.as_str()), "{text}");
    }
    assert!(page.contains("&lt;b&gt;17&lt;/b&gt;") && !page.contains("<b>"));
    assert!(!page.contains("<script") && !page.contains('\u{7}'));
    // A row for each part, and the heads.
    let (_, checks) = page.split_once("id=\"checks\"").unwrap();
    let (checks, _) = checks.split_once("</table>").unwrap();
    assert_eq!(checks.matches("<tr>").count(), 1 + report.rows.len());
    // Every event is drawn twice, and is in the table.
    let (_, timeline) = page.split_once("id=\"timeline\"").unwrap();
    let (timeline, _) = timeline.split_once("</figure>").unwrap();
    assert_eq!(
        timeline.matches("class=\"mark ").count(),
        2 * least.timeline.len()
    );
    assert_eq!(timeline.matches("<tr>").count(), 1 + least.timeline.len());
    assert_eq!(timeline.matches("Lost writes: 1.210").count(), 2);
}

/// Returns the part of a page from a figure's heading to the end of its table.
fn figure<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<figure id=\"f-{id}\"")).unwrap();
    rest.split("</figure>").next().unwrap()
}

#[test]
fn distributions_are_drawn_and_their_percentiles_can_be_read_off() {
    let with = |value: Value| {
        let page = html(&changed("group", |v| v["rows"][0]["latencies_us"] = value));
        figure(&page, "latency-128").to_owned()
    };
    let all = json!({"0": 10.0, "50": 20.0, "90": 31.0, "99": 4000.0, "99.9": 5e6, "99.99": 6e6, "100": 7e6});
    let drawn = with(all);
    for head in [
        "shortest", "10 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "longest",
    ] {
        assert!(
            drawn.contains(&format!("scope=\"col\">{head}<")),
            "{head}: {drawn}"
        );
    }
    let row = "<td>10 µs</td><td>-</td><td>20 µs</td><td>31 µs</td><td>4.00 ms</td><td>5.00 s</td><td>6.00 s</td><td>7.00 s</td>";
    assert!(drawn.contains(row), "{drawn}");
    assert!(
        drawn.contains("<title>1 thread, 99.9 %: 5.00 s</title>"),
        "{drawn}"
    );
    for id in ["latency-contiguous", "latency-scattered"] {
        assert!(figure(&html(&sample("pages")), id).contains("99 %"), "{id}");
    }
    // A percentile that needs more commits has no label.
    let few = html(&changed("group", |v| {
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            row["latencies_us"] = json!({"0": 10.0, "90": 30.0, "98": 40.0, "100": 50.0});
        }
    }));
    let few = figure(&few, "latency-128");
    assert!(
        few.contains(">90 %</text>") && !few.contains(">99 %</text>"),
        "{few}"
    );
    // A file may contain anything.
    for strange in [
        json!({"x": 1, "-5": 2, "1e9": 3, "NaN": 4, "50": "x", "90": null, "99": -1.0, "inf": 0}),
        json!({}),
    ] {
        let drawn = with(strange);
        assert!(
            drawn.contains("1 thread") && !drawn.contains("NaN"),
            "{drawn}"
        );
    }
}

/// Results of older programs have only percentiles.
#[test]
fn a_result_without_distributions_has_its_percentiles_drawn() {
    let document = sample("journal");
    assert!(document.rows.iter().all(|r| r.latencies_us.is_none()));
    let page = html(&document);
    let drawn = figure(&page, "latency");
    for head in ["50 %", "90 %", "99 %", "99.9 %", "longest"] {
        assert!(drawn.contains(&format!("scope=\"col\">{head}<")), "{head}");
    }
    assert!(!drawn.contains("shortest"));
    let p50 = html(&changed("journal", |v| {
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            row["p50_us"] = 4321.0.into();
        }
    }));
    assert!(figure(&p50, "latency").contains(": 4.32 ms</title>"));
}

/// Returns the cells of each row of a figure's table, and the heads as the first row.
fn cells(figure: &str) -> Vec<Vec<String>> {
    let (_, table) = figure.split_once("<table>").unwrap();
    let strip = |cell: &str| {
        let text: Vec<&str> = cell
            .split('<')
            .filter_map(|p| p.split_once('>'))
            .map(|p| p.1)
            .collect();
        text.concat()
    };
    let rows = table.split("<tr>").skip(1);
    let cells = |row: &str| {
        let row = row.split("</tr>").next().unwrap();
        let cells = row.split("</th>").flat_map(|part| part.split("</td>"));
        cells.map(strip).filter(|cell| !cell.is_empty()).collect()
    };
    rows.map(cells).collect()
}

/// The page shows every system, the published seconds, and the same ratios as the text of the command.
#[test]
fn what_was_published_is_beside_every_system() {
    let page = html(&sample("inserts"));
    let seconds = cells(figure(&page, "published"));
    let expected = [
        "policy|published, Windows|published, Linux|Logforce|SQLite|PostgreSQL|MariaDB",
        "policy 1, one log|14.0|12.0|0.235|0.523|3.12|0.953",
        "policy 2, one log|4.00|0.600|0.0623|0.0507|-|0.292",
        "policy 0, one log|4.00|0.600|0.00232|-|0.316|0.0920",
        "policy 1, two logs|32.0|21.0|0.739|-|-|3.54",
        "policy 2, two logs|4.00|0.900|0.153|-|-|0.609",
        "policy 0, two logs|3.00|0.600|0.00255|-|-|0.133",
    ];
    let joined: Vec<String> = seconds.iter().map(|row| row.join("|")).collect();
    assert_eq!(joined, expected);
    let ratios = cells(figure(&page, "published-ratios"));
    assert_eq!(
        ratios[1].join("|"),
        "policy 1 : 2, one log|3.50|20.0|3.77|10.3|-|3.26"
    );
    assert_eq!(
        ratios[7].join("|"),
        "two logs : one, policy 0|0.750|1.00|1.10|-|-|1.44"
    );
    // The server's own sync method decides which row is used.
    let other = html(&changed("inserts", |v| {
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            if row["settings"] == "synchronous_commit=off, fdatasync" {
                row["settings"] = "synchronous_commit=off, open_sync".into();
            }
        }
    }));
    assert_eq!(cells(figure(&other, "published"))[1][5], "2.49");
    let none = html(&changed("inserts", |v| {
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            row["pairs_s"] = Value::Null;
        }
    }));
    assert!(!none.contains("id=\"f-published"));
}

#[test]
fn small_seconds_keep_their_digits_and_empty_columns_are_left_out() {
    let page = html(&changed("inserts", |v| {
        v["rows"][6]["pairs_s"] = 0.000_361_8.into()
    }));
    let pairs = cells(figure(&page, "pairs"));
    assert!(pairs.iter().any(|row| row[1] == "0.000362"), "{pairs:?}");
    let device = cells(figure(&page, "device"));
    assert_eq!(device[0], ["a commit", "device writes", "cache flushes"]);
    let journal = html(&sample("journal"));
    assert!(cells(figure(&journal, "device"))[0].contains(&"bytes".to_owned()));
    let (_, all) = page.split_once("id=\"all\"").unwrap();
    assert!(!all.contains(">error<") && all.contains(">evidence<"));
}

#[test]
fn an_interrupted_run_and_failed_rows_are_marked() {
    let whole = html(&sample("journal"));
    assert!(!whole.contains("Interrupted") && !whole.contains("could not be measured"));
    let page = html(&changed("journal", |v| {
        v["interrupted"] = true.into();
        v["rows"][0]["error"] = "<b>no space</b>".into();
    }));
    assert!(page.contains("Interrupted") && page.contains("1 of 33 rows could not be measured"));
    assert!(page.contains("&lt;b&gt;no space&lt;/b&gt;") && !page.contains("<b>no"));
}

#[test]
fn a_row_that_made_nothing_is_told_and_not_drawn() {
    let page = html(&changed("inserts", |v| {
        v["rows"][0]["commits_per_s"] = 0.into();
        v["rows"][0]["pairs_s"] = 777.0.into();
    }));
    assert!(page.contains("1 of 75 rows made no commits"), "{page}");
    assert!(!figure(&page, "pairs").contains("777"));
}

#[test]
fn hostile_and_missing_values_are_drawn_as_nothing() {
    for (name, _) in SAMPLES {
        for strange in [
            Value::Null,
            json!("<script>alert(1)</script>"),
            json!(-1.0),
            json!(0),
            json!(1e308),
        ] {
            let page = html(&changed(name, |v| {
                for row in v["rows"].as_array_mut().into_iter().flatten() {
                    for (_, field) in row.as_object_mut().into_iter().flatten() {
                        let is_same = field.is_string() == strange.is_string()
                            && field.is_number() == strange.is_number();
                        if is_same || strange.is_null() {
                            *field = strange.clone();
                        }
                    }
                }
            }));
            assert!(!page.contains("<script"), "{name} {strange}");
            for no in ["NaN", "\"inf", ">inf", ">-inf"] {
                let before = page.split_once(no).map(|(before, _)| before);
                let before = before.map(|b| b.lines().next_back());
                assert_eq!(before, None, "{no} in {name} of {strange}");
            }
        }
        let none = changed(name, |v| v["rows"] = json!([]));
        assert!(html(&none).contains("All figures"));
        let bare = changed(name, |v| {
            *v = json!({"schema": v["schema"], "version": 1, "rows": [{}]})
        });
        assert!(html(&bare).contains("All figures"));
    }
}

/// A wrong type is an error. Otherwise charts and comparisons would silently ignore a text in place of a
/// number.
#[test]
fn a_field_of_a_wrong_type_is_named_with_its_row() {
    for (name, _) in SAMPLES {
        let whole = value(name);
        let fields = whole["rows"][2].as_object().unwrap();
        for (field, of) in fields.iter().filter(|(_, of)| !of.is_null()) {
            for wrong in [json!("abc"), json!(7), json!([1]), json!(true), json!({})] {
                let same =
                    |a: &Value, b: &Value| std::mem::discriminant(a) == std::mem::discriminant(b);
                if same(&wrong, of) {
                    continue;
                }
                let mut changed = whole.clone();
                changed["rows"][2][field] = wrong.clone();
                let said = Document::from_value(changed, "x.json")
                    .unwrap_err()
                    .to_string();
                for part in ["x.json", "row 3", &format!("'{field}'"), &wrong.to_string()] {
                    assert!(said.contains(part), "no {part} in {said}");
                }
            }
        }
    }
    let mut newer = value("journal");
    newer["version"] = "99".into();
    let said = Document::from_value(newer, "x.json")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("'version' is \"99\", but must be a number"),
        "{said}"
    );
    let mut interrupted = value("journal");
    interrupted["interrupted"] = "yes".into();
    let said = Document::from_value(interrupted, "x.json")
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("'interrupted' is \"yes\", but must be true or false"),
        "{said}"
    );
}

/// Control characters, which could move a cursor, reach neither a terminal nor a page.
#[test]
fn control_characters_are_shown_as_such() {
    let document = changed("inserts", |v| {
        v["command"] = "log\u{1b}[2Jforce".into();
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            row["settings"] =
                format!("\u{1b}]0;x\u{7} {}", row["settings"].as_str().unwrap()).into();
        }
    });
    let found = compare(("\u{1b}a", &document), ("b", &document)).unwrap();
    let mut all = vec![html(&document), compare_html(&found), text(&found, 100)];
    all.extend(svgs(&document).into_iter().map(|(_, svg)| svg));
    for text in all {
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None);
        assert!(
            text.contains("\u{fffd}]0;x\u{fffd}") || text.starts_with("<svg"),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_result_is_told() {
    let told = |v: Value| Document::from_value(v, "x.json").unwrap_err().to_string();
    for (v, why) in [
        (json!(3), "not a JSON object"),
        (json!({"rows": []}), "no 'schema'"),
        (
            json!({"schema": "logforce-verify", "rows": []}),
            "'logforce-verify'",
        ),
        (json!({"schema": "logforce-bench"}), "no 'rows'"),
        (
            json!({"schema": "logforce-bench", "rows": [1]}),
            "row 1 is not an object",
        ),
        (
            json!({"schema": "logforce-bench", "version": 99, "rows": []}),
            "version 99",
        ),
    ] {
        let said = told(v);
        assert!(said.contains("x.json") && said.contains(why), "{said}");
    }
    let missing = Document::read("/no/such/file".as_ref()).unwrap_err();
    assert!(matches!(missing, ReportError::Read { .. }));
}

/// Returns the sample `journal` with the times of all rows that force something multiplied by `factor`.
fn by(factor: f64) -> Document {
    changed("journal", |v| {
        let forces = |row: &&mut Value| row["method"] != "buffered" && row["method"] != "direct";
        for row in v["rows"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter(forces)
        {
            for field in ["ms_per_commit", "ms_per_commit_p10", "ms_per_commit_p90"] {
                row[field] = (row[field].as_f64().unwrap() * factor).into();
            }
        }
    })
}

#[test]
fn a_run_is_the_same_as_itself_and_a_slow_one_is_slower() {
    for (name, document) in documents() {
        let own = compare(("a", &document), ("b", &document)).unwrap();
        let pairs = |r: &&logforce_measure::Row| r.pairs_s.is_some();
        let of_pairs = document.measured().filter(pairs).count();
        assert_eq!(own.rows.len(), document.rows.len() + of_pairs, "{name}");
        let measured = document.measured().count() + of_pairs;
        // The noise of a row may be larger than the interval in which rows are the same.
        let found = own.count(Verdict::Same) + own.count(Verdict::Noisy);
        assert_eq!(found, measured, "{name}");
        assert!(own.gate(0.0).is_open(), "{name}");
        assert!(own.only_a.is_empty() && own.only_b.is_empty() && own.notes.is_empty());
    }
    let journal = sample("journal");
    let slow = compare(("a", &journal), ("b", &by(20.0))).unwrap();
    assert_eq!(slow.count(Verdict::Slower), 25);
    let gate = slow.gate(0.1);
    assert_eq!(gate.slower.len(), 25);
    assert!(
        gate.slower
            .iter()
            .all(|p| (p.time_ratio.unwrap() - 20.0).abs() < 1e-9)
    );
    let fast = compare(("a", &by(20.0)), ("b", &journal)).unwrap();
    assert_eq!(
        (fast.count(Verdict::Faster), fast.gate(0.1).slower.len()),
        (25, 0)
    );
    let printed = text(&slow, 120);
    assert!(
        printed.contains("25 slower") && printed.contains("+1900.0 %"),
        "{printed}"
    );
    assert!(compare_html(&slow).contains("25 slower"));
    // A third of the rate is three times the time.
    let group = sample("group");
    let third = changed("group", |v| {
        for row in v["rows"].as_array_mut().into_iter().flatten() {
            for field in ["commits_per_s", "commits_per_s_p10", "commits_per_s_p90"] {
                row[field] = (row[field].as_f64().unwrap() / 3.0).into();
            }
        }
    });
    let slow = compare(("a", &group), ("b", &third)).unwrap();
    assert!(
        slow.rows
            .iter()
            .all(|p| (p.time_ratio.unwrap() - 3.0).abs() < 1e-9)
    );
}

/// Every detail that both runs have is drawn, with a colour and a shape.
#[test]
fn what_else_differs_is_drawn_and_told() {
    let journal = sample("journal");
    let rows = journal.measured().count();
    let own = compare(("a", &journal), ("b", &journal)).unwrap();
    let fields: Vec<_> = own.details.iter().map(|d| d.field).collect();
    let expected = [
        "p50_us",
        "p99_us",
        "device_writes_per_commit",
        "device_flushes_per_commit",
        "device_bytes_per_commit",
    ];
    assert_eq!(fields, expected);
    for detail in &own.details {
        assert_eq!(detail.count(Change::Same), rows, "{}", detail.field);
    }
    let other = changed("journal", |v| {
        let set = |row: &mut Value, field: &str, by: f64| {
            row[field] = (row[field].as_f64().unwrap() * by).into()
        };
        let all = v["rows"].as_array_mut().unwrap();
        set(&mut all[1], "p99_us", 1000.0);
        set(&mut all[2], "p99_us", 0.0001);
        set(&mut all[3], "p99_us", 1.01);
        all[4]["device_flushes_per_commit"] = 7.0.into();
        all[5]["p99_us"] = Value::Null;
    });
    let found = compare(("a", &journal), ("b", &other)).unwrap();
    let p99 = &found.details[1];
    let counts = [Change::More, Change::Less, Change::Same].map(|c| p99.count(c));
    assert_eq!(counts, [1, 1, rows - 3], "one is not known in B");
    assert_eq!(p99.rows[1].change, Change::More);
    assert_eq!(found.details[3].count(Change::More), 1);
    let page = compare_html(&found);
    let drawn = figure(&page, "p99-us");
    for part in [
        "B has more",
        "mark g3 cross",
        "B has less",
        "mark g0",
        ">MORE<",
        ">less<",
        "1 more, 1 less",
    ] {
        let part = part.replace("&#39;", "'");
        assert!(drawn.contains(&part), "no {part} in {drawn}");
    }
    assert!(text(&found, 120).contains("99th percentile of the latency: 1 more, 1 less"));
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["details"][1]["rows"][1]["change"], "more");
    // A figure that was not measured is not drawn.
    let group = sample("group");
    let page = compare_html(&compare(("a", &group), ("b", &group)).unwrap());
    assert!(!page.contains("f-device-bytes"));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let (journal, group) = (sample("journal"), sample("group"));
    let refused = compare(("a", &journal), ("b", &group)).unwrap_err();
    assert!(
        matches!(refused, CompareError::Scenarios { .. }),
        "{refused}"
    );
    let none = changed("journal", |v| v["rows"] = json!([]));
    let refused = compare(("a", &journal), ("b", &none)).unwrap_err();
    assert!(
        matches!(refused, CompareError::NothingInCommon { .. }),
        "{refused}"
    );
}

#[test]
fn a_chart_of_its_own_carries_its_style() {
    for (name, document) in documents() {
        for (file, svg) in svgs(&document) {
            let name = if name == "sweep" {
                "journal-sweep"
            } else {
                name
            };
            assert!(file.starts_with(name) && file.ends_with(".svg"), "{file}");
            // Typesetting programs reject XML with errors.
            roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{file}: {e}\n{svg}"));
            assert!(
                svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")
                    && svg.contains("--ink"),
                "{file}"
            );
        }
    }
}

/// Numbers survive JSON to the last bit; otherwise some would be rounded to a different figure.
#[test]
fn a_page_is_the_same_from_the_report_and_from_its_file() {
    let mut random = 1_u64;
    for _ in 0..200 {
        let of = changed("journal", |v| {
            for row in v["rows"].as_array_mut().into_iter().flatten() {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                row["p50_us"] = ((random >> 11) as f64 / (1_u64 << 53) as f64).into();
            }
        });
        let values: Vec<f64> = of.rows.iter().filter_map(|r| r.p50_us).collect();
        for value in values {
            let back: f64 = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
            assert_eq!(back.to_bits(), value.to_bits());
        }
    }
    let page = html(&sample("journal"));
    let (_, all) = page.split_once("id=\"all\"").unwrap();
    assert!(
        all.find(">scenario<") < all.find(">bytes<"),
        "as they were written"
    );
}
