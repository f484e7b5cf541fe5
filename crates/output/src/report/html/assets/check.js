// Whether a text from outside is a run document: by its schema, and by what can be computed again in it. What is not is refused
// in a line, as plimsoll import refuses it. Nothing of it becomes markup, or the name of a property of ours.

class Refusal extends Error {}

function refuse(why) {
  throw new Refusal(why);
}

// Levels of brackets, as many as plimsoll import reads.
const DEEPEST = 128;
const LONGEST_NAME = 255;
// A stored figure may be so far from the one that follows: rounding of the last digits.
const ROUNDING = 1e-9;
// Seconds: ten years.
const LONGEST_RUN = 3.2e8;

// What can change how the text around it is shown, or is not seen at all.
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\u200b-\u200d\u2060\ufeff\u00ad\u{e0000}-\u{e007f}]/gu;

// An outside text, safe to show and not too long.
function plain(text, most = 64) {
  const safe = String(text).slice(0, 4 * most).replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const letters = [...safe];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : safe;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const TYPES = {
  null: (v) => v === null, boolean: (v) => typeof v === "boolean", string: (v) => typeof v === "string",
  number: (v) => Number.isFinite(v), integer: (v) => Number.isInteger(v) && Math.abs(v) <= 2 ** 64, array: Array.isArray, object: isObject,
};

// What is wrong with a value, and where; null where nothing is.
const wrong = (why) => ({ why, at: "" });
const within = (found, place) => found && { why: found.why, at: place + found.at };
const first = (list, of) => {
  for (let i = 0; i < list.length; i += 1) {
    const found = of(list[i], i);
    if (found) return found;
  }
  return null;
};
const patterns = new Map();
const matches = (pattern, text) => {
  if (!patterns.has(pattern)) patterns.set(pattern, new RegExp(pattern, "u"));
  return patterns.get(pattern).test(text);
};

// One rule a word of JSON Schema: what the word says, the value, the schema around the word, and all of the schema.
const RULES = {
  type: (types, value) => ([types].flat().some((type) => TYPES[type](value)) ? null : wrong(`is not ${[types].flat().join(" or ")}`)),
  const: (wanted, value) => (value === wanted ? null : wrong(`is not ${plain(wanted)}`)),
  enum: (known, value) => (known.includes(value) ? null : wrong("is none of its words")),
  pattern: (pattern, value) => (typeof value !== "string" || matches(pattern, value) ? null : wrong("is not written as it must be")),
  minLength: (least, value) => (typeof value !== "string" || value.length >= least ? null : wrong("is empty")),
  maxLength: (most, value) => (typeof value !== "string" || value.length <= most ? null : wrong("is too long")),
  minimum: (least, value) => (typeof value !== "number" || value >= least ? null : wrong(`is less than ${least}`)),
  maximum: (most, value) => (typeof value !== "number" || value <= most ? null : wrong(`is more than ${most}`)),
  exclusiveMinimum: (least, value) => (typeof value !== "number" || value > least ? null : wrong(`is not more than ${least}`)),
  minItems: (least, value) => (!Array.isArray(value) || value.length >= least ? null : wrong("has too few items")),
  maxItems: (most, value) => (!Array.isArray(value) || value.length <= most ? null : wrong("has too many items")),
  minProperties: (least, value) => (!isObject(value) || Object.keys(value).length >= least ? null : wrong("is empty")),
  prefixItems: (schemas, value, _, root) =>
    (Array.isArray(value) ? first(schemas.slice(0, value.length), (one, i) => within(unfit(one, value[i], root), `[${i}]`)) : null),
  items: (schema, value, _, root) => (Array.isArray(value) ? first(value, (one, i) => within(unfit(schema, one, root), `[${i}]`)) : null),
  required: (names, value) => (isObject(value) ? first(names, (name) => (Object.hasOwn(value, name) ? null : wrong(`has no ${name}`))) : null),
  properties: (schemas, value, _, root) => (!isObject(value) ? null : first(Object.keys(schemas), (name) =>
    (Object.hasOwn(value, name) ? within(unfit(schemas[name], value[name], root), `.${name}`) : null))),
  patternProperties: (schemas, value, _, root) => (!isObject(value) ? null : first(Object.keys(value), (name) =>
    first(Object.keys(schemas), (pattern) => (matches(pattern, name) ? within(unfit(schemas[pattern], value[name], root), `.${plain(name)}`) : null)))),
  additionalProperties: (wanted, value, schema, root) => {
    if (!isObject(value)) return null;
    const known = schema.properties || {};
    const others = Object.keys(schema.patternProperties || {});
    const more = Object.keys(value).filter((name) => !Object.hasOwn(known, name) && !others.some((pattern) => matches(pattern, name)));
    if (wanted === false) return more.length ? wrong(`has ${plain(more[0])}, which no run document has`) : null;
    return first(more, (name) => within(unfit(wanted, value[name], root), `.${plain(name)}`));
  },
  oneOf: (schemas, value, _, root) => (schemas.filter((one) => !unfit(one, value, root)).length === 1 ? null
    : within(unfit(schemas[schemas.length - 1], value, root) || wrong("is ambiguous"), "")),
  allOf: (schemas, value, _, root) => first(schemas, (one) => unfit(one, value, root)),
  if: (test, value, schema, root) => unfit((unfit(test, value, root) ? schema.else : schema.then) || {}, value, root),
  $ref: (name, value, _, root) => unfit(root.$defs[name.replace("#/$defs/", "")], value, root),
};
const SILENT = ["$schema", "$id", "$defs", "title", "description", "then", "else"];

function unfit(schema, value, root) {
  return first(Object.keys(schema), (word) => {
    if (SILENT.includes(word)) return null;
    return Object.hasOwn(RULES, word) ? RULES[word](schema[word], value, schema, root) : wrong(`cannot be checked by this page (${word})`);
  });
}

// That no number is beyond those that are counted with, and nothing lies deeper than it is read.
function bounded(value, depth = 1) {
  if (typeof value === "number" && !Number.isFinite(value)) refuse("not a run document: a number is out of range");
  if (typeof value !== "object" || value === null) return;
  if (depth > DEEPEST) refuse(`not a run document: it has more than ${DEEPEST} levels`);
  for (const key in value) if (Object.hasOwn(value, key)) bounded(value[key], depth + 1);
}

const isNear = (value, right) => value === right || Math.abs(value - right) <= ROUNDING * Math.abs(right);
const isSpan = (seconds) => seconds >= 0 && seconds <= LONGEST_RUN;
const ordered = (values) => Float64Array.from(values).sort();
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function median(values) {
  const sorted = ordered(values);
  const upper = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[upper] : sorted[upper - 1] / 2 + sorted[upper] / 2;
}

// The first that comes a second time; undefined where none does.
function twice(names) {
  const seen = new Set();
  return names.find((name) => seen.has(name) || !seen.add(name));
}

// Between what the median of the samples' shares of their limit must be, as document/sound.rs has it; null where none has one.
function sharesOf(metric) {
  const { value, kind, inputs } = metric.limit;
  const sorted = ordered(metric.samples.map((sample) => (kind === "ceiling" ? sample / value : value / sample)).filter(Number.isFinite));
  if (!sorted.length) return null;
  const clocks = inputs.filter((input) => input.unit === "Hz").length;
  if (inputs.some((input) => input.name === "lasts") || clocks > 1) return [0, Number.MAX_VALUE];
  const held = metric.series.map((point) => point.clock_hz).filter((clock) => clock > 0);
  const spread = clocks && held.length ? largest(held) / least(held) : 1;
  return [sorted[Math.floor((sorted.length - 1) / 2)] / spread, sorted[Math.floor(sorted.length / 2)] * spread];
}

function checkLimit(metric, about) {
  const range = metric.limit !== null && metric.limit.value !== null ? sharesOf(metric) : null;
  const { of_limit: share } = metric;
  const holds = range === null || share === null ? range === null && share === null
    : range[0] * (1 - ROUNDING) <= share && share <= range[1] * (1 + ROUNDING);
  if (!holds) refuse(`${about}: of_limit does not follow from samples and limit`);
}

function checkTool(tool, about) {
  const of = `${about}: reference tool ${plain(tool.name, 40)}`;
  const same = (said, right) => (said === null || right === null ? said === right : isNear(said, right));
  if (tool.own.length !== tool.samples.length || !same(tool.median, tool.samples.length ? median(tool.samples) : null)) {
    refuse(`${of}: its median does not match its samples`);
  }
  const logs = tool.own.flatMap((own, i) => (own > 0 && tool.samples[i] > 0 ? [Math.log(own / tool.samples[i])] : [])).filter(Number.isFinite);
  if (!same(tool.ratio === null ? null : tool.ratio.median, logs.length ? Math.exp(median(logs)) : null)) {
    refuse(`${of}: its ratio is not that of its pairs`);
  }
}

function checkMetric(metric, about, benchmark, known) {
  const { samples, summary, series } = metric;
  const better = Object.hasOwn(known.better, benchmark) && Object.hasOwn(known.better[benchmark], metric.name) ? known.better[benchmark][metric.name] : metric.better;
  if (metric.better !== better) refuse(`${about}: better is ${metric.better}, and it is ${better}`);
  const alike = summary.n === samples.length && isNear(summary.median, median(samples)) && isNear(summary.min, least(samples)) && isNear(summary.max, largest(samples));
  if (!alike || (summary.ci95 !== null && !(summary.ci95[0] <= summary.ci95[1]))) {
    refuse(`${about}: its summary is not that of its samples: the document was changed by hand`);
  }
  if (series.length && series.length !== samples.length) refuse(`${about}: its series has ${series.length} points of ${samples.length} samples`);
  if (!series.every((point) => isSpan(point.t))) refuse(`${about}: a sample was taken before the run or long after it`);
  checkLimit(metric, about);
  metric.references.forEach((tool) => checkTool(tool, about));
}

// Conditions of a case that are means over its samples.
function checkConditions(measurement, about) {
  for (const name of ["steal", "excluded", "throttled", "waited"]) {
    const each = measurement.metrics.flatMap((metric) => metric.series.map((point) => point[name])).filter((share) => typeof share === "number");
    const mean = measurement.conditions[name];
    if ([...each, mean ?? 0].some((share) => share < 0 || share > 1)) refuse(`${about}: ${name} is not a share between 0 and 1`);
    if (mean !== undefined && each.length && (mean < least(each) - ROUNDING || mean > largest(each) + ROUNDING)) {
      refuse(`${about}: ${name} of its conditions is no mean of its series`);
    }
  }
}

// What a case's id says: its benchmark, and its parameters by name.
function parts(id) {
  const [benchmark, ...params] = id.split("/");
  return { benchmark, params: new Map(params.map((param) => [param.slice(0, param.indexOf("=")), param.slice(param.indexOf("=") + 1)])) };
}

// Sizes, durations and rates as an id has them; a suffix may mean more than one of them.
const SUFFIXES = { K: [1024, 1e3], M: [2 ** 20, 1e6], G: [2 ** 30, 1e9], T: [2 ** 40, 1e12], P: [2 ** 50, 1e15], E: [2 ** 60, 1e18], k: [1e3], kB: [1e3], MB: [1e6], GB: [1e9],
  ns: [1e-9], us: [1e-6], ms: [1e-3], s: [1], m: [60], h: [3600], d: [86400] };

function isSame(text, value) {
  if (typeof value === "string") return text === value || decodeURIComponent(text) === value;
  const [, number, suffix] = /^([0-9.]+(?:e[+-]?[0-9]+)?)([A-Za-z]*)$/.exec(text) || [];
  const times = suffix ? SUFFIXES[suffix] || [] : [1];
  return number !== undefined && times.some((one) => isNear(value, Number(number) * one));
}

function checkCase({ id, benchmark, params }, known) {
  const said = parts(id);
  const about = plain(id, 200);
  if (said.benchmark !== benchmark) refuse(`${about}: benchmark contradicts its id`);
  const strange = [...said.params.keys()].find((name) => !known.keys.includes(name));
  if (strange !== undefined) refuse(`${about}: no benchmark has a parameter ${plain(strange)}`);
  const named = Object.entries(params);
  let same;
  try {
    same = named.length === said.params.size && named.every(([name, value]) => said.params.has(name) && isSame(said.params.get(name), value));
  } catch {
    same = false;
  }
  if (!same) refuse(`${about}: params contradicts its id`);
}

function checkRun(run, known) {
  if (!isSpan(run.elapsed_s)) refuse("elapsed_s is what no run takes");
  if (!isSpan(run.plan.sample_time) || !isSpan(run.plan.budget ?? 0)) refuse("sample_time and budget of its plan are what no run takes");
  if (Number.isNaN(Date.parse(run.started))) refuse(`'${plain(run.started)}' is not a time`);
  const names = run.nodes.map((node) => node.name);
  const long = names.find((name) => name.length > LONGEST_NAME || !name);
  if (long !== undefined) refuse(`the name of a machine must have 1 to ${LONGEST_NAME} characters`);
  const node = twice(names);
  if (node !== undefined) refuse(`has machine '${plain(node)}' twice`);
  const one = twice(run.measurements.map((m) => JSON.stringify([m.case.id, m.node, m.repeat])));
  if (one !== undefined) refuse(`has ${plain(JSON.parse(one)[0], 200)} twice`);
  const nodes = new Set(names);
  for (const measurement of run.measurements) {
    checkCase(measurement.case, known);
    const about = plain(measurement.case.id, 200);
    if (!nodes.has(measurement.node)) refuse(`${about}: node '${plain(measurement.node)}' is not in nodes`);
    const metric = twice(measurement.metrics.map((m) => m.name));
    if (metric !== undefined) refuse(`has metric '${plain(metric)}' of ${about} twice`);
    checkConditions(measurement, about);
    measurement.metrics.forEach((m) => checkMetric(m, `${about} ${plain(m.name, 40)}`, measurement.case.benchmark, known));
  }
}

// The run document that a text is. `known` is what this page knows of run documents.
function checked(text, known) {
  let run;
  try {
    run = JSON.parse(text);
  } catch (error) {
    refuse(`not a run document (JSON): ${plain(error.message, 120)}`);
  }
  if (!isObject(run) || typeof run.schema !== "string") refuse("not a run document: it has no schema");
  const wanted = known.schema.properties.schema.const;
  if (run.schema !== wanted) {
    refuse(`has schema '${plain(run.schema)}', and this page reads ${wanted}`);
  }
  bounded(run);
  const found = unfit(known.schema, run, known.schema);
  if (found) refuse(`not a run document: ${found.at.slice(1) || "it"} ${found.why}`);
  checkRun(run, known);
  return run;
}
