// ------------------------------------------------------------------ series

const fitting = D.points.filter((p) => p.fits);
const models = [...new Set(D.points.map((p) => p.model))];
const rankCounts = [...new Set(D.points.map((p) => p.ranks))].sort((a, b) => a - b);
const item = D.points.length ? D.points[0].item : "samples";
const onHost = (p) => p.onHost ?? "-";
/// What is recomputed, in how many groups; of a step that does not fit, the policy.
const recomputed = (p) => p.recomputed ?? p.recompute;
const differs = (get) => new Set(D.points.map(get)).size > 1;
const placesDiffer = differs(onHost), kernelsDiffer = differs((p) => p.kernels);
const replicasDiffer = differs((p) => p.replicas), microbatchesDiffer = differs((p) => p.microbatches);
const syncsDiffer = differs((p) => p.gradientSync || "");
const microbatchNs = (p) => p.stepNs / p.microbatches;
const meshName = (p) => (models.length > 1 ? p.model + ", " : "") + countText(p.ranks) + " ranks";

/// A colour per policy of recomputation, and one per model.
const policies = ["none", "cheap", "selected", "full", "auto"].filter((policy) => D.points.some((p) => p.recompute === policy));
const policyColour = (p) => `var(--${p.recompute})`;
const modelColour = (model) => models.length < 2 ? "var(--many)"
  : `color-mix(in oklab, var(--many) ${Math.round((100 * models.indexOf(model)) / (models.length - 1))}%, var(--few))`;
/// Key of a line of points: all that is asked for but the cap.
const requestOf = (p) => [p.recompute, p.replicas, p.microbatches, p.gradientSync].join(" ");

// ------------------------------------------------------------------ drawing

