// Numbers with units, as the tables write them: three significant digits, SI prefixes for rates and times, binary ones
// for bytes.

const PREFIXES = [["E", 1e18], ["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]];
const TIMES = [["", 1], ["m", 1e-3], ["µ", 1e-6], ["n", 1e-9], ["p", 1e-12]];
const BINARY = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10], ["", 1]];

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  if (size < 0.9995) return value.toPrecision(3);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// A share, to so many digits where it is small.
const percent = (share, most = 3) => `${most < 3 && share < 0.1 ? Number((share * 100).toPrecision(most)) : digits(share * 100)} %`;

function human(value, unit) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (unit === "%") return digits(value) + " %";
  if (unit === "" || unit === "1") return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : digits(value);
  const steps = unit === "s" ? TIMES : unit === "B" ? BINARY : PREFIXES;
  const size = Math.abs(value);
  const name = unit === "IO/s" ? "IOPS" : unit;
  if (size === 0) return "0 " + name;
  const step = steps.find(([, s]) => size >= s * 0.9995) || steps[steps.length - 1];
  const scaled = value / step[1];
  const text = unit === "B" && Number.isInteger(scaled) ? String(scaled) : digits(scaled);
  // Of a plain count each second no 1 is said: k/s.
  return text + " " + step[0] + name.replace(/^1\//, "/");
}
