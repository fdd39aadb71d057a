//! Tests of the pages in a real browser, on a telephone, a tablet and a wide screen, in light and dark.
//! Nothing is cut off or overlaps, and the page requests nothing and logs no message.

mod common;

use common::{changed, documents, sample};
use logforce_report::{Document, compare_html, html};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const WIDTHS: [u32; 3] = [375, 768, 1440];
/// Width and height of a sheet of A4 between its margins, in CSS pixels (96 per inch).
const SHEET: (u32, u32) = (687, 1016);
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Returns the browser, if one is installed.
fn browser() -> Option<&'static str> {
    let found = PROGRAMS.into_iter().find(|program| {
        let mut ask = Command::new(program);
        ask.arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ask.status().is_ok_and(|s| s.success())
    });
    if found.is_none() {
        logforce_testkit::skip!("no Chromium (Debian: apt-get install chromium)");
    }
    found
}

/// Returns all pages, by name.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = Vec::new();
    for (name, document) in documents() {
        pages.push((name.to_owned(), html(&document)));
    }
    #[cfg(target_os = "linux")]
    pages.push((
        "crash test".to_owned(),
        logforce_report::crashtest_html(&common::crash_test()),
    ));
    let trouble = changed("journal", |value| {
        value["interrupted"] = true.into();
        value["rows"][3]["error"] = "no space: 1 GiB is needed, and there is 12 MiB".into();
        value["machine"]["model"] = "A MODEL WITH A VERY LONG NAME ".repeat(8).into();
        value["command"] = format!("logforce bench --dir /{}", "long/".repeat(60)).into();
    });
    pages.push(("in trouble".to_owned(), html(&trouble)));
    let named = changed("inserts", |value| {
        for row in value["rows"].as_array_mut().into_iter().flatten() {
            let settings = row["settings"].as_str().unwrap_or("").to_owned();
            row["settings"] =
                format!("{settings}, with_a_setting_that_has_a_name=of_some_length").into();
        }
    });
    pages.push(("long names".to_owned(), html(&named)));
    let slower = changed("journal", |value| {
        for row in value["rows"].as_array_mut().into_iter().flatten() {
            for field in ["ms_per_commit", "ms_per_commit_p10", "ms_per_commit_p90"] {
                row[field] = (row[field].as_f64().unwrap_or(1.0) * 1.7).into();
            }
        }
    });
    let comparison = logforce_report::compare::compare(
        ("accepted.json", &sample("journal")),
        ("new.json", &slower),
    );
    pages.push(("comparison".to_owned(), compare_html(&comparison.unwrap())));
    let longer = changed("inserts", |value| {
        let rows = value["rows"].as_array_mut().unwrap();
        for row in rows.iter_mut() {
            for field in ["pairs_s", "pairs_s_p10", "pairs_s_p90"] {
                row[field] = row[field].as_f64().map(|s| s * 30.0).into();
            }
        }
        rows.truncate(60);
    });
    let comparison = logforce_report::compare::compare(
        ("accepted.json", &sample("inserts")),
        ("new.json", &longer),
    );
    pages.push((
        "inserts compared".to_owned(),
        compare_html(&comparison.unwrap()),
    ));
    pages
}

/// Returns a page that looks on the screen as it does in print, because a frame cannot be printed.
fn printed(page: &str) -> String {
    let screen = "@media screen and (prefers-color-scheme: dark)";
    assert!(page.contains("@media print") && page.contains(screen));
    page.replace("@media print", "@media all")
        .replace(screen, "@media not all")
}

/// Returns a page that shows each report in a frame of each width, and writes the problems as JSON into
/// its own document.
fn harness(pages: &[(String, String)]) -> String {
    let all = serde_json::to_string(&pages).unwrap().replace("</", "<\\/");
    let widths = serde_json::to_string(&WIDTHS).unwrap();
    let sheets: Vec<_> = pages
        .iter()
        .map(|(name, page)| (name, printed(page)))
        .collect();
    let sheets = serde_json::to_string(&sheets)
        .unwrap()
        .replace("</", "<\\/");
    let (width, height) = SHEET;
    let check = include_str!("browser.js");
    format!(
        "<!doctype html><meta charset=utf-8><meta name=color-scheme content='light dark'>\
         <body><script>const PAGES = {all}; const WIDTHS = {widths}; const PRINTED = {sheets};\n\
         const SHEET = [{width}, {height}];\n{check}</script></body>"
    )
}

