// ------------------------------------------------------------------ the page of one step

function fillHeader(step) {
  element("title").textContent = document.title = (step.model || "step") + ": one simulated step";
  for (const [key, value] of step.facts) addFact(key, value);
  const exposed = step.exposedGatherNs + step.exposedReduceNs, hidden = step.collectiveNs ? Math.max(0, 1 - exposed / step.collectiveNs) : 1;
  addTile("predicted step", timeText(step.makespanNs), timeText(step.computeNs) + " of it computation",
    [[step.computeNs / end, colours.forward]]);
  addTile("model FLOPs utilization", shareText(step.modelPeakNs / end), "of the device's peak (MFU); what is computed again does not count",
    [[step.modelPeakNs / end, colours.forward]]);
  addTile("against the lower bound", (step.makespanNs / step.bound.ns).toFixed(4) + " ×",
    "bound " + timeText(step.bound.ns) + " (" + step.bound.kind + ")", [[step.bound.ns / end, colours.gather]]);
  addTile("exposed communication", timeText(exposed), shareText(hidden) + " of " + timeText(step.collectiveNs) + " hidden",
    [[hidden, colours.gather], [1 - hidden, colours.wait]]);
  addPathTile(step);
  addTile("peak memory", bytesText(step.peak.bytes), "at " + step.peak.place,
    step.used.map((c) => [step.memory[c][step.peak.sample] / (step.capBytes || step.peak.bytes), colours[step.categories[c]]]),
    step.capBytes ? " of " + bytesText(step.capBytes) : "");
}

/// What the critical path mostly consists of, then the rest.
function addPathTile(step) {
  const shares = PATH_NAMES.map((name, kind) => [name, step.path.reduce((sum, [k, a, b]) => sum + (k === kind ? b - a : 0), 0) / end, colours[PATH_COLOURS[kind]]])
    .filter(([, share]) => share > 0).sort((a, b) => b[1] - a[1]);
  if (!shares.length) return;
  const [[first, most], ...rest] = shares;
  addTile("critical path", shareText(most), rest.map(([name, share]) => name + " " + shareText(share)).join(", ") || "nothing else bounds the step",
    shares.map(([, share, colour]) => [share, colour]), " " + first);
}

/// Only the row of a collective's first group has its reason; other rows name that group. The memory
/// left beside a kept copy is shown only if it differs from the previous row's.
let lastRoom = "";
function explainRow(row, c, firstRow) {
  const whys = [];
  if (c && row !== firstRow) whys.push("in the " + c.what + " of " + firstRow.group);
  else if (c) whys.push(c.why, ...(c.groups.length > 1 ? ["of " + c.groups.length + " groups, saves " + timeText(c.saved) + " of latency"] : []));
  const [why, room] = row.why.split("; ");
  if (why) whys.push(why);
  if (room && room !== lastRoom) whys.push(room);
  if (room) lastRoom = room;
  return whys.join("; ");
}

function fillGroups(step) {
  const columns = [["group", "name"], ["part"], ["what"], ["size", "num"], ["issued before", "place"], ["starts", "num"],
    ["takes", "num"], ["exposed", "num"], ["why", "why"]];
  const body = make("tbody"), firstRows = new Map();
  let previous = null;
  for (const row of step.rows) {
    const c = row.collective === null ? null : step.collectives[row.collective];
    if (c && !firstRows.has(c)) firstRows.set(c, row);
    if (c) c.what = LANE_OF[c.kind] === "reduce" ? "reduction" : "gather";
    const dot = make("span", undefined, "dot"), what = make("span");
    dot.style.background = c ? colours[LANE_OF[c.kind]] : colours.gathered;
    what.append(dot, row.what);
    const line = makeLine(columns, [row.group === previous ? "" : row.group, PARTS[row.part], what, bytesText(row.bytes),
      ...(c ? [c.place, timeText(c.start), timeText(c.end - c.start), timeText(c.exposed)] : ["", "", "", ""]),
      explainRow(row, c, firstRows.get(c))]);
    line.lastChild.title = [c?.why, row.why].filter(Boolean).join("; ");
    line.classList.toggle("head", row.group !== previous);
    if (c && c.exposed > 0) line.cells[7].classList.add("waits");
    line.dataset.text = [row.group, PARTS[row.part], row.what, c ? c.place : "", line.lastChild.textContent].join(" ").toLowerCase();
    if (c) {
      line.classList.add("link");
      line.addEventListener("click", () => showMark(makeMark([placeOf(step, c)], { step, collective: c,
        times: [Math.min(c.issue, c.start), Math.max(c.end, step.ops.start[Math.min(c.wait, step.count - 1)])] })));
    }
    body.append(line);
    previous = row.group;
  }
  element("groups").append(makeHead(columns), body);
  element("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const line of body.rows) {
      line.hidden = !line.dataset.text.includes(wanted);
      // A line without its neighbours needs its group's name.
      line.cells[0].textContent = wanted || line.classList.contains("head") ? step.rows[line.sectionRowIndex].group : "";
    }
  });
}

const step = readStep(D);
readColours(D.categories);
showSteps([step]);
fillHeader(step);
fillLegend([step]);
fillGroups(step);
startPath([step], true);
start([step]);
