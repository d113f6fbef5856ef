//! Receivers that fail: what is tried again succeeds, and what never succeeds is counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use crate::receiver::{answer, profile, push, serve};
use crate::skips::{are_installed, skip};

/// Pushes to a server that answers the first request with this, and accepts all later ones. Returns
/// the status, what is printed, and the number of requests.
fn push_after(first: &'static str, options: &[&str]) -> (i32, String, usize) {
    let (url, received) = serve(move |number, _, stream| {
        let text = if number == 0 { first.to_owned() } else { answer("200 OK", "") };
        let _ = stream.write_all(text.as_bytes());
    });
    let (status, said) = push(&profile("go-cpu.pb.gz"), &url, options);
    (status, said, received.try_iter().count())
}

#[test]
fn a_failure_that_may_end_is_tried_again() {
    if !are_installed(&["curl"]) {
        return;
    }
    for first in [
        "HTTP/1.1 503 Later\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 429 Later\r\nContent-Length: 0\r\n\r\n",
        // It closes in the middle of its answer, or before it.
        "HTTP/1.1 200 O",
        "",
        "SSH-2.0-OpenSSH\r\n\r\n",
    ] {
        let (status, said, requests) = push_after(first, &[]);
        assert!(status == 0 && said.contains("pushed ") && requests == 2, "{first}: {said} {requests}");
    }
    let (status, said, requests) = push_after("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", &["--push-format=parca"]);
    assert!(status == 0 && requests == 2, "{said}");
}

#[test]
fn a_refusal_is_final_and_its_reason_is_safe_to_print() {
    if !are_installed(&["curl"]) {
        return;
    }
    let refused = "HTTP/1.1 401 No\r\nContent-Length: 10\r\n\r\n\x1b[2Jno key";
    let (status, said, requests) = push_after(refused, &["--push-format", "pyroscope"]);
    assert_eq!((status, requests), (125, 1), "{said}");
    assert!(said.contains(" samples were lost (") && said.contains("refused): HTTP status 401: \u{fffd}[2Jno key"));
    let (status, said, _) = push_after("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", &[]);
    assert!(status == 125 && said.contains("HTTP status 500"), "OTLP forbids to try it again: {said}");
    let moved = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let (status, said, requests) = push_after(moved, &[]);
    assert!(status == 125 && requests == 1 && said.contains("HTTP status 302"), "{said}");
}

#[test]
fn a_body_that_is_too_large_is_divided() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (whole_url, whole) = serve(|_, _, stream| drop(stream.write_all(answer("200 OK", "").as_bytes())));
    let (_, said) = push(&profile("go-cpu.pb.gz"), &whole_url, &["--push-format", "pyroscope"]);
    let samples = said.split(" samples").next().expect("a number").to_owned();
    let limit = whole.try_iter().map(|request| request.body.len()).max().expect("a request") - 1;
    let (url, received) = serve(move |_, request, stream| {
        let status = if request.body.len() > limit { "413 Too large" } else { "200 OK" };
        let _ = stream.write_all(answer(status, "").as_bytes());
    });
    let (status, said) = push(&profile("go-cpu.pb.gz"), &url, &["--push-format", "pyroscope"]);
    assert!(status == 0 && said.starts_with(&samples), "{said}");
    assert!(received.try_iter().count() >= 3, "the whole and two halves");
}

#[test]
fn an_endless_answer_is_not_read_to_its_end() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, _received) = serve(|number, _, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while number == 0 && stream.write_all(&[b'a'; 4096]).is_ok() {}
    });
    let began = Instant::now();
    let (status, said) = push(&profile("go-cpu.pb.gz"), &url, &["--push-format", "parca"]);
    assert!(status == 0 && began.elapsed() < Duration::from_secs(20), "{said}");
}

/// A server with TLS that accepts everything. It prints its port.
const TLS_SERVER: &str = "
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
";

#[test]
fn nothing_is_sent_to_a_server_whose_certificate_is_not_trusted() {
    if !are_installed(&["curl", "openssl", "python3"]) {
        return;
    }
    let directory = std::env::temp_dir().join(format!("sigtop-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = |name: &str| directory.join(name).to_str().expect("UTF-8").to_owned();
    let (key, certificate) = (path("key.pem"), path("cert.pem"));
    let make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
    let names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", &key, "-out", &certificate];
    let made = std::process::Command::new("openssl").args(make).args(names).output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut server = std::process::Command::new("python3");
    let server = server.args(["-c", TLS_SERVER, &certificate, &key]).stdout(std::process::Stdio::piped());
    let mut server = server.spawn().expect("python3 runs");
    let mut port = String::new();
    BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut port).expect("a port");
    let url = format!("https://127.0.0.1:{}", port.trim());
    let (trusted, said_trusted) =
        push(&profile("go-cpu.pb.gz"), &url, &["--push-format=parca", "--push-ca", &certificate]);
    let (refused, said) = push(&profile("go-cpu.pb.gz"), &url, &["--push-format=parca"]);
    server.kill().expect("a child");
    server.wait().expect("a child");
    std::fs::remove_dir_all(&directory).expect("removed");
    assert_eq!(trusted, 0, "{said_trusted}");
    assert!(refused == 125 && said.contains("certificate"), "{said}");
}

#[test]
fn a_server_that_never_answers_has_a_time_limit() {
    if !are_installed(&["curl"]) {
        return;
    }
    let (url, _received) = serve(|_, _, stream| drop(stream.read_to_end(&mut Vec::new())));
    let began = Instant::now();
    let (status, said) = push(&profile("go-cpu.pb.gz"), &url, &[]);
    assert!(status == 125 && said.contains("not in time"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

/// The name server takes requests and does not answer.
#[test]
fn a_name_that_is_not_resolved_does_not_hang_the_end() {
    if !are_installed(&["curl", "unshare"]) {
        return;
    }
    let Ok(_silent) = std::net::UdpSocket::bind("127.0.0.77:53") else {
        return skip("not root: only root can be a name server");
    };
    let file = std::env::temp_dir().join(format!("sigtop-resolv-{}.conf", std::process::id()));
    std::fs::write(&file, "nameserver 127.0.0.77\noptions attempts:9 timeout:30\n").expect("written");
    let script = format!(
        "mount --bind {} /etc/resolv.conf && exec {} push --no-config {} http://store.example/",
        file.display(),
        env!("CARGO_BIN_EXE_sigtop"),
        profile("go-cpu.pb.gz").display()
    );
    let began = Instant::now();
    let output = std::process::Command::new("unshare").args(["--mount", "sh", "-c", &script]).output();
    let (output, took) = (output.expect("unshare runs"), began.elapsed());
    std::fs::remove_file(&file).expect("removed");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("samples were lost") && said.contains("Resolving timed out"), "{said}");
    assert!(took < Duration::from_secs(60), "{took:?} {said}");
}
