// Reliability diagrams: one for each series, its counts below, as in the gradient-decay paper.

const DIAGRAM = { width: 250, gap: 26, counts: 64, between: 20, title: 22, axis: 44, left: 30 };
const COUNT_TEXT = 9.5; // pixels

function drawReliability(chart, shown, width) {
  const columns = Math.max(1, Math.min(shown.length, Math.floor((width + DIAGRAM.gap) / (DIAGRAM.width + DIAGRAM.gap))));
  const side = Math.min((width - (columns - 1) * DIAGRAM.gap) / columns, 330);
  const square = side - DIAGRAM.left - 8;
  const tall = DIAGRAM.title + square + DIAGRAM.between + DIAGRAM.counts + DIAGRAM.axis;
  const heading = explanation(chart, width);
  const height = heading.height + Math.ceil(shown.length / columns) * (tall + DIAGRAM.gap) - DIAGRAM.gap;
  const picture = svg("svg", { viewBox: `0 0 ${round(width)} ${round(height)}`, role: "img" }, heading.group);
  const stops = [];
  shown.forEach((each, place) => {
    const x = (place % columns) * (side + DIAGRAM.gap) + DIAGRAM.left;
    const y = heading.height + Math.floor(place / columns) * (tall + DIAGRAM.gap) + DIAGRAM.title;
    const group = svg("g", { tone: each.look.tone, class: "series", "data-series": each.index });
    stops.push(...drawDiagram(group, each, chart, { x, y, square }));
    picture.append(group);
  });
  const plot = { left: 0, right: width, top: 0, bottom: height };
  return { picture, height, plot, stops, nearest: "both" };
}

/** What bars, hatching and the dashed line are. */
function explanation(chart, width) {
  const entries = [
    [svg("rect", { x: 0, y: -9, width: 18, height: 10, class: "bar muted" }), `${chart.y_label}, 95 % interval`],
    [svg("rect", { x: 0, y: -9, width: 18, height: 10, class: "gap" }), "gap to confidence"],
    [svg("path", { d: "M0,-4H18", class: "diagonal" }), "no gap"],
  ];
  const group = svg("g", {});
  let [x, y] = [0, 14];
  for (const [sign, text] of entries) {
    const room = 24 + widthOf(text) + 18;
    if (x && x + room - 18 > width) [x, y] = [0, y + 18];
    const entry = svg("g", {}, sign, svg("text", { x: 24, y: 0, class: "label" }, text));
    entry.setAttribute("transform", `translate(${round(x)},${y})`);
    group.append(entry);
    x += room;
  }
  return { group, height: y + 16 };
}

function drawDiagram(group, { series, look, bins }, chart, { x, y, square }) {
  const across = scaleOf([0, 1], [x, x + square], false);
  const up = scaleOf([0, 1], [y + square, y], false);
  const error = isNumber(bins.ece) ? `ECE ${show(Number((100 * bins.ece).toFixed(1)))} %` : "";
  group.append(
    svg("text", { x, y: y - 8, class: "label strong" }, series.name),
    svg("text", { x: x + square, y: y - 8, class: "label", "text-anchor": "end" }, error),
    ...squareAxes(across, up, { x, y, square }),
  );
  const most = Math.max(1, ...series.size.map((size) => size || 0));
  const floor = y + square + DIAGRAM.between + DIAGRAM.counts;
  const stops = [];
  const step = square / series.y.length;
  const hasRoom = series.size.every((size) => widthOf(shortCount(size || 0), COUNT_TEXT) <= step + 1);
  series.y.forEach((accuracy, i) => {
    const [confidence, size] = [series.x[i], series.size[i]];
    if (!size || !isNumber(accuracy) || !isNumber(confidence)) return; // an empty bin is not drawn
    const left = x + i * step;
    const [low, high] = [Math.min(accuracy, confidence), Math.max(accuracy, confidence)];
    const tall = (DIAGRAM.counts - 14) * (size / most);
    group.append(
      svg("rect", { x: left + 0.5, y: up.at(accuracy), width: step - 1, height: up.at(0) - up.at(accuracy), class: "bar" }),
      svg("rect", { x: left + 0.5, y: up.at(high), width: step - 1, height: up.at(low) - up.at(high), class: "gap" }),
      svg("path", { d: `M${round(left + step / 2)},${round(up.at(bins.low[i]))}V${round(up.at(bins.high[i]))}`, class: "interval ink" }),
      svg("rect", { x: left + 0.5, y: floor - tall, width: step - 1, height: tall, class: "bar" }),
    );
    if (hasRoom) group.append(svg("text", { x: left + step / 2, y: floor - tall - 3, "text-anchor": "middle", class: "count" }, shortCount(size)));
    stops.push(binStop({ series, look, bins }, i, left + step / 2, y + square / 2, up));
  });
  group.append(...countAxis(across, { x, floor, square }, chart));
  return stops;
}

function squareAxes(across, up, { x, y, square }) {
  const lines = [0, 0.2, 0.4, 0.6, 0.8, 1].map((tick) =>
    svg(
      "g",
      {},
      svg("path", { d: `M${round(x)},${round(up.at(tick))}h${round(square)}`, class: "grid" }),
      svg("text", { x: x - 6, y: up.at(tick) + 4, "text-anchor": "end", class: "tick" }, show(tick)),
    ),
  );
  const diagonal = svg("path", { d: `M${round(x)},${round(y + square)}L${round(x + square)},${round(y)}`, class: "diagonal" });
  return [...lines, diagonal];
}

function countAxis(across, { x, floor, square }, chart) {
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((tick) =>
    svg("text", { x: across.at(tick), y: floor + 15, "text-anchor": "middle", class: "tick" }, show(tick)),
  );
  return [
    svg("path", { d: `M${round(x)},${round(floor)}h${round(square)}`, class: "axis" }),
    ...ticks,
    svg("text", { x: x + square / 2, y: floor + 33, "text-anchor": "middle", class: "label" }, chart.x_label),
    svg("text", { x, y: floor - DIAGRAM.counts + 8, class: "tick" }, "samples"),
  ];
}

function binStop({ series, look, bins }, i, x, y, up) {
  const edge = (value) => show(Number(value.toFixed(3)));
  const [from, to] = [i / series.y.length, (i + 1) / series.y.length];
  const row = (name, text) => ({ name, text, tone: look.tone });
  const gap = series.x[i] - series.y[i];
  const rows = [
    { ...row("accuracy", show(series.y[i]) + between(bins.low[i], bins.high[i])), x, y: up.at(series.y[i]) },
    row("mean confidence", show(series.x[i])),
    row(gap > 0 ? "over-confident by" : "under-confident by", show(Math.abs(gap))),
    row("samples", show(series.size[i])),
  ];
  return { x, y, title: `${series.name}: ${edge(from)} to ${edge(to)}`, rows, group: series.name };
}

function shortCount(count) {
  if (count < 1e4) return String(Math.round(count));
  return count < 999500 ? `${Math.round(count / 1e3)}k` : `${Math.round(count / 1e6)}M`;
}
