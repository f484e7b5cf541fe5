//! A page compares machines: its own, and those of run documents that the user adds. Documents are
//! refused as by an import, hostile ones have no effect, and a page returns its documents
//! unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_result::document::Run;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::{ended, plimsoll, scratch, until};

/// The text of the table of machines, one line per row.
const TABLE: &str = "[...document.querySelectorAll('.compared tr')].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()).join(' | ')).join('\\n')";

const HEADS: &str =
    "[...document.querySelectorAll('.compared thead th button')].slice(2).map((head) => head.textContent)";

const REFUSED: &str = "[...document.querySelectorAll('.refused li')].map((line) => line.textContent)";

/// A recorded run in the current schema: pages must not depend on this machine.
fn document(dir: &Path) -> Value {
    fs::write(dir.join("first.json"), include_str!("fixtures/runs/threads.json")).unwrap();
    let words = ["export", "./first.json", "--format", "json", "--store", "none"];
    serde_json::from_str(&ended(plimsoll(dir).args(words), 0).0).unwrap()
}

/// Reproducible pseudorandom numbers (SplitMix64, Steele et al. 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

fn scale(value: &mut Value, times: f64) {
    match value {
        Value::Number(number) => *value = (number.as_f64().unwrap() * times).into(),
        Value::Array(all) => all.iter_mut().for_each(|one| scale(one, times)),
        _ => {}
    }
}

/// The document as of another machine: new name and id, figures and limits multiplied by factors.
fn of_another(document: &Value, number: usize, mut times: impl FnMut() -> f64) -> Value {
    let mut made = document.clone();
    let name = format!("node-{number:02}");
    made["id"] = format!("01900000-0000-7000-8000-0000000000{number:02}").into();
    made["machine"]["host"] = name.as_str().into();
    made["nodes"] = json!([{ "name": name }]);
    for measurement in made["measurements"].as_array_mut().unwrap() {
        measurement["node"] = name.as_str().into();
        for metric in measurement["metrics"].as_array_mut().unwrap() {
            let times = times();
            scale(&mut metric["samples"], times);
            for key in ["mean", "stdev", "median", "mad", "min", "max", "ci95"] {
                scale(&mut metric["summary"][key], times);
            }
            if metric["limit"].is_object() {
                scale(&mut metric["limit"]["value"], times);
            }
            metric["references"] = json!([]);
        }
    }
    made
}

fn page_of(dir: &Path, command: &str, documents: &[&Value]) -> PathBuf {
    let write = |(index, document): (usize, &&Value)| {
        let name = format!("./run-{index:02}.json");
        fs::write(dir.join(&name), document.to_string()).unwrap();
        name
    };
    let names: Vec<String> = documents.iter().enumerate().map(write).collect();
    let mut made = plimsoll(dir);
    made.arg(command).args(names).args(["--html", "page.html", "--store", "none"]);
    ended(&mut made, 0);
    dir.join("page.html").canonicalize().unwrap()
}

fn read(browser: &mut Browser) {
    until("the page reading its files", || {
        browser.evaluate("document.querySelector('#compare').hasAttribute('aria-busy')") == false
    });
}

