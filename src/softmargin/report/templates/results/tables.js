// Tables that can be sorted by any column, and the filters of the overview.

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

function keyOf(cell) {
  const key = cell.dataset.key ?? cell.textContent.trim();
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
