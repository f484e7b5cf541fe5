//! `plimsoll site`: pages of all runs, rewritten only on changes, from disk and a web server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::{
    Owned, below, command, confine, done, ended, plimsoll, recorded, rename_machine, scale, scale_metric,
    scratch, start, until,
};

const HOSTILE: &str = "</title><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=\"document.title='owned'\">\u{1b}[31m\u{202e}../../x";

/// The recorded run as run `n` of a series on this machine, `factor` times as fast.
fn run(n: usize, host: &str, factor: f64) -> Value {
    let mut run = recorded();
    run["id"] = format!("019aa5c3-{n:04x}-7c40-9d21-5b0c3f6a7e88").into();
    run["started"] = format!("2026-{:02}-{:02}T08:00:00Z", n / 28 + 1, n % 28 + 1).into();
    rename_machine(&mut run, host);
    for measurement in run["measurements"].as_array_mut().unwrap() {
        for metric in measurement["metrics"].as_array_mut().unwrap() {
            scale_metric(metric, factor);
            scale(&mut metric["of_limit"], factor);
            metric["series"] = json!([]);
        }
    }
    run
}

fn noise(n: usize) -> f64 {
    1.0 + 0.001 * ((n * 7 % 5) as f64 - 2.0)
}

fn history(dir: &Path, name: &str, runs: &[Value]) {
    let mut line = format!("history import --store {name}");
    for (n, run) in runs.iter().enumerate() {
        fs::write(dir.join(format!("{name}-{n}.json")), run.to_string()).unwrap();
        line += &format!(" {name}-{n}.json");
    }
    done(dir, &line, 0);
}

/// Makes the site: numbers of runs, and of files that were written, unchanged and removed.
fn site(dir: &Path, history: &str) -> [usize; 4] {
    let (out, _) = done(dir, &format!("site public --store {history}"), 0);
    let mut words = out.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    std::array::from_fn(|_| words.next().unwrap_or_else(|| panic!("{out}")))
}

fn files(dir: &Path) -> BTreeMap<String, (String, std::time::SystemTime)> {
    let top = dir.join("public");
    let named = |file: PathBuf| {
        let written = file.metadata().unwrap().modified().unwrap();
        let name = file.strip_prefix(&top).unwrap().display().to_string();
        (name, (fs::read_to_string(file).unwrap(), written))
    };
    below(&top).into_iter().filter(|path| path.is_file()).map(named).collect()
}

/// The files that the pages of a site lead to, of which every one must be there.
#[track_caller]
fn all_links_lead_somewhere(dir: &Path) -> usize {
    let top = dir.join("public");
    let mut links = 0;
    for (name, (text, _)) in files(dir).iter().filter(|(name, _)| name.ends_with(".html")) {
        for link in text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            let leads_somewhere = match link.strip_prefix('#') {
                Some(id) => text.contains(&format!("id=\"{id}\"")),
                None => top.join(name).parent().unwrap().join(link).is_file(),
            };
            assert!(leads_somewhere, "{name} leads to {link}");
            links += 1;
        }
    }
    links
}

#[test]
fn a_second_call_writes_what_has_changed_and_removes_what_is_gone() {
    let dir = scratch();
    let dir = dir.path();
    let runs: Vec<Value> =
        (0..14).map(|n| run(n, "bench-1", noise(n) * if n < 7 { 1.0 } else { 0.9 })).collect();
    history(dir, "some", &runs[..13]);
    assert_eq!(site(dir, "some"), [13, 16, 0, 0]);
    assert!(all_links_lead_somewhere(dir) > 13);
    let first = files(dir);
    assert_eq!(site(dir, "some"), [13, 0, 16, 0]);
    assert_eq!(files(dir), first, "not even touched");
    history(dir, "some", &runs[13..]);
    assert_eq!(site(dir, "some"), [14, 3, 14, 0]);
    let index = &files(dir)["index.html"].0;
    let step = ["2026-01-08 08:00 UTC", "−10 %"];
    assert!(step.iter().all(|words| index.contains(words)), "the step, at its run: {index}");
    history(dir, "fewer", &runs[1..]);
    assert_eq!(site(dir, "fewer")[3], 1);
    let after = files(dir);
    assert_eq!(after.len(), 13 + 4);
    let reported: usize = after.values().map(|(text, _)| text.matches("019aa5c3-0000").count()).sum();
    assert_eq!(reported, 0, "nothing tells of it");
    all_links_lead_somewhere(dir);
    // A changed page is written again.
    let page = after.keys().find(|name| name.starts_with("run/")).unwrap();
    fs::write(dir.join("public").join(page), "changed").unwrap();
    assert_eq!(site(dir, "fewer")[1], 1);
    assert_eq!(files(dir)[page].0, after[page].0);
}

#[test]
fn a_directory_of_somebody_else_is_refused_and_a_missing_history_empties_no_site() {
    let dir = scratch();
    let dir = dir.path();
    history(dir, "some", &[run(0, "bench-1", 1.0)]);
    fs::create_dir(dir.join("public")).unwrap();
    fs::write(dir.join("public/index.html"), "mine").unwrap();
    let (out, err) = done(dir, "site public --store some", 3);
    insta::assert_snapshot!(out + &err);
    assert_eq!(fs::read_to_string(dir.join("public/index.html")).unwrap(), "mine");
    fs::remove_file(dir.join("public/index.html")).unwrap();
    site(dir, "some");
    let whole = files(dir);
    done(dir, "site public --store missing", 2);
    done(dir, "site public --store none", 2);
    assert_eq!(files(dir), whole);
    // Made by the attempt, and empty.
    done(dir, "history tag last x --store empty", 2);
    assert_eq!(site(dir, "empty")[0], 0);
    assert!(!files(dir).keys().any(|name| name.starts_with("run/")));
}