fn list(browser: &mut Browser, expression: &str) -> Vec<String> {
    let found = browser.evaluate(expression);
    found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_dropped_is_compared_as_what_the_program_put_there() {
    const TEST: &str = "machines::what_is_dropped_is_compared_as_what_the_program_put_there";
    let dir = scratch();
    let first = document(dir.path());
    let half = of_another(&first, 1, || 0.5);
    let twice = of_another(&first, 2, || 2.0);
    let all = page_of(dir.path(), "report", &[&first, &half, &twice]);
    let Some(mut whole) = Browser::open(TEST, &all, 1440) else { return };
    let wanted = whole.evaluate(TABLE);
    let table = wanted.as_str().unwrap();
    assert!(table.contains("node-02") && table.contains(" best") && table.contains(" of best"), "{table}");
    assert!(table.contains("50.0 % of best") || table.contains("25.0 % of best"), "{table}");

    // One by a page that holds it, one as a document.
    let other = scratch();
    let held = page_of(other.path(), "report", &[&half]);
    fs::write(other.path().join("twice.json"), twice.to_string()).unwrap();
    let page = page_of(dir.path(), "report", &[&first]);
    let mut browser = Browser::open(TEST, &page, 1440).unwrap();
    assert_eq!(browser.evaluate(TABLE), "");
    browser.choose("#compare input[type=file]", &[&held, &other.path().join("twice.json")]);
    until("two more machines", || list(&mut browser, HEADS).len() == 3);
    assert_eq!(browser.evaluate(TABLE), wanted);
    assert_eq!(list(&mut browser, REFUSED), [""; 0]);

    browser.drop_files(&[("twice.json", &twice.to_string())]);
    read(&mut browser);
    let refused = list(&mut browser, REFUSED);
    let wanted = "twice.json: node-02 of run 01900000-0000-7000-8000-000000000002 is here already";
    assert_eq!(refused, [wanted]);
    browser.drop_files(&[("third.json", &of_another(&first, 3, || 3.0).to_string())]);
    until("a fourth machine", || list(&mut browser, HEADS).len() == 4);
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
    assert!(browser.requests().iter().all(|url| url.starts_with("file:") || url.starts_with("data:")));
}

/// Invalid documents by name, with words of their error.
fn hostile(good: &Value) -> Vec<(&'static str, String, &'static str)> {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut made = good.clone();
        change(&mut made);
        made.to_string()
    };
    let metric =
        |change: &dyn Fn(&mut Value)| changed(&|run| change(&mut run["measurements"][0]["metrics"][0]));
    let text = good.to_string();
    vec![
        ("empty.json", String::new(), "not a run document (JSON)"),
        ("number.json", "7".to_owned(), "it has no schema"),
        ("none.json", "{}".to_owned(), "it has no schema"),
        ("cut.json", text[..text.len() / 2].to_owned(), "not a run document (JSON)"),
        (
            "nan.json",
            text.replacen("\"elapsed_s\":", "\"elapsed_s\":NaN,\"x\":", 1),
            "not a run document (JSON)",
        ),
        ("large.json", text.replacen("\"elapsed_s\":", "\"elapsed_s\":1e999,\"x\":", 1), "out of range"),
        (
            "schema.json",
            changed(&|run| run["schema"] = "plimsoll.run/9".into()),
            "has schema 'plimsoll.run/9'",
        ),
        ("proto.json", text.replacen('{', "{\"__proto__\":{\"polluted\":1},", 1), "has __proto__"),
        (
            "nested.json",
            text.replacen(
                "\"machine\":{",
                &format!("\"machine\":{{\"x\":{}1{},", "[".repeat(2000), "]".repeat(2000)),
                1,
            ),
            "more than 128 levels",
        ),
        ("deep.json", "[".repeat(1 << 20), "not a run document (JSON)"),
        ("id.json", changed(&|run| run["id"] = "../../etc/passwd".into()), "id is not written as it must be"),
        ("time.json", changed(&|run| run["started"] = "2026-99-99T99:99:99Z".into()), "is not a time"),
        ("lacks.json", changed(&|run| drop(run.as_object_mut().unwrap().remove("nodes"))), "has no nodes"),
        ("nodes.json", changed(&|run| run["nodes"] = json!([])), "nodes has too few items"),
        ("node.json", changed(&|run| run["measurements"][0]["node"] = "else".into()), "is not in nodes"),
        (
            "long.json",
            changed(&|run| run["nodes"][0]["name"] = "n".repeat(300).into()),
            "1 to 255 characters",
        ),
        (
            "case.json",
            changed(&|run| run["measurements"][0]["case"]["params"]["op"] = "add".into()),
            "contradicts its id",
        ),
        ("twice.json", changed(&|run| run["measurements"][1] = run["measurements"][0].clone()), "twice"),
        ("median.json", metric(&|one| one["summary"]["median"] = 1e308.into()), "changed by hand"),
        ("words.json", metric(&|one| one["summary"]["median"] = "NaN".into()), "median is not number"),
        ("share.json", metric(&|one| one["of_limit"] = 1e308.into()), "of_limit"),
        ("better.json", metric(&|one| one["better"] = "lower".into()), "better is lower"),
        ("unit.json", metric(&|one| one["unit"] = "<b>".into()), "unit is none of its words"),
        ("samples.json", metric(&|one| one["samples"] = json!([])), "samples has too few items"),
        ("page.html", "<html><script>window.hostile = 1</script></html>".to_owned(), "holds no run document"),
        (
            "broken.html",
            "<html><script type=\"application/gzip\" class=\"run\">AAAA</script></html>".to_owned(),
            "cannot be unpacked",
        ),
        (
            "<img src=x onerror=window.hostile=1>.json",
            "{}".to_owned(),
            "<img src=x onerror=window.hostile=1>.json",
        ),
    ]
}

