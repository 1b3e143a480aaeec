//! Serves a run folder to a browser: four fixed paths, to be read only, over plain HTTP written out by hand.
//!
//! What a request names is compared with the known paths and never becomes a file name. A page of another site that had its
//! name resolved to this machine (DNS rebinding) is known by its `Host`: only addresses and `localhost` are answered.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use sha2::{Digest, Sha256};

use kelvin_study::error::{path_word, resume_command};
use kelvin_study::findings::FINDINGS;
use kelvin_study::folder::{PartState, Parts, Stage, Status, is_being_written};

const PAGE: &str = include_str!("../../assets/watch.html");
/// The most bytes of a request's head.
const LONGEST_HEAD: usize = 8 << 10;
/// How long a request's head may take, and each piece of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most requests at a time.
const MOST_AT_ONCE: usize = 16;

/// Answers requests about a run folder for as long as the process lives.
pub fn serve(listener: &TcpListener, folder: &Path) {
    let busy = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // Too many open files, mostly: it passes.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            if busy.fetch_add(1, Ordering::Relaxed) >= MOST_AT_ONCE {
                let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                let _ = stream.write_all(&Answer::text(503, "too many requests at once").bytes(false));
                busy.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let busy = &busy;
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                // Whoever goes away in the middle has nobody to be told.
                let _ = converse(stream, folder);
                busy.fetch_sub(1, Ordering::Relaxed);
            });
            if spawned.is_err() {
                busy.fetch_sub(1, Ordering::Relaxed);
            }
        }
    });
}

/// Reads one request, answers it, hangs up.
fn converse(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (answer, is_head) = match read_head(&mut stream)? {
        Ok(head) => answer(&head, folder),
        Err(refused) => (refused, false),
    };
    stream.write_all(&answer.bytes(is_head))?;
    stream.shutdown(Shutdown::Write)?;
    // What is still on its way would otherwise make the other side lose the answer.
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let _ = std::io::copy(&mut Read::take(&mut stream, 64 << 10), &mut std::io::sink());
    Ok(())
}

/// The head of a request up to its empty line, or why it is refused.
fn read_head(stream: &mut TcpStream) -> std::io::Result<Result<String, Answer>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err(Answer::text(408, "the request took too long")));
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut piece) {
            Ok(0) => return Ok(Err(Answer::text(400, "the request is not complete"))),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        head.extend_from_slice(&piece[..count]);
        let end = head.windows(4).position(|four| four == b"\r\n\r\n");
        if end.unwrap_or(head.len()) > LONGEST_HEAD {
            return Ok(Err(Answer::text(431, "the head of the request is too long")));
        }
        if let Some(end) = end {
            head.truncate(end);
            return Ok(String::from_utf8(head).map_err(|_| Answer::text(400, "the head of the request is not text")));
        }
    }
}

/// What to answer, and whether without its body.
fn answer(head: &str, folder: &Path) -> (Answer, bool) {
    let mut lines = head.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else {
        return (Answer::text(400, "this is no request of HTTP/1.1"), false);
    };
    let is_head = method == "HEAD";
    let hosts: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, host)| host.trim())
        .collect();
    let refused = match hosts[..] {
        [host] if is_address(host) => None,
        [_] => Some(Answer::text(421, "this server answers to its address and to localhost only")),
        _ => Some(Answer::text(400, "a request names one host")),
    };
    if let Some(refused) = refused {
        return (refused, is_head);
    }
    if !is_head && method != "GET" {
        return (Answer::text(405, "nothing can be changed here: GET and HEAD only"), false);
    }
    let answer = match target {
        "/" => Answer::new("text/html; charset=utf-8", PAGE.into()),
        "/status.json" => match serde_json::to_vec(&State::of(folder)) {
            Ok(json) => Answer::new("application/json", json),
            Err(_) => Answer::text(500, "the status cannot be written as JSON"),
        },
        "/metrics.csv" => when_finished(folder, "metrics.csv", "text/csv; charset=utf-8"),
        "/report.html" => when_finished(folder, "report.html", "text/html; charset=utf-8"),
        _ => Answer::text(404, "there is no such page"),
    };
    (answer, is_head)
}

