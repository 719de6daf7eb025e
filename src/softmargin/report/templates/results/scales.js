// From numbers to pixels, and where the ticks of an axis are.

/** The smallest range that holds all numbers; of a logarithmic axis only those above 0. */
function extent(values, isLog) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!isNumber(value) || (isLog && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return isLog ? [0.1, 1] : [0, 1];
  if (low === high) return isLog ? [low / 2, high * 2] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return [low, high];
}

/** A range with some air at its ends. */
function padded([low, high], isLog, share = 0.04) {
  if (isLog) {
    const factor = (high / low) ** share;
    return [low / factor, high * factor];
  }
  const air = share * (high - low);
  return [low - air, high + air];
}

/** A scale: `at` is the pixel of a value, or null where the axis has no place for it. */
function scaleOf([low, high], [start, end], isLog) {
  const turn = isLog ? Math.log10 : (value) => value;
  const [first, last] = [turn(low), turn(high)];
  const at = (value) =>
    isNumber(value) && !(isLog && value <= 0)
      ? start + ((turn(value) - first) / (last - first)) * (end - start)
      : null;
  return { at, low, high, ticks: (room) => (isLog ? logTicks(low, high, room) : evenTicks(low, high, room)) };
}

/** Round numbers from low to high, about as many as there is room for. */
function evenTicks(low, high, room) {
  const rough = (high - low) / Math.max(room, 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

/** Powers of ten; within few of them also 2 and 5 times as much. */
function logTicks(low, high, room) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const decades = last - first;
  const factors = decades <= 1 ? [1, 2, 3, 5, 7] : decades <= 2 ? [1, 2, 5] : decades <= 3 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil(decades / Math.max(room, 2)));
  const ticks = [];
  for (let power = first; power <= last; power += every) {
    for (const factor of factors) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

function tickText(value) {
  const power = Math.log10(Math.abs(value));
  if (value !== 0 && Number.isInteger(Math.round(power * 1e9) / 1e9) && (power >= 5 || power <= -4)) {
    return `10${superscript(Math.round(power))}`;
  }
  return show(value);
}
