// Machines side by side: from run documents to columns, from columns to rows, and which machines of a row are the best as far as
// their intervals tell. Plain values; nothing is drawn here.

// What the table needs of each machine of a run document; the same as the page has of its own runs.
function columnsOf(run, known) {
  return run.nodes.map((node) => {
    const machine = node.machine === undefined ? run.machine : node.machine;
    const own = run.measurements.filter((one) => one.node === node.name);
    return {
      name: plain(node.name), about: plain(aboutOf(machine), 200), run: run.id, node: node.name, started: run.started,
      plan: plain(run.plan.name), version: plain(run.version), partial: run.status === "partial", cpus: allThreads(machine, own),
      cases: own.map((one) => ({
        id: one.case.id, label: labelOf(one.case.id), ...standing(one, known), interrupted: isInterrupted(one, cpusOf(machine.cpu.allowed), known),
        figures: one.metrics.map((metric) => ({
          name: metric.name, unit: metric.unit, better: metric.better, n: metric.summary.n,
          median: metric.summary.median, ci95: metric.summary.ci95, of_limit: metric.of_limit,
        })),
      })),
    };
  });
}

// What became of a case, by the rule of today for the share of the time that was excluded.
function standing({ status, reason, conditions }, known) {
  if (status !== "ok" || !(conditions.excluded > known.all_but)) return { status, reason: reason === null ? null : plain(reason, 300) };
  return { status: "invalid", reason: `${percent(conditions.excluded)} of the time was excluded (at most ${percent(known.all_but)} may be)` };
}

// Whether too much of a case's time is excluded for it to be compared, or others took too much of it, as compare has both: what a
// quota stops waits as well, and so do threads that crowd the CPUs.
function isInterrupted({ case: { id }, conditions }, cpus, known) {
  const { params } = parts(id);
  const busy = Math.max(1, Number(params.get("threads")) || 1, (Number(params.get("streams")) || 0) * (params.has("server") ? 1 : 2));
  const { excluded = 0, steal = 0, waited = 0, throttled = 0 } = conditions;
  const crowding = 1 - 1 / Math.ceil(busy / Math.max(cpus, 1));
  return excluded > known.mostly || Math.max(steal, waited - crowding - throttled) > known.taken;
}

// The machine in a line. Documents of later versions may say these things otherwise.
function aboutOf(machine) {
  const word = (of, name) => (isObject(of) && typeof of[name] === "string" ? of[name] : null);
  const number = (of, name) => (isObject(of) && Number.isFinite(of[name]) ? of[name] : null);
  const threads = number(machine.cpu, "threads");
  const bytes = number(machine.memory, "total_bytes");
  const release = word(machine.kernel, "release");
  return [
    word(machine.cpu, "model_name") || "unknown processor", threads === null ? null : `${threads} CPU${threads === 1 ? "" : "s"}`,
    bytes === null ? null : human(bytes, "B"), word(machine.virtualisation, "hypervisor"), release === null ? null : `Linux ${release}`,
  ].filter((part) => part !== null).join(" · ");
}

// How many CPUs a list such as 0-3,8 names; 0 where it is none.
function cpusOf(list) {
  if (typeof list !== "string" || !/^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$/.test(list.slice(0, 10000))) return 0;
  return list.split(",").map((range) => range.split("-").map(Number)).reduce((sum, [from, to = from]) => sum + Math.max(0, to - from + 1), 0);
}

// How many threads are those of all CPUs: as many as CPUs, or, where no case has so many, as a quota allows; the same as the program has.
function allThreads(machine, measurements) {
  const cpus = cpusOf(machine.cpu.allowed);
  if (measurements.some(({ case: { id } }) => Number(parts(id).params.get("threads")) === cpus)) return cpus;
  const quota = isObject(machine.cgroup) && isObject(machine.cgroup.cpu_quota) ? machine.cgroup.cpu_quota.quota_us / machine.cgroup.cpu_quota.period_us : cpus;
  return Number.isFinite(quota) ? Math.max(1, Math.min(cpus, Math.max(2, Math.ceil(quota)))) : cpus;
}

// Parameters that say by their value alone what is measured.
const SPOKEN = ["op", "pattern", "type", "isa", "protocol", "direction"];

// A case in words, where the page has no better ones.
function labelOf(id) {
  const { benchmark, params } = parts(id);
  const words = [...params].map(([name, value]) => (SPOKEN.includes(name) ? value : `${name} ${value}`));
  return plain([benchmark, ...words].join(" "), 200);
}

// What a case is called among several machines, as compare/rank.rs has it: threads of all CPUs are as many as there are, and of
// a dropped parameter only that the case has it counts.
function keyOf(one, cpus, dropped) {
  const { benchmark, params } = parts(one.id);
  const part = ([name, value]) => {
    if (dropped.has(name)) return `${name}=*`;
    return name === "threads" && value !== "1" && Number(value) === cpus ? "threads=all" : `${name}=${value}`;
  };
  return [benchmark, ...[...params].map(part)].join("/");
}

// Parameters of a benchmark that follow the machine, differ from machine to machine and tell no two cases of one apart.
function droppedOf(machines, cases, ofMachine) {
  const dropped = new Set();
  const keys = (i, without) => cases[i].map((one) => keyOf(one, machines[i].cpus, without));
  const names = new Set(cases.flat().flatMap((one) => [...parts(one.id).params.keys()]));
  [...names].filter((name) => ofMachine.includes(name)).sort().forEach((name) => {
    const present = cases.map((own, i) => (own.length ? i : -1)).filter((i) => i >= 0);
    const sets = new Set(present.map((i) => [...new Set(keys(i, dropped))].sort().join("\n")));
    const more = new Set([...dropped, name]);
    const distinct = present.every((i) => new Set(keys(i, more)).size === new Set(cases[i].map((one) => one.id)).size);
    if (sets.size > 1 && distinct) dropped.add(name);
  });
  return dropped;
}

