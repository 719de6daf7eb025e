// Bars and histograms.

// ---- bars ------------------------------------------------------------------------------------

const bars = {
  nearest: "x",
  fromZero: true,
  extents: (shown, chart) => {
    const places = placesOf(shown, chart);
    const room = roomOf(places) / 2;
    return {
      x: [places[0] - room, places[places.length - 1] + room],
      y: shown.flatMap(({ series }) => [...series.y, ...series.low, ...series.high]),
    };
  },
  draw(each, scales, chart, shown) {
    const { series } = each;
    const centres = centresOf(each, scales, chart, shown);
    const width = 0.92 * barWidth(scales, chart, shown);
    const rects = series.y.flatMap((value, i) => {
      const height = scales.y.at(value) ?? (value === 0 ? scales.base : null);
      return height === null ? [] : [barRect(centres[i] - width / 2, width, height, scales.base, series.dashed)];
    });
    return [...rects, ...intervalLines(series, centres, scales)];
  },
  stops(shown, scales, chart) {
    return placesOf(shown, chart).flatMap((place) => {
      const rows = shown.flatMap((each) => {
        const i = each.series.x.indexOf(place);
        if (i < 0 || !isNumber(each.series.y[i])) return [];
        const text = show(each.series.y[i]) + (hasInterval(each.series) ? between(each.series.low[i], each.series.high[i]) : "");
        const y = scales.y.at(each.series.y[i]) ?? scales.base;
        return [{ name: each.series.name, tone: each.look.tone, text, x: centresOf(each, scales, chart, shown)[i], y }];
      });
      return rows.length ? [{ x: scales.x.at(place), y: rows[0].y, title: titleAt(chart, place), rows }] : [];
    });
  },
};

function placesOf(shown, chart) {
  if (chart.categories.length) return chart.categories.map((_, i) => i);
  const places = [...new Set(shown.flatMap(({ series }) => series.x))].sort((a, b) => a - b);
  return places.length ? places : [0];
}

function roomOf(places) {
  return Math.min(...places.slice(1).map((place, i) => place - places[i]), places.length > 1 ? Infinity : 1);
}

function barWidth(scales, chart, shown) {
  const room = 0.8 * roomOf(placesOf(shown, chart));
  return (scales.x.at(scales.x.low + room) - scales.x.at(scales.x.low)) / shown.length;
}

function centresOf(each, scales, chart, shown) {
  const width = barWidth(scales, chart, shown);
  const offset = width * (shown.indexOf(each) - (shown.length - 1) / 2);
  return each.series.x.map((place) => scales.x.at(place) + offset);
}

function barRect(x, width, y, base, dashed) {
  const [top, height] = [Math.min(y, base), Math.abs(base - y)];
  return svg("rect", { x, y: top, width, height, class: dashed ? "outline" : "bar" });
}

// ---- histograms ------------------------------------------------------------------------------

const histogram = {
  nearest: "x",
  fromZero: true,
  extents: (shown) => ({
    x: shown.flatMap(({ series }) => series.x),
    y: shown.flatMap(({ series }) => series.y),
  }),
  draw({ series, look }, scales) {
    const steps = [[scales.x.at(series.x[0]), scales.base]];
    series.y.forEach((count, i) => {
      const y = scales.y.at(count) ?? scales.base;
      steps.push([scales.x.at(series.x[i]), y], [scales.x.at(series.x[i + 1]), y]);
    });
    steps.push([scales.x.at(series.x[series.x.length - 1]), scales.base]);
    const d = pathThrough(steps.filter(([x]) => x !== null));
    const edge = svg("path", { d, class: "line thin", "stroke-dasharray": dashesOf(look, 1.4) });
    return series.dashed ? [edge] : [svg("path", { d: `${d}Z`, class: "band" }), edge];
  },
  stops(shown, scales, chart) {
    const bins = new Map();
    for (const { series } of shown) {
      series.y.forEach((_, i) => bins.set(`${series.x[i]} ${series.x[i + 1]}`, [series.x[i], series.x[i + 1]]));
    }
    return [...bins.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]).flatMap(([from, to]) => {
      const x = (scales.x.at(from) + scales.x.at(to)) / 2;
      const rows = shown.flatMap(({ series, look }) => {
        const i = series.x.indexOf(from);
        if (i < 0 || series.x[i + 1] !== to || !isNumber(series.y[i])) return [];
        return [{ name: series.name, tone: look.tone, text: show(series.y[i]), x, y: scales.y.at(series.y[i]) ?? scales.base }];
      });
      return rows.length ? [{ x, y: rows[0].y, title: `${chart.x_label}: ${show(from)} to ${show(to)}`, rows }] : [];
    });
  },
};