/// Whether a host is an address or this machine's own name for itself, with or without a port.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, port)) if port.is_empty() || port.starts_with(':') => inner,
        Some(_) => return false,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// A file that a finished run has.
fn when_finished(folder: &Path, name: &str, kind: &'static str) -> Answer {
    match std::fs::read(folder.join(name)) {
        Ok(bytes) if State::of(folder).is_finished => Answer::new(kind, bytes),
        _ => Answer::text(404, "the run is not finished"),
    }
}

/// What the page is told.
#[derive(Serialize)]
struct State {
    folder: String,
    /// Whether a process is writing the run.
    is_running: bool,
    is_finished: bool,
    has_report: bool,
    /// The shards of a study in a line; none of a study in one piece.
    parts: Option<String>,
    /// What to type to go on with a run that was stopped.
    resume: String,
    status: Option<Status>,
    /// Why there is no status, where that is not as it should be.
    error: Option<String>,
}

impl State {
    fn of(folder: &Path) -> Self {
        // The lock first: a run that ends in between is then taken for running, and known to be finished a second later.
        let is_running = is_being_written(folder);
        let (status, error) = match Status::read(folder) {
            Ok(status) => (status, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let parts =
            Parts::of(folder).ok().filter(|parts| !parts.shards.is_empty() && !is_at_the_merge(parts.merge.state));
        if let Some(parts) = parts {
            return Self {
                folder: folder.display().to_string(),
                is_running: parts.shards.iter().any(|shard| shard.state == PartState::Running),
                is_finished: false,
                has_report: false,
                parts: parts.summary(),
                resume: format!("kelvin status {}", path_word(folder)),
                status: parts.together().or(status),
                error,
            };
        }
        let is_finished = match &status {
            Some(status) => status.moment.stage == Stage::Done,
            None => !is_running && folder.join(FINDINGS).exists(),
        };
        Self {
            folder: folder.display().to_string(),
            is_running,
            is_finished,
            parts: None,
            has_report: is_finished && folder.join("report.html").exists(),
            resume: resume_command(folder),
            status,
            error,
        }
    }
}

/// Whether a study that is made in shards is told of as one run.
fn is_at_the_merge(merge: PartState) -> bool {
    matches!(merge, PartState::Running | PartState::Done)
}

/// An answer with its headers still to be written.
struct Answer {
    code: u16,
    kind: &'static str,
    body: Vec<u8>,
}

impl Answer {
    fn new(kind: &'static str, body: Vec<u8>) -> Self {
        Self { code: 200, kind, body }
    }

    fn text(code: u16, words: &str) -> Self {
        Self { code, kind: "text/plain; charset=utf-8", body: format!("{words}\n").into_bytes() }
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let reason = match self.code {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        // The scripts of this page are known by their hash; those of a report are its own.
        let scripts = if self.body == PAGE.as_bytes() { script_hash() } else { "'unsafe-inline'".into() };
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Allow: GET, HEAD\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; \
             img-src data: blob:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'\r\n\r\n",
            self.code,
            self.kind,
            self.body.len(),
        )
        .into_bytes();
        if !is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

/// The page's one script, as a content security policy names it.
fn script_hash() -> String {
    let script = PAGE.split_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
    format!("'sha256-{}'", BASE64.encode(Sha256::digest(script.map_or("", |(script, _)| script))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_answered_and_names_are_not() {
        for host in ["localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:8000", "[::1]", "[::1]:80", "10.0.0.7:1"] {
            assert!(is_address(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1]x", "localhost.evil"] {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn the_page_has_one_script_and_needs_nothing_from_elsewhere() {
        assert_eq!(PAGE.matches("<script").count(), 1);
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://") && !PAGE.contains("innerHTML"));
    }
}
