// ------------------------------------------------------------------ layout

const timeline = element("timeline"), overview = element("overview");
const RIGHT = 16, AXIS = 20;
let left = 84, bands = [];
let steps = [], end = 1, from = 0, to = 1;
let hovered = null, selected = null; // as makeMark makes them
let showsPath = false;
/// The items of other steps that match an item; a page of several steps replaces this function.
let findCounterparts = () => ({ places: [], facts: [] });

/// Bands from top to bottom: modules, computation and lanes of each step, then the memory of each.
function layOut() {
  left = innerWidth < 600 ? 66 : 84;
  bands = [];
  let top = AXIS + 4;
  const add = (kind, step, size, gap, more) => {
    bands.push({ kind, step, top, size, ...more });
    top += size + gap;
  };
  for (const step of steps) {
    if (step.title) add("title", step, 20, 2);
    add("blocks", step, 22, 4, { label: "modules" });
    add("compute", step, steps.length > 1 ? 32 : 40, 6, { label: "compute" });
    for (const [lane, { label }] of Object.entries(step.lanes))
      add("lane", step, lane in LANE_SIZES ? LANE_SIZES[lane] : 22, 6, { label, lane });
    top += 8;
  }
  for (const step of steps)
    if (step.used.length) add("memory", step, steps.length > 1 ? 190 : 300, 12, { room: step.title ? 40 : 24, label: "" });
  timeline.style.height = top + "px";
}
const LANE_SIZES = { gather: 32, reduce: 32 };
const bandOf = (step, kind, lane) => bands.find((band) => band.step === step && band.kind === kind && (kind !== "lane" || band.lane === lane));
const plotWidth = () => Math.max(1, timeline.clientWidth - left - RIGHT);

/// Shows steps, one below the other on one axis.
function showSteps(shown) {
  steps = shown;
  end = to = Math.max(1, ...steps.map((step) => step.makespanNs));
  layOut();
}

// ------------------------------------------------------------------ canvas

function prepare(canvas, box = canvas.getBoundingClientRect()) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, box.width, box.height);
  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
  g.textBaseline = "middle";
  return [g, box.width, box.height];
}

const lastPart = (name) => name.slice(name.lastIndexOf(".") + 1);

/// Draws the text if it fits, else its beginning, else its shortened form: "layers.3", "lay…",
/// "3".
function fitText(g, text, x, y, width, shorten = lastPart) {
  const fits = (shown) => g.measureText(shown).width <= width;
  if (!fits(text)) {
    let length = text.length - 1;
    while (length > 4 && !fits(text.slice(0, length) + "…")) length--;
    const short = shorten(text);
    if (length > 8 || !fits(short)) text = length > 4 ? text.slice(0, length) + "…" : "";
    else text = short;
  }
  g.fillText(text, x, y);
}

/// Draws text with an outline that separates it from the background.
function drawLabel(g, text, x, y, colour) {
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeStyle = colours.card;
  g.strokeText(text, x, y);
  g.lineWidth = 1;
  g.fillStyle = colour;
  g.fillText(text, x, y);
}

let stripes = null;
function makeStripes(g) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const t = tile.getContext("2d");
  t.strokeStyle = colours.wait;
  t.lineWidth = 1.4;
  for (const d of [-6, 0, 6]) { t.moveTo(d, 6); t.lineTo(d + 6, 0); }
  t.stroke();
  stripes = g.createPattern(tile, "repeat");
}

const DRAWERS = { title: drawTitle, blocks: drawBlocks, compute: drawCompute, lane: drawLane, memory: drawMemory };

/// The steps without marks. Redrawn only when the time range, size or colours change.
const picture = document.createElement("canvas");
let pictured = "";

const xOf = (t) => left + ((t - from) / (to - from)) * plotWidth();
function draw() {
  const box = timeline.getBoundingClientRect(), shown = [from, to, box.width, box.height, devicePixelRatio, colours.ink].join();
  if (shown !== pictured) drawSteps();
  pictured = shown;
  const [g, width, height] = prepare(timeline, box);
  g.drawImage(picture, 0, 0, width, height);
  clipToPlot(g, height);
  if (showsPath) for (const step of steps) drawPath(g, xOf, step);
  for (const mark of [selected, hovered]) if (mark) drawMark(g, xOf, mark, height);
  g.restore();
}

