// The table of machines: those of the page, and those whose run documents the reader adds. It is sorted, filtered and kept as CSV
// here; its charts are figures as all others.

// Rows by which a chart of all is still read.
const MOST_DRAWN = 100;
const CSV_TEXT = 2000;
// Machines up to which two charts have room side by side.
const MOST_BESIDE = 8;

const known = JSON.parse(document.getElementById("machines").textContent);

// The texts of the run documents that a file holds: it is one, or a page that holds some.
async function documentsIn(file) {
  if (file.size > known.largest) refuse(`larger than ${known.largest / 2 ** 20} MiB`);
  const text = utf8(await file.arrayBuffer());
  if (!text.trimStart().startsWith("<")) return [text];
  const packed = text.split(known.begin).slice(1).map((rest) => rest.split(known.end, 1)[0]);
  if (!packed.length) refuse("this page holds no run document; add the document that --json wrote");
  if (packed.length > known.most) refuse(`holds ${packed.length} run documents, and a page compares at most ${known.most} machines`);
  const texts = [];
  let left = known.largest;
  for (const one of packed) {
    const bytes = await unpacked(one, left);
    left -= bytes.byteLength;
    texts.push(utf8(bytes));
  }
  return texts;
}

function utf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return refuse("not UTF-8");
  }
}

// What was compressed, at most so many bytes of it.
async function unpacked(text, most) {
  const parts = [];
  let size = 0;
  try {
    const packed = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      size += part.value.byteLength;
      if (size > most) break;
      parts.push(part.value);
    }
    if (size > most) await reader.cancel();
  } catch {
    refuse("a run document of this page cannot be unpacked; add the document that --json wrote");
  }
  if (size > most) refuse(`its documents are larger than ${known.largest / 2 ** 20} MiB together`);
  return new Blob(parts).arrayBuffer();
}

// A text as a cell: never taken for a formula by a spreadsheet.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const safe = plain(value, CSV_TEXT);
  const guarded = /^[=+\-@]/.test(safe) ? `'${safe}` : safe;
  return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}

class Comparison {
  constructor(place) {
    this.place = place;
    this.machines = [];
    this.rows = [];
    this.hidden = new Set();
    this.hiddenRows = new Set();
    this.sort = { by: "", up: true };
    this.by = "share";
    this.filter = "";
    this.all = false;
    this.drawn = [];
    this.refused = element("ul", "refused");
    this.refused.setAttribute("role", "alert");
    this.told = element("p", "note");
    this.told.setAttribute("role", "status");
    this.shown = element("div");
    place.append(this.adding(), this.refused, this.shown);
    place.hidden = false;
    this.add(known.machines);
  }

  // The way to more machines.
  adding() {
    const list = element("p", "adding");
    const label = element("label", "", "Add machines: ");
    const input = element("input");
    Object.assign(input, { type: "file", multiple: true, accept: ".json,.html" });
    input.addEventListener("change", async () => {
      await this.take([...input.files]);
      input.value = "";
    });
    label.append(input);
    list.append(label, element("span", "note", `Run documents (.json) or pages of plimsoll (.html), also dropped anywhere on this page; at most ${known.most} machines. Nothing leaves this browser.`));
    return list;
  }

  // Reads files and tells of each that is refused why.
  async take(files) {
    this.place.setAttribute("aria-busy", "true");
    this.refused.replaceChildren();
    for (const file of files) {
      try {
        const found = (await documentsIn(file)).flatMap((text) => columnsOf(checked(text, known), known));
        this.refuseMore(found);
        this.add(found);
      } catch (error) {
        const why = error instanceof Refusal ? error.message : `cannot be read: ${plain(error.message, 120)}`;
        this.refused.append(element("li", "", `${plain(file.name)}: ${why}`));
      }
    }
    this.place.removeAttribute("aria-busy");
  }

  refuseMore(found) {
    const all = this.machines.length + found.length;
    if (all > known.most) refuse(`would make ${all} machines, and a page compares at most ${known.most}`);
    const id = (one) => JSON.stringify([one.run, one.node]);
    const here = new Set(this.machines.map(id));
    const again = found.find((one) => here.has(id(one)) || !here.add(id(one)));
    if (again) refuse(`${again.name} of run ${again.run} is here already`);
  }

