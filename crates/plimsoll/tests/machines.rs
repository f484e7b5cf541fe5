//! A page compares its own machines and those of added documents. It refuses documents as an import
//! does, hostile ones have no effect, and it returns its documents unchanged.

use std::fs;

use plimsoll_result::document::Run;
use serde_json::{Value, json};

use crate::browser::{Browser, page_of};
use crate::support::{
    below, document, done, json, recorded, rename_machine, scale, scale_metric, scratch, text, until,
};

/// The text of the table of machines, one line per row.
const TABLE: &str = "[...document.querySelectorAll('.compared tr')].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()).join(' | ')).join('\\n')";

const HEADS: &str =
    "[...document.querySelectorAll('.compared thead th button')].slice(2).map((head) => head.textContent)";

const REFUSED: &str = "[...document.querySelectorAll('.refused li')].map((line) => line.textContent)";

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

/// The document as of another machine: new name and id, figures and limits multiplied by factors.
fn of_another(document: &Value, number: usize, mut times: impl FnMut() -> f64) -> Value {
    let mut made = document.clone();
    made["id"] = format!("01900000-0000-7000-8000-0000000000{number:02}").into();
    made["nodes"] = json!([{}]);
    rename_machine(&mut made, &format!("node-{number:02}"));
    for measurement in made["measurements"].as_array_mut().unwrap() {
        for metric in measurement["metrics"].as_array_mut().unwrap() {
            let times = times();
            scale_metric(metric, times);
            if metric["limit"].is_object() {
                scale(&mut metric["limit"]["value"], times);
            }
            metric["references"] = json!([]);
        }
    }
    made
}

/// Drops files on the page, and returns how it refuses them.
fn refusals<N: AsRef<str>, T: AsRef<str>>(browser: &mut Browser, files: &[(N, T)]) -> Vec<String> {
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_ref(), text.as_ref())).collect();
    browser.drop_files(&files);
    until("the page reading its files", || {
        browser.evaluate("document.querySelector('#compare').hasAttribute('aria-busy')") == false
    });
    browser.texts(REFUSED)
}

#[test]
fn what_is_dropped_is_compared_as_what_the_program_put_there() {
    let first = recorded();
    let half = of_another(&first, 1, || 0.5);
    let twice = of_another(&first, 2, || 2.0);
    let Some(mut whole) = Browser::report(&[&first, &half, &twice], 1440) else { return };
    let wanted = whole.evaluate(TABLE);
    let table = text(&wanted);
    assert!(table.contains("node-02") && table.contains(" best") && table.contains(" of best"), "{table}");
    assert!(table.contains("50.0 % of best") || table.contains("25.0 % of best"), "{table}");

    // One by a page that holds it, one as a document.
    let other = scratch();
    let held = page_of(other.path(), "report", &[&half]);
    fs::write(other.path().join("twice.json"), twice.to_string()).unwrap();
    let mut browser = Browser::report(&[&first], 1440).unwrap();
    assert_eq!(browser.evaluate(TABLE), "");
    browser.choose("#compare input[type=file]", &[&held, &other.path().join("twice.json")]);
    until("two more machines", || browser.texts(HEADS).len() == 3);
    assert_eq!(browser.evaluate(TABLE), wanted);
    assert_eq!(browser.texts(REFUSED), [""; 0]);

    let refused = refusals(&mut browser, &[("twice.json", &twice.to_string())]);
    let wanted = "twice.json: node-02 of run 01900000-0000-7000-8000-000000000002 is here already";
    assert_eq!(refused, [wanted]);
    browser.drop_files(&[("third.json", &of_another(&first, 3, || 3.0).to_string())]);
    until("a fourth machine", || browser.texts(HEADS).len() == 4);
    browser.is_content();
}

