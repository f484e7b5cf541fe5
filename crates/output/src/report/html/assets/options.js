// From a chart's data to what the library draws. Colours are Okabe and Ito's, told apart also by the colour-blind;
// marks and dashes say the same again.

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6fd6", "#8a8a00"];
const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "emptyDiamond"];

// On a dark page the first colour is the brighter blue of the gauges, and the sixth the darker.
function colourOf(index) {
  const at = index % COLOURS.length;
  return COLOURS[theme().dark && at % 5 === 0 ? 5 - at : at];
}

function theme() {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { text: of("--text"), dim: of("--dim"), line: of("--line"), page: of("--page"), band: of("--band"), dark: of("--dark") === "1" };
}

function axis(spec, colours) {
  const type = { log: "log", category: "category" }[spec.scale] || "value";
  const made = {
    type,
    name: spec.name,
    nameLocation: "middle",
    nameGap: 28,
    nameTextStyle: { color: colours.dim },
    axisLine: { show: true, onZero: false, lineStyle: { color: colours.dim } },
    axisLabel: { color: colours.text, hideOverlap: true },
    splitLine: { lineStyle: { color: colours.line } },
    scale: type === "value" && spec.unit !== "%",
  };
  if (type === "category") made.data = spec.categories;
  else if (spec.scale === "places") named(made, spec.categories);
  else made.axisLabel.formatter = (value) => human(value, spec.unit);
  // Sizes are powers of two.
  if (type === "log" && spec.unit === "B") made.logBase = 2;
  return made;
}

// A ratio on an axis of powers of two: 1/8, 1, 8.
const ratio = (value) => (value < 0.999 ? `1/${Number((1 / value).toPrecision(3))}` : String(Number(value.toPrecision(3))));

// The parts of a band's name, one under the other.
const lined = (name) => name.replaceAll(", ", "\n");

// Places with names at 0, 1, 2 …
function named(axis, names) {
  Object.assign(axis, { min: -0.5, max: names.length - 0.5, interval: 1, splitLine: { show: false }, axisTick: { show: false } });
  // The library marks from the left edge on, which is half a place before the first.
  axis.axisLabel.customValues = names.map((_, place) => place);
  // Many long names would leave no room for each other.
  const shown = names.length > 3 ? names.map((name) => name.replace(/[ _]/g, "\n")) : names;
  axis.axisLabel.lineHeight = 13;
  axis.axisLabel.formatter = (value) => shown[value] ?? "";
}

// What was measured, by us or by others; bounds and laws are drawn beside it.
const MEASURED = ["own", "tool", "published", "program"];

// How a line is dashed.
const DASHES = { own: "solid", delivered: [4, 4], tool: [6, 3], published: [1, 4], program: [1, 6], theory: [2, 6], doubted: [1, 8], limit: [2, 3], ideal: [8, 5], fit: [3, 2] };

// Marks of lines that have them always: levels at named places, and what is not to be believed.
const TICK = "rect";
const CROSS = "path://M0 1L1 0L5 4L9 0L10 1L6 5L10 9L9 10L5 6L1 10L0 9L4 5Z";

// Bars of others are hatched, so that they are told apart without colours.
const HATCHED = {
  tool: { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [3, 4], rotation: -0.7, color: "rgba(255,255,255,.45)" },
  published: { symbol: "circle", symbolSize: 0.7, dashArrayX: [8, 0], dashArrayY: [8, 0], color: "rgba(255,255,255,.6)" },
};

// Over named places each role has its colour, so that charts of one page read alike: the first of a role has this, the next
// of the same role those after it.
const BY_ROLE = { own: 0, delivered: 0, limit: 0, published: 1, theory: 1, doubted: 1, program: 2, tool: 6 };

// Limits, ideals and fits have the colour of the line of ours that they belong to, which comes before them.
function coloured(chart) {
  // In bars, and if there is only one, limits lie over the data of the same colour.
  const over = chart.kind === "bars" ? ["limit", "delivered"] : chart.series.filter((one) => one.role === "limit").length === 1 ? ["limit"] : [];
  return seriesColours(chart).map((look, i) => (over.includes(chart.series[i].role) ? { ...look, colour: theme().text } : look));
}

function seriesColours(chart) {
  if (chart.series.some((one) => one.scattered)) return chart.series.map(pairedColours);
  if (chart.x.scale === "places") return colouredByRole(chart.series);
  let used = -1;
  let ours = 0;
  return chart.series.map((one) => {
    const solid = MEASURED.includes(one.role);
    if (solid) used += 1;
    if (one.role === "own") ours = used;
    const index = solid ? used : ours;
    return { colour: colourOf(index), symbol: SYMBOLS[index % SYMBOLS.length], bar: index };
  });
}

