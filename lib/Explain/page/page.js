const PARTS = ["forward", "backward", "update"];
const LANES = { blocks: [26, 22], compute: [52, 40], gather: [98, 32], reduce: [136, 32] };
D.lanes.forEach((lane, i) => { LANES[lane.kind] = [174 + 28 * i, 22]; });
const MEMORY_TOP = 190 + 28 * D.lanes.length, LEFT = 84, RIGHT = 16;
const share = (x) => (100 * x).toFixed(1) + " %";

// ------------------------------------------------------------------ data

const ops = D.operations, count = ops.start.length, samples = D.memory.time;
const memory = D.memory.changes.map(([at, values]) => {
  const bytes = new Float64Array(samples.length);
  for (let i = 0; i < at.length; i++) bytes.fill(values[i], at[i], at[i + 1] ?? samples.length);
  return bytes;
});
const total = samples.map((_, i) => memory.reduce((sum, bytes) => sum + bytes[i], 0));
const used = D.categories.map((_, c) => c).filter((c) => memory[c].some((b) => b > 0));
const joinNames = (names) => (names.length > 3 ? `${names[0]} ... ${names[names.length - 1]} (${names.length} groups)` : names.join(" + "));
const laneOf = { all_gather: "gather", reduce_scatter: "reduce" };
const collectives = { gather: [], reduce: [] };
for (const lane of D.lanes) collectives[lane.kind] = lane.items.map((item) => ({ ...item, kind: lane.kind }));
D.collectives.forEach((c) => collectives[laneOf[c.kind]].push(c));
for (const lane of Object.values(collectives)) lane.sort((a, b) => a.start - b.start);

/// The last index whose value is at most x, or 0.
function findLast(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1; else high = middle;
  }
  return Math.max(0, low - 1);
}
const moduleOf = (i) => D.strings[ops.module[i]] || "root";
const nameOf = (i) => D.strings[ops.name[i]];

// ------------------------------------------------------------------ colours

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue("--" + name).trim();
  for (const name of ["paper", "card", "ink", "soft", "line", "gather", "reduce", "wait", "cap", ...PARTS])
    colours[name] = get(name);
  colours.memory = D.categories.map((name) =>
    get(name.replace(" ", "-")));
}

// ------------------------------------------------------------------ canvas

const end = Math.max(D.makespanNs, 1);
let from = 0, to = end, hovered = null;
const timeline = element("timeline"), overview = element("overview");

function prepare(canvas) {
  const box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, box.width, box.height);
  g.font = '11px system-ui, "DejaVu Sans", sans-serif';
  g.textBaseline = "middle";
  return [g, box.width, box.height];
}

/// The text if it fits, else its beginning, else what follows its last dot: "layers.3", "lay…", "3".
function fitText(g, text, x, y, width) {
  const fits = (shown) => g.measureText(shown).width <= width;
  if (!fits(text)) {
    let length = text.length - 1;
    while (length > 4 && !fits(text.slice(0, length) + "…")) length--;
    const last = text.slice(text.lastIndexOf(".") + 1);
    if (length > 8 || !fits(last)) text = length > 4 ? text.slice(0, length) + "…" : "";
    else text = last;
  }
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

function draw() {
  const [g, width, height] = prepare(timeline);
  const span = to - from, plot = width - LEFT - RIGHT;
  const xOf = (t) => LEFT + ((t - from) / span) * plot;
  if (!stripes) makeStripes(g);
  g.save();
  g.beginPath();
  g.rect(LEFT, 0, plot, height);
  g.clip();
  drawAxis(g, xOf, height);
  drawBlocks(g, xOf);
  drawCompute(g, xOf);
  drawLane(g, xOf, "gather");
  drawLane(g, xOf, "reduce");
  for (const lane of D.lanes) drawLane(g, xOf, lane.kind);
  drawMemory(g, xOf, plot, height);
  drawHovered(g, xOf, height);
  g.restore();
  g.textAlign = "right";
  g.fillStyle = colours.soft;
  const labels = { blocks: "modules", compute: "compute", gather: "gather", reduce: "reduce" };
  for (const lane of D.lanes) labels[lane.kind] = lane.name;
  for (const [lane, [top, size]] of Object.entries(LANES)) g.fillText(labels[lane], LEFT - 10, top + size / 2);
  drawMemoryTicks(g, height);
  g.textAlign = "left";
  drawOverview();
}

function drawAxis(g, xOf, height) {
  const step = niceStep(to - from, 9);
  g.textAlign = "center";
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = xOf(t);
    g.fillStyle = colours.line;
    g.fillRect(Math.round(x), 18, 1, height - 18);
    g.fillStyle = colours.soft;
    const text = tickText(timeText(Math.round(t))), half = g.measureText(text).width / 2;
    if (x > LEFT + half && x < timeline.clientWidth - RIGHT - half) g.fillText(text, x, 9);
  }
  g.textAlign = "left";
}

