// Draws each figure when it comes into view, or all of them before printing.

const data = new Map(JSON.parse(document.getElementById("charts").textContent).map((chart) => [chart.id, chart]));
const figures = [...document.querySelectorAll("[data-chart]")].map((place) => new Figure(place, data.get(place.dataset.chart)));
const byPlace = new Map(figures.map((figure) => [figure.place, figure]));

const seen = new IntersectionObserver((entries) => {
  entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    seen.unobserve(entry.target);
    byPlace.get(entry.target).draw();
  });
}, { rootMargin: "200px" });

// What is in view is drawn at once, the rest when it comes near.
figures.forEach((figure) => {
  if (figure.place.getBoundingClientRect().top < innerHeight) figure.draw();
  else seen.observe(figure.place);
});

function drawAll() {
  figures.forEach((figure) => figure.draw());
}

// Paper shows everything, is white, and is narrower than the screen.
const folded = [...document.querySelectorAll("details:not(.limit)")];
let closed = [];
let shown;
addEventListener("beforeprint", () => {
  shown = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  closed = folded.filter((details) => !details.open);
  closed.forEach((details) => { details.open = true; });
  drawAll();
  figures.forEach((figure) => figure.print());
});
addEventListener("afterprint", () => {
  if (shown === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = shown;
  closed.forEach((details) => { details.open = false; });
  figures.forEach((figure) => figure.unprint());
});
// What is drawn in a fold that was closed meanwhile takes its room when it is opened again.
folded.forEach((details) => details.addEventListener("toggle", () => figures.forEach((figure) => figure.fit())));
addEventListener("resize", () => figures.forEach((figure) => figure.fit()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.forEach((figure) => figure.redraw()));

document.querySelectorAll("button.theme").forEach((toggle) => {
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = getComputedStyle(root).getPropertyValue("--dark").trim() === "1";
    root.dataset.theme = dark ? "light" : "dark";
    figures.forEach((figure) => figure.redraw());
  });
});

// A click or Enter on the head of a column sorts the rows by it, again the other way round. Rows without a figure come last.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return heads[column].classList.contains("n") ? null : cell.textContent;
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  heads.forEach((head, column) => {
    const sort = button(head.textContent, `sort by ${head.textContent}`, () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      const known = rows.filter(([value]) => value !== null).sort(([a], [b]) => (up ? compare(a, b) : compare(b, a)));
      body.append(...known.concat(rows.filter(([value]) => value === null)).map(([, row]) => row));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
    head.replaceChildren(sort);
  });
});

// "#all" draws everything at once and opens the numbers: for who saves or searches the page, and for tests.
if (location.hash === "#all") {
  document.querySelectorAll("details.folded, details.alone").forEach((details) => { details.open = true; });
  drawAll();
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  document.documentElement.dataset.drawn = String(figures.filter((figure) => figure.drawing).length);
}