// A machine's figure of a metric: over several repetitions the median of them, within all their intervals.
function figureOf(repeats, name) {
  const ok = repeats.filter((one) => one.status === "ok");
  const used = ok.length ? ok : repeats.filter((one) => one.status === "invalid");
  const figures = used.flatMap((one) => one.figures.filter((figure) => figure.name === name));
  if (!figures.length) return { status: repeats[0].status, reason: repeats[0].reason, id: repeats[0].id };
  const whole = figures.every((figure) => figure.ci95 !== null);
  const shares = figures.map((figure) => figure.of_limit).filter((share) => share !== null);
  return {
    status: ok.length ? "ok" : "invalid", reason: used[0].reason, interrupted: used.some((one) => one.interrupted), id: used[0].id, unit: figures[0].unit, better: figures[0].better,
    median: median(figures.map((figure) => figure.median)), n: figures.reduce((sum, figure) => sum + figure.n, 0),
    ci95: whole ? [least(figures.map((figure) => figure.ci95[0])), largest(figures.map((figure) => figure.ci95[1]))] : null,
    of_limit: shares.length ? median(shares) : null,
  };
}

// A row for each case and metric, with a cell for each machine, or none where the machine has no such case.
function rowsOf(machines, ofMachine) {
  const benchmarks = [...new Set(machines.flatMap((machine) => machine.cases.map((one) => parts(one.id).benchmark)))];
  const rows = new Map();
  for (const benchmark of benchmarks) {
    const cases = machines.map((machine) => machine.cases.filter((one) => parts(one.id).benchmark === benchmark));
    const dropped = droppedOf(machines, cases, ofMachine);
    machines.forEach((machine, i) => {
      const repeats = new Map();
      cases[i].forEach((one) => {
        const key = keyOf(one, machine.cpus, dropped);
        repeats.set(key, [...(repeats.get(key) || []), one]);
      });
      repeats.forEach((own, key) => addTo(rows, key, own, i, machines.length));
    });
  }
  const found = [...rows.values()].flatMap((row) => [...row.metrics].map(([name, metric], index) => ({
    key: `${row.key} ${name}`, label: row.label, id: row.id, metric: name, headline: index === 0, ...metric,
  })));
  found.forEach(judge);
  return found;
}

// Puts a machine's repetitions of one case into the rows.
function addTo(rows, key, repeats, machine, count) {
  if (!rows.has(key)) rows.set(key, { key, label: repeats[0].label, id: repeats[0].id, metrics: new Map() });
  const { metrics } = rows.get(key);
  const names = [...new Set(repeats.flatMap((one) => one.figures.map((figure) => figure.name)))];
  names.forEach((name) => {
    const cell = figureOf(repeats, name);
    if (!metrics.has(name)) metrics.set(name, { unit: cell.unit, better: cell.better, cells: Array(count).fill(null) });
    const metric = metrics.get(name);
    if (metric.unit === cell.unit && metric.better === cell.better) metric.cells[machine] = cell;
    else metric.cells[machine] = { status: "skipped", reason: `is in ${cell.unit}, not in ${metric.unit}`, id: cell.id };
  });
  // What failed says so in the rows that others make.
  if (!names.length) rows.get(key).failed = [...(rows.get(key).failed || []), [machine, figureOf(repeats, "")]];
  (rows.get(key).failed || []).forEach(([which, cell]) => metrics.forEach((metric) => { metric.cells[which] = metric.cells[which] || cell; }));
}

// How many times as good one figure is as another: 1 is alike, whatever direction is good.
const times = (row, figure, other) => (row.better === "higher" ? figure / other : other / figure);

// Which machines are the best of a row: those whose intervals touch that of the best figure. Where no interval parts from it,
// nobody is. Of a figure that was mostly interrupted nothing is said.
function judge(row) {
  const all = row.cells.filter((cell) => cell && cell.status === "ok");
  const ok = all.filter((cell) => !cell.interrupted);
  const best = ok.reduce((a, b) => (a && times(row, a.median, b.median) >= 1 ? a : b), null);
  row.best = best && best.median;
  ok.forEach((cell) => {
    cell.share = times(row, cell.median, best.median);
    if (!Number.isFinite(cell.share)) cell.share = cell === best ? 1 : null;
    cell.apart = cell !== best && cell.ci95 !== null && best.ci95 !== null
      && (row.better === "higher" ? cell.ci95[1] < best.ci95[0] : cell.ci95[0] > best.ci95[1]);
  });
  const parted = ok.some((cell) => cell.apart);
  ok.forEach((cell) => {
    const unknown = cell.ci95 === null || best.ci95 === null;
    cell.verdict = ok.length < 2 ? "" : unknown ? "no interval" : cell.apart ? "behind" : parted ? "best" : "not apart";
  });
  row.cells.forEach((cell) => { if (cell && !ok.includes(cell)) cell.verdict = cell.status === "ok" ? "interrupted" : cell.status; });
  const shares = ok.map((cell) => cell.share).filter((share) => share > 0);
  row.spread = shares.length > 1 ? 1 / least(shares) : null;
}
