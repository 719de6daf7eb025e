// Lines and points.

const NEAR = 6; // pixels within which a value counts as being at the same place

// ---- lines -----------------------------------------------------------------------------------

const line = {
  nearest: "x",
  extents: (shown) => ({
    x: shown.flatMap(({ series }) => series.x),
    y: shown.flatMap(({ series }) => [...series.y, ...series.low, ...series.high]),
  }),
  draw({ series, look }, scales) {
    const marks = drawBand(series, scales);
    marks.push(...drawCurve(series, look, scales));
    const few = series.x.length <= MARKED_UP_TO && !series.dashed;
    for (const piece of pieces(series.x, series.y, scales)) {
      if (few || piece.length === 1) marks.push(...piece.map(([x, y]) => markerPath(look.marker, x, y, 3.2)));
    }
    return marks;
  },
  stops(shown, scales, chart) {
    const measured = shown.some(({ series }) => !series.dashed);
    const leading = shown.filter(({ series }) => !series.dashed || !measured);
    const places = [...new Set(leading.flatMap(({ series }) => series.x))].filter(isNumber).sort((a, b) => a - b);
    return places.flatMap((place) => stopAt(place, shown, scales, chart));
  },
};

function drawBand(series, scales) {
  if (!hasInterval(series)) return [];
  const [above, below] = [[[]], [[]]];
  series.x.forEach((value, i) => {
    const [x, low, high] = [scales.x.at(value), scales.y.at(series.low[i]), scales.y.at(series.high[i])];
    if (x === null || low === null || high === null) {
      above.push([]);
      below.push([]);
    } else {
      above[above.length - 1].push([x, high]);
      below[below.length - 1].push([x, low]);
    }
  });
  return above.flatMap((piece, i) =>
    piece.length > 1 ? [svg("path", { d: `${pathThrough([...piece, ...below[i].reverse()])}Z`, class: "band" })] : [],
  );
}

function stopAt(place, shown, scales, chart) {
  const x = scales.x.at(place);
  if (x === null) return [];
  const rows = shown.flatMap((each) => readingAt(each, place, x, scales));
  return rows.length ? [{ x, y: rows[0].y, title: titleAt(chart, place), rows }] : [];
}

/** What a series is at a place: its own value nearby, or for a reference curve one between two. */
function readingAt({ series, look }, place, x, scales) {
  let best = -1;
  series.x.forEach((value, i) => {
    const closer = best < 0 || Math.abs(value - place) < Math.abs(series.x[best] - place);
    if (isNumber(value) && isNumber(series.y[i]) && closer) best = i;
  });
  if (best < 0) return [];
  let [value, at] = [series.y[best], scales.x.at(series.x[best])];
  let interval = hasInterval(series) ? between(series.low[best], series.high[best]) : "";
  if (at === null || Math.abs(at - x) > NEAR) {
    value = series.dashed ? interpolated(series, place) : null;
    [at, interval] = [x, ""];
  }
  const y = scales.y.at(value);
  return y === null ? [] : [{ name: series.name, tone: look.tone, text: show(value) + interval, x: at, y }];
}

function interpolated({ x, y }, place) {
  const i = x.findIndex((value, k) => k > 0 && isNumber(y[k - 1]) && isNumber(y[k]) && (value - place) * (x[k - 1] - place) <= 0);
  if (i < 0) return null;
  const share = x[i] === x[i - 1] ? 0 : (place - x[i - 1]) / (x[i] - x[i - 1]);
  return y[i - 1] + share * (y[i] - y[i - 1]);
}

function titleAt(chart, place) {
  if (chart.categories.length) return chart.categories[place] ?? show(place);
  return `${chart.x_label}: ${show(place)}`;
}

// ---- points ----------------------------------------------------------------------------------

const points = {
  nearest: "both",
  extents: line.extents,
  draw(each, scales, chart, shown) {
    const { series, look } = each;
    if (series.dashed) return drawCurve(series, look, scales);
    const total = shown.reduce((sum, other) => sum + other.series.x.length, 0);
    const radius = total <= 100 ? 4 : total <= SHAPED_UP_TO ? 3.2 : total <= 1500 ? 2.2 : 1.5;
    const spots = spotsOf(each, scales, chart, shown);
    const marks = intervalLines(series, spots.map((spot) => spot && spot[0]), scales);
    const drawn = spots.filter(Boolean);
    if (total <= SHAPED_UP_TO) marks.push(...drawn.map(([x, y]) => markerPath(look.marker, x, y, radius)));
    else if (drawn.length) {
      const d = drawn.map(([x, y]) => `M${round(x)},${round(y)}h0`).join("");
      marks.push(svg("path", { d, class: "cloud", "stroke-width": 2 * radius }));
    }
    return marks;
  },
  stops(shown, scales, chart) {
    return shown.filter(({ series }) => !series.dashed).flatMap((each) => {
      const { series, look } = each;
      return spotsOf(each, scales, chart, shown).flatMap((spot, i) => {
        if (!spot) return [];
        const [x, y] = spot;
        const text = show(series.y[i]) + (hasInterval(series) ? between(series.low[i], series.high[i]) : "");
        const title = chart.categories.length ? titleAt(chart, series.x[i]) : `${show(series.x[i])}, ${show(series.y[i])}`;
        const row = { name: series.name, tone: look.tone, text: chart.categories.length ? text : "", x, y };
        return [{ x, y, title, rows: [row], group: series.name }];
      });
    });
  },
};

/** Where points are; several series at the same named places stand side by side. */
function spotsOf(each, scales, chart, shown) {
  const clouds = shown.filter(({ series }) => !series.dashed);
  const step = chart.categories.length ? 0.7 / clouds.length : 0;
  const offset = step * (clouds.indexOf(each) - (clouds.length - 1) / 2);
  return each.series.x.map((value, i) => {
    const [x, y] = [scales.x.at(isNumber(value) ? value + offset : null), scales.y.at(each.series.y[i])];
    return x === null || y === null ? null : [x, y];
  });
}