  add(found) {
    const names = new Set(this.machines.map((machine) => machine.title));
    const all = [...this.machines];
    for (const machine of found) {
      let title = machine.name;
      for (let n = 2; names.has(title); n += 1) title = `${machine.name} (${n})`;
      names.add(title);
      all.push({ ...machine, title });
    }
    this.rows = all.length > 1 ? rowsOf(all, known.of_machine) : [];
    this.machines = all;
    this.arrange();
  }

  // Indices of the machines that are shown.
  columns() {
    return this.machines.map((_, i) => i).filter((i) => !this.hidden.has(i));
  }

  // The rows that are shown, in their order.
  chosen() {
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const columns = this.columns();
    const has = (row) => words.every((word) => `${row.label} ${row.id} ${row.metric}`.toLowerCase().includes(word));
    const kept = this.rows.filter((row) => (this.all || row.headline) && !this.hiddenRows.has(row.key) && has(row) && columns.some((i) => row.cells[i]));
    // The best are the best of the machines that are shown.
    const rows = kept.map((row) => {
      const made = { ...row, cells: row.cells.map((cell, i) => (this.hidden.has(i) ? null : cell && { ...cell })) };
      judge(made);
      return made;
    });
    return this.sort.by === "" ? rows : this.sorted(rows);
  }

  sorted(rows) {
    const { by, up } = this.sort;
    const key = (row) => (typeof by === "number" ? row.cells[by]?.[this.by] ?? null : by === "spread" ? row.spread : row.label);
    const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
    const keyed = rows.map((row) => [key(row), row]);
    const some = keyed.filter(([value]) => value !== null).sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
    return some.concat(keyed.filter(([value]) => value === null)).map(([, row]) => row);
  }

