"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);

// ------------------------------------------------------------------ quantities

const digits = (x, most) => x.toFixed(Math.abs(x) < 9.995 ? most : Math.abs(x) < 999.95 ? 1 : 0);
function scaled(value, step, units) {
  let i = 0;
  while (Math.abs(value) >= 999.95 && i + 1 < units.length) { value /= step; i++; }
  return digits(value, units[i] === "s" ? 3 : 2) + " " + units[i];
}
const bytesText = (b) => (Math.abs(b) < 1024 ? b + " B" : scaled(b / 1024, 1024, ["KiB", "MiB", "GiB", "TiB"]));
const timeText = (ns) => (ns === 0 ? "0 s" : scaled(ns, 1000, ["ns", "us", "ms", "s"]));
const countText = (n) => Math.round(n).toLocaleString("en");
const shareText = (share) => (100 * share).toFixed(1) + " %";
const tickText = (text) => text.replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
function niceStep(span, wanted) {
  const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((m) => m * power >= raw);
}
/// The same for bytes, with steps of whole units.
function niceByteStep(span, wanted) {
  const raw = Math.max(1, span / wanted), unit = 1024 ** Math.floor(Math.log(raw) / Math.log(1024));
  return unit * [1, 2, 5, 10, 20, 50, 128, 256, 512, 1024].find((m) => m * unit >= raw);
}

// ------------------------------------------------------------------ nodes

const make = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};
const square = (colour) => {
  const node = make("i");
  node.style.background = colour;
  return node;
};

/// Columns are [name, class]; cells are texts or nodes. In a narrow window a line of the table is a
/// paragraph, with each column's name before its cell (frame.css).
function makeLine(columns, cells) {
  const line = make("tr");
  columns.forEach(([name, kind], i) => {
    const cell = make("td", undefined, kind);
    cell.append(cells[i] ?? "");
    cell.dataset.name = name;
    line.append(cell);
  });
  return line;
}
function makeHead(columns) {
  const head = make("thead"), line = make("tr");
  for (const [name, kind] of columns) line.append(make("th", name, kind));
  head.append(line);
  return head;
}

/// Facts are [name, text] or [name, text, colour]. Without a title the tip is hidden.
function showTip(title, facts, x, y, titleColour) {
  const tip = element("tip");
  tip.hidden = !title;
  if (!title) return;
  const list = make("dl");
  for (const [key, value, colour] of facts) {
    const term = make("dt", key);
    if (colour) term.prepend(square(colour));
    list.append(term, make("dd", value));
  }
  const heading = make("b", title);
  if (titleColour) heading.prepend(square(titleColour));
  tip.replaceChildren(heading, list);
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(10, Math.min(x + 16, innerWidth - box.width - 10)) + "px";
  tip.style.top = Math.max(10, Math.min(y + 16, innerHeight - box.height - 10)) + "px";
}