function clipToPlot(g, height) {
  g.save();
  g.beginPath();
  g.rect(left, 0, plotWidth(), height);
  g.clip();
}

function drawSteps() {
  const [g, , height] = prepare(picture, timeline.getBoundingClientRect());
  if (!stripes) makeStripes(g);
  clipToPlot(g, height);
  drawAxis(g, xOf, height);
  for (const band of bands) DRAWERS[band.kind](g, xOf, band);
  g.restore();
  g.textAlign = "right";
  g.fillStyle = colours.soft;
  for (const band of bands)
    if (band.kind === "memory") drawMemoryTicks(g, band);
    else if (band.label) g.fillText(band.label, left - 10, band.top + band.size / 2);
  g.textAlign = "left";
  drawOverview();
}

function drawAxis(g, xOf, height) {
  const step = niceStep(to - from, Math.max(2, Math.min(12, plotWidth() / 58)));
  g.textAlign = "center";
  for (let i = Math.ceil(from / step); i * step <= to; i++) {
    const x = xOf(i * step);
    g.fillStyle = colours.line;
    g.fillRect(Math.round(x), AXIS - 2, 1, height - AXIS);
    g.fillStyle = colours.soft;
    const text = tickText(timeText(Math.round(i * step))), half = g.measureText(text).width / 2;
    if (x + half < left + plotWidth()) g.fillText(text, Math.max(x, left + half), 9);
  }
  g.textAlign = "left";
}

function drawTitle(g, xOf, band) {
  g.fillStyle = colours.ink;
  g.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
  fitText(g, band.step.title, left, band.top + band.size / 2, plotWidth());
  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
}

const isNumbered = (name) => /^\d+$/.test(lastPart(name));

/// The least n for which every n-th block has room for its number.
function findLabelStep(g, blocks) {
  if (!blocks.length) return 1;
  const room = blocks.reduce((sum, { a, b }) => sum + b - a, 0) / blocks.length;
  const needed = Math.max(...blocks.map(({ name }) => g.measureText(lastPart(name)).width)) + 5;
  return [1, 2, 5, 10, 20, 50, 100, 200, 500].find((n) => n * room >= needed) ?? 1000;
}

function drawBlocks(g, xOf, { step, top, size }) {
  const limit = left + plotWidth(), shown = [];
  for (const [name, part, first, last] of step.blocks) {
    const a = xOf(step.ops.start[first]), b = xOf(step.ops.end[last]);
    if (b < left || a > limit || b - a < 0.4) continue;
    g.fillStyle = colours[PARTS[part]];
    g.globalAlpha = 0.2;
    g.fillRect(a, top, Math.max(b - a - 1, 0.5), size);
    shown.push({ name: name || "root", part, a: Math.max(a, left), b: Math.min(b, limit) });
  }
  g.globalAlpha = 1;
  g.fillStyle = colours.ink;
  const y = top + size / 2 + 1, taken = [];
  // First blocks with room for their whole name. A number may extend into its neighbours, whose
  // numbers are then left out.
  const isWhole = (block) => g.measureText(block.name).width <= block.b - block.a - 6;
  for (const block of shown)
    if (isWhole(block)) {
      g.fillText(block.name, block.a + 4, y);
      taken.push([block.a, block.b]);
    }
  for (const part of [0, 1, 2]) {
    const numbered = shown.filter((block) => block.part === part && isNumbered(block.name) && !isWhole(block));
    // A run between operations of other blocks (mostly updates) may be a small part of its block.
    const widest = Math.max(...numbered.map(({ a, b }) => b - a)), blocks = numbered.filter(({ a, b }) => b - a > widest / 3);
    const every = findLabelStep(g, blocks);
    for (const block of blocks) {
      const text = lastPart(block.name), half = g.measureText(text).width / 2;
      const x = Math.min(Math.max((block.a + block.b) / 2, left + half), limit - half);
      if (text % every || taken.some(([a, b]) => x - half - 2 < b && x + half + 2 > a)) continue;
      g.fillText(text, x - half, y);
      taken.push([x - half, x + half]);
    }
  }
}

