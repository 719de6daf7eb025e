// The critical-difference diagram: average ranks, and which methods they do not tell apart.

const ROW = 20;

function drawRanks(chart, shown, width) {
  const methods = [...shown].sort((a, b) => a.series.y[0] - b.series.y[0]);
  const names = methods.map(({ series }) => `${series.name}  ${series.y[0].toFixed(2)}`);
  const half = Math.ceil(methods.length / 2);
  const room = (some) => Math.max(0, ...some.map((name) => widthOf(name))) + 18;
  // both sides have names where the axis keeps most of the width, otherwise the left one has all
  const bothSides = room(names.slice(0, half)) + room(names.slice(half)) < 0.55 * width;
  const onLeft = bothSides ? half : methods.length;
  const left = room(names.slice(0, onLeft));
  const right = width - (bothSides ? room(names.slice(half)) : 14);
  const scale = scaleOf([1, Math.max(2, methods.length)], [left, right], false);
  const words = wrapped(yardstickWords(chart, methods.length), width - left);
  const axis = 22 + words.length * 16 + 26;
  const groups = groupBars(chart, shown, scale);
  const first = axis + 16 + 9 * (1 + Math.max(-1, ...groups.map(({ row }) => row)));
  const label = wrapped(groups.length ? "bar: no two of its methods are significantly different" : "all methods are significantly different", width - 4);
  const bottom = first + ROW * (onLeft - 1) + 34;
  const height = bottom + (label.length - 1) * 16 + 6;
  const picture = svg("svg", { viewBox: `0 0 ${round(width)} ${round(height)}`, role: "img" });
  picture.append(...rankAxis(scale, axis, methods.length), ...yardstick(chart, scale, words, axis));
  const stops = methods.map((each, place) => {
    const isLeft = place < onLeft;
    const depth = first + ROW * (isLeft ? place : methods.length - 0.5 - place);
    picture.append(methodLine(each, names[place], scale, axis, depth, isLeft));
    const [x, y] = [scale.at(each.series.y[0]), axis];
    return { x, y, title: each.series.name, rows: [{ name: "average rank", text: each.series.y[0].toFixed(2), tone: each.look.tone, x, y }] };
  });
  for (const { start, end, row } of groups) {
    picture.append(svg("path", { d: `M${round(start)},${axis + 12 + 9 * row}H${round(end)}`, class: "clique" }));
  }
  picture.append(...textLines(label, width / 2, bottom, "middle"));
  return { picture, height, plot: { left, right, top: 0, bottom: height }, stops, nearest: "both" };
}

function yardstickWords(chart, methods) {
  const { cd, sets, level = 0.95 } = chart.extra;
  const beyond = cd > methods - 1 ? ", longer than the axis" : "";
  return `critical difference ${cd.toFixed(2)} over ${show(sets)} data sets (Nemenyi, ${show(100 * level)} %)${beyond}`;
}

function yardstick(chart, scale, words, axis) {
  const start = scale.at(1);
  const end = Math.min(scale.at(1 + chart.extra.cd), scale.at(scale.high));
  const y = axis - 30;
  const ruler = svg("path", { d: `M${round(start)},${y - 4}v8m0,-4H${round(end)}m0,-4v8`, class: "axis heavy" });
  return [...textLines(words, start, y - 10 - (words.length - 1) * 16, "start"), ruler];
}

function rankAxis(scale, axis, methods) {
  const marks = [svg("path", { d: `M${round(scale.at(1))},${axis}H${round(scale.at(scale.high))}`, class: "axis heavy" })];
  for (let rank = 1; rank <= Math.max(2, methods); rank += 1) {
    const x = scale.at(rank);
    marks.push(
      svg("path", { d: `M${round(x)},${axis}v-5`, class: "axis heavy" }),
      svg("text", { x, y: axis - 9, "text-anchor": "middle", class: "tick" }, String(rank)),
    );
  }
  return marks;
}

function methodLine({ series, look, index }, name, scale, axis, depth, isLeft) {
  const x = scale.at(series.y[0]);
  const side = isLeft ? scale.at(1) - 10 : scale.at(scale.high) + 10;
  const text = svg("text", { x: side + (isLeft ? -5 : 5), y: depth + 4, "text-anchor": isLeft ? "end" : "start", class: "label" }, name);
  return svg(
    "g",
    { class: "series", "data-series": index },
    svg("path", { d: `M${round(x)},${axis}V${round(depth)}H${round(side)}`, class: "leader" }),
    svg("g", { tone: look.tone }, markerPath("o", x, axis, 4)),
    text,
  );
}

/** A bar for every group of methods that are not told apart; bars of one row do not touch. */
function groupBars(chart, shown, scale) {
  const taken = [];
  return (chart.groups || []).map((members) => {
    const ranks = members.map((i) => chart.series[i].y[0]);
    const [start, end] = [scale.at(Math.min(...ranks)) - 5, scale.at(Math.max(...ranks)) + 5];
    let row = taken.findIndex((last) => start > last + 6);
    if (row < 0) row = taken.length;
    taken[row] = end;
    return { start, end, row };
  });
}
