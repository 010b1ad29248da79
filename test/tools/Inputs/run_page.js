// Runs the scripts of a page without a browser and prints what they show: run_page.js PAGE [ACTION...]
//
//   width=420          of the window; first
//   click=ID,ROW       on a row of the table's body
//   hover=X,Y          over the timeline, at X of the width from 0 to 1 and Y in pixels
//   input=ID,TEXT      into a field
//   check=ID,0         a box: 1 or 0
//
// Each action is followed by what changed: texts that the timeline drew anew (drawn:), how many rectangles
// and connections are marked, over how many points the timeline's lines go, the tip, and tables (row:).
"use strict";
const fs = require("fs"), vm = require("vm");
const [path, ...actions] = process.argv.slice(2);
const html = fs.readFileSync(path, "utf8");
const window = { width: 1600 };
if (actions[0]?.startsWith("width=")) window.width = Number(actions.shift().slice(6));

let drawn = [], marked = 0, joined = 0, beyond = 0, points = 0;
class Context {
  constructor(canvas) { this.canvas = canvas; this.textAlign = "left"; }
  measureText(text) { return { width: 6.2 * text.length }; }
  fillText(text, x) {
    if (text) drawn.push(text);
    const width = 6.2 * text.length, left = this.textAlign === "right" ? x - width : this.textAlign === "center" ? x - width / 2 : x;
    if (left < -1 || left + width > this.canvas.clientWidth + 1) beyond++;
  }
  strokeRect() { if (this.canvas.id === "timeline") marked++; }
  closePath() { joined++; }
  lineTo() { if (this.canvas.id === "timeline") points++; }
  createPattern() { return "stripes"; }
}
for (const name of ["setTransform", "clearRect", "save", "restore", "beginPath", "rect", "clip", "fillRect", "fill", "stroke", "moveTo", "arc", "setLineDash", "strokeText", "drawImage"])
  Context.prototype[name] = () => {};

class Node {
  constructor(tag) {
    Object.assign(this, { tagName: tag.toUpperCase(), childNodes: [], dataset: {}, style: { setProperty() {} }, listeners: {}, className: "", hidden: false });
    const classes = () => this.className.split(" ").filter(Boolean);
    this.classList = {
      contains: (name) => classes().includes(name),
      add: (name) => this.classList.toggle(name, true),
      toggle: (name, on = !classes().includes(name)) => {
        this.className = [...classes().filter((other) => other !== name), ...(on ? [name] : [])].join(" ");
        return on;
      },
    };
  }
  append(...nodes) { for (const node of nodes) { this.childNodes.push(node); if (node instanceof Node) node.parent = this; } }
  prepend(...nodes) { this.childNodes.unshift(...nodes); }
  appendChild(node) { this.append(node); return node; }
  replaceChildren(...nodes) { this.childNodes = []; this.append(...nodes); }
  set textContent(text) { this.childNodes = text === "" ? [] : [text]; }
  get textContent() { return this.childNodes.map((node) => (node instanceof Node ? node.textContent : String(node))).join(""); }
  get children() { return this.childNodes.filter((node) => node instanceof Node); }
  get cells() { return this.children; }
  get rows() { return this.children; }
  get lastChild() { return this.childNodes.at(-1); }
  get sectionRowIndex() { return this.parent.children.indexOf(this); }
  get clientWidth() { return window.width - 60; }
  getBoundingClientRect() { return { width: this.clientWidth, height: parseFloat(this.style.height) || 40 }; }
  getContext() { return (this.context ??= new Context(this)); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setAttribute() {}
  scrollIntoView() {}
  setPointerCapture() {}
}

const elements = {};
for (const [, tag, id] of html.matchAll(/<(\w+)[^>]*? id="(\w+)"/g)) elements[id] = Object.assign(new Node(tag), { id, parentNode: new Node("section") });
elements.data.textContent = /<script id="data"[^>]*>(.*?)<\/script>/s.exec(html)[1];
const document = {
  getElementById: (id) => elements[id], createElement: (tag) => new Node(tag), createElementNS: (_, tag) => new Node(tag),
  documentElement: new Node("html"), body: new Node("body"), title: "",
};
const shared = {
  document, innerWidth: window.width, innerHeight: 900, devicePixelRatio: 1, location: { hash: "" }, requestAnimationFrame: (draw) => draw(),
  addEventListener() {}, matchMedia: () => new Node("query"), getComputedStyle: () => ({ getPropertyValue: () => "#000" }),
};

function print(title) {
  console.log("== " + title);
  for (const text of new Set(drawn)) console.log("drawn: " + text);
  console.log(`marked: ${marked}, joined: ${joined}, beyond the canvas: ${beyond}, points: ${points}`);
  if (elements.tip && !elements.tip.hidden && elements.tip.childNodes.length) {
    console.log("tip: " + elements.tip.children[0].textContent);
    const facts = elements.tip.children[1].children.map((node) => node.textContent);
    for (let i = 0; i < facts.length; i += 2) console.log("fact: " + facts[i] + ": " + facts[i + 1]);
  }
  for (const [id, node] of Object.entries(elements)) {
    if (node.tagName !== "TABLE") continue;
    for (const row of node.children.flatMap((section) => section.children))
      if (!row.hidden) console.log(`row: ${row.cells.map((cell) => cell.textContent).join(" | ")}${row.classList.contains("chosen") ? " (chosen)" : ""}`);
  }
}
const reset = () => { drawn = []; marked = joined = beyond = points = 0; };

vm.runInNewContext(/<script>(.*?)<\/script>/s.exec(html)[1], shared);
console.log("title: " + document.title);
for (const id of ["facts", "tiles", "legend", "decisions", "orders"])
  for (const child of elements[id]?.children ?? []) console.log(id + ": " + child.textContent.trim());
print("as opened");
for (const action of actions) {
  const [kind, rest] = action.split("="), [first, second] = rest.split(",");
  reset();
  if (kind === "click") elements[first].children[1].children[Number(second)].listeners.click({});
  if (kind === "hover")
    elements.timeline.listeners.pointermove({ offsetX: first * elements.timeline.clientWidth, offsetY: Number(second), clientX: 0, clientY: 0 });
  if (kind === "input") elements[first].listeners.input({ target: { value: second } });
  if (kind === "check") {
    elements[first].checked = second === "1";
    elements[first].listeners.change({ target: elements[first] });
  }
  print(action);
}