#[test]
fn hostile_documents_are_refused_in_a_line_and_do_nothing() {
    const TEST: &str = "machines::hostile_documents_are_refused_in_a_line_and_do_nothing";
    let dir = scratch();
    let good = document(dir.path());
    let page = page_of(dir.path(), "report", &[&good, &of_another(&good, 1, || 0.5)]);
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let before = browser.evaluate(TABLE);
    let hostile = hostile(&good);
    let files: Vec<(&str, &str)> = hostile.iter().map(|(name, text, _)| (*name, text.as_str())).collect();
    browser.drop_files(&files);
    read(&mut browser);
    let refused = list(&mut browser, REFUSED);
    assert_eq!(refused.len(), hostile.len(), "{refused:#?}");
    for ((name, _, words), line) in hostile.iter().zip(&refused) {
        assert!(line.starts_with(name) && line.contains(words), "{name}: {line}");
        assert!(line.len() < 400 && !line.contains('\n'), "{line}");
    }
    assert_eq!(browser.evaluate(TABLE), before);
    // Documents that an import accepts and a page refuses: stricter checks, and the earlier schema.
    let stricter = ["first.json", "proto.json", "long.json", "nested.json"];
    for (name, text, _) in hostile.iter().filter(|(name, ..)| !stricter.contains(name)) {
        fs::write(dir.path().join("hostile.json"), text).unwrap();
        assert!(Run::read_all(&dir.path().join("hostile.json")).is_err(), "an import takes {name}");
    }
    assert_eq!(
        browser.evaluate("[window.hostile, {}.polluted].filter((one) => one !== undefined).length"),
        0
    );
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
}

#[test]
fn hostile_names_are_text() {
    const TEST: &str = "machines::hostile_names_are_text";
    let dir = scratch();
    let good = document(dir.path());
    let page = page_of(dir.path(), "report", &[&good]);
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let name = "<img src=x onerror=window.hostile=1>\u{202e}\u{1b}__proto__";
    let mut named = of_another(&good, 1, || 0.5);
    named["nodes"][0]["name"] = name.into();
    named["plan"]["name"] = "</script><script>window.hostile=1</script>".into();
    named["machine"]["cpu"]["model_name"] = "<b onmouseover=window.hostile=1>=cmd()".into();
    named["measurements"].as_array_mut().unwrap().iter_mut().for_each(|one| one["node"] = name.into());
    // Facts of the machine with unexpected types.
    let mut odd = of_another(&good, 2, || 2.0);
    odd["machine"]["cpu"] = json!({ "allowed": "0-99999999999,x", "model_name": 7, "threads": "many" });
    odd["machine"]["kernel"] = json!({ "release": ["6"] });
    let mut proto = of_another(&good, 3, || 2.0);
    proto["nodes"][0]["name"] = "__proto__".into();
    proto["measurements"].as_array_mut().unwrap().iter_mut().for_each(|one| one["node"] = "__proto__".into());
    browser.drop_files(&[
        ("named.json", &named.to_string()),
        ("odd.json", &odd.to_string()),
        ("proto.json", &proto.to_string()),
    ]);
    read(&mut browser);
    assert_eq!(list(&mut browser, REFUSED), [""; 0]);
    let heads = list(&mut browser, HEADS);
    assert_eq!(heads[1], "<img src=x onerror=window.hostile=1>\\u{202e}\\u{1b}__proto__");
    assert_eq!(heads[3], "__proto__");
    assert_eq!(browser.evaluate("document.querySelectorAll('#compare img, #compare b').length"), 0);
    assert_eq!(browser.evaluate("window.hostile === undefined && {}.hostile === undefined"), true);
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
    assert!(browser.requests().iter().all(|url| url.starts_with("file:")), "{:?}", browser.requests());
}

