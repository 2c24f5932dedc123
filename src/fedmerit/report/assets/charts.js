// Charts as SVG, drawn here: lines, bands, marks, bars and cells. Whatever clients call themselves
// reaches the page as text nodes only.
const LONGEST = 28, NEAR = 24, CHARACTER = 6.4;
const narrow = () => innerWidth < 640;
const SVG = "http://www.w3.org/2000/svg";

// A name that turns the writing direction or hides letters is shown with what it hides.
const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu, "\uFFFD") || "(empty)";
function label(text, longest = LONGEST) {
  const shown = visible(text), points = [...shown];
  return points.length > longest ? points.slice(0, longest - 1).join("") + "…" : shown;
}

function shape(tag, attributes = {}, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const present = (value) => value !== null && value !== undefined;
// Of any number of values: Math.max(...values) ends with a full stack at some 100,000.
const least = (values) => values.reduce((found, value) => (value < found ? value : found), Infinity);
const most = (values) => values.reduce((found, value) => (value > found ? value : found), -Infinity);
const short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(1);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return `${Number((value / (unit === 1e4 ? 1e3 : unit)).toPrecision(4))}${letter}`;
  return String(Number(value.toPrecision(4)));
};

// Round numbers that cover a range.
function ticksOf(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power, ticks = [];
  for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + step * 1e-9; tick++) ticks.push(Number((tick * step).toPrecision(12)));
  return ticks;
}

// An axis from numbers: {title, low, high, ticks: [[value, text], ...]}.
function numeric(title, values, { zero = false, about = 5, format = short, low, high, whole = false } = {}) {
  const known = values.filter((value) => present(value) && Number.isFinite(value));
  if (zero || !known.length) known.push(0);
  let bottom = low ?? least(known), top = high ?? most(known);
  if (bottom === top) { const half = whole ? 0.5 : Math.abs(bottom) * 0.1 || 0.5; bottom -= zero && !bottom ? 0 : half; top += half; }
  const room = whole ? 0 : (top - bottom) * 0.05;
  if (low === undefined && !(zero && bottom === 0)) bottom -= room;
  if (high === undefined) top += room;
  const ticks = ticksOf(bottom, top, about).filter((tick) => !whole || Number.isInteger(tick));
  return { title, low: bottom, high: top, ticks: ticks.map((tick) => [tick, format(tick)]) };
}
// An axis of names, one step each.
const names = (texts, title = "") => ({ title, low: -0.5, high: texts.length - 0.5, ticks: texts.map((text, place) => [place, text]), named: true });

