// A figure: its legend whose buttons show and hide series, its picture, and reading its values.

const DRAW = { line: drawPanel, points: drawPanel, bars: drawPanel, histogram: drawPanel, reliability: drawReliability, ranks: drawRanks };
const NARROW = 480; // pixels, below which a reading would hide what it reads
const figures = new Map(); // drawn figures, by their element
const parsed = new Map(); // numbers of results, by id

function dataOf(id) {
  if (!parsed.has(id)) parsed.set(id, JSON.parse(document.getElementById(`${id}-data`).textContent));
  return parsed.get(id);
}

function chartOf(figure) {
  const { numbers, drawings } = dataOf(figure.dataset.id);
  const place = Number(figure.dataset.chart);
  return { ...numbers.charts[place], ...drawings[place] };
}

/** Draw a figure that came into view, once. */
function mount(figure) {
  if (figures.has(figure)) return;
  const chart = chartOf(figure);
  const plot = figure.querySelector(".plot");
  const state = { figure, plot, chart, hidden: new Set(), width: 0, active: null };
  figures.set(figure, state);
  figure.classList.add("drawn");
  if (chart.kind !== "ranks") figure.querySelector(".legend").append(...legendOf(state));
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-roledescription", "chart");
  plot.setAttribute("aria-label", `${chart.title}. Arrow keys read its values.`);
  plot.addEventListener("pointermove", (event) => readNearest(state, event));
  plot.addEventListener("pointerdown", (event) => readNearest(state, event));
  plot.addEventListener("pointerleave", () => read(state, null));
  plot.addEventListener("blur", () => read(state, null));
  plot.addEventListener("keydown", (event) => readByKey(state, event));
  redraw(state);
  resized.observe(plot);
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const state = figures.get(target.closest(".chart"));
    if (state && Math.abs(target.clientWidth - state.width) > 1) redraw(state);
  }
});

function redraw(state) {
  const { chart, plot, hidden } = state;
  state.width = plot.clientWidth || 480;
  state.active = null;
  const shown = chart.series.flatMap((series, index) =>
    hidden.has(index) ? [] : [{ series, index, look: chart.looks[index], bins: chart.bins && chart.bins[index] }],
  );
  if (!shown.length) {
    state.drawn = { stops: [] };
    plot.replaceChildren(element("p", { class: "empty" }, "All series are hidden."));
    return;
  }
  state.drawn = DRAW[chart.kind](chart, shown, state.width);
  const { picture } = state.drawn;
  picture.setAttribute("aria-label", describe(chart, shown));
  state.pointer = svg("g", { class: "pointer" });
  picture.append(state.pointer);
  state.reading = element("div", { class: "reading", "aria-hidden": "true", hidden: "" });
  plot.replaceChildren(picture, state.reading);
}

function describe(chart, shown) {
  const words = { line: "Lines", points: "Points", bars: "Bars", histogram: "Histogram", reliability: "Reliability diagrams", ranks: "Critical-difference diagram" };
  const axes = [chart.x_label, chart.y_label].filter(Boolean).join("; vertical: ");
  return `${chart.title}. ${words[chart.kind]}. Horizontal: ${axes}. Series: ${shown.map(({ series }) => series.name).join(", ")}.`;
}

// ---- legend ----------------------------------------------------------------------------------

function legendOf(state) {
  const { chart } = state;
  if (chart.series.length < 2 && chart.kind === "reliability") return [];
  return chart.series.map((series, index) => {
    const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(chart, index), series.name);
    button.addEventListener("click", () => {
      const show = state.hidden.has(index);
      if (show) state.hidden.delete(index);
      else state.hidden.add(index);
      button.setAttribute("aria-pressed", String(show));
      redraw(state);
    });
    return button;
  });
}