function svgNode(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/// An axis: maps values to 0..1, and has ticks.
function makeAxis(low, high, isLog, unit, text, wanted, findStep = niceStep) {
  const f = isLog ? Math.log : (v) => v;
  const span = f(high) - f(low) || 1;
  const ticks = [];
  if (isLog) {
    for (let power = unit ** Math.floor(Math.log(low) / Math.log(unit)); power <= high * 1.0001; power *= unit)
      if (power >= low * 0.9999) ticks.push(power);
  } else {
    const step = findStep((high - low) / unit, wanted) * unit;
    for (let v = Math.ceil(low / step) * step; v <= high; v += step) ticks.push(v);
  }
  return { at: (v) => (f(v) - f(low)) / span, ticks, text };
}

function makePlot(parent, x, y, height, xName, yName) {
  const width = Math.max(120, parent.clientWidth), isPanel = !xName;
  const box = isPanel ? { left: width < 220 ? 48 : 60, top: 8, right: 10, bottom: 22 } : { left: 62, top: 20, right: 18, bottom: 40 };
  const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const plot = {
    svg, width, height, box,
    x: (v) => box.left + x.at(v) * (width - box.left - box.right),
    y: (v) => height - box.bottom - y.at(v) * (height - box.top - box.bottom),
    add: (tag, attributes, text) => svg.appendChild(svgNode(tag, attributes, text)),
  };
  for (const v of x.ticks) {
    plot.add("line", { class: "grid", x1: plot.x(v), x2: plot.x(v), y1: box.top, y2: height - box.bottom });
    plot.add("text", { x: plot.x(v), y: height - box.bottom + 16, "text-anchor": "middle" }, x.text(v));
  }
  for (const v of y.ticks) {
    plot.add("line", { class: "grid", x1: box.left, x2: width - box.right, y1: plot.y(v), y2: plot.y(v) });
    plot.add("text", { x: box.left - 8, y: plot.y(v) + 4, "text-anchor": "end" }, y.text(v));
  }
  if (!isPanel) {
    plot.add("text", { x: width - box.right, y: height - 6, "text-anchor": "end" }, xName);
    plot.add("text", { x: 4, y: 10 }, yName);
  }
  parent.append(svg);
  return plot;
}

function addPoint(plot, p, x, y, colour, radius) {
  const circle = plot.add("circle", { cx: x, cy: y, r: radius, fill: colour });
  circle.addEventListener("pointermove", (event) => showPoint(p, colour, event));
  circle.addEventListener("click", () => showRow(p));
  circle.addEventListener("pointerleave", () => (element("tip").hidden = true));
}

const path = (places) => places.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("");

/// The axes of one model: peak memory and time. Both begin at 0, so that lengths can be compared.
function makeParetoAxes(points) {
  const memory = Math.max(...points.map((p) => p.peakBytes)), high = Math.max(...points.map(microbatchNs));
  const isDeviceInside = D.deviceBytes && D.deviceBytes < 4 * memory;
  const timeUnit = 1000 ** Math.floor(Math.log(Math.max(high, 1000)) / Math.log(1000));
  return {
    isDeviceInside,
    x: makeAxis(0, Math.max(memory, isDeviceInside ? D.deviceBytes : 0) * 1.05, false, 1, (v) => (v ? tickText(bytesText(v)) : "0"), innerWidth < 600 ? 3 : 5, niceByteStep),
    y: makeAxis(0, high * 1.1, false, timeUnit, (v) => (v ? tickText(timeText(v)) : "0"), 4),
  };
}

/// A panel for each mesh; all panels of a model have the same axes.
function drawPareto() {
  const parent = element("pareto"), panels = [];
  for (const model of models)
    for (const ranks of rankCounts) {
      const points = fitting.filter((p) => p.model === model && p.ranks === ranks && (p.pareto || element("all").checked));
      if (points.length) panels.push([model, points]);
    }
  parent.replaceChildren(...(panels.length ? [] : ["nothing fits"]));
  parent.className = panels.length <= 3 ? "few" : "";
  const axes = new Map(models.map((model) => [model, makeParetoAxes(fitting.filter((p) => p.model === model))]));
  for (const [model, points] of panels) {
    const panel = make("div");
    parent.append(panel);
    panel.append(make("h3", meshName(points[0])));
    drawPanel(panel, points, axes.get(model));
  }
  element("decisions").replaceChildren(...policies.map((policy) => legendEntry(`var(--${policy})`, "recompute " + policy + (policy === "auto" ? " (what fits; see each point)" : ""))),
    ...([...axes.values()].some((axis) => axis.isDeviceInside) ? [legendEntry("var(--cap)", D.device + " has " + bytesText(D.deviceBytes), "dashed")] : []),
    make("span", "across: peak memory of a rank; up: step" + (microbatchesDiffer ? " / microbatches" : "")));
}

function drawPanel(panel, points, { x, y, isDeviceInside }) {
  const plot = makePlot(panel, x, y, 160);
  if (isDeviceInside) {
    const at = plot.x(D.deviceBytes);
    plot.add("line", { class: "cap", x1: at, x2: at, y1: plot.box.top, y2: plot.height - plot.box.bottom });
  }
  const series = new Map();
  for (const p of points) series.set(requestOf(p), [...(series.get(requestOf(p)) ?? []), p]);
  for (const front of series.values()) {
    front.sort((a, b) => a.peakBytes - b.peakBytes);
    const places = front.map((p) => [plot.x(p.peakBytes), plot.y(microbatchNs(p))]);
    plot.add("path", { class: "path", d: path(places), style: `stroke:${policyColour(front[0])}` });
    for (const isBest of [false, true]) // beaten points are drawn first, below the others
      front.forEach((p, i) => { if (p.pareto === isBest) addPoint(plot, p, ...places[i], policyColour(p), isBest ? 4.5 : 3); });
  }
}

function legendEntry(colour, text, className = "") {
  const entry = make("span", text), line = make("i", undefined, className);
  line.style.borderColor = colour;
  entry.prepend(line);
  return entry;
}

function drawScaling() {
  element("scaling").replaceChildren();
  element("rate").textContent = item[0].toUpperCase() + item.slice(1) + " per second and rank";
  const lines = [];
  for (const model of models) {
    const best = [];
    for (const ranks of rankCounts) {
      const points = fitting.filter((p) => p.model === model && p.ranks === ranks);
      if (points.length) best.push(points.reduce((a, b) => (b.itemsPerSecond > a.itemsPerSecond ? b : a)));
    }
    if (best.length) lines.push([model, best]);
  }
  element("scaling").parentNode.hidden = !lines.length;
  if (!lines.length) return;
  const rate = (p, ns) => p.itemsPerStep / p.ranks / (ns / 1e9);
  const all = lines.flatMap(([, best]) => best), top = Math.max(...all.map((p) => rate(p, p.stepNs)));
  const ranks = all.map((p) => p.ranks);
  const plot = makePlot(element("scaling"), makeAxis(Math.min(...ranks) * 0.8, Math.max(...ranks) * 1.25, true, Math.max(...ranks) > 200 * Math.min(...ranks) ? 4 : 2, countText),
    makeAxis(0, top * 1.12, false, 1, countText, 5), 260, "ranks", item + "/s");
  for (const [model, best] of lines) {
    const colour = modelColour(model);
    const places = best.map((p) => [plot.x(p.ranks), plot.y(rate(p, p.stepNs))]);
    const theirs = best.filter((p) => p.fsdp2Ns).map((p) => [plot.x(p.ranks), plot.y(rate(p, p.fsdp2Ns))]);
    plot.add("path", { class: "ideal", d: path(theirs), style: `stroke:${colour}` });
    plot.add("path", { class: "path", d: path(places), style: `stroke:${colour}` });
    best.forEach((p, i) => addPoint(plot, p, ...places[i], colour, 4.5));
  }
  element("orders").replaceChildren(...lines.flatMap(([model]) => {
    const name = models.length > 1 ? model + ": " : "";
    return [legendEntry(modelColour(model), name + "the fastest schedule found that fits"),
      ...(all.some((p) => p.model === model && p.fsdp2Ns) ? [legendEntry(modelColour(model), name + "FSDP2's order under the same cap", "dashed")] : [])];
  }));
}

// ------------------------------------------------------------------ what a point is

function showPoint(p, colour, event) {
  const facts = [["recompute", recomputed(p)], ["step", timeText(p.stepNs)], ["against the bound", (p.stepNs / p.boundNs).toFixed(4) + " ×"],
    ["exposed", timeText(p.exposedNs)], ["peak", bytesText(p.peakBytes)], ["cap", p.capBytes ? bytesText(p.capBytes) : "none"],
    ["kept", countText(p.kept)], ["gathers, reductions", p.gathers + ", " + p.reductions], [item + "/s", countText(p.itemsPerSecond)],
    ["per rank", countText(p.itemsPerSecond / p.ranks)], ["MFU", shareText(p.mfu)], ["device hours per 10⁹ " + item, p.deviceHoursPer1e9Items.toFixed(1)]];
  if (p.replicas > 1) facts.unshift(["replicas", countText(p.replicas)]);
  if (p.microbatches > 1) facts.unshift(["microbatches, reduced", countText(p.microbatches) + ", " + p.gradientSync]);
  if (placesDiffer) facts.push(["on host", onHost(p)]);
  if (kernelsDiffer) facts.push(["kernels", p.kernels]);
  if (p.percentile95Ns) facts.push(["95th percentile", timeText(p.percentile95Ns)]);
  if (p.fsdp2Ns) facts.push(["FSDP2's order", timeText(p.fsdp2Ns)]);
  showTip(meshName(p), facts, event.clientX, event.clientY, colour);
}

const lineOf = new Map();
/// Marks a point's row, if the table has it.
function showRow(p) {
  for (const [point, line] of lineOf) line.classList.toggle("chosen", point === p);
  lineOf.get(p)?.scrollIntoView({ block: "center" });
}

function fillTable() {
  lineOf.clear();
  const hasJitter = D.points.some((p) => p.percentile95Ns), num = (name) => [name, "num"];
  const before = [["model", "name"], num("ranks"), ...(replicasDiffer ? [num("replicas")] : []), ...(microbatchesDiffer ? [num("microbatches")] : []),
    ...(syncsDiffer ? [["reduced"]] : []), ["recompute"], ...(placesDiffer ? [["on host"]] : []), ...(kernelsDiffer ? [["kernels"]] : []), num("cap")];
  const figures = [num("peak"), num("step"), ...(hasJitter ? [num("95 %")] : []), num("exposed"), num("× bound"), num("FSDP2's order"), num(item + "/s"),
    num("per rank"), num("MFU"), num("h / 10⁹")];
  const body = make("tbody");
  let previous = "";
  for (const p of D.points) {
    if (p.fits && !p.pareto && !element("all").checked) continue;
    const recompute = make("span", recomputed(p)), line = makeLine(p.fits ? [...before, ...figures] : before,
      [p.model, countText(p.ranks), ...(replicasDiffer ? [countText(p.replicas)] : []), ...(microbatchesDiffer ? [countText(p.microbatches)] : []),
        ...(syncsDiffer ? [p.gradientSync || ""] : []), recompute, ...(placesDiffer ? [onHost(p)] : []),
        ...(kernelsDiffer ? [p.kernels] : []), p.capBytes ? bytesText(p.capBytes) : "none",
        ...(p.fits ? [bytesText(p.peakBytes), timeText(p.stepNs), ...(hasJitter ? [timeText(p.percentile95Ns)] : []), timeText(p.exposedNs),
          (p.stepNs / p.boundNs).toFixed(4), p.fsdp2Ns ? timeText(p.fsdp2Ns) : "", countText(p.itemsPerSecond), countText(p.itemsPerSecond / p.ranks),
          shareText(p.mfu), p.deviceHoursPer1e9Items.toFixed(1)] : [])]);
    recompute.prepend(square(policyColour(p)));
    lineOf.set(p, line);
    if (!p.fits) {
      const cell = make("td", "does not fit: " + bytesText(p.minimumPeakBytes) + " at least" + (p.minimumPeakIn ? ", at " + p.minimumPeakIn : ""), "no");
      cell.colSpan = figures.length;
      line.append(cell);
    }
    if (p.fits && !p.pareto) line.classList.add("beaten");
    if (p.model + p.ranks !== previous) line.classList.add("head");
    previous = p.model + p.ranks;
    body.append(line);
  }
  element("points").replaceChildren(makeHead([...before, ...figures]), body);
}

function draw() {
  drawPareto();
  drawScaling();
}
element("facts").textContent = D.costs + (D.missing ? `; interrupted: ${D.missing}` : "");
element("all").addEventListener("change", () => { drawPareto(); fillTable(); });
addEventListener("resize", draw);
draw();
fillTable();
