//! Profiles from a server, over HTTP, as good and bad servers send them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use sigtop::write::fetch::fetch;
use sigtop::write::formats;

use crate::making::tests;

/// A server that gives these answers, one a connection; its address, and what it was asked.
fn server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            asked.push(String::from_utf8(request).unwrap());
            // Whoever has heard enough hangs up.
            let _ = stream.write_all(&answer);
        }
        asked
    });
    (address, serving)
}

fn profile() -> Vec<u8> {
    fs::read(tests().join("profiles/ours.pb.gz")).unwrap()
}

fn with(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat()
}

fn read(url: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    fetch(url).map_err(|error| error.to_string())?.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[test]
fn a_profile_comes_whole_in_pieces_and_to_the_end() {
    let bytes = profile();
    let mut pieces = Vec::new();
    for piece in bytes.chunks(100) {
        pieces.extend(format!("{:x};what=ever\r\n", piece.len()).bytes());
        pieces.extend(piece);
        pieces.extend(b"\r\n");
    }
    pieces.extend(b"0\r\n\r\n");
    let (address, serving) = server(vec![
        with(&format!("200 OK\r\nContent-Length: {}", bytes.len()), &[&bytes[..], b"more"].concat()),
        with("200 OK\r\nTransfer-Encoding: chunked", &pieces),
        with("200 OK", &bytes),
        with("302 Found\r\nLocation: /elsewhere?seconds=1", b""),
        with("200 OK", &bytes),
    ]);
    for url in ["/debug/pprof/profile?seconds=3", "/a", "", "/b"] {
        assert_eq!(read(&format!("{address}{url}")), Ok(bytes.clone()), "{url}");
    }
    assert!(formats::read(bytes.as_slice()).is_ok());
    let asked = serving.join().unwrap();
    assert!(asked[0].starts_with("GET /debug/pprof/profile?seconds=3 HTTP/1.1\r\nHost: 127.0.0.1:"), "{}", asked[0]);
    assert!(asked[2].starts_with("GET /debug/pprof/profile?seconds=30 "), "{}", asked[2]);
    assert!(asked[4].starts_with("GET /elsewhere?seconds=1 "), "{}", asked[4]);
}

#[test]
fn what_a_bad_server_sends_is_said() {
    let endless = [b"HTTP/1.1 200 OK\r\nX: ", &[b'x'; 100_000][..]].concat();
    let to_itself = || with("301 Moved\r\nLocation: /", b"");
    let answers: Vec<(Vec<u8>, &str)> = vec![
        (with("404 Not Found", b"no such profile\nreally"), "the server says: 404 Not Found: no such profile"),
        (with("200 OK\r\nContent-Length: 99", b"short"), "unexpected end of file"),
        (with("200 OK\r\nContent-Length: many", b""), "its length is no number"),
        (with("200 OK\r\nTransfer-Encoding: chunked", b"5\r\nab"), "unexpected end of file"),
        (with("200 OK\r\nTransfer-Encoding: chunked", b"zz\r\nab"), "no number is the length"),
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), "does not speak HTTP: its answer has no status"),
        (endless, "the head of its answer does not end"),
        (Vec::new(), "the head of its answer does not end"),
        (with("302 Found\r\nLocation: https://example.com/", b""), "https is not spoken here: curl -o"),
    ];
    let (address, serving) = server(answers.iter().map(|(answer, _)| answer.clone()).collect());
    for (_, words) in &answers {
        let said = read(&format!("{address}/a")).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    serving.join().unwrap();
    let (address, serving) = server((0..6).map(|_| to_itself()).collect());
    assert!(read(&address).unwrap_err().contains("from one address to the next"));
    serving.join().unwrap();
    for (url, words) in [
        ("https://example.com/", "https is not spoken here"),
        ("http://", "it names no server"),
        ("http://a b/", "to be written as %XX"),
        ("http://127.0.0.1:1/", "nobody answers"),
    ] {
        let said = read(url).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
}
