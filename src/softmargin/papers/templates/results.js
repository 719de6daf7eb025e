"use strict";
// Tables that can be sorted, the filters of the overview, and charts that are drawn when seen.
// Texts are always set as text, never as markup.

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// ---- tables ----------------------------------------------------------------------------------

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

/** Turn the headings of a table into buttons that sort it: up, down, as it was. */
function makeSortable(table) {
  const rows = [...table.tBodies[0].rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = element("button", { type: "button", class: "sort" }, ...heading.childNodes);
    if (!button.textContent.trim()) button.setAttribute("aria-label", "name");
    button.append(element("span", { class: "arrow", "aria-hidden": "true" }));
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const direction = NEXT[heading.getAttribute("aria-sort")];
      headings.forEach((other) => other.setAttribute("aria-sort", other === heading ? direction : "none"));
      table.tBodies[0].append(...sorted(rows, column, direction));
    });
  });
}

function sorted(rows, column, direction) {
  if (direction === "none") return rows;
  const keyed = rows.map((row) => ({ row, key: keyOf(row.cells[column]) }));
  const filled = keyed.filter(({ key }) => key !== "");
  const empty = keyed.filter(({ key }) => key === ""); // stays at the end, whichever way
  const areNumbers = filled.every(({ key }) => Number.isFinite(Number(key)));
  const compare = areNumbers ? (a, b) => a.key - b.key : (a, b) => a.key.localeCompare(b.key, "en", { numeric: true });
  filled.sort(direction === "ascending" ? compare : (a, b) => compare(b, a));
  return [...filled, ...empty].map(({ row }) => row);
}

const NUMBER = /^(?:< )?(−?[\d.]+)/; // "−0.31 [−0.52, −0.10]", "< 0.001"

function keyOf(cell) {
  const key = cell.dataset.key ?? cell.textContent.trim();
  const number = "key" in cell.dataset || cell.matches("th, .name") ? null : NUMBER.exec(key);
  if (number) return number[1].replace("−", "-");
  return key === "–" ? "" : key;
}

/** Let the overview show one paper or one verdict. */
function makeFilters() {
  const wanted = { paper: "", word: "" };
  const rows = [...document.querySelectorAll("#all tbody tr")];
  for (const group of document.querySelectorAll("[data-filter]")) {
    const buttons = [...group.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        wanted[group.dataset.filter] = button.dataset.value;
        buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        for (const row of rows) {
          row.hidden = Object.entries(wanted).some(([name, value]) => value && row.dataset[name] !== value);
        }
        const shown = rows.filter((row) => !row.hidden).length;
        document.getElementById("shown").textContent = shown === rows.length ? `${shown} shown` : `${shown} of ${rows.length} shown`;
      });
    }
  }
}

// ---- charts ----------------------------------------------------------------------------------

const MOST_ROWS = 400;
const OPTIONS = { ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: showTip };
const tip = element("div", { class: "tip", role: "status" });

const specOf = (figure) => JSON.parse(figure.querySelector("script").textContent);

/** Draw a chart, and again where another number of panels or names fits side by side. */
function draw(figure) {
  const plot = figure.querySelector(".plot");
  const spec = specOf(figure);
  const room = spec.concat ? plot.clientWidth : plot.clientWidth - 60; // the legend stands over the panel
  const columns = Math.max(1, Math.floor(room / spec.usermeta.item));
  if (Number(figure.dataset.columns) === columns) return;
  figure.dataset.columns = columns;
  if (spec.concat) spec.columns = columns;
  spec.config.legend.columns = columns;
  vegaEmbed(plot, spec, OPTIONS).then(() => figure.classList.add("drawn"));
}

/** Show what a mark says beside the pointer: Vega's own way needs styles that the page forbids. */
function showTip(handler, event, item, value) {
  tip.hidden = !value;
  if (!value) return;
  const rows = Object.entries(value).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, String(text))]);
  tip.replaceChildren(...rows);
  const [x, y] = [event.clientX + 14, event.clientY + 14];
  tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : y}px`;
}

/** Fill the table of a chart's values when it is opened. */
function fillValues(figure) {
  const details = figure.querySelector(".values");
  if (details.dataset.filled) return;
  details.dataset.filled = "yes";
  const { datasets, usermeta } = specOf(figure);
  const fields = Object.keys(usermeta.headings);
  const rows = datasets.rows.flatMap((each) =>
    each[fields[0]].map((_, i) => [each.series, ...fields.map((field) => each[field][i] ?? "–")]),
  );
  const cells = (row, name) => row.map((value, i) => element(i ? name : "th", {}, String(value).replace(/^-/, "−")));
  const body = rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...cells(row, "td")));
  body.forEach((row, i) => [...row.cells].forEach((cell, j) => { cell.dataset.key = rows[i][j] === "–" ? "" : rows[i][j]; }));
  const head = element("thead", {}, element("tr", {}, ...cells(["series", ...Object.values(usermeta.headings)], "th")));
  const table = element("table", {}, head, element("tbody", {}, ...body));
  if (rows.length > MOST_ROWS) table.append(element("caption", {}, `The first ${MOST_ROWS} of ${rows.length} rows; numbers.json has all.`));
  makeSortable(table);
  details.append(element("div", { class: "scroll tall", role: "region", tabindex: "0", "aria-label": "Values" }, table));
}

/** Draw charts as they come near the window, and all of them for a printer. */
function drawWhenSeen() {
  const all = [...document.querySelectorAll(".chart")];
  const near = (entries) => entries.filter((each) => each.isIntersecting).forEach((each) => draw(each.target));
  const seen = new IntersectionObserver(near, { rootMargin: "600px 0px" });
  for (const figure of all) {
    seen.observe(figure);
    figure.querySelector(".values").addEventListener("toggle", () => fillValues(figure));
  }
  addEventListener("beforeprint", () => all.forEach(draw));
  addEventListener("resize", () => all.filter((figure) => figure.dataset.columns).forEach(draw));
}

tip.hidden = true;
document.body.append(tip);
document.querySelectorAll("table.sortable").forEach(makeSortable);
makeFilters();
drawWhenSeen();