  // Makes all that depends on which machines there are.
  arrange() {
    const enough = this.machines.length > 1;
    this.box = element("div", "wide grid");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "region");
    this.box.setAttribute("aria-label", "Comparison of machines");
    this.charts = element("div", "charts");
    this.shown.replaceChildren(...(enough ? [this.controls(), this.toggles(), this.told, this.box, this.method(), this.charts] : []));
    if (enough) this.update();
  }

  controls() {
    const list = element("div", "controls");
    const filter = element("input");
    Object.assign(filter, { type: "search", placeholder: "case or metric", value: this.filter });
    filter.addEventListener("input", () => { this.filter = filter.value; this.update(); });
    const all = element("input");
    Object.assign(all, { type: "checkbox", checked: this.all });
    all.addEventListener("change", () => { this.all = all.checked; this.update(); });
    const by = element("select");
    [["share", "share of the best"], ["of_limit", "% of limit"]].forEach(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      by.append(option);
    });
    by.value = this.by;
    by.addEventListener("change", () => { this.by = by.value; this.update(); });
    this.back = button("show all rows", "show the rows that were hidden", () => { this.hiddenRows.clear(); this.update(); });
    const labelled = (text, control) => {
      const label = element("label", "", text + " ");
      label.append(control);
      return label;
    };
    list.append(labelled("filter", filter), labelled("all metrics", all), labelled("columns sort by", by), this.back,
      button("CSV", "save the visible table as CSV", () => save(new Blob([this.csv()], { type: "text/csv" }), "plimsoll-comparison.csv")));
    return list;
  }

  // A button for each machine, which hides and shows it.
  toggles() {
    const list = element("div", "series");
    this.machines.forEach((machine, i) => {
      const toggle = button(machine.title, `show or hide ${machine.title}`, () => {
        const shows = this.hidden.delete(i) || (this.hidden.add(i), false);
        toggle.setAttribute("aria-pressed", String(shows));
        this.update();
      });
      toggle.setAttribute("aria-pressed", String(!this.hidden.has(i)));
      list.append(toggle);
    });
    return list;
  }

  method() {
    return element("p", "note", "“best”: the best figure, and those whose 95 % intervals touch its interval; only where the interval of another machine lies apart. “interrupted”: too much of its time was excluded, or taken by other work. "
      + "An interval is that of one run: it does not have the noise between runs, which plimsoll compare A B C counts, too. A share of the best is 1 for the best, for rates and for times.");
  }

  update() {
    const rows = this.chosen();
    const columns = this.columns();
    const of = this.rows.filter((row) => this.all || row.headline).length;
    this.told.textContent = `${rows.length} of ${of} rows, ${columns.length} of ${this.machines.length} machines`;
    this.back.hidden = !this.hiddenRows.size;
    this.visible = { rows, columns };
    this.box.replaceChildren(this.table(rows, columns));
    this.draw(rows, columns);
  }

  table(rows, columns) {
    const table = element("table", "compared");
    const head = table.createTHead().insertRow();
    head.append(this.head("case", "case"), this.head("best ÷ worst", "spread"), ...columns.map((i) => this.head(this.machines[i].title, i)));
    const body = table.createTBody();
    rows.forEach((row) => body.append(this.line(row, columns)));
    return table;
  }

  head(text, by) {
    const cell = element("th");
    cell.scope = "col";
    if (this.sort.by === by) cell.setAttribute("aria-sort", this.sort.up ? "ascending" : "descending");
    cell.append(button(text, `sort by ${text}`, () => {
      // A figure is asked for from the best on, a name from the first.
      const starts = typeof by !== "number" && by !== "spread";
      this.sort = this.sort.by === by ? { by, up: !this.sort.up } : { by, up: starts };
      this.update();
      this.box.querySelectorAll("th button")[typeof by === "number" ? 2 + this.visible.columns.indexOf(by) : ["case", "spread"].indexOf(by)].focus();
    }));
    if (typeof by === "number") {
      const { about, plan, started, version, partial } = this.machines[by];
      const note = element("span", "note", about);
      note.title = `${about}\nplan ${plan} · ${plain(started.slice(0, 16).replace("T", " "))} UTC · plimsoll ${version}${partial ? " · partial" : ""}`;
      cell.append(note);
    }
    return cell;
  }

  line(row, columns) {
    const line = element("tr");
    const name = element("th");
    name.scope = "row";
    name.title = plain(row.id, 300);
    const named = element("div", "named");
    named.append(
      button(row.label, `draw ${row.label} ${row.metric}`, () => { this.row = row.key; this.draw(this.visible.rows, this.visible.columns); }),
      button("×", `hide the row ${row.label} ${row.metric}`, () => { this.hiddenRows.add(row.key); this.update(); }),
    );
    name.append(named, element("span", "why", row.metric));
    line.append(name, element("td", "n", row.spread === null ? "" : `${digits(row.spread)}×`));
    columns.forEach((i) => line.append(this.cell(row, row.cells[i])));
    return line;
  }

  cell(row, cell) {
    const made = element("td", "n");
    if (!cell) return made;
    if (cell.verdict) made.classList.add(cell.verdict.replace(" ", "-"));
    made.title = cell.reason || (cell.verdict === "interrupted" ? "too much of its time was interrupted, or other work took too much of it: measure again on an idle machine" : "");
    if (cell.median === undefined) {
      made.append(element("span", "why", cell.status));
      return made;
    }
    made.append(element("span", "value", human(cell.median, row.unit)));
    if (cell.ci95) {
      const half = (cell.ci95[1] / 2 - cell.ci95[0] / 2) / Math.abs(cell.median);
      const interval = element("span", "ci", Number.isFinite(half) ? ` ± ${percent(half, 2)}` : "");
      interval.title = `95 % interval: ${human(cell.ci95[0], row.unit)} to ${human(cell.ci95[1], row.unit)}, ${cell.n} samples`;
      made.append(interval);
    }
    const words = [cell.of_limit === null ? "" : `${percent(cell.of_limit)} of limit`, this.verdict(cell)].filter(Boolean);
    made.append(element("span", "why", words.join(" · ")));
    return made;
  }

  verdict(cell) {
    return cell.verdict === "behind" ? `${percent(cell.share)} of best` : cell.verdict;
  }

  // The visible table: figures to the last digit, in base units.
  csv() {
    const { rows, columns } = this.visible;
    const names = columns.map((i) => this.machines[i].title);
    const each = ["median", "low", "high", "of limit", "share of best", "verdict"];
    const head = ["case", "id", "metric", "unit", "better", ...names.flatMap((name) => each.map((what) => `${name} ${what}`))];
    const figures = (cell) => (!cell ? Array(each.length).fill(null)
      : [cell.median, cell.ci95?.[0], cell.ci95?.[1], cell.of_limit, cell.share, cell.verdict]);
    const lines = rows.map((row) => [row.label, row.id, row.metric, row.unit, row.better, ...columns.flatMap((i) => figures(row.cells[i]))]);
    return [head, ...lines].map((line) => line.map(csvCell).join(",") + "\r\n").join("");
  }

  // Two charts: all rows as shares of the best, and one row with its intervals.
  draw(rows, columns) {
    this.drawn.forEach((figure) => forget(figure));
    const names = columns.map((i) => this.machines[i].title);
    const one = rows.find((row) => row.key === this.row) || rows.find((row) => row.spread !== null);
    // A ranking has this picture already.
    const isNew = !data.has("shares") || columns.length !== known.machines.length || this.machines.length !== columns.length;
    const charts = [isNew && sharesChart(rows.slice(0, MOST_DRAWN), columns, names), one && rowChart(one, columns, names)].filter(Boolean);
    this.drawn = charts.map(placed);
    this.charts.replaceChildren(...this.drawn.map((figure) => figure.place));
    this.drawn.forEach(watch);
  }
}

