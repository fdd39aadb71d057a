use super::*;
use crate::windows::disk::tests::told_protected;
use crate::windows::trace::tests::{flushes, opened};
use crate::windows::trace::{self, Pretended};
use logforce_device::{FileState, Guarantee, Method, Verdict, WriteCache};

fn noted(facts: &Facts, what: &str) -> usize {
    facts.notes.iter().filter(|n| n.contains(what)).count()
}

#[test]
fn what_the_disk_says_reaches_the_verdict() {
    let (_temp, dir) = opened();
    let answer = over(dir.opened(), None, None, Some(Ok(&told_protected()))).unwrap();
    assert_eq!(answer.barriers, Some(false));
    assert_eq!(
        answer.mount_options,
        "write-cache buffer flushing turned off"
    );
    assert_eq!(
        answer.device.as_ref().unwrap().write_cache,
        WriteCache::Back
    );
    for method in [Method::Flush, Method::FlushData, Method::WriteThrough] {
        let a = answer.assess(method, FileState::Zeroed).unwrap();
        let dropped = (Guarantee::OsCrash, Verdict::Contradicted);
        assert_eq!((a.guarantee, a.verdict), dropped, "{method}");
        assert!(!a.evidence.contains("mounted"), "{}", a.evidence);
    }
    let wine = usize::from(machine::is_wine());
    assert_eq!(noted(&answer, "This is Wine"), wine, "{:?}", answer.notes);
}

#[test]
fn where_there_is_no_flush_of_the_data_alone_the_facts_say_so() {
    const COMPRESSED: u32 = 0x800;
    let (_temp, dir) = opened();
    for (filesystem, attributes, times) in
        [("NTFS", 0, 0), ("NTFS", COMPRESSED, 1), ("FAT32", 0, 1)]
    {
        trace::pretend(Pretended {
            flush_ex: Some(flushes),
            attributes,
            filesystem: Some(filesystem),
            ..Pretended::default()
        });
        let facts = gather(dir.opened()).unwrap();
        let said = noted(&facts, "no flush of the data alone");
        assert_eq!(said, times, "{filesystem} {attributes:#x}");
    }
    // As before Windows 8, and under Wine.
    trace::pretend(Pretended::default());
    let facts = gather(dir.opened()).unwrap();
    let said = noted(&facts, "no flush of the data alone");
    if !flush::has_data_only() {
        assert_eq!(said, 1, "{:?}", facts.notes);
    }
    let wine = usize::from(machine::is_wine());
    assert_eq!(noted(&facts, "This is Wine"), wine, "{:?}", facts.notes);
}
