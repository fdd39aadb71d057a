//! A witness that receives malformed messages, and one that sends them.

use crate::common::text;
use crate::testbed::{Rig, testbed, until};
use logforce_testkit::process::Start;
use logforce_witness::RunId;
use logforce_witness::client::{Client, Role};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

const GREETING: [u8; 8] = *b"LFPCUT\0\x01";

fn connect(testbed: &Rig) -> TcpStream {
    TcpStream::connect(&testbed.witness.address).unwrap()
}

/// Returns the witness's answer to `bytes`, after its greeting, until it closed the connection.
fn answer(testbed: &Rig, bytes: &[u8]) -> String {
    let mut stream = connect(testbed);
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

fn hello(role: &str) -> Vec<u8> {
    let run = RunId(5);
    let json = format!("J{{\"Hello\":{{\"role\":\"{role}\",\"run\":\"{run}\"}}}}");
    [&GREETING[..], &frame(json.as_bytes())].concat()
}

fn then(role: &str, payloads: &[&[u8]]) -> Vec<u8> {
    let frames = payloads.iter().flat_map(|p| frame(p));
    hello(role).into_iter().chain(frames).collect()
}

const NEW: &[u8] =
    br#"J{"New":{"method":"dsync","control":"Buffered","volume":"v","place":"p","tool":"t"}}"#;
const BEGIN: &[u8] = br#"J{"Begin":{"phase":"Control","boot":"b","front":0}}"#;

#[test]
fn a_witness_that_is_told_rubbish_says_so_and_goes_on() {
    let Some(testbed) = testbed() else { return };
    let mut noise = vec![0; 100_000];
    let mut x = 1_u64;
    for byte in &mut noise {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (x >> 56) as u8;
    }
    let huge = [&hello("Look")[..], &u32::MAX.to_le_bytes()].concat();
    let nothing = [&hello("Look")[..], &0_u32.to_le_bytes()].concat();
    let long = br#"J{"New":{"method":"#;
    let long = [
        &long[..],
        b"\"",
        &[b'x'; 2000],
        br#"","control":"Buffered","volume":"v","place":"p","tool":"t"}}"#,
    ]
    .concat();
    let mut gap = vec![b'A'];
    gap.extend([0; 2]);
    gap.extend(7_u64.to_le_bytes());
    gap.extend([0; 8]);
    for (bytes, words) in [
        (noise, "not `logforce powercut`"),
        (
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            "not `logforce powercut`",
        ),
        (b"LFPCUT\0\x63".to_vec(), "this witness speaks 1"),
        (huge, "a frame: 4294967295 bytes"),
        (nothing, "a frame: 0 bytes"),
        (
            then("Look", &[b"J{\"Nonsense\":1}"]),
            "cannot decode a message",
        ),
        (then("Look", &[b"J{{{{"]), "cannot decode a message"),
        (then("Look", &[b"\xff\xff"]), "of unknown kind"),
        (then("Look", &[b"A123"]), "of unknown kind"),
        (then("King", &[]), "cannot decode a message"),
        (then("Look", &[br#"J"Acks""#]), "does not know the run"),
        (then("Look", &[NEW]), "exists already"),
        (then("Write", &[&long]), "maximum 600 bytes"),
        (then("Write", &[BEGIN]), "does not know the run"),
        (then("Write", &[NEW, &gap]), "no round is in progress"),
        (then("Write", &[BEGIN, &gap]), "after record 0"),
        (then("Check", &[BEGIN]), "not allowed for the role"),
    ] {
        let said = answer(&testbed, &bytes);
        assert!(said.contains(words), "{words}: {said}");
    }
    // The witness drops a client that sends half a message and closes.
    for cut in [3, 10, 20] {
        let mut stream = connect(&testbed);
        stream.write_all(&hello("Look")[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
    }
    testbed.ready();
}

#[test]
fn more_connections_than_there_is_room_for_are_turned_away() {
    let Some(testbed) = testbed() else { return };
    let idle: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = connect(&testbed);
            stream.write_all(&hello("Look")).unwrap();
            let mut greeting = [0; 8];
            stream.read_exact(&mut greeting).unwrap();
            stream
        })
        .collect();
    let out = testbed.check(&["--run", &RunId(5).to_string()]);
    assert_eq!(out.status.code(), Some(4));
    let said = text(&out.stderr);
    assert!(said.contains("too many connections"), "{said}");
    drop(idle);
    until("a connection is free again", || {
        Client::connect(&testbed.witness.address, Role::Look, RunId(5)).ok()
    });
}

#[test]
fn what_is_no_witness_is_told() {
    let Some(testbed) = testbed() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut lies: Vec<Vec<u8>> = vec![
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"LFPCUT\0\x09".to_vec(),
        Vec::new(),
    ];
    for payload in [&b"J{"[..], b"A", b"J\"Done\"", br#"J{"Round":3}"#] {
        lies.push([&GREETING[..], &frame(payload)].concat());
    }
    lies.push([&GREETING[..], &u32::MAX.to_le_bytes()].concat());
    let count = lies.len();
    let liar = std::thread::spawn(move || {
        for lie in lies {
            let (mut stream, _) = listener.accept().unwrap();
            // The client may hang up before the whole message was sent.
            let _ = stream.write_all(&lie);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let dir = testbed.path("new");
    for _ in 0..count {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_logforce"));
        command.args(["powercut", "write", "--witness", &address]);
        let out = command.arg(&dir).to_end().unwrap();
        assert_eq!(out.status.code(), Some(4), "{out:?}");
        let said = text(&out.stderr);
        assert!(said.contains(&address), "{said}");
        assert!(!dir.exists(), "nothing was begun");
    }
    liar.join().unwrap();
}

#[test]
fn a_later_connection_takes_the_run_over() {
    let Some(testbed) = testbed() else { return };
    let mut first = connect(&testbed);
    first.write_all(&then("Write", &[NEW, BEGIN])).unwrap();
    let known = || {
        let (_, state) = Client::connect(&testbed.witness.address, Role::Look, RunId(5)).ok()?;
        Some(state?.rounds.len())
    };
    until("the round begins", || known().filter(|n| *n == 1));
    // As after a power cut: the first connection was not closed.
    let mut second = connect(&testbed);
    second.write_all(&hello("Check")).unwrap();
    second.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    second.read_to_end(&mut said).unwrap();
    assert!(String::from_utf8_lossy(&said).contains("rounds"));
    let mut ack = vec![b'A', 255, 255];
    ack.extend(1_u64.to_le_bytes());
    ack.extend([0; 8]);
    first.write_all(&frame(&ack)).unwrap();
    let mut said = Vec::new();
    let _ = first.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("has taken the run over"), "{said}");
}