/// Every place in a document, as a pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut deeper = |key: String, one: &Value| {
        let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(one, &place, found);
        found.push(place);
    };
    match value {
        Value::Object(all) => all.iter().for_each(|(key, one)| deeper(key.clone(), one)),
        // Two items of a list suffice.
        Value::Array(all) => {
            all.iter().enumerate().take(2).for_each(|(key, one)| deeper(key.to_string(), one))
        }
        _ => {}
    }
}

fn spoilt(good: &Value, places: &[String], numbers: &mut Numbers) -> Value {
    let odd = [
        json!(null),
        json!(-1),
        json!(0),
        json!(1e308),
        json!("x"),
        json!(""),
        json!([]),
        json!({}),
        json!(true),
        json!(0.5),
        json!([1, 2]),
        json!("plimsoll.run/1"),
        json!({ "__proto__": 1 }),
        json!(1e-320),
        json!(7.25),
    ];
    let mut made = good.clone();
    let place = &places[numbers.below(places.len())];
    let (parent, key) = place.rsplit_once('/').unwrap();
    match (made.pointer_mut(parent).unwrap(), numbers.below(4)) {
        (Value::Object(all), 0) => drop(all.remove(&key.replace("~1", "/").replace("~0", "~"))),
        (Value::Array(all), 0) => drop(all.remove(key.parse().unwrap())),
        (Value::Array(all), 1) => all.push(all[0].clone()),
        _ => {
            let one = made.pointer_mut(place).unwrap();
            match (one.as_f64(), numbers.below(2)) {
                // 2.0 is no whole number for an import, and one for a page.
                (Some(number), 0) if number.fract() == 0.0 => *one = (number as i64 / 2 + 1).into(),
                (Some(number), 0) => *one = (number * 1.5).into(),
                _ => *one = odd[numbers.below(odd.len())].clone(),
            }
        }
    }
    made
}

