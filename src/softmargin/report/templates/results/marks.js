// What a series looks like inside a panel, and what can be read from it.
//
// Every kind has `extents` (the numbers that the axes must hold), `draw` (into a group whose colour
// is the series') and `stops` (places to read values at: pixels, a title, a row for each series).

const MARKED_UP_TO = 15; // points of a line
const SHAPED_UP_TO = 400; // points of a cloud; more are dots in one path
const LINE_WIDTH = 1.8;

const SHAPES = {
  o: (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  s: (r) => polygon([[-r, -r], [r, -r], [r, r], [-r, r]], 0.88),
  D: (r) => polygon([[0, -r], [r, 0], [0, r], [-r, 0]], 1.2),
  "^": (r) => polygon([[0, -r], [r, 0.8 * r], [-r, 0.8 * r]], 1.15),
  v: (r) => polygon([[0, r], [r, -0.8 * r], [-r, -0.8 * r]], 1.15),
  "<": (r) => polygon([[-r, 0], [0.8 * r, -r], [0.8 * r, r]], 1.15),
  ">": (r) => polygon([[r, 0], [-0.8 * r, -r], [-0.8 * r, r]], 1.15),
  P: (r) => cross(r, 0),
  X: (r) => cross(r, Math.PI / 4),
  "*": (r) => star(r),
};

function polygon(points, scale) {
  return `M${points.map(([x, y]) => `${round(x * scale)},${round(y * scale)}`).join("L")}Z`;
}

function cross(r, angle) {
  const [a, b] = [1.15 * r, 0.4 * r];
  const corners = [[-b, -a], [b, -a], [b, -b], [a, -b], [a, b], [b, b], [b, a], [-b, a], [-b, b], [-a, b], [-a, -b], [-b, -b]];
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  return polygon(corners.map(([x, y]) => [c * x - s * y, s * x + c * y]), 1);
}

function star(r) {
  const corners = Array.from({ length: 10 }, (_, k) => {
    const [angle, far] = [(k * Math.PI) / 5, k % 2 ? 0.5 * r : 1.35 * r];
    return [far * Math.sin(angle), -far * Math.cos(angle)];
  });
  return polygon(corners, 1);
}

function markerPath(marker, x, y, radius) {
  const path = svg("path", { d: (SHAPES[marker] || SHAPES.o)(radius), class: "fill" });
  path.setAttribute("transform", `translate(${round(x)},${round(y)})`);
  return path;
}

function dashesOf(look, width = LINE_WIDTH) {
  return look.dashes.length ? look.dashes.map((part) => round(part * width)).join(" ") : null;
}

/** Points in pixels, in pieces between gaps. */
function pieces(xs, ys, { x, y }) {
  const found = [[]];
  xs.forEach((value, i) => {
    const [px, py] = [x.at(value), y.at(ys[i])];
    if (px === null || py === null) found.push([]);
    else found[found.length - 1].push([px, py]);
  });
  return found.filter((piece) => piece.length);
}

function pathThrough(points) {
  return `M${points.map(([x, y]) => `${round(x)},${round(y)}`).join("L")}`;
}

function drawCurve(series, look, scales) {
  return pieces(series.x, series.y, scales)
    .filter((piece) => piece.length > 1)
    .map((piece) => svg("path", { d: pathThrough(piece), class: "line", "stroke-dasharray": dashesOf(look) }));
}

function hasInterval(series) {
  return series.low.length > 0 && series.high.length > 0;
}

function intervalLines(series, xs, scales) {
  if (!hasInterval(series)) return [];
  const lines = xs.flatMap((x, i) => {
    const [low, high] = [scales.y.at(series.low[i]), scales.y.at(series.high[i])];
    return x === null || low === null || high === null ? [] : [`M${round(x)},${round(low)}V${round(high)}`];
  });
  return [svg("path", { d: lines.join(""), class: "interval" })];
}
