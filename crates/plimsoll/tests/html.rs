//! The report in a browser: charts are drawn with correct numbers, without errors, requests or
//! effects of hostile names.

use std::fs;

use serde_json::{Value, json};

use crate::browser::{Browser, page_of};
use crate::support::{list, recorded, rename_machine, scale_metric, scratch, text};

const DOCUMENT: &str = "document.documentElement.outerHTML";

#[test]
fn every_chart_is_drawn_with_its_figures_and_hostile_names_do_nothing() {
    let dir = scratch();
    let mut run = recorded();
    let hostile = "</script><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=\"document.title='owned'\">\u{1b}[31m\u{202e}";
    rename_machine(&mut run, hostile);
    run["machine"]["cpu"]["model_name"] = hostile.into();
    run["plan"]["name"] = hostile.into();
    run["measurements"][0]["warnings"] = json!([{ "code": "other", "text": hostile }]);
    // A figure that nothing else on the page has.
    let metric = &mut run["measurements"][0]["metrics"][0];
    (metric["samples"], metric["series"]) = (json!([123.4e9]), json!([]));
    metric["summary"]["n"] = 1.into();
    for key in ["median", "mean", "min", "max"] {
        metric["summary"][key] = 123.4e9.into();
    }
    metric["summary"]["ci95"] = json!([121.0e9, 125.0e9]);
    metric["of_limit"] = (123.4e9 / metric["limit"]["value"].as_f64().unwrap()).into();
    let page = page_of(dir.path(), "report", &[&run]);
    let charts = fs::read_to_string(&page).unwrap().matches("data-chart=\"").count();
    assert!(charts >= 2, "{charts}");
    let Some(mut browser) = Browser::open(&page, 1440) else { return };
    let dom = browser.evaluate(DOCUMENT);
    let dom = text(&dom);
    assert!(dom.contains(&format!("data-drawn=\"{charts}\"")), "{:?}", browser.complaints());
    assert_eq!(dom.matches("<svg").count(), charts);
    let ran = ["<title>owned", "<img src=\"http"].map(|tag| dom.matches(tag).count());
    assert_eq!(ran, [0, 0], "the hostile name ran");
    let hover = "threads 1: 123 GFLOP/s [121 GFLOP/s, 125 GFLOP/s]";
    assert!(dom.contains(hover), "the numbers of the chart are wrong");
    browser.is_content();
}

/// The focused element: kind, chart, name, and the chart's text for the point.
const FOCUS: &str = r#"(() => {
    const at = document.activeElement;
    const figure = at.closest("figure");
    const kind = at.closest(".drawing") ? "drawing" : at.closest(".series") ? "line" : at.closest(".tools") ? "tool" : "";
    return figure && kind ? {
        kind, chart: figure.dataset.chart, name: at.getAttribute("aria-label"), pressed: at.getAttribute("aria-pressed"),
        told: figure.querySelector("[role=status]").textContent,
    } : { kind: at === document.body ? "end" : "other" };
})()"#;

/// State of the focused chart: lines that are switched off, and the zoom.
const DRAWN: &str = r#"(() => {
    const drawing = document.activeElement.closest("figure").querySelector(".drawing");
    const options = echarts.getInstanceByDom(drawing).getOption();
    const off = Object.entries(options.legend[0].selected).filter(([, shown]) => !shown).map(([name]) => name);
    return { off, from: options.dataZoom?.length ? options.dataZoom[0].start : null };
})()"#;

#[test]
fn every_chart_and_line_can_be_used_by_keyboard() {
    let Some(mut browser) = Browser::report(&[&recorded()], 1440) else { return };
    let wanted =
        [".drawing", ".series button", ".tools button"].map(|what| browser.count(&format!("figure {what}")));
    assert!(wanted[0] >= 2 && wanted[1] > wanted[0], "{wanted:?}");
    let mut reached = [0; 3];
    for _ in 0..1000 {
        browser.press("Tab");
        let focus = browser.evaluate(FOCUS);
        match text(&focus["kind"]) {
            "drawing" => {
                reached[0] += 1;
                walk_through(&mut browser);
            }
            "line" => {
                reached[1] += 1;
                switch(&mut browser, &focus);
            }
            "tool" => reached[2] += 1,
            "end" => break,
            _ => {}
        }
    }
    assert_eq!(reached, wanted, "drawings, lines, tools that can be reached, and that there are");
    browser.is_content();
}