/// Invalid documents by name, with words of their error.
fn hostile(good: &Value) -> Vec<(&'static str, String, &'static str)> {
    type Change = fn(&mut Value);
    let changes: [(&str, Change, &str); 11] = [
        ("schema.json", |run| run["schema"] = "plimsoll.run/9".into(), "has schema 'plimsoll.run/9'"),
        ("id.json", |run| run["id"] = "../../etc/passwd".into(), "id is not written as it must be"),
        ("time.json", |run| run["started"] = "2026-99-99T99:99:99Z".into(), "is not a time"),
        ("lacks.json", |run| drop(run.as_object_mut().unwrap().remove("nodes")), "has no nodes"),
        ("nodes.json", |run| run["nodes"] = json!([]), "nodes has too few items"),
        ("node.json", |run| run["measurements"][0]["node"] = "else".into(), "is not in nodes"),
        ("long.json", |run| run["nodes"][0]["name"] = "n".repeat(300).into(), "1 to 255 characters"),
        (
            "case.json",
            |run| run["measurements"][0]["case"]["params"]["op"] = "add".into(),
            "contradicts its id",
        ),
        ("twice.json", |run| run["measurements"][1] = run["measurements"][0].clone(), "twice"),
        ("number.json", |run| *run = 7.into(), "it has no schema"),
        ("none.json", |run| *run = json!({}), "it has no schema"),
    ];
    let metrics: [(&str, Change, &str); 6] = [
        ("median.json", |one| one["summary"]["median"] = 1e308.into(), "changed by hand"),
        ("words.json", |one| one["summary"]["median"] = "NaN".into(), "median is not number"),
        ("share.json", |one| one["of_limit"] = 1e308.into(), "of_limit"),
        ("better.json", |one| one["better"] = "lower".into(), "better is lower"),
        ("unit.json", |one| one["unit"] = "<b>".into(), "unit is none of its words"),
        ("samples.json", |one| one["samples"] = json!([]), "samples has too few items"),
    ];
    let text = good.to_string();
    let elapsed =
        |number: &str| text.replacen("\"elapsed_s\":", &format!("\"elapsed_s\":{number},\"x\":"), 1);
    let deep = format!("\"machine\":{{\"x\":{}1{},", "[".repeat(2000), "]".repeat(2000));
    let broken = "<html><script type=\"application/gzip\" class=\"run\">AAAA</script></html>";
    let name = "<img src=x onerror=window.hostile=1>.json";
    let mut all = vec![
        ("blank.json", String::new(), "not a run document (JSON)"),
        ("cut.json", text[..text.len() / 2].to_owned(), "not a run document (JSON)"),
        ("nan.json", elapsed("NaN"), "not a run document (JSON)"),
        ("large.json", elapsed("1e999"), "out of range"),
        ("proto.json", text.replacen('{', "{\"__proto__\":{\"polluted\":1},", 1), "has __proto__"),
        ("nested.json", text.replacen("\"machine\":{", &deep, 1), "more than 128 levels"),
        ("deep.json", "[".repeat(1 << 20), "not a run document (JSON)"),
        ("page.html", "<html><script>window.hostile = 1</script></html>".to_owned(), "holds no run document"),
        ("broken.html", broken.to_owned(), "cannot be unpacked"),
        (name, "{}".to_owned(), name),
    ];
    let changed = |pointer: &str, (name, change, words): (&'static str, Change, &'static str)| {
        let mut made = good.clone();
        change(made.pointer_mut(pointer).unwrap());
        (name, made.to_string(), words)
    };
    all.extend(changes.map(|row| changed("", row)));
    all.extend(metrics.map(|row| changed("/measurements/0/metrics/0", row)));
    all
}

