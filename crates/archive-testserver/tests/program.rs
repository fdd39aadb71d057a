//! The server as a program: it says where it is, serves, and ends with its standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_until_its_input_ends() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_logforce-archive-testserver"))
        .args(["--put-latency", "1", "--faults", "0", "--seed", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().take(6).map(Result::unwrap).collect();
    assert_eq!(lines[0], "s3://test/archive");
    let address = lines[1].strip_prefix("AWS_ENDPOINT=http://").unwrap();
    let put = "PUT /test/a HTTP/1.1\r\nIf-None-Match: *\r\nContent-Length: 3\r\n\r\none";
    assert!(ask(address, put).starts_with("HTTP/1.1 200"));
    assert!(ask(address, put).starts_with("HTTP/1.1 412"));
    let get = ask(address, "GET /test/a HTTP/1.1\r\nRange: bytes=1-9\r\n\r\n");
    assert!(
        get.starts_with("HTTP/1.1 206") && get.ends_with("\r\n\r\nne"),
        "{get}"
    );
    assert!(ask(address, "GET /other/a HTTP/1.1\r\n\r\n").contains("NoSuchBucket"));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_unknown_argument_is_refused_with_the_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_logforce-archive-testserver"))
        .arg("--nonsense")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && text.contains("--put-latency"),
        "{text}"
    );
}