function drawBlocks(g, xOf) {
  const [top, size] = LANES.blocks;
  for (const [name, part, first, last] of D.blocks) {
    const a = xOf(ops.start[first]), b = xOf(ops.end[last]);
    if (b < LEFT || a > LEFT + timeline.clientWidth || b - a < 0.4) continue;
    const left = Math.max(a, LEFT), shown = b - left;
    g.fillStyle = colours[PARTS[part]];
    g.globalAlpha = 0.2;
    g.fillRect(a, top, Math.max(b - a - 1, 0.5), size);
    g.globalAlpha = 1;
    g.fillStyle = colours.ink;
    const inset = shown < 30 ? 2 : 4;
    fitText(g, name || "root", left + inset, top + size / 2 + 1, shown - 2 * inset);
  }
}

function drawCompute(g, xOf) {
  const [top, size] = LANES.compute;
  let i = findLast(ops.start, from);
  let runColour = null, runFrom = 0, runTo = -1;
  const flush = () => {
    if (runColour) { g.fillStyle = runColour; g.fillRect(runFrom, top, Math.max(runTo - runFrom, 0.6), size); }
    runColour = null;
  };
  for (; i < count && ops.start[i] <= to; i++) {
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
        g.fillStyle = "#fff";
        const x = Math.max(a, LEFT) + 5, shown = b - x - 5;
        fitText(g, moduleOf(i), x, top + 13, shown);
        g.globalAlpha = 0.75;
        fitText(g, nameOf(i), x, top + 28, shown);
        g.globalAlpha = 1;
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

function drawLane(g, xOf, lane) {
  const [top, size] = LANES[lane];
  g.fillStyle = colours.line;
  g.globalAlpha = 0.5;
  g.fillRect(LEFT, top + size, timeline.clientWidth, 1);
  g.globalAlpha = 1;
  for (const c of collectives[lane]) {
    if (c.end < from || c.start > to) continue;
    const a = xOf(c.start), b = xOf(c.end), gap = b - a > 3 ? 1 : 0;
    g.fillStyle = colours[lane] ?? colours[lane === "all_reduce" ? "reduce" : "update"];
    g.globalAlpha = 0.82;
    g.fillRect(a, top, Math.max(b - a - gap, 0.6), size);
    g.globalAlpha = 1;
    if (c.exposed > 0) {
      const w = xOf(Math.max(c.start, c.end - c.exposed));
      g.fillStyle = colours.wait;
      g.fillRect(w, top + size - 5, Math.max(b - w - gap, 0.8), 5);
    }
    g.fillStyle = "#fff";
    const inset = b - a < 30 ? 2 : 5, x = Math.max(a, LEFT) + inset;
    if (b - x > 8) fitText(g, joinNames(c.groups), x, top + size / 2 + (c.exposed > 0 ? -1 : 1), b - x - inset);
  }
}

function memoryScale() {
  const peak = D.peak.bytes || 1;
  return (D.capBytes && D.capBytes < 2.2 * peak ? Math.max(D.capBytes, peak) : peak) * 1.1;
}

function drawMemory(g, xOf, plot, height) {
  const top = MEMORY_TOP, bottom = height - 6, scale = (bottom - top) / memoryScale();
  // Each column of pixels shows its largest sample, so that no peak is lost between pixels.
  const chosen = new Int32Array(Math.ceil(plot)).fill(-1);
  for (let i = findLast(samples, from); i < samples.length && samples[i] <= to; i++) {
    const first = Math.max(0, Math.floor(xOf(samples[i]) - LEFT));
    const last = Math.min(chosen.length - 1, Math.ceil(xOf(samples[i + 1] ?? end) - LEFT) - 1);
    for (let x = first; x <= Math.max(first, last) && x < chosen.length; x++)
      if (chosen[x] < 0 || total[i] > total[chosen[x]]) chosen[x] = i;
  }
  const base = new Float64Array(chosen.length);
  for (const c of used) {
    g.fillStyle = colours.memory[c];
    g.beginPath();
    for (let x = 0; x < chosen.length; x++) {
      const bytes = chosen[x] < 0 ? 0 : memory[c][chosen[x]];
      if (bytes > 0) g.rect(LEFT + x, bottom - (base[x] + bytes) * scale, 1.02, bytes * scale);
      base[x] += bytes;
    }
    g.fill();
  }
  drawCap(g, plot, bottom, scale);
  const x = xOf(samples[D.peak.sample]), y = bottom - D.peak.bytes * scale;
  if (x >= LEFT && x <= LEFT + plot) {
    g.fillStyle = colours.ink;
    g.beginPath();
    g.arc(x, y, 3.5, 0, 7);
    g.fill();
    const text = "peak " + bytesText(D.peak.bytes), w = g.measureText(text).width;
    g.fillText(text, Math.min(Math.max(x - w / 2, LEFT + 4), LEFT + plot - w - 4), y - 11);
  }
}

function drawCap(g, plot, bottom, scale) {
  if (!D.capBytes) return;
  const y = bottom - D.capBytes * scale, isInside = y > MEMORY_TOP;
  g.fillStyle = g.strokeStyle = colours.cap;
  const text = "cap " + bytesText(D.capBytes) + (isInside ? "" : " (above)");
  if (isInside) {
    g.setLineDash([6, 4]);
    g.beginPath();
    g.moveTo(LEFT, y);
    g.lineTo(LEFT + plot, y);
    g.stroke();
    g.setLineDash([]);
  }
  g.fillText(text, LEFT + 6, isInside ? y - 9 : MEMORY_TOP - 6);
}

function drawMemoryTicks(g, height) {
  const bottom = height - 6, max = memoryScale(), scale = (bottom - MEMORY_TOP) / max;
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(max / 1.5) / Math.log(1024)));
  const step = niceStep(max / unit, 5) * unit;
  for (let b = 0; b <= max; b += step) {
    const y = bottom - b * scale;
    if (y > MEMORY_TOP - 2) g.fillText(b ? tickText(bytesText(b)) : "0", LEFT - 10, Math.min(y, bottom - 4));
  }
}