function drawCompute(g, xOf, { step, top, size }) {
  const { ops } = step;
  let i = findLast(ops.start, from);
  let runColour = null, runFrom = 0, runTo = -1;
  const flush = () => {
    if (runColour) { g.fillStyle = runColour; g.fillRect(runFrom, top, Math.max(runTo - runFrom, 0.6), size); }
    runColour = null;
  };
  for (; i < step.count && ops.start[i] <= to; i++) {
    const gapFrom = xOf(i ? ops.end[i - 1] : 0), a = xOf(ops.start[i]), b = xOf(ops.end[i]);
    if (a - gapFrom > 0.7) {
      flush();
      g.fillStyle = stripes;
      g.globalAlpha = 0.75;
      g.fillRect(gapFrom, top, a - gapFrom, size);
      g.globalAlpha = 1;
    }
    if (b <= a) continue;
    const colour = colours[PARTS[ops.part[i]]];
    if (b - a > 5) {
      flush();
      g.fillStyle = colour;
      g.fillRect(a, top, b - a - 1, size);
      if (b - a > 44) {
        g.fillStyle = colours.onBar;
        const x = Math.max(a, left) + 5, shown = Math.min(b, left + plotWidth()) - x - 5;
        fitText(g, step.moduleOf(i), x, top + size / 2 - 7, shown);
        fitText(g, step.nameOf(i), x, top + size / 2 + 8, shown, (name) => name.replace(/\.\w+$/, "")); // "mm"
      }
    } else if (colour === runColour && a - runTo < 0.8) {
      runTo = b;
    } else {
      flush();
      runColour = colour; runFrom = a; runTo = b;
    }
  }
  flush();
}

function drawLane(g, xOf, { step, lane, top, size }) {
  g.fillStyle = colours.line;
  g.globalAlpha = 0.5;
  g.fillRect(left, top + size, plotWidth(), 1);
  g.globalAlpha = 1;
  for (const c of step.lanes[lane].items) {
    if (c.end < from || c.start > to) continue;
    const a = xOf(c.start), b = xOf(c.end), gap = b - a > 3 ? 1 : 0;
    g.fillStyle = colours[lane];
    g.globalAlpha = 0.82;
    g.fillRect(a, top, Math.max(b - a - gap, 0.6), size);
    g.globalAlpha = 1;
    if (c.exposed > 0) {
      const w = xOf(Math.max(c.start, c.end - c.exposed));
      g.fillStyle = colours.wait;
      g.fillRect(w, top + size - 5, Math.max(b - w - gap, 0.8), 5);
    }
    const inset = b - a < 30 ? 2 : 5, x = Math.max(a, left) + inset, room = Math.min(b, left + plotWidth()) - x - inset;
    if (room <= 8) continue;
    g.fillStyle = colours.onBar;
    fitText(g, joinNames(c.groups), x, top + size / 2 + (c.exposed > 0 ? -1 : 1), room);
  }
}

/// The critical path: a line below the bands of its segments, which goes from band to band where one waits for another.
/// Neighbours closer than a pixel are drawn as one.
function drawPath(g, xOf, step) {
  const points = [];
  for (const [kind, start, end] of step.path) {
    if (end < from || start > to) continue;
    const lane = PATH_LANES[kind], { top, size } = lane ? bandOf(step, "lane", lane) : bandOf(step, "compute");
    const y = top + size + 3, a = xOf(start), b = xOf(end);
    if (points.length && b - points.at(-1)[0] < 1) continue;
    points.push([a, y], [b, y]);
  }
  g.lineJoin = "round";
  for (const [colour, width] of [[colours.card, 5], [colours.ink, 2.5]]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.beginPath();
    points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke();
  }
  g.lineWidth = 1;
}

