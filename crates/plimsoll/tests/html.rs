//! The report in a browser: every chart is drawn, its numbers are right, nothing complains, nothing leaves, and hostile
//! names do nothing.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{ended, plimsoll, scratch, skipped};

/// What the browser made of the page: its document, and what it said.
struct Seen {
    dom: String,
    said: String,
    /// All that it asked the network for.
    network: String,
}

/// Opens the page without a window; `None`, and a skipped test by name, where no browser can be started.
fn seen(test: &str, page: &Path) -> Option<Seen> {
    let dir = page.parent().unwrap();
    let log = dir.join("net.json");
    let mut browser = Command::new("chromium");
    browser
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
        ])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", "--window-size=1440,900"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}#all", page.display()))
        .timeout(Duration::from_secs(120));
    let output = match browser.output() {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => output,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            skipped(
                test,
                &format!(
                    "chromium ended with {}: {}",
                    output.status,
                    said.lines().last().unwrap_or_default()
                ),
            );
            return None;
        }
        Err(e) => {
            skipped(test, &format!("needs chromium: {e}"));
            return None;
        }
    };
    Some(Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
        network: fs::read_to_string(log).unwrap_or_default(),
    })
}

/// A run with two cases of two thread counts, as a document.
fn document(dir: &Path) -> Value {
    let words = "cpu --op fma --type f64,f32 --threads 1,2 --samples=5 --sample-time=5ms --quiet --store none --json run.json";
    let mut command = plimsoll(dir);
    command.args(words.split(' ')).timeout(Duration::from_secs(120));
    ended(&mut command, 0);
    serde_json::from_str(&fs::read_to_string(dir.join("run.json")).unwrap()).unwrap()
}

fn written(dir: &Path, document: &Value) -> std::path::PathBuf {
    fs::write(dir.join("run.json"), document.to_string()).unwrap();
    ended(plimsoll(dir).args(["report", "./run.json", "--html", "report.html", "--store", "none.db"]), 0);
    dir.join("report.html").canonicalize().unwrap()
}

#[test]
fn every_chart_is_drawn_and_hostile_names_do_nothing() {
    const TEST: &str = "html::every_chart_is_drawn_and_hostile_names_do_nothing";
    let dir = scratch();
    let mut run = document(dir.path());
    let hostile = "</script><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=\"document.title='owned'\">\u{1b}[31m\u{202e}";
    run["machine"]["host"] = hostile.into();
    run["machine"]["cpu"]["model_name"] = hostile.into();
    run["plan"]["name"] = hostile.into();
    run["measurements"][0]["node"] = hostile.into();
    run["measurements"][0]["warnings"] = serde_json::json!([{ "code": "other", "text": hostile }]);
    let page = written(dir.path(), &run);
    let text = fs::read_to_string(&page).unwrap();
    let charts = text.matches("data-chart=\"").count();
    assert!(charts >= 2, "{charts}");
    let Some(seen) = seen(TEST, &page) else { return };
    assert!(seen.dom.contains(&format!("data-drawn=\"{charts}\"")), "{}", &seen.said);
    assert_eq!(seen.dom.matches("<svg").count(), charts);
    // Each chart can be reached and walked through by keyboard, each of its lines switched by a button.
    // (Once more in the script itself.)
    assert_eq!(seen.dom.matches("Arrow keys go through the points").count(), charts + 1);
    assert!(seen.dom.matches("aria-pressed=\"true\"").count() > charts, "too few switches");
    let complaints: Vec<&str> = seen.said.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    assert!(
        !seen.dom.contains("<title>owned") && !seen.dom.contains("<img src=\"http"),
        "the hostile name ran"
    );
    assert!(!seen.network.contains("192.0.2.1"), "a request left");
}

#[test]
fn the_hover_text_tells_the_figures() {
    const TEST: &str = "html::the_hover_text_tells_the_figures";
    let dir = scratch();
    let mut run = document(dir.path());
    // A figure that nothing else on the page has.
    let metric = &mut run["measurements"][0]["metrics"][0];
    metric["samples"] = serde_json::json!([123.4e9]);
    metric["summary"]["n"] = 1.into();
    for key in ["median", "mean", "min", "max"] {
        metric["summary"][key] = 123.4e9.into();
    }
    metric["summary"]["ci95"] = serde_json::json!([121.0e9, 125.0e9]);
    let page = written(dir.path(), &run);
    let Some(seen) = seen(TEST, &page) else { return };
    assert!(
        seen.dom.contains("threads 1: 123 GFLOP/s [121 GFLOP/s, 125 GFLOP/s]"),
        "the numbers of the chart are wrong"
    );
}