// What was measured and what was published of one report have one colour, and a mark each.
function pairedColours(one) {
  return { colour: colourOf(one.colour), symbol: one.role === "own" ? "circle" : "rect", bar: 0 };
}

// A published figure with a verdict has the colour of its source.
const VERDICT = /(impossible|not comparable|in no table), /;
function doubted(name, places) {
  if (name === "today, invalid") return BY_ROLE.own;
  const source = name.replace(VERDICT, "").replace(/, in doubt$/, "");
  if (source === "published") return BY_ROLE.published;
  const other = name.search(VERDICT) === 0 || name.startsWith("theory") ? BY_ROLE.published : BY_ROLE.program;
  return places[source] ?? other;
}

function colouredByRole(series) {
  const seen = {};
  const places = {};
  for (const one of series) {
    const further = MEASURED.includes(one.role) ? (seen[one.role] = (seen[one.role] ?? -1) + 1) : 0;
    places[one.name] = BY_ROLE[one.role] + further;
  }
  return series.map((one) => {
    const index = one.role === "doubted" ? doubted(one.name, places) : places[one.name];
    return { colour: colourOf(index), symbol: SYMBOLS[index % SYMBOLS.length], bar: index };
  });
}

// A bar's middle and half its width, as the library laid it out.
function laidOut(api, count, bar) {
  const place = api.barLayout({ barMaxWidth: 46, count })[bar];
  return place ? { middle: place.offsetCenter, half: place.width / 2 } : { middle: 0, half: 20 };
}

// A limit over its bar; what perfect scaling would give, thinner and dashed; or what was delivered, dashed in the bar.
function loadLine(one, look, count) {
  return {
    type: "custom", name: one.name, data: one.points, encode: { x: 0, y: 1 }, z: 6, itemStyle: { color: look.colour },
    renderItem(_, api) {
      const at = api.coord([api.value(0), api.value(1)]);
      const { middle, half } = laidOut(api, count, look.bar);
      const shape = { x1: at[0] + middle - half - 3, x2: at[0] + middle + half + 3, y1: at[1], y2: at[1] };
      const line = (style) => ({ type: "line", shape, style });
      if (one.role === "limit") return line({ stroke: look.colour, lineWidth: 3 });
      if (one.role !== "delivered") return line({ stroke: look.colour, lineWidth: 1.5, lineDash: [5, 3] });
      // Dashes that can be seen on every colour.
      return { type: "group", children: [line({ stroke: theme().page, lineWidth: 4 }), line({ stroke: look.colour, lineWidth: 2, lineDash: [5, 3] })] };
    },
  };
}

function intervals(one, colour, bars, count, index) {
  const points = one.points.filter((p) => p.length > 3 && p[2] !== null && p[3] > p[2]);
  if (!points.length) return [];
  return [{
    type: "custom", name: one.name, silent: true, itemStyle: { color: colour }, z: 5,
    data: points.map((p) => [p[0], p[2], p[3]]),
    renderItem(_, api) {
      const x = api.value(0);
      const low = api.coord([x, api.value(1)]);
      const high = api.coord([x, api.value(2)]);
      const shift = bars ? laidOut(api, count, index).middle : 0;
      const at = (y) => ({ x1: low[0] + shift - 3, x2: low[0] + shift + 3, y1: y, y2: y });
      const style = { stroke: bars ? theme().text : colour, lineWidth: 1.3 };
      const line = (shape) => ({ type: "line", shape, style });
      const stem = { x1: low[0] + shift, x2: low[0] + shift, y1: low[1], y2: high[1] };
      return { type: "group", children: [line(stem), line(at(low[1])), line(at(high[1]))] };
    },
    encode: { x: 0, y: [1, 2] }, tooltip: { show: false },
  }];
}

// Few points of a strip have their names, and its levels lie above the points.
function inStrip(one, level, colours) {
  if (level) return { z: 6, itemStyle: { color: one.role === "limit" ? colours.text : colours.dim } };
  const named = one.labels && one.labels.length <= 12;
  return named ? { label: { show: true, position: "right", color: colours.text, fontSize: 11, formatter: (at) => one.labels[at.dataIndex] } } : {};
}