#[test]
fn nothing_redacted_is_on_a_site_that_was_open_before() {
    let dir = scratch();
    let dir = dir.path();
    history(dir, "some", &(0..3).map(|n| run(n, "secret-host", noise(n))).collect::<Vec<_>>());
    done(dir, "history note last secret-note --store some", 0);
    site(dir, "some");
    let secrets = || files(dir).values().map(|(text, _)| text.matches("secret").count()).sum::<usize>();
    assert_ne!(secrets(), 0);
    site(dir, "some --redact");
    assert_eq!(secrets(), 0);
    assert_eq!(site(dir, "some --redact")[1], 0);
}

#[test]
fn a_call_that_is_killed_leaves_a_whole_site_and_the_next_one_ends_it() {
    let dir = scratch();
    let dir = dir.path();
    let runs: Vec<Value> = (0..30).map(|n| run(n, "bench-1", noise(n))).collect();
    history(dir, "some", &runs[..2]);
    site(dir, "some");
    let before = files(dir);
    history(dir, "some", &runs[2..]);
    let pages = || fs::read_dir(dir.join("public/run")).unwrap().count();
    let child = Owned(start(confine(&mut command("site public --store some"), dir)));
    until("a new page", || pages() > 3);
    drop(child);
    assert!(pages() < 30, "it was killed too late for this test");
    let after = files(dir);
    for (name, (text, _)) in before.iter().filter(|(name, _)| name.ends_with(".html")) {
        assert_eq!(after[name].0, *text, "{name}");
    }
    all_links_lead_somewhere(dir);
    let [runs, _, unchanged, _] = site(dir, "some");
    assert!(runs == 30 && unchanged > 0, "{runs} {unchanged}");
    all_links_lead_somewhere(dir);
    assert_eq!(pages(), 30, "what was not finished is gone");
}

/// Serves the site below a path, as any web server does, as long as the test runs.
fn served(top: PathBuf, below: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut stream: TcpStream, top: &Path| -> std::io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
        let asked = lines.next().unwrap_or_default();
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        let name = asked.split(' ').nth(1).and_then(|path| path.strip_prefix(below)).unwrap_or("missing");
        let kind = if name.ends_with(".js") { "text/javascript" } else { "text/html" };
        let (status, body) = match fs::read(top.join(name)) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body)
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer(stream, &top);
        }
    });
    address
}

/// Checks each page in a browser: no errors, no foreign scripts, charts are drawn.
#[track_caller]
fn looked_at(browser: &mut Browser, top: &str, pages: &[String]) {
    for page in pages {
        browser.visit(&format!("{top}{page}"));
        let title = browser.evaluate("document.title");
        assert!(title.as_str().unwrap().starts_with("plimsoll: "), "{page}: {title}");
        let drawn = browser.evaluate("document.documentElement.dataset.drawn ?? null");
        let wanted = browser.count("[data-chart]");
        let is_drawn = wanted > 0 && drawn == wanted.to_string().as_str();
        let complaints = browser.complaints();
        assert!(!page.starts_with("run/") || is_drawn, "{page}: {drawn} of {wanted}: {complaints:?}");
        assert!(browser.fits(), "{page} is wider than its window");
    }
    browser.is_content_with(top);
}

#[test]
fn pages_work_from_the_disk_and_below_a_path_of_a_web_server_and_hostile_names_do_nothing() {
    let dir = scratch();
    let dir = dir.path();
    let mut runs: Vec<Value> =
        (0..12).map(|n| run(n, HOSTILE, noise(n) * if n < 6 { 1.0 } else { 1.2 })).collect();
    for run in &mut runs {
        run["plan"]["name"] = HOSTILE.into();
        run["machine"]["cpu"]["model_name"] = HOSTILE.into();
    }
    history(dir, "some", &runs);
    ended(plimsoll(dir).args(["history", "note", "last", HOSTILE, "--store", "some"]), 0);
    site(dir, "some");
    assert!(all_links_lead_somewhere(dir) > 0);
    let own = files(dir);
    let plain = |name: &String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.-".contains(&b));
    assert!(own.keys().all(plain), "{:?}", own.keys());
    let mut pages: Vec<String> = own.keys().filter(|name| name.ends_with(".html")).cloned().collect();
    // Two reports stand for all.
    pages.retain(|name| !name.starts_with("run/"));
    pages.extend(own.keys().filter(|name| name.starts_with("run/")).take(2).cloned());
    let top = dir.join("public").canonicalize().unwrap();
    let from_disk = format!("file://{}/", top.display());
    for width in [1440, 500] {
        let Some(mut browser) = Browser::open_at(&format!("{from_disk}{}", pages[2]), width) else { return };
        looked_at(&mut browser, &from_disk, &pages);
    }
    let address = served(top, "/some/path/");
    let from_server = format!("http://{address}/some/path/");
    let Some(mut browser) = Browser::open_at(&format!("{from_server}{}", pages[2]), 1440) else { return };
    looked_at(&mut browser, &from_server, &pages);
    // A replaced library does not run.
    let library = own.keys().find(|name| name.ends_with(".js")).unwrap();
    fs::write(dir.join("public").join(library), "document.title = 'owned';").unwrap();
    let report = pages.last().unwrap();
    let Some(mut browser) = Browser::open_at(&format!("{from_server}{report}"), 1440) else { return };
    assert_ne!(browser.evaluate("document.title"), "owned");
    assert!(!browser.complaints().is_empty(), "the browser says that it refused it");
}