/// Four hundred documents with one thing wrong: what an import refuses, the page refuses.
#[test]
fn a_page_refuses_what_an_import_refuses() {
    const TEST: &str = "machines::a_page_refuses_what_an_import_refuses";
    let dir = scratch();
    let good = document(dir.path());
    let page = page_of(dir.path(), "report", &[&good]);
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let mut all = Vec::new();
    places(&good, "", &mut all);
    // Facts of the machine that the page does not show are not checked.
    all.retain(|place| {
        !place.starts_with("/machine/") && !place.contains("/achieved/") && !place.contains("/evidence/")
    });
    let mut numbers = Numbers(25);
    let spoilt: Vec<String> = (0..400).map(|_| spoilt(&good, &all, &mut numbers).to_string()).collect();
    let names: Vec<String> = (0..spoilt.len()).map(|n| format!("{n}.json")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(spoilt.iter().map(String::as_str)).collect();
    let mut refused = 0;
    for (names, texts) in names.chunks(50).zip(files.chunks(50)) {
        browser.drop_files(texts);
        read(&mut browser);
        let lines = list(&mut browser, REFUSED);
        for (name, (_, text)) in names.iter().zip(texts) {
            // One that is taken has the id of the run that is here, or is the 31st machine.
            let line = lines.iter().find(|line| line.starts_with(&format!("{name}: ")));
            let taken = line.is_none_or(|line| line.contains("here already") || line.contains("at most 30"));
            if let Err(why) = Run::parse(text) {
                assert!(!taken, "an import refuses it ({why}), the page takes it:\n{text}");
                refused += 1;
            }
        }
    }
    assert!((100..400).contains(&refused), "{refused} of 400 are wrong");
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
}

#[test]
fn what_is_too_large_is_not_read() {
    const TEST: &str = "machines::what_is_too_large_is_not_read";
    let dir = scratch();
    let good = document(dir.path());
    let page = page_of(dir.path(), "report", &[&good]);
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let large = dir.path().join("large.json");
    fs::File::create(&large).unwrap().set_len(100 << 20).unwrap();
    browser.choose("#compare input[type=file]", &[&large]);
    until("the refusal", || list(&mut browser, REFUSED) == ["large.json: larger than 64 MiB"]);

    // A small file that unpacks to 100 MiB of blanks.
    let bomb = r#"(async () => {
        const blanks = new Blob(Array(100).fill(" ".repeat(1 << 20)));
        const packed = new Uint8Array(await new Response(blanks.stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer());
        return btoa(packed.reduce((text, byte) => text + String.fromCharCode(byte), ""));
    })()"#;
    let bomb = browser.evaluate(bomb);
    let held = |packed: &str| {
        format!("<html><script type=\"application/gzip\" class=\"run\">{packed}</script></html>")
    };
    let page = held(bomb.as_str().unwrap());
    assert!(page.len() < 1 << 20, "{}", page.len());
    browser.drop_files(&[("bomb.html", &page), ("many.html", &held("").repeat(31))]);
    read(&mut browser);
    let wanted = [
        "bomb.html: its documents are larger than 64 MiB together",
        "many.html: holds 31 run documents, and a page compares at most 30 machines",
    ];
    assert_eq!(list(&mut browser, REFUSED), wanted);
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
}

/// Sets the value of a control like a user.
fn set(browser: &mut Browser, control: &str, property: &str, value: &Value) {
    let event = if property == "checked" { "change" } else { "input" };
    browser.evaluate(&format!(
        "(() => {{ const one = document.querySelector({0}); one.{property} = {value};
            one.dispatchEvent(new Event('{event}', {{ bubbles: true }})); one.dispatchEvent(new Event('change')); }})()",
        json!(control)
    ));
}