function swatch(chart, index) {
  const [series, look] = [chart.series[index], chart.looks[index]];
  const sign = svg("svg", { viewBox: "0 0 26 12", width: 26, height: 12, "aria-hidden": "true", tone: look.tone });
  const filled = ["bars", "histogram", "reliability"].includes(chart.kind);
  if (filled) sign.append(svg("rect", { x: 4, y: 1, width: 18, height: 10, class: series.dashed ? "outline" : "bar" }));
  else {
    if (chart.kind === "line" || series.dashed) sign.append(svg("path", { d: "M0,6H26", class: "line", "stroke-dasharray": dashesOf(look) }));
    const marked = chart.kind === "points" || series.x.length <= MARKED_UP_TO;
    if (marked && !series.dashed) sign.append(markerPath(look.marker, 13, 6, 3.6));
  }
  return sign;
}

// ---- reading values --------------------------------------------------------------------------

function readNearest(state, event) {
  const { stops, nearest } = state.drawn;
  if (!stops.length) return;
  const box = state.plot.querySelector("svg").getBoundingClientRect();
  const scale = state.width / box.width;
  const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  let [best, least] = [null, Infinity];
  for (const stop of stops) {
    const far = nearest === "x" ? Math.abs(stop.x - x) : Math.hypot(stop.x - x, stop.y - y);
    if (far < least) [best, least] = [stop, far];
  }
  const tooFar = state.chart.kind === "points" && least > 40;
  read(state, tooFar ? null : best);
}

function readByKey(state, event) {
  const { stops } = state.drawn;
  const last = stops.length - 1;
  if (last < 0) return;
  const at = stops.indexOf(state.active);
  const moves = {
    ArrowRight: () => Math.min(at + 1, last),
    ArrowLeft: () => (at < 0 ? last : Math.max(at - 1, 0)),
    ArrowDown: () => otherGroup(stops, at, 1),
    ArrowUp: () => otherGroup(stops, at, -1),
    Home: () => 0,
    End: () => last,
  };
  if (event.key === "Escape") read(state, null);
  else if (moves[event.key]) {
    event.preventDefault();
    read(state, stops[moves[event.key]()]);
    document.getElementById("reading").textContent = spoken(state.active);
  }
}

/** The first stop of the next or previous series, where stops belong to series. */
function otherGroup(stops, at, step) {
  const current = stops[Math.max(at, 0)].group;
  let i = Math.max(at, 0);
  while (stops[i] && stops[i].group === current) i += step;
  return stops[i] ? stops.findIndex((stop) => stop.group === stops[i].group) : Math.max(at, 0);
}

function spoken({ title, rows }) {
  return `${title}. ${rows.map(({ name, text }) => `${name} ${text}`.trim()).join("; ")}`;
}

/** Show what is at a stop, or nothing. */
function read(state, stop) {
  if (!state.reading || state.active === stop) return;
  state.active = stop;
  state.pointer.replaceChildren();
  state.reading.hidden = !stop;
  if (!stop) return;
  const { plot, nearest } = state.drawn;
  if (nearest === "x") state.pointer.append(svg("path", { d: `M${round(stop.x)},${plot.top}V${plot.bottom}`, class: "crosshair" }));
  for (const { x, y, tone } of stop.rows) {
    if (isNumber(y)) state.pointer.append(svg("circle", { cx: x, cy: y, r: 5, tone }));
  }
  const rows = stop.rows.map(({ name, text, tone }) =>
    element("li", {}, element("span", { class: "dot", tone }), element("span", {}, name), element("b", {}, text)),
  );
  state.reading.replaceChildren(element("strong", {}, stop.title), element("ul", {}, ...rows));
  place(state, stop);
}

/** Put the reading beside its stop, on the side with room; in a narrow figure below the picture. */
function place({ reading, plot, width, drawn }, stop) {
  const scale = plot.clientWidth / width;
  const [w, h] = [reading.offsetWidth, reading.offsetHeight];
  const [x, y] = [stop.x * scale, stop.y * scale];
  const isNarrow = plot.clientWidth < NARROW;
  const beside = x + w + 14 <= plot.clientWidth ? x + 14 : x - w - 14;
  const wanted = isNarrow ? x - w / 2 : beside;
  const left = Math.min(Math.max(wanted, 0), Math.max(plot.clientWidth - w, 0));
  const top = isNarrow ? drawn.height * scale + 2 : Math.min(Math.max(y - h / 2, 0), Math.max(drawn.height * scale - h, 0));
  reading.style.transform = `translate(${round(left)}px, ${round(top)}px)`;
}
