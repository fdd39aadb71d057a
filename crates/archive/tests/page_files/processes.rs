//! The page file of another process, which is killed.

use crate::model::{commit, pages};
use crate::{archive, attach_options, base, open, options, restore, temp};
use logforce_archive::RestoreTo;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Variable with the directory of the page file, for the process that writes it.
const WRITER: &str = "PAGE_FILES_WRITER";

struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Begins this test in another process. Returns it, and its acknowledgements.
fn start(path: &Path) -> (Writer, impl Iterator<Item = u64> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::writer", "--nocapture"])
        .env(WRITER, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledged = lines.map_while(Result::ok);
    let acknowledged = acknowledged.filter_map(|line| line.strip_prefix("commit ")?.parse().ok());
    (Writer(child), acknowledged)
}

/// Process that commits until it is killed; nothing without the variable.
#[test]
fn writer() {
    let Ok(path) = std::env::var(WRITER) else {
        return;
    };
    let file = logforce::pages::open_or_create(path, options()).unwrap();
    let mut random = fastrand::Rng::new();
    loop {
        println!("commit {}", commit(&file, 0, &mut random).0);
        if random.u8(..40) == 0 {
            file.checkpoint().unwrap();
        }
    }
}

#[test]
fn the_page_file_of_a_killed_process_is_restored() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("file");
    for round in 0..4 {
        let (mut writer, mut acknowledged) = start(&path);
        let mut last = acknowledged.by_ref().nth(20).unwrap();
        let attached = archive
            .attach_directory(&path.join("log"), attach_options())
            .unwrap();
        // Reads the output meanwhile: a full pipe would stop the process.
        let reader = std::thread::spawn(move || acknowledged.last());
        let made = base(&archive, &path);
        assert!(made.is_ok(), "{made:?}, {:?}", attached.status());
        std::thread::sleep(std::time::Duration::from_millis(100));
        writer.0.kill().unwrap();
        writer.0.wait().unwrap();
        last = reader.join().unwrap().unwrap_or(last);
        attached.close().unwrap();
        // The last commit of a killed process is proven by the next opening, and archived then.
        let expected = pages(&open(&path));
        let log = path.join("log");
        let attached = archive.attach_directory(&log, attach_options()).unwrap();
        attached.close().unwrap();
        let copy = home.path().join(format!("copy-{round}"));
        restore(&archive, &copy, RestoreTo::End).unwrap();
        let found = pages(&open(&copy));
        assert!(found.0 >= last, "{} of {last}", found.0);
        assert!(found == expected, "{} of {}", found.0, expected.0);
    }
    assert_eq!(archive.list().unwrap().bases.len(), 4);
}
