// The values of a chart as a table for those who do not see it, and numbers as files.

const MOST_ROWS = 400;

/** Headings and rows of a chart's values. */
function valuesOf(chart) {
  const some = (name) => chart.series.some((series) => series[name] && series[name].length);
  const xName = chart.x_label || "x";
  if (chart.kind === "ranks") {
    return { headings: ["method", xName], rows: chart.series.map((series) => [series.name, series.y[0]]) };
  }
  const isHistogram = chart.kind === "histogram";
  const optional = ["low", "high", "size"].filter(some);
  const places = isHistogram ? [`${xName}, from`, "to"] : [xName];
  const headings = ["series", ...places, chart.y_label || "y", ...optional.map((name) => (name === "size" ? "samples" : name))];
  const rows = chart.series.flatMap((series) =>
    series.y.map((value, i) => {
      const at = chart.categories.length ? chart.categories[series.x[i]] ?? series.x[i] : series.x[i];
      const where = isHistogram ? [at, series.x[i + 1]] : [at];
      return [series.name, ...where, value, ...optional.map((name) => series[name][i] ?? null)];
    }),
  );
  return { headings, rows };
}

/** Fill the details under a figure when they are opened. */
function fillValues(figure) {
  const details = figure.querySelector(".values");
  if (details.dataset.filled) return;
  details.dataset.filled = "yes";
  const chart = chartOf(figure);
  const { headings, rows } = valuesOf(chart);
  const head = element("tr", {}, ...headings.map((text, i) => element("th", { scope: "col", class: i ? null : "name" }, text)));
  const body = rows.slice(0, MOST_ROWS).map(([name, ...rest]) =>
    element("tr", {}, element("th", { scope: "row" }, name), ...rest.map((value) => valueCell(value))),
  );
  const more = rows.length > MOST_ROWS ? ` The first ${MOST_ROWS} of ${rows.length} rows; the file has all.` : "";
  const caption = element("caption", {}, `Values of “${chart.title}”.${more}`);
  const table = element("table", { class: "sortable" }, caption, element("thead", {}, head), element("tbody", {}, ...body));
  makeSortable(table);
  const button = element("button", { type: "button" }, "These values as CSV");
  button.addEventListener("click", () => save(`${figure.dataset.id}-${chart.name}.csv`, "text/csv", csv([headings, ...rows])));
  const box = element("div", { class: "scroll tall", role: "region", tabindex: "0", "aria-label": `Values of ${chart.title}` }, table);
  details.append(box, element("p", { class: "downloads" }, button));
}

function valueCell(value) {
  const isText = typeof value === "string";
  return element("td", { "data-key": isText ? value : String(value ?? ""), class: isText ? "name" : null }, isText ? value : show(value));
}

// ---- files -----------------------------------------------------------------------------------

function csv(rows) {
  return rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Hand a text to the reader as a file. */
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** All tables of a result as rows: one for each number, with its statistics and its values. */
function tableRows({ numbers }) {
  const headings = ["table", "unit", "row", "column", "n", "mean", "sd", "paper", "paper sd"];
  headings.push("difference", "low", "high", "p", "p Holm", "method", "values");
  const rows = numbers.tables.flatMap((table) =>
    table.entries.map((entry) => {
      const found = entry.comparison || {};
      const [mean, sd] = meanAndSd(entry.values);
      const own = [table.title, table.unit, entry.row, entry.column, entry.values.length, mean, sd, entry.paper, entry.paper_sd];
      return [...own, found.difference, found.low, found.high, found.p, entry.adjusted, found.method, entry.values.join(" ")];
    }),
  );
  return [headings, ...rows];
}

function meanAndSd(values) {
  if (!values.length || !values.every(isNumber)) return [null, null];
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return [mean, values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : null];
}

const DOWNLOADS = {
  json: (id) => save(`${id}.json`, "application/json", JSON.stringify(dataOf(id).numbers, null, 1)),
  csv: (id) => save(`${id}.csv`, "text/csv", csv(tableRows(dataOf(id)))),
  all: () => {
    const ids = [...document.querySelectorAll(".result")].map((section) => section.id);
    const all = Object.fromEntries(ids.map((id) => [id, dataOf(id).numbers]));
    save("softmargin-results.json", "application/json", JSON.stringify(all, null, 1));
  },
  overview: () => {
    const rows = [...document.querySelectorAll("#all tr")].map((row) => [...row.cells].map(cellText));
    save("softmargin-overview.csv", "text/csv", csv(rows));
  },
};

function cellText(cell) {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll("[aria-hidden], .more").forEach((node) => node.remove());
  return copy.textContent.replace(/\s+/g, " ").trim();
}