/// In a focused drawing, arrows select points, plus and 0 zoom, Escape leaves it.
fn walk_through(browser: &mut Browser) {
    let reported = |browser: &mut Browser| browser.evaluate(FOCUS)["told"].as_str().unwrap().to_owned();
    browser.press("ArrowRight");
    let first = reported(browser);
    assert!(first.contains(": "), "{first}");
    browser.press("ArrowRight");
    assert_ne!(reported(browser), first);
    browser.press("ArrowLeft");
    assert_eq!(reported(browser), first);
    browser.press("Escape");
    assert_eq!(reported(browser), "");
    let from = |browser: &mut Browser| browser.evaluate(DRAWN)["from"].clone();
    let whole = from(browser);
    browser.press("+");
    assert!(whole.is_null() || from(browser).as_f64() > whole.as_f64(), "{whole} and {}", from(browser));
    browser.press("0");
    assert_eq!(from(browser).as_f64(), whole.as_f64());
}

/// With the focus on the button of a line: the space bar hides and shows it.
fn switch(browser: &mut Browser, focus: &Value) {
    let name = focus["name"].as_str().unwrap().strip_prefix("show or hide ").unwrap();
    assert_eq!(focus["pressed"], "true");
    for (pressed, off) in [("false", vec![name]), ("true", Vec::new())] {
        browser.press(" ");
        assert_eq!(browser.evaluate(FOCUS)["pressed"], pressed, "{name}");
        assert_eq!(browser.evaluate(DRAWN)["off"], json!(off), "{name}");
    }
}

#[test]
fn a_narrow_screen_shows_the_page_without_scrolling_sideways() {
    let Some(mut browser) = Browser::report(&[&recorded()], 400) else { return };
    assert!(browser.fits());
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false; })");
    let wide = r#"[...document.querySelectorAll("header *, .findings *, figure svg, figure button, .gauge, .gauge > *")]
        .filter((e) => { const at = e.getBoundingClientRect(); return at.left < 0 || at.right > document.documentElement.clientWidth; }).length"#;
    assert_eq!(browser.evaluate(wide), 0);
}

/// Elements cut off at the edges of the page or of a box.
const CUT: &str = r#"(() => {
    const edge = document.documentElement.clientWidth + 1;
    const name = (e) => `${e.tagName} ${e.className.baseVal ?? e.className}: ${e.textContent.slice(0, 60)}`;
    const cut = (e) => {
        const at = e.getBoundingClientRect();
        if (at.width === 0 || at.height === 0) return false;
        const style = getComputedStyle(e);
        const wide = style.overflowX !== "visible" && e.scrollWidth > e.clientWidth + 1;
        const high = style.overflowY !== "visible" && e.scrollHeight > e.clientHeight + 1;
        return at.left < -1 || at.right > edge || wide || high;
    };
    const all = [...document.body.querySelectorAll("*")].filter((e) => !e.parentElement.closest("svg"));
    return all.filter(cut).map(name).slice(0, 10);
})()"#;

#[test]
fn paper_shows_all_that_is_folded_on_a_screen_and_cuts_nothing() {
    for mut run in [recorded(), replay()] {
        run["measurements"][0]["status"] = "failed".into();
        run["measurements"][0]["metrics"] = json!([]);
        run["measurements"][0]["reason"] = format!("cannot write to /srv/{}", "long".repeat(40)).into();
        let finding = |n| json!({ "code": "scaling", "text": format!("finding {n}"), "evidence": [] });
        run["findings"] = (0..9).map(finding).collect();
        let Some(mut browser) = Browser::report(&[&run], 1440) else { return };
        browser.evaluate("document.querySelector('button.theme').click()");
        browser.print();
        assert_eq!(browser.evaluate(CUT), json!([]));
        let folded = "[...document.querySelectorAll('details:not(.limit):not(.numbers)')].filter((one) => !one.open).length";
        assert_eq!(browser.evaluate(folded), 0);
        let dark = "getComputedStyle(document.documentElement).getPropertyValue('--page').trim()";
        assert_eq!(browser.evaluate(dark), "#fff", "a page that was dark is printed white");
        browser.evaluate("dispatchEvent(new Event('afterprint'))");
        assert_eq!(browser.evaluate("document.documentElement.dataset.theme"), "dark");
        browser.is_content();
    }
}

/// The run as a replay of a published report: two of its cases are the report's.
fn replay() -> Value {
    let mut run = recorded();
    run["plan"]["name"] = "ec2-t2micro".into();
    for index in 0..2 {
        let case = &mut run["measurements"][index]["case"];
        case["id"] = format!("{}/work=1000000000000/scaling=strong", text(&case["id"])).into();
        case["params"]["work"] = 1_000_000_000_000_u64.into();
        case["params"]["scaling"] = "strong".into();
    }
    run
}