// Draws, and tells a screen reader in one sentence what is drawn. `paint` gets a frame with scales x,
// y, right, and hit(): what the pointer finds, and what it then tells.
function draw(id, spoken, { x, y, right, legend = [], height, down = false, pick, paint }) {
  const box = document.getElementById(id);
  box.classList.remove("nothing");
  const caption = box.parentElement.querySelector("figcaption");
  if (caption) caption.hidden = false;
  const width = Math.max(260, box.clientWidth), tall = height || (narrow() ? 260 : box.classList.contains("short") ? 230 : 340);
  const longest = (axis) => Math.max(0, ...axis.ticks.map(([, text]) => [...text].length)) * CHARACTER;
  const steep = x.named && x.ticks.length && longest(x) > (width - 90) / x.ticks.length;
  const left = Math.min(width * 0.42, longest(y) + 14) + (y.title ? 18 : 0);
  const edge = { left, right: right ? longest(right) + (right.title ? 30 : 16) : 14, top: 10, bottom: (steep ? Math.min(150, longest(x) * 0.75 + 16) : 22) + (x.title ? 18 : 0) };
  const inner = { width: width - edge.left - edge.right, height: tall - edge.top - edge.bottom };
  const scale = (axis, from, length, flip) => (value) => from + (flip ? 1 - (value - axis.low) / (axis.high - axis.low) : (value - axis.low) / (axis.high - axis.low)) * length;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${tall}`, width, height: tall, "font-family": "system-ui, sans-serif", "font-size": 11, role: "presentation" });
  const frame = { svg, inner, edge, hits: [], x: scale(x, edge.left, inner.width, false), y: scale(y, edge.top, inner.height, !down), right: right && scale(right, edge.top, inner.height, true) };
  frame.add = (tag, attributes, text) => svg.appendChild(shape(tag, attributes, text));
  frame.hit = (px, py, tell, key) => frame.hits.push([px, py, tell, key]);
  axes(frame, x, y, right, steep);
  paint(frame);
  const keys = document.createElement("ul");
  keys.className = "legend";
  for (const [text, shade, dash, symbol] of legend) {
    const item = document.createElement("li"), mark = shape("svg", { width: 22, height: 10, "aria-hidden": "true" });
    if (symbol !== undefined) mark.append(marker(11, 5, symbol, 4.5, shade));
    else mark.append(shape("line", { x1: 0, x2: 22, y1: 5, y2: 5, stroke: shade, "stroke-width": 3, "stroke-dasharray": dash }));
    item.append(mark, document.createTextNode(text));
    keys.append(item);
  }
  box.replaceChildren(...(legend.length ? [keys] : []), svg);
  svg.setAttribute("aria-label", spoken);
  svg.setAttribute("role", "img");
  point(box, svg, frame, pick);
  offer(box, svg);
  return box;
}

// A picture for a paper: the chart as it stands, in the colours of the page.
function offer(box, svg) {
  const figure = box.parentElement;
  let button = figure.querySelector("button.save");
  if (!button) {
    button = document.createElement("button");
    button.className = "save"; button.type = "button"; button.textContent = "Save as SVG";
    figure.append(button);
  }
  button.hidden = false;
  button.onclick = () => {
    const copy = svg.cloneNode(true), link = document.createElement("a");
    copy.setAttribute("xmlns", SVG);
    copy.prepend(shape("rect", { width: "100%", height: "100%", fill: colour("card") }));
    link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
    link.download = `${box.id}.svg`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
}

function axes(frame, x, y, right, steep) {
  const { edge, inner, add } = frame, bottom = edge.top + inner.height, muted = colour("muted"), line = colour("line");
  const space = Math.max(1, Math.ceil(x.ticks.length / Math.max(1, x.named ? inner.width / 13 : inner.width / 46)));
  x.ticks.forEach(([value, text], place) => {
    if (place % space) return;
    const px = frame.x(value);
    if (!x.named) add("line", { x1: px, x2: px, y1: edge.top, y2: bottom, stroke: line });
    add("text", { class: "x tick", x: px, y: bottom + (steep ? 10 : 15), fill: muted, "text-anchor": steep ? "end" : "middle", transform: steep ? `rotate(-45 ${px} ${bottom + 10})` : undefined }, text);
  });
  const rows = y.named ? Math.ceil(y.ticks.length / Math.max(1, inner.height / 11)) : 1;
  y.ticks.forEach(([value, text], place) => {
    if (place % rows) return;
    const py = frame.y(value);
    if (!y.named) add("line", { x1: edge.left, x2: edge.left + inner.width, y1: py, y2: py, stroke: value === 0 ? colour("faint") : line });
    add("text", { class: "y tick", x: edge.left - 7, y: py + 4, fill: y.named ? colour("ink") : muted, "text-anchor": "end" }, text);
  });
  for (const [value, text] of right ? right.ticks : []) add("text", { x: edge.left + inner.width + 7, y: frame.right(value) + 4, fill: muted }, text);
  const middle = edge.top + inner.height / 2, turned = (px) => ({ x: px, y: middle, fill: muted, "text-anchor": "middle", transform: `rotate(-90 ${px} ${middle})` });
  if (x.title) add("text", { class: "x title", x: edge.left + inner.width / 2, y: bottom + edge.bottom - 5, fill: muted, "text-anchor": "middle" }, x.title);
  if (y.title) add("text", { class: "y title", ...turned(12) }, y.title);
  if (right && right.title) add("text", turned(edge.left + inner.width + edge.right - 6), right.title);
}

function line(frame, xs, ys, { shade, width = 2, dash, axis = "y", opacity, key }) {
  let path = "", pen = "M";
  xs.forEach((value, place) => {
    if (!present(ys[place])) { pen = "M"; return; }
    path += `${pen}${frame.x(value).toFixed(1)} ${frame[axis](ys[place]).toFixed(1)}`;
    pen = "L";
  });
  if (path) frame.add("path", { class: "line", "data-key": key, d: path, fill: "none", stroke: shade, "stroke-width": width, "stroke-dasharray": dash, "stroke-linejoin": "round", opacity });
}

function band(frame, xs, low, high, { shade, opacity = 1 }) {
  const there = xs.map((_, place) => place).filter((place) => present(low[place]) && present(high[place]));
  if (!there.length) return;
  const up = there.map((place) => `${frame.x(xs[place]).toFixed(1)} ${frame.y(high[place]).toFixed(1)}`);
  const back = there.reverse().map((place) => `${frame.x(xs[place]).toFixed(1)} ${frame.y(low[place]).toFixed(1)}`);
  frame.add("path", { class: "band", d: `M${[...up, ...back].join("L")}Z`, fill: shade, opacity });
}

// Circle, diamond, square, cross, triangle: told apart without colours.
function marker(px, py, symbol, size, shade) {
  const kind = symbol % 5, at = { class: "mark", fill: shade };
  if (kind === 0) return shape("circle", { ...at, cx: px, cy: py, r: size });
  if (kind === 3) return shape("path", { ...at, fill: "none", stroke: shade, "stroke-width": 2, d: `M${px - size} ${py - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}` });
  const corners = { 1: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]], 2: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], 4: [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]] }[kind];
  return shape("path", { ...at, d: `M${corners.map(([dx, dy]) => `${(px + dx * size).toFixed(1)} ${(py + dy * size).toFixed(1)}`).join("L")}Z` });
}

// Many cells as one picture, a pixel each.
function cells(frame, columns, rows, shade) {
  const canvas = document.createElement("canvas");
  canvas.width = columns; canvas.height = rows;
  const pen = canvas.getContext("2d");
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      const fill = shade(row, column);
      if (fill) { pen.fillStyle = fill; pen.fillRect(column, row, 1, 1); }
    }
  const { edge, inner } = frame;
  frame.add("image", { class: "cells", href: canvas.toDataURL(), x: edge.left, y: edge.top, width: inner.width, height: inner.height, preserveAspectRatio: "none", style: "image-rendering: pixelated" });
}
const mixed = (low, high, share) => {
  const parts = (text) => [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
  const from = parts(low), to = parts(high);
  return `rgb(${from.map((value, place) => Math.round(value + (to[place] - value) * share)).join(",")})`;
};

// What is nearest to the pointer is told; pressing picks it.
function point(box, svg, frame, pick) {
  if (!frame.hits.length && !frame.under) return;
  const tip = document.createElement("div"), ring = shape("circle", { r: 7, fill: "none", stroke: colour("ink"), "stroke-width": 1.5, visibility: "hidden", "pointer-events": "none" });
  tip.className = "tip"; tip.hidden = true;
  svg.append(ring); box.append(tip);
  const nearest = (event) => {
    const seen = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / seen.width;
    const px = (event.clientX - seen.left) * ratio, py = (event.clientY - seen.top) * ratio;
    if (frame.under) return frame.under(px, py);
    let best = null, least = NEAR * NEAR;
    for (const hit of frame.hits) {
      const distance = (hit[0] - px) ** 2 + (hit[1] - py) ** 2;
      if (distance < least) { least = distance; best = hit; }
    }
    return best;
  };
  const away = () => { tip.hidden = true; ring.setAttribute("visibility", "hidden"); };
  svg.addEventListener("pointermove", (event) => {
    const hit = nearest(event);
    if (!hit) { away(); return; }
    const [px, py, tell] = hit, ratio = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    tip.replaceChildren(...tell().filter(Boolean).map((text, place) => { const row = document.createElement(place ? "span" : "b"); row.textContent = text; return row; }));
    tip.hidden = false;
    const at = px * ratio, wide = tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(at + 14, box.clientWidth - wide))}px`;
    tip.style.top = `${svg.offsetTop + py * ratio + 14}px`;
    if (!frame.under) { ring.setAttribute("cx", px); ring.setAttribute("cy", py); ring.setAttribute("visibility", "visible"); }
  });
  svg.addEventListener("pointerleave", away);
  if (pick) svg.addEventListener("click", (event) => { const hit = nearest(event); if (hit && present(hit[3])) pick(hit[3]); });
}

function nothing(id, text) {
  const element = document.getElementById(id);
  element.replaceChildren(document.createTextNode(text));
  element.classList.add("nothing");
  const caption = element.parentElement.querySelector("figcaption");
  if (caption) caption.hidden = true;
  const save = element.parentElement.querySelector("button.save");
  if (save) save.hidden = true;
}

function quantile(values, share) {
  const sorted = values.filter(present).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const place = share * (sorted.length - 1), low = Math.floor(place);
  return sorted[low] + (sorted[Math.ceil(place)] - sorted[low]) * (place - low);
}
const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
const digits = (value, count = 4) => (present(value) ? value.toFixed(count) : "");
const worthOf = ({ worth }) => (worth ? `${worth[0] > 0 ? "+" : ""}${digits(worth[0])}${worth[1] ? ` ± ${digits(worth[1])}` : ""}` : "");
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const amount = (value) => value.toLocaleString("en");