function lines(chart, colours) {
  const bars = chart.kind === "bars";
  const looks = coloured(chart);
  const count = chart.series.filter((s) => bars && MEASURED.includes(s.role)).length;
  const made = [];
  let index = -1;
  chart.series.forEach((one, i) => {
    const { colour, symbol } = looks[i];
    const solid = MEASURED.includes(one.role);
    const many = one.points.length > 60;
    const data = one.points;
    const common = { name: one.name, data, itemStyle: { color: colour }, encode: { x: 0, y: 1 } };
    if (bars && solid) {
      index += 1;
      made.push({ ...common, type: "bar", barMaxWidth: 46, itemStyle: { color: colour, decal: HATCHED[one.role] } });
    } else if (bars) {
      made.push(loadLine(one, looks[i], count));
    } else {
      const level = chart.x.scale === "places" && ["limit", "theory"].includes(one.role);
      const mark = level ? { symbol: TICK, symbolSize: chart.kind === "strip" ? [120, 3] : [16, 3] } : one.role === "doubted" ? { symbol: CROSS, symbolSize: 8 } : { symbol, symbolSize: many ? 3 : one.scattered ? 6 : 7 };
      made.push({
        ...common, type: one.scattered ? "scatter" : "line", ...mark, showAllSymbol: true,
        showSymbol: level || one.role === "doubted" || (solid && (!many || one.points.length > 1)),
        lineStyle: { color: colour, width: one.role === "own" ? (many ? 1 : 2) : 1.5, type: DASHES[one.role] },
        connectNulls: false, animation: false, z: one.role === "limit" ? 4 : 2,
        ...(chart.kind === "strip" ? inStrip(one, level, colours) : {}),
      });
    }
    if (one.role === "own") made.push(...intervals(one, colour, bars, count, index));
  });
  const marks = chart.bands.map((band) => [
    { xAxis: band.from === null ? (chart.x.scale === "log" ? lowest(chart) : "min") : band.from, name: lined(band.name), label: { show: true, color: colours.dim, position: chart.x.scale === "places" ? "top" : "insideTop" } },
    { xAxis: band.to === null ? highest(chart) : band.to },
  ]);
  if (marks.length && made.length) {
    const shade = (i) => ({ itemStyle: { color: colours.band, opacity: i % 2 ? 0.35 : 0.8 } });
    made[0].markArea = { silent: true, data: marks.map((m, i) => [{ ...m[0], ...shade(i) }, m[1]]) };
  }
  return made;
}

const places = (chart) => chart.series.flatMap((s) => s.points.map((p) => p[0])).filter((x) => x !== null);
const lowest = (chart) => Math.min(...places(chart));
const highest = (chart) => Math.max(...places(chart));

function heat(chart, colours) {
  const values = chart.series[0].points.map((p) => p[2]);
  // Shares of a median are worse or better than 100 %; other figures are only low or high.
  const reach = Math.min(100, Math.max(1, ...values.map((value) => Math.abs(value - 100))));
  const range = chart.y.unit === "%"
    ? { min: 100 - reach, max: 100 + reach, words: ["better", "worse"], colours: ["#b2182b", "#f4a582", "#f7f7f7", "#92c5de", "#2166ac"] }
    : {
        min: Math.min(...values), max: Math.max(...values),
        words: [human(Math.max(...values), chart.y.unit), human(Math.min(...values), chart.y.unit)],
        colours: ["#fde725", "#5ec962", "#21918c", "#3b528b", "#440154"],
      };
  return {
    series: [{
      type: "heatmap", name: chart.series[0].name, data: chart.series[0].points,
      label: { show: values.length <= 400, formatter: (p) => human(p.value[2], chart.y.unit), fontSize: 10 },
    }],
    visualMap: {
      min: range.min, max: range.max, orient: "vertical", right: 0, top: "middle", text: range.words, inRange: { color: range.colours },
      textStyle: { color: colours.text },
    },
  };
}

function forest(chart, colours) {
  const points = chart.series[0].points;
  const band = chart.bands[0];
  return {
    series: [
      {
        type: "custom", name: "interval", silent: true, clip: true, z: 1, data: points.filter((p) => p[2] !== null).map((p) => [p[2], p[3], p[1]]),
        renderItem(_, api) {
          const low = api.coord([api.value(0), api.value(2)]);
          const high = api.coord([api.value(1), api.value(2)]);
          return { type: "line", shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style: { stroke: colourOf(0), lineWidth: 3 } };
        },
        encode: { x: [0, 1], y: 2 }, tooltip: { show: false },
      },
      {
        type: "scatter", name: "ratio", symbol: "diamond", symbolSize: 11, data: points.map((p) => [p[0], p[1], p[2], p[3]]),
        itemStyle: { color: colourOf(1) },
        markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: colours.text, type: "solid" }, data: [{ xAxis: 1 }] },
        ...(band ? { markArea: { silent: true, itemStyle: { color: colours.band }, data: [[{ xAxis: band.from }, { xAxis: band.to }]] } } : {}),
      },
    ],
  };
}