/// Hostile documents, four hundred with one thing wrong, and what is too large to be read.
#[test]
fn a_page_refuses_in_a_line_what_an_import_refuses_and_documents_do_nothing() {
    let dir = scratch();
    let good = recorded();
    let other = of_another(&good, 1, || 0.5);
    let Some(mut browser) = Browser::report(&[&good, &other], 1440) else { return };
    let before = browser.evaluate(TABLE);
    let hostile = hostile(&good);
    let files: Vec<_> = hostile.iter().map(|(name, text, _)| (*name, text)).collect();
    let refused = refusals(&mut browser, &files);
    assert_eq!(refused.len(), hostile.len(), "{refused:#?}");
    for ((name, _, words), line) in hostile.iter().zip(&refused) {
        assert!(line.starts_with(name) && line.contains(words), "{name}: {line}");
        assert!(line.len() < 400 && !line.contains('\n'), "{line}");
    }
    // Documents that an import accepts and a page refuses: stricter checks.
    let stricter = ["proto.json", "long.json", "nested.json"];
    for (name, text, _) in hostile.iter().filter(|(name, ..)| !stricter.contains(name)) {
        fs::write(dir.path().join("hostile.json"), text).unwrap();
        assert!(Run::read_all(&dir.path().join("hostile.json")).is_err(), "an import takes {name}");
    }
    let large = dir.path().join("large.json");
    fs::File::create(&large).unwrap().set_len(100 << 20).unwrap();
    browser.choose("#compare input[type=file]", &[&large]);
    until("the refusal", || browser.texts(REFUSED) == ["large.json: larger than 64 MiB"]);
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
    let page = held(text(&bomb));
    assert!(page.len() < 1 << 20, "{}", page.len());
    let wanted = [
        "bomb.html: its documents are larger than 64 MiB together",
        "many.html: holds 31 run documents, and a page compares at most 30 machines",
    ];
    let many = held("").repeat(31);
    assert_eq!(refusals(&mut browser, &[("bomb.html", &page), ("many.html", &many)]), wanted);
    assert_eq!(browser.evaluate(TABLE), before);
    let seen = "[window.hostile, {}.polluted].filter((one) => one !== undefined).length";
    assert_eq!(browser.evaluate(seen), 0);

    let mut all = places(&good, "");
    // Facts of the machine that the page does not show are not checked.
    all.retain(|place| {
        !place.starts_with("/machine/") && !place.contains("/achieved/") && !place.contains("/evidence/")
    });
    let mut numbers = Numbers(25);
    let spoilt: Vec<(String, String)> =
        (0..400).map(|n| (format!("{n}.json"), spoilt(&good, &all, &mut numbers).to_string())).collect();
    let mut refused = 0;
    for part in spoilt.chunks(50) {
        let lines = refusals(&mut browser, part);
        for (name, text) in part {
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
    browser.is_content();
}

#[test]
fn hostile_names_are_text() {
    let good = recorded();
    let Some(mut browser) = Browser::report(&[&good], 1440) else { return };
    let mut named = of_another(&good, 1, || 0.5);
    rename_machine(&mut named, "<img src=x onerror=window.hostile=1>\u{202e}\u{1b}__proto__");
    named["plan"]["name"] = "</script><script>window.hostile=1</script>".into();
    named["machine"]["cpu"]["model_name"] = "<b onmouseover=window.hostile=1>=cmd()".into();
    // Facts of the machine with unexpected types.
    let mut odd = of_another(&good, 2, || 2.0);
    odd["machine"]["cpu"] = json!({ "allowed": "0-99999999999,x", "model_name": 7, "threads": "many" });
    odd["machine"]["kernel"] = json!({ "release": ["6"] });
    let mut proto = of_another(&good, 3, || 2.0);
    rename_machine(&mut proto, "__proto__");
    let files = [("named.json", named), ("odd.json", odd), ("proto.json", proto)];
    let files = files.map(|(name, run)| (name, run.to_string()));
    assert_eq!(refusals(&mut browser, &files), [""; 0]);
    let heads = browser.texts(HEADS);
    assert_eq!(heads[1], "<img src=x onerror=window.hostile=1>\\u{202e}\\u{1b}__proto__");
    assert_eq!(heads[3], "__proto__");
    assert_eq!(browser.count("#compare img, #compare b"), 0);
    assert_eq!(browser.evaluate("window.hostile === undefined && {}.hostile === undefined"), true);
    browser.is_content();
}

/// Every place in a document, as a pointer, but two of a list at most.
fn places(value: &Value, at: &str) -> Vec<String> {
    let keys: Vec<String> = match value {
        Value::Object(all) => all.keys().map(|key| key.replace('~', "~0").replace('/', "~1")).collect(),
        Value::Array(all) => (0..all.len().min(2)).map(|key| key.to_string()).collect(),
        _ => Vec::new(),
    };
    let with_deeper = |key: String| {
        let place = format!("{at}/{key}");
        [places(value.pointer(&format!("/{key}")).unwrap(), &place), vec![place]].concat()
    };
    keys.into_iter().flat_map(with_deeper).collect()
}

fn spoilt(good: &Value, places: &[String], numbers: &mut Numbers) -> Value {
    let odd = r#"[null, -1, 0, 1e308, "x", "", [], {}, true, 0.5, [1, 2], "plimsoll.run/1", {"__proto__": 1}, 1e-320, 7.25]"#;
    let odd: Vec<Value> = serde_json::from_str(odd).unwrap();
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
    let first = recorded();
    let mut numbers = Numbers(3);
    let mut all = vec![first.clone()];
    all.extend((1..4).map(|n| of_another(&first, n, || 0.5 + numbers.below(1000) as f64 / 1000.0)));
    let all: Vec<&Value> = all.iter().collect();
    let Some(mut browser) = Browser::report(&all, 1440) else { return };
    let rows = |browser: &mut Browser| {
        browser.texts("[...document.querySelectorAll('.compared tbody th')].map((cell) => cell.title)")
    };
    let whole = rows(&mut browser);
    assert!(whole.len() >= 4, "{whole:?}");

    // By a machine: by how far each figure is from the best.
    let shares = "[...document.querySelectorAll('.compared tbody tr')].map((row) => row.cells[3].innerText).map((text) => (text.includes('% of best') ? parseFloat(text.split('· ').pop().split('\\n').pop()) : 100))";
    let click = "document.querySelectorAll('.compared thead th button')[3].click()";
    for (wanted, up) in [("descending", false), ("ascending", true)] {
        browser.evaluate(click);
        let sorted = "document.querySelectorAll('.compared thead th')[3].getAttribute('aria-sort')";
        assert_eq!(browser.evaluate(sorted), wanted);
        let found: Vec<f64> = serde_json::from_value(browser.evaluate(shares)).unwrap();
        assert!(found.is_sorted_by(|a, b| if up { a <= b } else { a >= b }), "{wanted}: {found:?}");
        assert!(found.iter().any(|share| *share < 100.0), "{found:?}");
    }
    // The head that was pressed keeps the focus.
    let head = browser.texts(HEADS)[1].clone();
    assert_eq!(browser.evaluate("document.activeElement.textContent"), head.as_str());
    browser.evaluate("document.querySelector('.compared thead th button').click()");
    let labels = browser.texts(
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
    assert!(text(&reported).starts_with(&format!("{} of ", whole.len() - 1)), "{reported}");
    browser.evaluate("[...document.querySelectorAll('.controls button')].find((one) => one.textContent === 'show all rows').click()");
    assert_eq!(rows(&mut browser).len(), whole.len());

    // Without the best machine another is the best.
    let best = "[...document.querySelectorAll('.compared tbody tr')][0].querySelectorAll('.best').length";
    assert!(browser.evaluate(best).as_u64() >= Some(1));
    let column = "[...document.querySelectorAll('.compared tbody tr')[0].cells].findIndex((cell) => cell.className.includes('best'))";
    let at = browser.evaluate(column).as_u64().unwrap() - 2;
    browser.evaluate(&format!("document.querySelectorAll('#compare .series button')[{at}].click()"));
    assert_eq!(browser.texts(HEADS).len(), 3);
    assert!(browser.evaluate(best).as_u64() >= Some(1));
    set(&mut browser, ".controls input[type=checkbox]", "checked", &json!(true));
    assert!(rows(&mut browser).len() >= whole.len());
    browser.is_content();
}

/// The cells of CSV (RFC 4180).
fn csv(text: &str) -> Vec<Vec<String>> {
    assert!(text.matches('"').count().is_multiple_of(2) && text.ends_with('\n'), "{text}");
    // Only outside of quotes a comma ends a cell, and a line feed a row.
    let marked = |(at, part): (usize, &str)| match at % 2 {
        0 => part.replace('\r', "").replace(',', "\u{1}").replace('\n', "\u{2}"),
        _ => part.to_owned(),
    };
    let marked = text.split('"').enumerate().map(marked).collect::<Vec<_>>().join("\"");
    let cell = |cell: &str| match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => cell.to_owned(),
    };
    marked.split_terminator('\u{2}').map(|row| row.split('\u{1}').map(cell).collect()).collect()
}

#[test]
fn the_visible_table_and_each_chart_are_kept_as_files() {
    let dir = scratch();
    let first = recorded();
    let mut other = of_another(&first, 1, || 0.5);
    let name = "=cmd|'/C calc'!A0,\"x\"";
    rename_machine(&mut other, name);
    let Some(mut browser) = Browser::report(&[&first, &other], 1440) else { return };
    let kept = dir.path().join("kept");
    fs::create_dir(&kept).unwrap();
    browser.keep_in(&kept);
    // A chart has its buttons when it is drawn.
    let press = |browser: &mut Browser, within: &str, text: &str| {
        let script = format!(
            "(() => {{ const button = [...document.querySelectorAll('{within} button')].find((one) => one.textContent === '{text}'); button?.click(); return button !== undefined; }})()"
        );
        until(text, || browser.evaluate(&script) == true);
    };
    let saved = |end: &str| {
        let mut found = Vec::new();
        until(end, || {
            let file = below(&kept).into_iter().find(|file| file.to_string_lossy().ends_with(end));
            found = file.and_then(|file| fs::read(file).ok()).unwrap_or_default();
            !found.is_empty()
        });
        found
    };
    press(&mut browser, ".controls", "CSV");
    let table = String::from_utf8(saved(".csv")).unwrap();
    let rows = csv(&table);
    assert!(rows.len() > 4 && rows.iter().all(|row| row.len() == rows[0].len()), "{table}");
    let median = format!("{} median", text(&first["nodes"][0]["name"]));
    assert_eq!(rows[0][..6], ["case", "id", "metric", "unit", "better", &median]);
    assert_eq!(rows[0][11], format!("'{name} median"));
    let metric = &first["measurements"][0]["metrics"][0];
    let id = text(&first["measurements"][0]["case"]["id"]);
    let row = rows.iter().find(|row| row[1] == id).unwrap();
    let number = |at: usize| row[at].parse::<f64>().unwrap();
    assert_eq!(Some(number(5)), metric["summary"]["median"].as_f64());
    assert_eq!(Some(number(11)), metric["summary"]["median"].as_f64().map(|median| median * 0.5));
    assert!(rows.iter().flatten().all(|cell| !cell.starts_with(['=', '+', '@'])), "{table}");

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
        below(&kept).iter().for_each(|file| fs::remove_file(file).unwrap());
    }
    browser.is_content();
}

#[test]
fn a_narrow_screen_scrolls_the_table_and_not_the_page() {
    let all: Vec<Value> = (1..7).map(|n| of_another(&recorded(), n, || n as f64)).collect();
    let all: Vec<&Value> = all.iter().collect();
    let Some(mut browser) = Browser::report(&all, 400) else { return };
    assert!(browser.fits());
    let scrolls = "(() => { const box = document.querySelector('.grid'); box.scrollLeft = 300; return [box.scrollLeft, Math.round(box.querySelector('tbody th').getBoundingClientRect().left - box.getBoundingClientRect().left)]; })()";
    assert_eq!(browser.evaluate(scrolls), json!([300, 1]), "the names of cases stay");
    let unlabelled = "[...document.querySelectorAll('#compare input, #compare select')].filter((one) => !one.labels.length).length + [...document.querySelectorAll('#compare button')].filter((one) => !one.textContent && !one.getAttribute('aria-label')).length";
    assert_eq!(browser.evaluate(unlabelled), 0);
}

/// Thirty documents as large as real ones: one real run, and what seeded numbers make of it.
#[test]
fn a_page_of_thirty_machines_is_small_and_its_documents_come_back() {
    let dir = scratch();
    let real = document(dir.path(), "run quick --sample-time 50ms --store none --quiet --json -", 0);
    let mut numbers = Numbers(30);
    let all: Vec<Value> =
        (0..30).map(|n| of_another(&real, n, || 0.7 + numbers.below(600) as f64 / 1000.0)).collect();
    let page = page_of(dir.path(), "compare", &all.iter().collect::<Vec<_>>());
    let size = fs::metadata(&page).unwrap().len();
    assert!(size <= 12_000_000, "{size} bytes of documents of {}", all[0].to_string().len());

    // Every document leaves the page byte by byte as from its own file.
    let exported =
        |store: &str, id: &str| done(dir.path(), &format!("export {id} --format json --store {store}"), 0).0;
    assert_eq!(done(dir.path(), "import page.html --store page", 0).0, "30 entered\n");
    for number in [0, 17, 29] {
        done(dir.path(), &format!("import run-{number:02}.json --store files"), 0);
        let id = text(&all[number]["id"]);
        let (from_page, from_file) = (exported("page", id), exported("files", id));
        assert!(from_page == from_file, "{id}");
        assert_eq!(json(&from_page), all[number]);
    }

    let Some(mut browser) = Browser::open(&page, 1440) else { return };
    assert_eq!(browser.texts(HEADS).len(), 30);
    assert!(browser.evaluate("Number(document.documentElement.dataset.usable)").as_f64().unwrap() > 0.0);
    let sorting = "(() => { document.querySelectorAll('.compared thead th button')[9].click(); return document.querySelectorAll('.compared thead th[aria-sort]').length; })()";
    assert_eq!(browser.evaluate(sorting), 1);
    browser.is_content();

    let more = of_another(&real, 30, || 1.0).to_string();
    let wanted = "more.json: would make 31 machines, and a page compares at most 30";
    assert_eq!(refusals(&mut browser, &[("more.json", &more)]), [wanted]);
}

#[test]
fn a_page_that_is_redacted_holds_nothing_else() {
    let dir = scratch();
    let mut named = recorded();
    for host in ["zq7xfirst.example", "zq7xsecond.example"] {
        rename_machine(&mut named, host);
        named["nodes"] = json!([{ "name": host }]);
        named["id"] = format!("01900000-0000-7000-8000-0000000000{:02}", host.len()).into();
        fs::write(dir.path().join(format!("{host}.json")), named.to_string()).unwrap();
    }
    let line =
        "compare ./zq7xfirst.example.json ./zq7xsecond.example.json --redact --html page.html --store none";
    let (out, _) = done(dir.path(), line, 0);
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    let held = Run::read_all(&dir.path().join("page.html")).unwrap();
    assert_eq!(held.len(), 2);
    let held = serde_json::to_string(&held).unwrap();
    assert_eq!([&out, &page, &held].map(|text| text.matches("zq7x").count()), [0; 3], "{out}");
    assert_ne!(page.matches("side 1").count(), 0);
}