const axisOf = (categories, name = "") => ({ name, unit: "", scale: "category", categories });

function sharesChart(all, columns, names) {
  const rows = all.filter((row) => row.spread !== null);
  const points = rows.flatMap((row, y) => columns.flatMap((i, x) => (Number.isFinite(row.cells[i]?.share) ? [[x, y, row.cells[i].share]] : [])));
  if (!points.length) return null;
  const labels = rows.map((row) => (row.headline ? row.label : `${row.label}, ${row.metric}`));
  return {
    id: "compare-shares", title: "Each figure as a share of the best", note: "1 is the best of a row, for rates and for times", kind: "heat",
    x: axisOf(names), y: axisOf(labels), series: [{ name: "share of the best", role: "own", points }], bands: [],
  };
}

// Each machine ÷ the best of one row, by the figures as they are.
function rowChart(row, columns, names) {
  const has = columns.map((i, at) => [row.cells[i], names[at]]).filter(([cell]) => cell && Number.isFinite(cell.share) && cell.median > 0 && row.best > 0);
  if (has.length < 2) return null;
  const points = has.map(([cell], at) => [cell.median / row.best, at, ...(cell.ci95 ? cell.ci95.map((end) => Math.max(end, 0) / row.best) : [null, null])]);
  return {
    id: "compare-row", title: `${row.label}: ${row.metric} ÷ that of the best`, kind: "forest",
    note: `1: the best, ${human(row.best, row.unit)}; ${row.better === "higher" ? "more" : "less"} is better; bars: 95 % interval`,
    x: { name: "ratio", unit: "", scale: "linear" }, y: axisOf(has.map(([, name]) => name)), series: [{ name: "ratio", role: "own", points }], bands: [],
  };
}

// A figure in a place of its own.
function placed(chart) {
  const place = element("figure", isWorded(chart) && chart.x.categories.length > MOST_BESIDE ? "chart whole" : "chart");
  place.dataset.chart = chart.id;
  const caption = element("figcaption");
  caption.append(element("strong", "", chart.title), element("span", "note", chart.note));
  place.append(caption);
  return new Figure(place, chart);
}

// Draws a figure when it comes into view, as those that the page began with.
function watch(figure) {
  figures.push(figure);
  byPlace.set(figure.place, figure);
  seen.observe(figure.place);
}

function forget(figure) {
  seen.unobserve(figure.place);
  byPlace.delete(figure.place);
  figures.splice(figures.indexOf(figure), 1);
  if (figure.drawing) figure.drawing.dispose();
}

const comparison = new Comparison(document.getElementById("compare"));

// Files that are dropped anywhere are added; what else is dropped stays the browser's.
const hasFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
addEventListener("dragleave", (event) => { if (event.relatedTarget === null) document.body.classList.remove("dropping"); });
addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  document.body.classList.remove("dropping");
  comparison.take([...event.dataTransfer.files]);
});

// When the page could be used, in milliseconds since it was asked for: for tests.
document.documentElement.dataset.usable = String(performance.now());