// ------------------------------------------------------------------ marks

/// Rectangles in bands, of one or of all steps. `pairs`: indices of matching rectangles.
const makeMark = (places, more) => ({ places, ...more });
const placeOf = (step, c) => ({ band: bandOf(step, "lane", LANE_OF[c.kind] ?? c.kind), start: c.start, end: c.end });

function drawMark(g, xOf, mark, height) {
  g.strokeStyle = g.fillStyle = colours.ink;
  const rectangles = mark.places.map(({ band, start, end }) => [xOf(start), band.top, Math.max(xOf(end) - xOf(start) - 1, 1.5), band.size]);
  g.lineWidth = 1.5;
  for (const box of rectangles) g.strokeRect(...box);
  g.lineWidth = 1;
  for (const [a, b] of mark.pairs ?? []) {
    const [upper, lower] = [rectangles[a], rectangles[b]].sort((one, two) => one[1] - two[1]);
    const y = upper[1] + upper[3];
    g.beginPath();
    g.moveTo(upper[0], y);
    g.lineTo(lower[0], lower[1]);
    g.lineTo(lower[0] + lower[2], lower[1]);
    g.lineTo(upper[0] + upper[2], y);
    g.closePath();
    g.globalAlpha = 0.12;
    g.fill();
    g.globalAlpha = 0.6;
    g.stroke();
    g.globalAlpha = 1;
  }
  if (mark.collective) drawIssue(g, xOf, mark.step, mark.collective);
  if (mark.x === undefined || mark.places.length) return;
  g.globalAlpha = 0.5;
  g.beginPath();
  g.moveTo(mark.x, AXIS - 2);
  g.lineTo(mark.x, height);
  g.stroke();
  g.globalAlpha = 1;
}

function drawIssue(g, xOf, step, c) {
  if (c.issue === undefined) return;
  const compute = bandOf(step, "compute"), { top, size } = placeOf(step, c).band, limit = left + plotWidth();
  let free = -Infinity;
  for (const [t, text] of [[c.issue, "issued"], [step.ops.start[Math.min(c.wait, step.count - 1)], "needed"]]) {
    const x = Math.round(xOf(t)) + 0.5, width = g.measureText(text).width + 4;
    g.strokeStyle = colours.ink;
    g.setLineDash([3, 3]);
    g.beginPath();
    g.moveTo(x, compute.top - 4);
    g.lineTo(x, top + size + 4);
    g.stroke();
    g.setLineDash([]);
    if (x < left || x > limit) continue;
    const shown = Math.max(free, x + width > limit ? x - width : x + 4);
    drawLabel(g, text, shown, top + size + 8, colours.ink);
    free = shown + width;
  }
}

function drawOverview() {
  const [g, , height] = prepare(overview), plot = plotWidth();
  const peak = Math.max(1, ...steps.map((step) => step.peak?.bytes ?? 0));
  const highest = new Float64Array(Math.ceil(plot));
  for (const { samples, total, makespanNs } of steps)
    for (let i = 0; i < samples.length; i++) {
      const first = Math.floor((samples[i] / end) * plot);
      const last = Math.min(highest.length - 1, Math.ceil(((samples[i + 1] ?? makespanNs) / end) * plot));
      for (let x = first; x <= last; x++) highest[x] = Math.max(highest[x], total[i]);
    }
  g.fillStyle = colours.line;
  highest.forEach((bytes, x) => g.fillRect(left + x, height - (bytes / peak) * (height - 4), 1, (bytes / peak) * height));
  const a = left + (from / end) * plot, b = left + (to / end) * plot;
  g.fillStyle = colours.forward;
  g.globalAlpha = 0.18;
  g.fillRect(a, 0, b - a, height);
  g.globalAlpha = 1;
  g.strokeStyle = colours.forward;
  g.strokeRect(a + 0.5, 0.5, Math.max(b - a - 1, 1), height - 1);
}
