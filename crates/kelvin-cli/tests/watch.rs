//! A run that is watched: its status file, the lines of a terminal, and the page with everything it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Need, PROGRAM, SHORT, command as kelvin, skipped};

/// Ends its process when a test is over, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that takes minutes, to be watched and stopped.
const ENDLESS: [&str; 13] = [
    "run",
    "concrete",
    "--quick",
    "--threads",
    "2",
    "--out",
    "run",
    "--set",
    "selection.epochs=500",
    "--set",
    "sampler.epochs=4000000",
    "--set",
    "sampler.cycle=50",
];

fn short_run(folder: &Path, more: &[&str]) -> Output {
    let output = kelvin(folder, &["run", "concrete", "--out=run"]).args(SHORT).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "no {what} after two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn status(folder: &Path) -> Option<Value> {
    let bytes = std::fs::read(folder.join("run/checkpoints/status.json")).ok()?;
    Some(serde_json::from_slice(&bytes).expect("a status is whole at any moment"))
}

/// Starts `kelvin watch` and gives the port it names.
fn watch(folder: &Path) -> (Running, u16) {
    let mut child = kelvin(folder, &["watch", "run"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
    let port = port.unwrap_or_else(|| panic!("no address in `{line}`")).parse().unwrap();
    (Running(child), port)
}

/// Sends a request as it stands and reads the whole answer.
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(port: u16, path: &str) -> (u16, String) {
    let answer = ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (code(head), body.to_owned())
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn state(port: u16) -> Value {
    let (code, body) = get(port, "/status.json");
    assert_eq!(code, 200);
    serde_json::from_str(&body).unwrap()
}

#[test]
fn a_run_on_its_way_tells_where_it_is_and_a_killed_one_is_known() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    let mut run = Running(kelvin(here, &ENDLESS).arg("--quiet").spawn().unwrap());
    let is_cycle = |chain: &Value| chain["phase"] == "cycle" && chain["part"].as_u64() > Some(2);
    let seen =
        wait_for("cycle", || status(here).filter(|status| status["chains"].as_array().unwrap().iter().any(is_cycle)));
    assert_eq!(
        (&seen["stage"], &seen["command"], &seen["name"]),
        (&"sampling".into(), &"run".into(), &"concrete-quick".into())
    );
    assert_eq!(seen["process"], run.0.id());
    let chains = seen["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 4, "two chains at each of two temperatures");
    let moving = chains.iter().find(|chain| is_cycle(chain)).unwrap();
    let step = moving["step"].as_u64().unwrap();
    assert!(step > 0 && step < moving["steps"].as_u64().unwrap(), "{moving}");
    assert!(moving["temperature_ratio"].as_f64().unwrap() > 0.1, "{moving}");
    let sum: u64 = chains.iter().map(|chain| chain["step"].as_u64().unwrap()).sum();
    assert_eq!(seen["steps_done"], sum);
    wait_for("later status", || status(here).filter(|later| later["update"].as_u64() > seen["update"].as_u64()));

    let (_watch, port) = watch(here);
    let told = state(port);
    assert_eq!((&told["is_running"], &told["is_finished"]), (&true.into(), &false.into()));
    assert_eq!(told["status"]["process"], run.0.id());
    assert_eq!(get(port, "/report.html").0, 404);

    let diagnosed = kelvin(here, &["diagnose", "run", "--strict"]).output().unwrap();
    let text = String::from_utf8(diagnosed.stdout).unwrap();
    assert!(text.contains("The run is on its way") && text.contains("Not known yet: R̂"), "{text}");
    assert!(text.ends_with("no warning so far\n") && diagnosed.status.success(), "{text}");

    run.0.kill().unwrap();
    run.0.wait().unwrap();
    let told = state(port);
    assert_eq!((&told["is_running"], &told["is_finished"]), (&false.into(), &false.into()));
    assert_eq!(told["resume"], "kelvin resume run");
    let diagnosed = kelvin(here, &["diagnose", "run"]).output().unwrap();
    assert!(String::from_utf8(diagnosed.stdout).unwrap().contains("go on with `kelvin resume run`"));
}

#[test]
fn only_what_is_offered_can_be_read_and_nothing_be_changed() {
    let folder = TempDir::new().unwrap();
    let here = folder.path();
    short_run(here, &["--quiet"]);
    std::fs::write(here.join("secret.txt"), "secret").unwrap();
    let (_watch, port) = watch(here);

    let page = ask(port, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("script-src 'sha256-"), "{}", &page[..600]);
    for header in
        ["X-Content-Type-Options: nosniff", "X-Frame-Options: DENY", "Connection: close", "Cache-Control: no-store"]
    {
        assert!(page.contains(header), "{header}");
    }
    let head = ask(port, "HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");

    let told = state(port);
    assert_eq!((&told["is_finished"], &told["has_report"]), (&true.into(), &true.into()));
    assert_eq!(told["status"]["stage"], "done");
    assert!(get(port, "/metrics.csv").1.starts_with("chain,method,"));
    assert!(get(port, "/report.html").1.contains("<html"));

    for path in [
        "/../secret.txt",
        "/../../../../etc/passwd",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/checkpoints/run.json",
        "/report.html/../../secret.txt",
        "//etc/passwd",
        "/status.json?x=1",
        "/draws/",
        "secret.txt",
        "http://127.0.0.1/status.json",
        "/status.json\0",
    ] {
        let (code, body) = get(port, path);
        assert_eq!(code, 404, "{path}");
        assert_eq!(body, "there is no such page\n", "{path}");
    }
    let with = |first: &str, headers: &str| code(&ask(port, &format!("{first}\r\n{headers}\r\n")));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"] {
        assert_eq!(with(&format!("{method} / HTTP/1.1"), "Host: localhost\r\nContent-Length: 3\r\n"), 405, "{method}");
    }
    assert_eq!(
        with("GET /status.json HTTP/1.1", "Host: evil.example\r\n"),
        421,
        "a name that was made to mean this machine"
    );
    assert_eq!(with("GET /status.json HTTP/1.1", "Host: 127.0.0.1.evil.example\r\n"), 421);
    assert_eq!(with("GET /status.json HTTP/1.1", ""), 400, "no host");
    assert_eq!(with("GET / HTTP/1.1", "Host: localhost\r\nHost: evil.example\r\n"), 400, "two hosts");
    assert_eq!(with("GET / HTTP/1.1", "hOsT:[::1]:80\r\n"), 200);
    assert_eq!(with("GET /", "Host: localhost\r\n"), 400);
    assert_eq!(with("\u{1}\u{2} nonsense", ""), 400);
    assert_eq!(with("GET / HTTP/1.1", &format!("Host: localhost\r\nX: {}\r\n", "x".repeat(20_000))), 431);
    assert_eq!(code(&ask(port, &format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000)))), 431, "without an end");
    assert_eq!(get(port, "/").0, 200, "still there after all that");
}