#[test]
fn the_table_is_sorted_filtered_and_hidden() {
    const TEST: &str = "machines::the_table_is_sorted_filtered_and_hidden";
    let dir = scratch();
    let first = document(dir.path());
    let mut numbers = Numbers(3);
    let mut all = vec![first.clone()];
    all.extend((1..4).map(|n| of_another(&first, n, || 0.5 + numbers.below(1000) as f64 / 1000.0)));
    let page = page_of(dir.path(), "report", &all.iter().collect::<Vec<_>>());
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let rows = |browser: &mut Browser| {
        list(browser, "[...document.querySelectorAll('.compared tbody th')].map((cell) => cell.title)")
    };
    let whole = rows(&mut browser);
    assert!(whole.len() >= 4, "{whole:?}");

    // By a machine: by how far each figure is from the best.
    let shares = "[...document.querySelectorAll('.compared tbody tr')].map((row) => row.cells[3].innerText).map((text) => (text.includes('% of best') ? parseFloat(text.split('· ').pop().split('\\n').pop()) : 100))";
    let click = "document.querySelectorAll('.compared thead th button')[3].click()";
    for (wanted, up) in [("descending", false), ("ascending", true)] {
        browser.evaluate(click);
        let sorted =
            browser.evaluate("document.querySelectorAll('.compared thead th')[3].getAttribute('aria-sort')");
        assert_eq!(sorted, wanted);
        let found: Vec<f64> =
            browser.evaluate(shares).as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
        assert!(found.is_sorted_by(|a, b| if up { a <= b } else { a >= b }), "{wanted}: {found:?}");
        assert!(found.iter().any(|share| *share < 100.0), "{found:?}");
    }
    // The head that was pressed keeps the focus.
    assert_eq!(browser.evaluate("document.activeElement.textContent"), list(&mut browser, HEADS)[1].as_str());
    browser.evaluate("document.querySelector('.compared thead th button').click()");
    let labels = list(
        &mut browser,
        "[...document.querySelectorAll('.compared tbody th button:first-child')].map((one) => one.textContent)",
    );
    assert!(labels.is_sorted(), "{labels:?}");

    set(&mut browser, ".controls input[type=search]", "value", &json!("F64 threads=1"));
    let found = rows(&mut browser);
    assert!(!found.is_empty() && found.len() < whole.len(), "{found:?}");
    let is_wanted =
        |id: &String| ["type=f64", "threads=1"].iter().all(|part| id.split('/').any(|one| one == *part));
    assert!(found.iter().all(is_wanted), "{found:?}");
    set(&mut browser, ".controls input[type=search]", "value", &json!("no such case"));
    assert_eq!(rows(&mut browser), [""; 0]);
    set(&mut browser, ".controls input[type=search]", "value", &json!(""));

    browser.evaluate("document.querySelector('.compared tbody th button[aria-label^=\"hide\"]').click()");
    assert_eq!(rows(&mut browser).len(), whole.len() - 1);
    let status = "document.querySelector('#compare p[role=status]').textContent";
    let reported = browser.evaluate(status);
    assert!(reported.as_str().unwrap().starts_with(&format!("{} of ", whole.len() - 1)), "{reported}");
    browser.evaluate("[...document.querySelectorAll('.controls button')].find((one) => one.textContent === 'show all rows').click()");
    assert_eq!(rows(&mut browser).len(), whole.len());

    // Without the best machine another is the best.
    let best = "[...document.querySelectorAll('.compared tbody tr')][0].querySelectorAll('.best').length";
    assert!(browser.evaluate(best).as_u64() >= Some(1));
    let column = "[...document.querySelectorAll('.compared tbody tr')[0].cells].findIndex((cell) => cell.className.includes('best'))";
    let at = browser.evaluate(column).as_u64().unwrap() - 2;
    browser.evaluate(&format!("document.querySelectorAll('#compare .series button')[{at}].click()"));
    assert_eq!(list(&mut browser, HEADS).len(), 3);
    assert!(browser.evaluate(best).as_u64() >= Some(1));
    set(&mut browser, ".controls input[type=checkbox]", "checked", &json!(true));
    assert!(rows(&mut browser).len() >= whole.len());
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
}

/// The cells of CSV (RFC 4180).
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut cell, mut quoted) = (vec![Vec::new()], String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => rows.last_mut().unwrap().push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                rows.last_mut().unwrap().push(std::mem::take(&mut cell));
                rows.push(Vec::new());
            }
            other => cell.push(other),
        }
    }
    assert!(!quoted && rows.pop() == Some(Vec::new()), "{text}");
    rows
}