function drawHovered(g, xOf, height) {
  if (!hovered) return;
  g.strokeStyle = colours.ink;
  const c = hovered.collective;
  if (c) {
    const [top, size] = LANES[laneOf[c.kind] ?? c.kind];
    g.lineWidth = 1.5;
    g.strokeRect(xOf(c.start), top, Math.max(xOf(c.end) - xOf(c.start) - 1, 1), size);
    g.lineWidth = 1;
    g.setLineDash([3, 3]);
    g.fillStyle = colours.ink;
    for (const [t, text] of c.issue === undefined ? [] : [[c.issue, "issued"], [ops.start[Math.min(c.wait, count - 1)], "needed"]]) {
      const x = Math.round(xOf(t)) + 0.5;
      g.beginPath();
      g.moveTo(x, LANES.compute[0] - 4);
      g.lineTo(x, top + size + 4);
      g.stroke();
      g.fillText(text, x + 4, top + size + 8);
    }
    g.setLineDash([]);
  } else {
    g.globalAlpha = 0.5;
    g.beginPath();
    g.moveTo(hovered.x, 18);
    g.lineTo(hovered.x, height);
    g.stroke();
    g.globalAlpha = 1;
  }
}

function drawOverview() {
  const [g, width, height] = prepare(overview);
  const plot = width - LEFT - RIGHT, peak = D.peak.bytes || 1;
  g.fillStyle = colours.line;
  const highest = new Float64Array(Math.ceil(plot));
  for (let i = 0; i < samples.length; i++) {
    const first = Math.floor((samples[i] / end) * plot);
    const last = Math.min(highest.length - 1, Math.ceil(((samples[i + 1] ?? end) / end) * plot));
    for (let x = first; x <= last; x++) highest[x] = Math.max(highest[x], total[i]);
  }
  highest.forEach((bytes, x) => g.fillRect(LEFT + x, height - (bytes / peak) * (height - 4), 1, (bytes / peak) * height));
  const a = LEFT + (from / end) * plot, b = LEFT + (to / end) * plot;
  g.fillStyle = colours.forward;
  g.globalAlpha = 0.18;
  g.fillRect(a, 0, b - a, height);
  g.globalAlpha = 1;
  g.strokeStyle = colours.forward;
  g.strokeRect(a + 0.5, 0.5, Math.max(b - a - 1, 1), height - 1);
}

