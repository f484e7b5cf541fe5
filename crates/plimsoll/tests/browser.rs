//! Drives a headless browser over two pipes by the Chrome DevTools Protocol, without a port.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Owned, done, list, scratch, skip, text};

pub(crate) struct Browser {
    _child: Owned,
    orders: ChildStdin,
    received: Receiver<Value>,
    events: Vec<Value>,
    session: Option<String>,
    number: u64,
    _dir: tempfile::TempDir,
}

impl Browser {
    /// Opens the page in a window of `width` × 900; `None`, and a skipped test, without a browser.
    #[track_caller]
    pub(crate) fn open(page: &Path, width: u32) -> Option<Self> {
        Self::open_at(&format!("file://{}", page.display()), width)
    }

    #[track_caller]
    pub(crate) fn report(documents: &[&Value], width: u32) -> Option<Self> {
        Self::open(&page_of(scratch().path(), "report", documents), width)
    }

    #[track_caller]
    pub(crate) fn open_at(address: &str, width: u32) -> Option<Self> {
        let mut browser = Self::start();
        let made = browser.try_order("Target.createTarget", json!({ "url": "about:blank" }));
        let Some(made) = made else { return skip("needs chromium, which ends at once") };
        let target = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = browser.order("Target.attachToTarget", target);
        browser.session = Some(text(&attached["sessionId"]).to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.order(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        browser.order("Emulation.setDeviceMetricsOverride", size);
        browser.order("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        browser.order("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        browser.visit(address);
        Some(browser)
    }

    /// Opens another page; earlier events are kept.
    pub(crate) fn visit(&mut self, address: &str) {
        let url = format!("{address}#all");
        let loader = self.order("Page.navigate", json!({ "url": url }))["loaderId"].clone();
        // The empty page before it is loaded too.
        let loaded = |e: &Value| e["params"]["name"] == "load" && e["params"]["loaderId"] == loader;
        while !self.events.iter().any(loaded) {
            self.events.push(self.next().expect("the page was not loaded within two minutes"));
        }
    }

    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The browser reads orders on descriptor 3 and answers on 4, which a shell can arrange.
        const ARRANGED: &str = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        const FLAGS: &str = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                             --disable-background-networking --disable-component-update --disable-sync \
                             --disable-extensions --remote-debugging-pipe";
        let mut command = Command::new("sh");
        command.args(["-c", ARRANGED, "sh"]).args(FLAGS.split_whitespace());
        command.arg(format!("--user-data-dir={}", dir.path().display()));
        // Chromium leaves directories there.
        command.env("TMPDIR", dir.path());
        let mut child = Owned(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let (orders, answers) = (child.0.stdin.take().unwrap(), child.0.stdout.take().unwrap());
        let (tell, received) = channel();
        std::thread::spawn(move || {
            let parts = BufReader::new(answers).split(0);
            parts.map_while(Result::ok).all(|part| tell.send(serde_json::from_slice(&part).unwrap()).is_ok())
        });
        Self { _child: child, orders, received, events: Vec::new(), session: None, number: 0, _dir: dir }
    }

    fn next(&self) -> Option<Value> {
        self.received.recv_timeout(Duration::from_secs(300)).ok()
    }

    /// `None`: the browser is gone.
    fn try_order(&mut self, method: &str, params: Value) -> Option<Value> {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = session.as_str().into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).ok()?;
        loop {
            let received = self.next()?;
            if received["id"] == self.number {
                assert!(received["error"].is_null(), "{method}: {received}");
                return Some(received["result"].clone());
            }
            self.events.push(received);
        }
    }

    fn order(&mut self, method: &str, params: Value) -> Value {
        self.try_order(method, params).unwrap_or_else(|| panic!("{method}: no answer within two minutes"))
    }

    /// Lays the page out for A4 paper with margins of a centimetre.
    pub(crate) fn print(&mut self) {
        let size = json!({ "width": 718, "height": 1047, "deviceScaleFactor": 1, "mobile": false });
        self.order("Emulation.setDeviceMetricsOverride", size);
        self.order("Emulation.setEmulatedMedia", json!({ "media": "print" }));
        self.evaluate("dispatchEvent(new Event('beforeprint'))");
    }

    /// The texts that an expression lists.
    pub(crate) fn texts(&mut self, expression: &str) -> Vec<String> {
        let found = self.evaluate(expression);
        list(&found).iter().map(|one| text(one).to_owned()).collect()
    }

    pub(crate) fn count(&mut self, selector: &str) -> u64 {
        self.evaluate(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap()
    }

    /// Whether the page is as wide as its window; a scroll bar takes some of that.
    pub(crate) fn fits(&mut self) -> bool {
        let width = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        self.evaluate(width) == true
    }

    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let found = self.order("Runtime.evaluate", params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        found["result"]["value"].clone()
    }

    /// Presses a key: its name, as `KeyboardEvent.key` has it.
    pub(crate) fn press(&mut self, key: &str) {
        let codes = [("Tab", 9), ("Escape", 27), (" ", 32), ("ArrowLeft", 37), ("ArrowRight", 39)];
        let code = codes.iter().find(|(name, _)| *name == key).map_or(0, |(_, code)| *code);
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if key.chars().count() == 1 {
            down["text"] = key.into();
        }
        self.order("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.order("Input.dispatchKeyEvent", up);
    }

    /// Chooses files in the input of this CSS selector.
    pub(crate) fn choose(&mut self, input: &str, files: &[&Path]) {
        let expression = format!("document.querySelector({})", json!(input));
        let found = self.order("Runtime.evaluate", json!({ "expression": expression }));
        let object = &found["result"]["objectId"];
        self.order("DOM.setFileInputFiles", json!({ "objectId": object, "files": files }));
    }

    pub(crate) fn drop_files(&mut self, files: &[(&str, &str)]) {
        let expression = format!(
            "(() => {{
                const files = new DataTransfer();
                {}.forEach(([name, text]) => files.items.add(new File([text], name)));
                const told = {{ bubbles: true, cancelable: true, dataTransfer: files }};
                const over = new DragEvent('dragover', told);
                document.body.dispatchEvent(over);
                document.body.dispatchEvent(new DragEvent('drop', told));
                return over.defaultPrevented;
            }})()",
            json!(files)
        );
        assert_eq!(self.evaluate(&expression), true, "the page takes no files");
    }

    /// Sets the download directory.
    pub(crate) fn keep_in(&mut self, directory: &Path) {
        let page = self.session.take();
        let kept = json!({ "behavior": "allow", "downloadPath": directory });
        self.order("Browser.setDownloadBehavior", kept);
        self.session = page;
    }

    /// Errors, refusals and console output of the page.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let stated = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        self.events.iter().filter(|e| stated.iter().any(|method| e["method"] == *method)).collect()
    }

    /// Asserts that the page complained of nothing and requested only what is below `top`.
    #[track_caller]
    pub(crate) fn is_content_with(&self, top: &str) {
        assert_eq!(self.complaints(), [&Value::Null; 0]);
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let mut asked = asked.filter_map(|e| e["params"]["request"]["url"].as_str());
        let outside = asked.find(|url| !url.starts_with(top) && !url.starts_with("data:"));
        assert_eq!(outside, None, "a request left");
    }

    #[track_caller]
    pub(crate) fn is_content(&self) {
        self.is_content_with("file:");
    }
}

/// The page of some documents.
pub(crate) fn page_of(dir: &Path, command: &str, documents: &[&Value]) -> PathBuf {
    let names: String = (0..documents.len()).map(|n| format!(" ./run-{n:02}.json")).collect();
    for (name, document) in names.split_whitespace().zip(documents) {
        fs::write(dir.join(name), document.to_string()).unwrap();
    }
    done(dir, &format!("{command}{names} --html page.html --store none"), 0);
    dir.join("page.html").canonicalize().unwrap()
}