/// Returns the problems, by page, width and element, and the numbers of elements that were checked.
fn look(program: &str, pages: &[(String, String)], scheme: u32) -> (Vec<String>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("harness.html");
    fs::write(&path, harness(pages)).unwrap();
    let out = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--enable-logging=stderr",
            "--dump-dom",
            "--virtual-time-budget=60000",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", path.display()))
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let (page, log) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    let console = log.lines().filter(|l| l.contains("CONSOLE"));
    let console = console.map(|l| format!("a message in the console: {l}"));
    let mut all: Vec<String> = console.collect();
    let found = page
        .split_once("RESULT[")
        .and_then(|(_, rest)| rest.split_once("]RESULT"));
    let Some((found, _)) = found else {
        panic!(
            "the browser did not get through: {}\n{log}\n{page}",
            out.status
        );
    };
    let found = found
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let found: Value = serde_json::from_str(&found).unwrap();
    let wrong = found["wrong"].as_array().unwrap().iter();
    all.extend(wrong.map(|w| w.as_str().unwrap().to_owned()));
    (all, found["seen"].clone())
}

#[test]
fn nothing_is_cut_off_or_overlaps_or_is_asked_for() {
    let Some(program) = browser() else { return };
    let pages = pages();
    let mut scales = Vec::new();
    for (scheme, name) in [(1, "light"), (0, "dark")] {
        let (wrong, seen) = look(program, &pages, scheme);
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        // Something was checked, and in this scheme.
        assert_eq!(seen["scheme"], name);
        assert_eq!(seen["frames"], pages.len() * (WIDTHS.len() + 1));
        assert!(seen["sheets"].as_u64() > Some(30), "{seen}");
        assert!(seen["words"].as_u64() > Some(2500), "{seen}");
        assert!(seen["charts"].as_u64() > Some(50), "{seen}");
        assert!(seen["shades"].as_u64() > Some(500), "{seen}");
        assert!(seen["scrolled"].as_u64() > Some(10), "{seen}");
        scales.push(seen["scale"].clone());
    }
    // One colour means the same on both grounds.
    assert_eq!(scales[0].as_object().unwrap().len(), 8, "{scales:?}");
    assert_eq!(scales[0], scales[1]);
}

/// Shows that the check above can fail: it finds each of these problems.
#[test]
fn what_is_wrong_is_seen() {
    let Some(program) = browser() else { return };
    let good = html(&sample("journal"));
    for (what, from, to) in [
        (
            "wider than the page",
            "<main id=\"content\">",
            "<main id=\"content\"><div style=\"width:3000px\">x</div>",
        ),
        (
            "overlap",
            "</svg>",
            "<text x=\"60\" y=\"90\">words over</text><text x=\"62\" y=\"92\">words over</text></svg>",
        ),
        (
            "outside its chart",
            "</svg>",
            "<text x=\"1\" y=\"-60\">lost</text></svg>",
        ),
        (
            "words cut off",
            "</svg>",
            "<text x=\"60\" y=\"90\">synchronous_commit=on, op…</text></svg>",
        ),
        (
            "words cut off",
            "</main>",
            "<p style=\"width:9rem;overflow:hidden;white-space:nowrap\">synchronous_commit=on, open_sync</p></main>",
        ),
        (
            "no keyboard scrolls",
            "<div class=\"scroll\" tabindex=\"0\"",
            "<div class=\"scroll\"",
        ),
        (
            "more has the weaker colour",
            "</style>",
            ".chart .h7 { fill: #f8f8f8 }</style>",
        ),
        (
            "a shade like the ground",
            "</style>",
            ".chart .h7 { fill: #f0f4ff }</style>",
        ),
        (
            "no words say that it scrolls",
            "</style>",
            ".sideways { display: none }</style>",
        ),
        (
            "nothing shows that it scrolls",
            "</style>",
            ".scroll { background: none !important }</style>",
        ),
        (
            "asks for",
            "</main>",
            "<img src=\"http://127.0.0.1:9/x.png\" alt=\"\"></main>",
        ),
        (
            "contrast",
            "</main>",
            "<p style=\"color:#888;background:#999\">pale</p></main>",
        ),
        (
            "cut off on paper",
            "<tbody>",
            "<tbody><tr><td style=\"display:block;width:900px\">wide</td></tr>",
        ),
        (
            "higher than a sheet",
            "<svg class=\"chart wide\"",
            "<svg style=\"height:1100px;max-height:none\" class=\"chart wide\"",
        ),
        (
            "no table",
            "</figcaption>",
            "</figcaption><figure><svg class=\"chart\" role=\"img\" aria-label=\"x\"></svg></figure>",
        ),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{what}");
        let bad = bad.replace("default-src 'none'", "default-src * data: 'unsafe-inline'");
        let (wrong, _) = look(program, &[(what.to_owned(), bad)], 1);
        assert!(wrong.iter().any(|w| w.contains(what)), "{what}: {wrong:#?}");
    }
}

#[test]
fn a_chart_of_its_own_is_a_picture() {
    let Some(program) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let document: Document = sample("journal");
    let (name, svg) = logforce_report::svgs(&document).remove(0);
    let path = dir.path().join(&name);
    fs::write(&path, svg).unwrap();
    let out = Command::new(program)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg("--dump-dom")
        .arg(format!("file://{}", path.display()))
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(
        shown.contains("<svg") && !shown.contains("parsererror"),
        "{name}: {shown}"
    );
}
