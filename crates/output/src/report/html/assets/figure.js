// One figure of the page: the drawing, buttons to show and hide lines, to zoom and to keep it, and its numbers as a table.
// All that comes from the data is set as text, never as markup.

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(text, label, act) {
  const made = element("button", "", text);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.title = label;
  made.addEventListener("click", act);
  return made;
}

// Pixels between the margins of A4 and US Letter, and the height of a chart of which three fit on a page.
const PAPER = 680;
const THIRD = 240;

// The height of a chart under its table.
const LOW = 140;

class Figure {
  constructor(place, chart) {
    this.place = place;
    this.chart = chart;
    this.drawing = null;
    this.zoom = [0, 100];
    this.cursor = -1;
    this.hidden = new Set();
    // What the arrow keys have come to, in words: for screen readers, and where the hover text has no room.
    this.told = element("p", "at");
    this.told.setAttribute("role", "status");
  }

  // Makes the drawing; once.
  draw() {
    if (this.drawing) return;
    const canvas = element("div", "drawing");
    canvas.style.height = this.height(this.place.closest(".tables") ? LOW : 300) + "px";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", spoken(this.chart));
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.place.append(this.legend(), canvas, this.tools(), this.table());
    this.drawing = echarts.init(canvas, null, { renderer: "svg" });
    this.drawing.setOption(this.options());
    this.canvas = canvas;
  }

  // Under a table the names of places leave more room to the drawing.
  options() {
    const made = options(this.chart);
    if (!this.place.closest(".tables")) return made;
    const lines = Math.max(1, ...(this.chart.x.categories || []).map((name) => (this.chart.x.categories.length > 3 ? name.split(/[ _]/).length : 1)));
    made.xAxis.nameGap = 8 + 13 * lines;
    made.grid.bottom = 10 + 13 * lines + (this.chart.x.name ? 14 : 0);
    return made;
  }

  // Pixels: what its rows take, or else what a chart without rows has.
  height(plain) {
    if (this.chart.kind === "forest") return Math.max(160, 70 + 22 * this.chart.series[0].points.length);
    if (isWorded(this.chart)) return Math.max(240, 120 + 18 * this.chart.y.categories.length);
    return this.chart.kind === "heat" ? 380 : plain;
  }

  // The drawing takes the room that there is.
  fit() {
    if (this.drawing && this.canvas.clientWidth) this.drawing.resize();
  }

  // On paper a chart is as wide as the narrowest page on which it may be printed; the style scales it to the page.
  print() {
    this.redraw();
    const height = this.height(THIRD);
    this.drawing.resize({ width: PAPER, height });
    this.drawing.getZr().flush();
    this.canvas.querySelector("svg").setAttribute("viewBox", `0 0 ${PAPER} ${height}`);
  }

  unprint() {
    this.redraw();
    this.canvas.querySelector("svg").removeAttribute("viewBox");
    this.drawing.resize({ width: "auto", height: "auto" });
  }

  redraw() {
    if (!this.drawing) return;
    this.drawing.setOption(this.options(), true);
    this.place.querySelector(".series").replaceWith(this.legend());
    this.hidden.forEach((name) => this.drawing.dispatchAction({ type: "legendUnSelect", name }));
  }

  legend() {
    const list = element("div", "series");
    if (this.chart.series.length < 2) return list;
    const looks = coloured(this.chart);
    this.chart.series.forEach((one, index) => {
      const toggle = button("", `show or hide ${one.name}`, () => {
        const shown = this.hidden.delete(one.name) || (this.hidden.add(one.name), false);
        toggle.setAttribute("aria-pressed", String(shown));
        this.drawing.setOption({ legend: { selected: Object.fromEntries(this.chart.series.map((s) => [s.name, !this.hidden.has(s.name)])) } });
      });
      toggle.setAttribute("aria-pressed", String(!this.hidden.has(one.name)));
      const dot = element("span", "dot " + (this.chart.kind === "bars" && one.role === "limit" ? "" : one.role));
      dot.style.color = looks[index].colour;
      toggle.append(dot, element("span", "", one.name));
      list.append(toggle);
    });
    return list;
  }

  tools() {
    const list = element("div", "tools");
    list.append(this.told);
    const zoomable = this.chart.kind === "lines" || this.chart.kind === "bars";
    if (zoomable) {
      list.append(
        button("+", "zoom in", () => this.zoomBy(0.5)),
        button("−", "zoom out", () => this.zoomBy(2)),
        button("0", "whole range", () => this.zoomTo(0, 100)),
      );
    }
    list.append(
      button("SVG", "save as SVG", () => this.keep("svg")),
      button("PNG", "save as PNG", () => this.keep("png")),
    );
    return list;
  }

  zoomTo(from, to) {
    this.zoom = [Math.max(0, from), Math.min(100, to)];
    this.drawing.dispatchAction({ type: "dataZoom", start: this.zoom[0], end: this.zoom[1] });
  }

  zoomBy(factor) {
    const middle = (this.zoom[0] + this.zoom[1]) / 2;
    const half = Math.min(50, ((this.zoom[1] - this.zoom[0]) / 2) * factor);
    this.zoomTo(middle - half, middle + half);
  }

  // Goes through the points of the lines that are shown.
  step(by) {
    const points = this.chart.series.flatMap((one, series) =>
      this.hidden.has(one.name) ? [] : one.points.map((point, dataIndex) => ({ name: one.name, series, dataIndex, point })))
      .filter((at) => at.point[1] !== null);
    if (!points.length) return;
    this.cursor = (this.cursor + by + points.length) % points.length;
    const at = points[this.cursor];
    // Intervals come after the line that they belong to.
    const drawn = this.drawing.getOption().series;
    const seriesIndex = drawn.findIndex((s) => s.name === at.name);
    this.drawing.dispatchAction({ type: "showTip", seriesIndex, dataIndex: at.dataIndex });
    this.told.textContent = told(this.chart, at.name, at.point, at.dataIndex);
  }

  leave() {
    this.cursor = -1;
    this.told.textContent = "";
    this.drawing.dispatchAction({ type: "hideTip" });
  }

  key(event) {
    const acts = {
      ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
      "+": () => this.zoomBy(0.5), "-": () => this.zoomBy(2), 0: () => this.zoomTo(0, 100),
      Escape: () => this.leave(),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  keep(format) {
    const name = this.chart.title.replace(/[^A-Za-z0-9.]+/g, "-").slice(0, 80) + "." + format;
    const svg = this.drawing.renderToSVGString();
    const source = new Blob([svg], { type: "image/svg+xml" });
    if (format === "svg") return save(source, name);
    const image = new Image();
    image.onload = () => {
      const picture = document.createElement("canvas");
      picture.width = this.canvas.clientWidth * 2;
      picture.height = this.canvas.clientHeight * 2;
      const context = picture.getContext("2d");
      context.fillStyle = theme().page;
      context.fillRect(0, 0, picture.width, picture.height);
      context.drawImage(image, 0, 0, picture.width, picture.height);
      picture.toBlob((blob) => save(blob, name), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  }

  // The numbers, made when they are asked for.
  table() {
    const details = element("details", "numbers");
    details.append(element("summary", "", "numbers"));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const list = element("ul");
      const points = this.chart.series.flatMap((one) => one.points.map((p, i) => (p[1] === null ? null : told(this.chart, one.name, p, i))));
      points.filter((text) => text !== null).slice(0, 2000).forEach((text) => list.append(element("li", "", text)));
      details.append(list);
    });
    return details;
  }
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