#[test]
fn the_visible_table_and_each_chart_are_kept_as_files() {
    const TEST: &str = "machines::the_visible_table_and_each_chart_are_kept_as_files";
    let dir = scratch();
    let first = document(dir.path());
    let mut other = of_another(&first, 1, || 0.5);
    let name = "=cmd|'/C calc'!A0,\"x\"";
    other["nodes"][0]["name"] = name.into();
    other["measurements"].as_array_mut().unwrap().iter_mut().for_each(|one| one["node"] = name.into());
    let page = page_of(dir.path(), "report", &[&first, &other]);
    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    let kept = dir.path().join("kept");
    fs::create_dir(&kept).unwrap();
    browser.keep_in(&kept);
    let press = |browser: &mut Browser, within: &str, text: &str| {
        browser.evaluate(&format!("[...document.querySelectorAll('{within} button')].find((one) => one.textContent === '{text}').click()"));
    };
    let saved = |end: &str| {
        let mut found = Vec::new();
        until(end, || {
            let files = fs::read_dir(&kept).unwrap().map(|one| one.unwrap().path());
            let file = files.into_iter().find(|file| file.to_string_lossy().ends_with(end));
            found = file.and_then(|file| fs::read(file).ok()).unwrap_or_default();
            !found.is_empty()
        });
        found
    };
    press(&mut browser, ".controls", "CSV");
    let text = String::from_utf8(saved(".csv")).unwrap();
    let rows = csv(&text);
    assert!(rows.len() > 4 && rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    assert_eq!(
        rows[0][..6],
        [
            "case",
            "id",
            "metric",
            "unit",
            "better",
            &format!("{} median", first["nodes"][0]["name"].as_str().unwrap())
        ]
    );
    assert_eq!(rows[0][11], format!("'{name} median"));
    let metric = &first["measurements"][0]["metrics"][0];
    let row =
        rows.iter().find(|row| row[1] == first["measurements"][0]["case"]["id"].as_str().unwrap()).unwrap();
    let number = |at: usize| row[at].parse::<f64>().unwrap();
    assert_eq!(Some(number(5)), metric["summary"]["median"].as_f64());
    assert_eq!(Some(number(11)), metric["summary"]["median"].as_f64().map(|median| median * 0.5));
    assert!(rows.iter().flatten().all(|cell| !cell.starts_with(['=', '+', '@'])), "{text}");

    for chart in ["compare-shares", "compare-row"] {
        let within = format!("[data-chart={chart}]");
        press(&mut browser, &within, "SVG");
        let svg = String::from_utf8(saved(".svg")).unwrap();
        let read = format!(
            "(() => {{ const read = new DOMParser().parseFromString({}, 'image/svg+xml');
                return [read.documentElement.tagName, read.querySelectorAll('parsererror, script, foreignObject').length, read.querySelectorAll('path').length > 1]; }})()",
            json!(svg)
        );
        assert_eq!(browser.evaluate(&read), json!(["svg", 0, true]), "{chart}");
        assert!(svg.contains("=cmd"), "the name of the machine is in the picture");
        press(&mut browser, &within, "PNG");
        let png = saved(".png");
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert!(side(16) > 500 && side(20) > 200, "{} × {}", side(16), side(20));
        fs::read_dir(&kept).unwrap().for_each(|one| fs::remove_file(one.unwrap().path()).unwrap());
    }
    assert_eq!(browser.complaints(), [&Value::Null; 0]);
}

#[test]
fn a_narrow_screen_scrolls_the_table_and_not_the_page() {
    const TEST: &str = "machines::a_narrow_screen_scrolls_the_table_and_not_the_page";
    let dir = scratch();
    let first = document(dir.path());
    let all: Vec<Value> = (1..7).map(|n| of_another(&first, n, || n as f64)).collect();
    let page = page_of(dir.path(), "report", &all.iter().collect::<Vec<_>>());
    let Some(mut browser) = Browser::open(TEST, &page, 400) else { return };
    let room = "document.documentElement.clientWidth";
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), browser.evaluate(room));
    let scrolls = "(() => { const box = document.querySelector('.grid'); box.scrollLeft = 300; return [box.scrollLeft, Math.round(box.querySelector('tbody th').getBoundingClientRect().left - box.getBoundingClientRect().left)]; })()";
    assert_eq!(browser.evaluate(scrolls), json!([300, 1]), "the names of cases stay");
    let unlabelled = "[...document.querySelectorAll('#compare input, #compare select')].filter((one) => !one.labels.length).length + [...document.querySelectorAll('#compare button')].filter((one) => !one.textContent && !one.getAttribute('aria-label')).length";
    assert_eq!(browser.evaluate(unlabelled), 0);
}