#[test]
fn who_says_nothing_keeps_nobody_waiting() {
    let folder = TempDir::new().unwrap();
    short_run(folder.path(), &["--quiet"]);
    let (_watch, port) = watch(folder.path());
    let silent: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    assert_eq!(get(port, "/status.json").0, 200);
    // The silent ones are told after a while.
    let mut answer = String::new();
    silent[0].set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (&silent[0]).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[test]
fn without_a_terminal_a_short_run_says_nothing_of_its_way() {
    let folder = TempDir::new().unwrap();
    let said = String::from_utf8(short_run(folder.path(), &[]).stderr).unwrap();
    assert!(!said.contains('\x1b') && !said.contains("sampling") && !said.contains("steps/s"), "{said}");
    let mut left = folder.path().join("run/checkpoints").read_dir().unwrap();
    assert!(!left.any(|entry| entry.unwrap().file_name().to_string_lossy().ends_with(".part")));
    let json = short_run(folder.path(), &["--fresh", "--json"]);
    assert!(json.stderr.is_empty(), "{}", String::from_utf8_lossy(&json.stderr));
}

#[test]
fn a_terminal_has_a_line_for_each_chain_and_is_left_as_it_was() {
    if Command::new("script").arg("--version").output().is_err() {
        skipped(Need::Terminal, "there is no `script` here to make a terminal with");
        return;
    }
    let folder = TempDir::new().unwrap();
    let command = format!("stty cols 90 rows 24; '{PROGRAM}' {}", ENDLESS.join(" "));
    let mut script = Command::new("script");
    script.args(["-qefc", &command, "/dev/null"]).current_dir(folder.path());
    script.env_remove("KELVIN_DATA").env("KELVIN_DEVICE", "cpu").env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut child = Running(script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut out = child.0.stdout.take().unwrap();
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    let mut until = |what: &str| {
        while !String::from_utf8_lossy(&shown).contains(what) {
            let count = out.read(&mut piece).unwrap();
            assert!(count > 0, "no `{what}` in\n{}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&piece[..count]);
        }
        String::from_utf8_lossy(&shown).into_owned()
    };
    until("steps/s");
    let seen = until("cycle 5");
    assert!(seen.contains("\nβ = 1, chain 1 ") && seen.contains("\x1b[J"), "{seen}");
    child.0.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let seen = until("go on with `kelvin resume run`");
    let last = seen.rfind("\x1b[J").unwrap();
    assert!(!seen[last..].contains("cycle"), "the lines are wiped: {}", &seen[last..]);
    assert!(!seen.contains("\x1b[?"), "nothing was switched that would have to be switched back");
}

#[test]
fn a_chain_that_diverged_is_told_apart_from_those_that_are_done() {
    let folder = TempDir::new().unwrap();
    short_run(folder.path(), &["--quiet", "--grid", "--set", "run.grid=[1e-12,1.0]"]);
    let status = status(folder.path()).unwrap();
    let chains = status["chains"].as_array().unwrap();
    let results = std::fs::read(folder.path().join("run/results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    for (chain, found) in chains.iter().zip(results["chains"].as_array().unwrap()) {
        let phase = if found["diverged_at"].is_null() { "done" } else { "diverged" };
        assert_eq!((&chain["label"], &chain["phase"]), (&found["label"], &phase.into()));
    }
    let diverged = chains.iter().find(|chain| chain["phase"] == "diverged").unwrap();
    assert!(diverged["step"].as_u64() < diverged["steps"].as_u64() && diverged["beta"] == 1e-12, "{diverged}");
    assert_eq!(status["steps"], status["steps_done"], "nothing is left to do");
}

#[test]
fn a_folder_that_is_no_run_cannot_be_watched() {
    let folder = TempDir::new().unwrap();
    for (run, phrase) in [("none", "there is no folder none"), (".", "is no run folder of kelvin")] {
        let output = kelvin(folder.path(), &["watch", run]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(phrase));
    }
}