/// For charts with named points: number of points of other runs, and points without a position.
const MARKS: &str = r#"(() => {
    let marks = 0;
    const lost = [];
    for (const chart of JSON.parse(document.getElementById("charts").textContent)) {
        const drawing = document.querySelector(`[data-chart="${chart.id}"] .drawing`);
        const model = echarts.getInstanceByDom(drawing).getModel();
        for (const one of chart.series.filter((series) => series.labels)) {
            const data = model.getSeriesByName(one.name)[0].getData();
            const flat = data.getLayout("points");
            one.points.forEach((point, i) => {
                if (point[1] === null) return;
                const [x, y] = (flat ? [flat[2 * i], flat[2 * i + 1]] : data.getItemLayout(i)) || [];
                const inside = x >= 0 && x <= drawing.clientWidth && y >= 0 && y <= drawing.clientHeight;
                if (!inside) lost.push(`${chart.title}: ${one.name}, ${one.labels[i]}`);
                if (one.role !== "own") marks += 1;
            });
        }
    }
    return { marks, lost };
})()"#;

fn marks(page: &str) -> usize {
    let island = page.split("id=\"charts\">").nth(1).unwrap().split("</script>").next().unwrap();
    let charts: Vec<Value> = serde_json::from_str(island).unwrap();
    let series = charts.iter().flat_map(|chart| list(&chart["series"]));
    let of_others = series.filter(|one| one.get("labels").is_some() && one["role"] != "own");
    of_others.flat_map(|one| list(&one["points"])).filter(|point| !point[1].is_null()).count()
}

#[test]
fn every_mark_of_a_published_report_is_drawn_and_names_its_source() {
    let dir = scratch();
    let page = page_of(dir.path(), "report", &[&replay()]);
    let wanted = marks(&fs::read_to_string(&page).unwrap());
    assert!(wanted > 100, "{wanted}");
    for width in [1440, 400] {
        let Some(mut browser) = Browser::open(&page, width) else { return };
        let drawn = browser.evaluate(MARKS);
        assert_eq!(drawn["lost"], json!([]), "at {width}");
        assert_eq!(drawn["marks"], wanted, "at {width}");
        let dom = browser.evaluate(DOCUMENT);
        let dom = text(&dom);
        for text in [
            "published (EC2 t2.micro, ",
            "2 threads, printed 20.11 GFLOPS",
            "theory, published",
            "CPU throughput of all reports",
        ] {
            assert!(dom.contains(text), "{text}");
        }
        let unnamed = r"[...document.querySelectorAll('.folded .dot.published, .folded .dot.program, .folded .dot.theory, .folded .dot.doubted')].map((dot) => dot.parentElement.textContent + ' | ' + dot.closest('[data-chart]').querySelector('figcaption').textContent).filter((text) => !/published( \(|: )/.test(text))";
        assert_eq!(browser.evaluate(unnamed), json!([]), "nothing names the published machine");
        assert!(browser.fits(), "at {width}");
        browser.is_content();
    }
}

/// The first cells of the rows of the table of all machines, in the order that is shown.
const ORDER: &str = "[...document.querySelector('table.sortable').tBodies[0].rows].map((row) => row.cells[0].textContent).join(' ')";

#[test]
fn the_table_of_all_machines_is_sorted_by_what_is_clicked() {
    let mut run = recorded();
    let (node, of_one) = (run["nodes"][0].clone(), run["measurements"][0].clone());
    let named = |name: &str| {
        let mut own = node.clone();
        own["name"] = name.into();
        own
    };
    run["nodes"] = ["n1", "n10", "n2", "<i>n3"].map(named).into_iter().collect();
    let rated = |(name, times): (&str, f64)| {
        let mut own = of_one.clone();
        own["node"] = name.into();
        let metric = &mut own["metrics"][0];
        scale_metric(metric, times);
        (metric["limit"], metric["of_limit"]) = (Value::Null, Value::Null);
        own
    };
    // The last has no figure.
    run["measurements"] = [("n1", 1.0), ("n10", 0.5), ("n2", 2.0)].map(rated).into_iter().collect();
    let Some(mut browser) = Browser::report(&[&run], 1440) else { return };
    let mut after = |click: &str| {
        let heads = "document.querySelectorAll('table.sortable th button')";
        browser.evaluate(&format!("{heads}[{click}].click()"));
        browser.evaluate(ORDER).as_str().unwrap().to_owned()
    };
    assert_eq!(after("0"), "<i>n3 n1 n2 n10");
    assert_eq!(after("0"), "n10 n2 n1 <i>n3");
    assert_eq!(after("1"), "n10 n1 n2 <i>n3");
    assert_eq!(after("1"), "n2 n1 n10 <i>n3");
    assert_eq!(browser.count("th[aria-sort=descending]"), 1);
    browser.is_content();
}