/// Thirty documents as large as real ones: one real run, and what seeded numbers make of it.
#[test]
fn a_page_of_thirty_machines_is_small_and_its_documents_come_back() {
    const TEST: &str = "machines::a_page_of_thirty_machines_is_small_and_its_documents_come_back";
    let dir = scratch();
    let words = ["run", "quick", "--sample-time", "50ms", "--store", "none", "--quiet", "--json", "-"];
    let real: Value = serde_json::from_str(&ended(plimsoll(dir.path()).args(words), 0).0).unwrap();
    let mut numbers = Numbers(30);
    let all: Vec<Value> =
        (0..30).map(|n| of_another(&real, n, || 0.7 + numbers.below(600) as f64 / 1000.0)).collect();
    let page = page_of(dir.path(), "compare", &all.iter().collect::<Vec<_>>());
    let size = fs::metadata(&page).unwrap().len();
    assert!(size <= 12_000_000, "{size} bytes of documents of {}", all[0].to_string().len());

    // Every document leaves the page byte by byte as from its own file.
    let exported = |store: &str, id: &str| {
        let words = ["export", id, "--format", "json", "--store", store];
        ended(plimsoll(dir.path()).args(words), 0).0
    };
    let (out, _) = ended(plimsoll(dir.path()).args(["import", "page.html", "--store", "page"]), 0);
    assert_eq!(out, "30 entered\n");
    for number in [0, 17, 29] {
        let file = format!("run-{number:02}.json");
        ended(plimsoll(dir.path()).args(["import", &file, "--store", "files"]), 0);
        let id = all[number]["id"].as_str().unwrap();
        let (from_page, from_file) = (exported("page", id), exported("files", id));
        assert!(from_page == from_file, "{id}");
        assert_eq!(serde_json::from_str::<Value>(&from_page).unwrap(), all[number]);
    }

    let Some(mut browser) = Browser::open(TEST, &page, 1440) else { return };
    assert_eq!(list(&mut browser, HEADS).len(), 30);
    assert!(browser.evaluate("Number(document.documentElement.dataset.usable)").as_f64().unwrap() > 0.0);
    let sorting = "(() => { document.querySelectorAll('.compared thead th button')[9].click(); return document.querySelectorAll('.compared thead th[aria-sort]').length; })()";
    assert_eq!(browser.evaluate(sorting), 1);
    assert_eq!(browser.complaints(), [&Value::Null; 0]);

    let more = of_another(&real, 30, || 1.0).to_string();
    browser.drop_files(&[("more.json", &more)]);
    read(&mut browser);
    let wanted = "more.json: would make 31 machines, and a page compares at most 30";
    assert_eq!(list(&mut browser, REFUSED), [wanted]);
}

#[test]
fn a_page_that_is_redacted_holds_nothing_else() {
    let dir = scratch();
    let mut named = document(dir.path());
    for host in ["zq7xfirst.example", "zq7xsecond.example"] {
        named["machine"]["host"] = host.into();
        named["nodes"] = json!([{ "name": host }]);
        named["id"] = format!("01900000-0000-7000-8000-0000000000{:02}", host.len()).into();
        named["measurements"].as_array_mut().unwrap().iter_mut().for_each(|one| one["node"] = host.into());
        fs::write(dir.path().join(format!("{host}.json")), named.to_string()).unwrap();
    }
    let sides = ["./zq7xfirst.example.json", "./zq7xsecond.example.json"];
    let words = ["--redact", "--html", "page.html", "--store", "none"];
    let (out, _) = ended(plimsoll(dir.path()).arg("compare").args(sides).args(words), 0);
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let held = Run::read_all(&dir.path().join("page.html")).unwrap();
    assert_eq!(held.len(), 2);
    let held = serde_json::to_string(&held).unwrap();
    assert_eq!([&out, &page, &held].map(|text| text.matches("zq7x").count()), [0; 3], "{out}");
    assert_ne!(page.matches("side 1").count(), 0);
}
