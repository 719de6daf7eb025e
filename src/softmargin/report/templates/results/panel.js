// A panel with two axes: lines, points, bars and histograms.

const TEXT = 12; // pixels
const PLOT_HEIGHT = 270;
const KINDS = { line, points, bars, histogram };

/** Draw a chart in a width; returns the picture, and the stops at which it can be read. */
function drawPanel(chart, shown, width) {
  const kind = KINDS[chart.kind];
  const isNamed = chart.categories.length > 0;
  const space = rangesOf(kind, chart, shown);
  const heading = wrapped(chart.y_label, width - 8);
  const top = 10 + heading.length * (TEXT + 4);
  const yTicks = scaleOf(space.y, [1, 0], chart.log_y).ticks(5);
  const left = 10 + Math.max(...yTicks.map((tick) => widthOf(tickText(tick))), 12);
  const plot = { left, right: width - 10, top, bottom: top + PLOT_HEIGHT };
  const scales = {
    x: scaleOf(space.x, [plot.left, plot.right], chart.log_x && !isNamed),
    y: scaleOf(space.y, [plot.bottom, plot.top], chart.log_y),
  };
  scales.base = kind.fromZero && !chart.log_y ? scales.y.at(0) : plot.bottom;
  const [below, belowHeight] = isNamed ? namedAxis(chart, scales.x, plot) : numberedAxis(chart, shown, scales.x, plot);
  const label = wrapped(chart.x_label, width - 8);
  const height = plot.bottom + belowHeight + label.length * (TEXT + 4) + 4;
  const picture = svg("svg", { viewBox: `0 0 ${round(width)} ${round(height)}`, role: "img" });
  picture.append(
    ...textLines(heading, 2, TEXT, "start"),
    ...yAxis(yTicks, scales.y, plot),
    below,
    ...textLines(label, (plot.left + plot.right) / 2, plot.bottom + belowHeight + TEXT, "middle"),
  );
  if (kind.fromZero && space.y[0] < 0) picture.append(svg("path", { d: `M${plot.left},${round(scales.base)}H${plot.right}`, class: "axis" }));
  for (const each of shown) {
    const marks = kind.draw(each, scales, chart, shown);
    picture.append(svg("g", { tone: each.look.tone, class: "series", "data-series": each.index }, ...marks));
  }
  return { picture, height, plot, stops: kind.stops(shown, scales, chart), nearest: kind.nearest };
}

function rangesOf(kind, chart, shown) {
  const values = kind.extents(shown, chart);
  const isNamed = chart.categories.length > 0;
  let y = padded(extent(values.y, chart.log_y), chart.log_y);
  if (kind.fromZero && !chart.log_y) {
    const [low, high] = extent([0, ...values.y], false);
    y = [low < 0 ? low * 1.04 : 0, high > 0 ? high * 1.06 : 0];
  } else if (kind.fromZero) {
    y = [extent(values.y, true)[0] / 2, y[1]];
  }
  if (isNamed) return { x: [-0.5, chart.categories.length - 0.5], y };
  const x = extent(values.x, chart.log_x);
  return { x: chart.kind === "points" ? padded(x, chart.log_x) : x, y };
}

function textLines(lines, x, y, anchor) {
  return lines.map((text, i) => svg("text", { x, y: y + i * (TEXT + 4), "text-anchor": anchor, class: "label" }, text));
}

function yAxis(ticks, scale, plot) {
  return ticks.map((tick) => {
    const y = scale.at(tick);
    return svg(
      "g",
      {},
      svg("path", { d: `M${round(plot.left)},${round(y)}H${round(plot.right)}`, class: "grid" }),
      svg("text", { x: plot.left - 6, y: y + 4, "text-anchor": "end", class: "tick" }, tickText(tick)),
    );
  });
}

/** An axis of numbers: its elements, and how high its texts are. */
function numberedAxis(chart, shown, scale, plot) {
  const all = chart.kind === "bars" ? placesOf(shown, chart) : scale.ticks((plot.right - plot.left) / 80);
  const ticks = all.filter((tick) => scale.at(tick) !== null);
  const group = svg("g", {}, svg("path", { d: `M${round(plot.left)},${plot.bottom}H${round(plot.right)}`, class: "axis" }));
  let end = -Infinity;
  for (const tick of ticks) {
    const [x, text] = [scale.at(tick), tickText(tick)];
    const half = widthOf(text) / 2;
    group.append(svg("path", { d: `M${round(x)},${plot.bottom}v4`, class: "axis" }));
    if (x - half < end + 6) continue;
    const middle = Math.min(Math.max(x, half), plot.right + 10 - half); // no text leaves the picture
    group.append(svg("text", { x: middle, y: plot.bottom + 17, "text-anchor": "middle", class: "tick" }, text));
    end = x + half;
  }
  return [group, 24];
}

/** An axis of names, turned where they do not fit side by side. */
function namedAxis(chart, scale, plot) {
  const room = (plot.right - plot.left) / chart.categories.length;
  const widest = Math.max(...chart.categories.map((name) => widthOf(name)));
  const turned = widest > room - 6;
  const group = svg("g", {}, svg("path", { d: `M${round(plot.left)},${plot.bottom}H${round(plot.right)}`, class: "axis" }));
  chart.categories.forEach((name, i) => {
    const x = scale.at(i);
    const text = svg("text", { "text-anchor": turned ? "end" : "middle", class: "tick" }, turned ? shortened(name) : name);
    const place = turned ? `translate(${round(x + 4)},${plot.bottom + 12}) rotate(-38)` : `translate(${round(x)},${plot.bottom + 17})`;
    text.setAttribute("transform", place);
    group.append(text);
  });
  return [group, turned ? 18 + 0.64 * Math.min(widest, widthOf("m".repeat(14))) : 24];
}

function shortened(name) {
  const most = widthOf("m".repeat(14));
  if (widthOf(name) <= most) return name;
  let kept = name;
  while (kept.length > 1 && widthOf(`${kept}…`) > most) kept = kept.slice(0, -1);
  return `${kept.trim()}…`;
}