// What stands at a point, in words: also the hover text.
function told(chart, name, value, index) {
  const said = chart.series.find((one) => one.name === name)?.labels?.[index];
  const interval = (low, high, unit) => (low === null || low === undefined ? "" : ` [${human(low, unit)}, ${human(high, unit)}]`);
  if (said) return `${name} · ${said}: ${human(value[1], chart.y.unit)}${interval(value[2], value[3], chart.y.unit)}`;
  if (chart.kind === "heat") {
    return `${chart.x.categories[value[0]]} ← ${chart.y.categories[value[1]]}: ${human(value[2], chart.y.unit)}`;
  }
  if (chart.kind === "forest") {
    return `${chart.y.categories[value[1]]}: ${digits(value[0])}${interval(value[2], value[3], "")}`;
  }
  const x = chart.x.categories ? chart.x.categories[Math.round(value[0])] : human(value[0], chart.x.unit);
  return `${name} · ${chart.x.name} ${x}: ${human(value[1], chart.y.unit)}${interval(value[2], value[3], chart.y.unit)}`;
}

// What a screen reader says of the drawing.
function spoken(chart) {
  return chart.title + ". Arrow keys go through the points, plus and minus zoom, 0 resets.";
}

// The ends of an axis that shows at least 6 % of its figures' size, so that its marks differ in three digits.
function widened({ min, max }) {
  const pad = Math.max(0, 0.06 * Math.abs(max) - (max - min)) / 2;
  const step = 10 ** Math.floor(Math.log10(max - min + 2 * pad || 1)) / 2;
  return [Math.floor((min - pad) / step) * step, Math.ceil((max + pad) / step) * step];
}

// Whether the rows of a heat map have names and no numbers.
const isWorded = (chart) => chart.kind === "heat" && chart.y.categories.some((name) => name.length > 8);

function options(chart) {
  const colours = theme();
  const names = Math.min(300, innerWidth * 0.4);
  const x = axis(chart.x, colours);
  const y = axis(chart.y, colours);
  y.nameGap = 64;
  // The first row stands at the top.
  if (chart.kind === "heat") y.inverse = true;
  const worded = isWorded(chart);
  if (worded) {
    Object.assign(y.axisLabel, { hideOverlap: false, width: names - 20, overflow: "truncate" });
    Object.assign(x.axisLabel, { hideOverlap: false, interval: innerWidth < 40 * chart.x.categories.length ? "auto" : 0, rotate: chart.x.categories.length > 4 ? 45 : 0, width: 110, overflow: "truncate" });
  }
  if (chart.kind === "forest") {
    // As far as the ratios go; an interval without bounds would squeeze all others.
    const farthest = Math.max(1.5, ...chart.series[0].points.flatMap((p) => [p[0], 1 / p[0]]).filter(isFinite));
    const end = 2 ** Math.ceil(Math.log2(farthest));
    Object.assign(x, { type: "log", logBase: 2, min: 1 / end, max: end });
    x.axisLabel.formatter = ratio;
    y.inverse = true;
    y.axisLabel.hideOverlap = false;
    y.axisLabel.width = names - 20;
    y.axisLabel.overflow = "truncate";
  }
  if (chart.kind === "bars" && chart.y.unit !== "s") y.min = 0;
  if (chart.x.scale === "places") y.scale = chart.kind === "strip";
  if (chart.kind === "strip") Object.assign(y, { min: (v) => widened(v)[0], max: (v) => widened(v)[1] });
  if (chart.kind === "bars") y.scale = false;
  const body = chart.kind === "heat" ? heat(chart, colours) : chart.kind === "forest" ? forest(chart, colours) : { series: lines(chart, colours) };
  return {
    animation: false,
    textStyle: { fontFamily: "system-ui, sans-serif" },
    aria: { enabled: true, label: { description: spoken(chart) } },
    grid: { left: chart.kind === "forest" || worded ? names : 84, right: chart.kind === "heat" ? 90 : 18, top: chart.x.scale === "places" && chart.bands.length ? 12 + 14 * Math.max(...chart.bands.map((band) => lined(band.name).split("\n").length)) : 14, bottom: worded ? 92 : 48 },
    legend: { show: false },
    tooltip: {
      trigger: "item", renderMode: "richText", confine: true,
      backgroundColor: colours.page, borderColor: colours.dim, textStyle: { color: colours.text, fontSize: 12 },
      formatter: (at) => told(chart, at.seriesName, at.value, at.dataIndex),
    },
    xAxis: x,
    yAxis: y,
    dataZoom: chart.kind === "heat" || chart.kind === "forest" ? [] : [{ type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl" }],
    ...body,
  };
}
