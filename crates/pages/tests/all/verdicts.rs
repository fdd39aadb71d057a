//! Tests of a guarantee that no party answers for: it is refused, or accepted by name and printed with its
//! doubt.

use logforce_core::{Guarantee, OpenMode, Verdict, WriteCache};
use logforce_pages::{CommitMode, Error, ErrorKind, Options, PageFile};
use logforce_testkit::{SimDisk, SimOptions, SimRuntime};

#[test]
fn what_nobody_answers_for_is_accepted_by_name_alone() {
    for mode in [CommitMode::Logged, CommitMode::CopyOnWrite] {
        let options = SimOptions {
            write_cache: WriteCache::Unknown,
            ..SimOptions::default()
        };
        let disk = SimDisk::new(options, 1);
        SimRuntime::run(1, |rt| {
            let open = |options: Options| {
                let options = options.mode(mode).writers(2);
                PageFile::open(&*disk.system(rt), "/db", OpenMode::OpenOrCreate, options)
            };
            for refused in [
                Options::new(),
                // The log's own options do not decide.
                Options::new().log(logforce_core::Options::new().require_verdict(Verdict::Unknown)),
            ] {
                let e = open(refused).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Unsuitable);
                assert!(matches!(e, Error::Verdict { .. }), "{e}");
                let line = "Options::require_verdict(Verdict::Unknown)";
                assert!(e.to_string().contains(line), "{e}");
            }
            for accepted in [
                Options::new().require_verdict(Verdict::Unknown),
                Options::new().require(Guarantee::ProcessCrash),
            ] {
                let file = open(accepted).unwrap();
                assert_eq!(file.guarantee().to_string(), "power-loss?");
                let mut transaction = file.begin().unwrap();
                transaction.write(0, &[7; 4096]).unwrap();
                let done = transaction.commit().unwrap();
                assert_eq!(done.guarantee.to_string(), "power-loss?");
                file.close().unwrap();
            }
        });
    }
}
