// Making elements, and writing numbers. Texts are always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const pen = document.createElement("canvas").getContext("2d");

function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (key === "tone") node.style.color = `var(${value})`;
    else node.setAttribute(key, typeof value === "number" ? round(value) : value);
  }
  node.append(...children);
  return node;
}

function round(value) {
  return Math.round(value * 100) / 100;
}

/** A number to read: five digits, a real minus, powers of ten where it is very small or large. */
function show(value) {
  if (!isNumber(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) {
    const [digits, power] = value.toExponential(2).split("e");
    return minus(`${Number(digits)}·10${superscript(Number(power))}`);
  }
  return minus(String(Number(value.toPrecision(5))));
}

function superscript(power) {
  const signs = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  return [...String(power)].map((sign) => signs[sign]).join("");
}

function minus(text) {
  return text.replace("-", "−");
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function between(low, high) {
  return isNumber(low) && isNumber(high) ? ` [${show(low)}, ${show(high)}]` : "";
}

/** The width of a text in pixels, in the page's font. */
function widthOf(text, size = 12) {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

/** A text in lines that fit a width. */
function wrapped(text, width, size = 12) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && widthOf(longer, size) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}