// ------------------------------------------------------------------ moving

function show(newFrom, newTo) {
  const span = Math.min(Math.max(newTo - newFrom, 200), end);
  from = Math.min(Math.max(newFrom, 0), end - span);
  to = from + span;
  requestAnimationFrame(draw);
}
function zoom(factor, around) {
  show(around - (around - from) * factor, around + (to - around) * factor);
}
const timeAt = (x) => from + ((x - LEFT) / (timeline.clientWidth - LEFT - RIGHT)) * (to - from);

timeline.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = (event.deltaX / timeline.clientWidth) * (to - from);
    show(from + shift, to + shift);
  } else zoom(Math.exp(event.deltaY * 0.0016), timeAt(event.offsetX));
}, { passive: false });
timeline.addEventListener("dblclick", () => show(0, end));
let dragged = null;
timeline.addEventListener("pointerdown", (event) => {
  dragged = [event.offsetX, from, to];
  timeline.setPointerCapture(event.pointerId);
});
timeline.addEventListener("pointerup", () => (dragged = null));
timeline.addEventListener("pointerleave", () => { hovered = null; element("tip").hidden = true; draw(); });
timeline.addEventListener("pointermove", (event) => {
  if (dragged) {
    const shift = ((dragged[0] - event.offsetX) / (timeline.clientWidth - LEFT - RIGHT)) * (dragged[2] - dragged[1]);
    show(dragged[1] + shift, dragged[2] + shift);
  } else point(event.offsetX, event.offsetY, event.clientX, event.clientY);
});
function moveOverview(event) {
  if (event.type === "pointermove" && !event.buttons) return;
  const t = ((event.offsetX - LEFT) / (overview.clientWidth - LEFT - RIGHT)) * end;
  show(t - (to - from) / 2, t + (to - from) / 2);
}
overview.addEventListener("pointerdown", moveOverview);
overview.addEventListener("pointermove", moveOverview);
addEventListener("keydown", (event) => {
  if (event.target === element("filter")) return;
  const middle = (from + to) / 2, shift = (to - from) / 8;
  if (event.key === "+" || event.key === "=") zoom(0.7, middle);
  else if (event.key === "-") zoom(1 / 0.7, middle);
  else if (event.key === "ArrowLeft") show(from - shift, to - shift);
  else if (event.key === "ArrowRight") show(from + shift, to + shift);
  else if (event.key === "0" || event.key === "Escape") show(0, end);
});
