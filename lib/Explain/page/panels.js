// ------------------------------------------------------------------ what the pointer is on

function point(x, y, clientX, clientY) {
  const t = timeAt(x);
  hovered = { x };
  let title = null, facts = [];
  const lane = Object.keys(LANES).find((name) => y >= LANES[name][0] && y < LANES[name][0] + LANES[name][1]);
  if (x < LEFT || t > end) hovered = null;
  else if (lane === "compute" || lane === "blocks") [title, facts] = describeOperation(t);
  else if (lane) {
    const slack = ((to - from) / timeline.clientWidth) * 2;
    const c = collectives[lane].find((c) => t >= c.start - slack && t <= c.end + slack);
    if (c) { hovered.collective = c; [title, facts] = describeCollective(c); }
  } else if (y >= MEMORY_TOP) [title, facts] = describeMemory(t);
  showTip(title, facts, clientX, clientY);
  draw();
}

function describeOperation(t) {
  let i = findLast(ops.start, t);
  if (t > ops.end[i] && i + 1 < count) {
    const wait = ops.start[i + 1] - ops.end[i];
    return ["computation waits", [["for", timeText(wait)], ["before", moduleOf(i + 1) + " (" + nameOf(i + 1) + ")"]]];
  }
  while (i > 0 && ops.end[i] === ops.start[i]) i--; // of several at one time, the one that costs
  return [moduleOf(i), [["operator", nameOf(i)], ["part", PARTS[ops.part[i]]],
    ["takes", timeText(ops.end[i] - ops.start[i]) + (D.strings[ops.origin[i]] ? " (" + D.strings[ops.origin[i]] + ")" : "")],
    ["begins", timeText(ops.start[i])], ["live memory", bytesText(ops.live[i])], ["operation", i + " of " + count]]];
}

function describeCollective(c) {
  if (c.issue === undefined)
    return [c.kind + " of " + joinNames(c.groups), [["size", bytesText(c.bytes)], ["takes", timeText(c.end - c.start)],
      ["begins", timeText(c.start)], ["exposed", timeText(c.exposed)]]];
  return [c.kind + " of " + joinNames(c.groups), [["part", PARTS[c.part]],
    ["size", bytesText(c.bytes)], ["takes", timeText(c.end - c.start) + (c.origin ? " (" + c.origin + ")" : "")],
    ["issued", timeText(c.issue) + ", before " + c.place], ["begins", timeText(c.start)],
    ["hidden", timeText(Math.max(0, c.end - c.start - c.exposed))], ["exposed", timeText(c.exposed)], ["why here", c.why]]];
}

function describeMemory(t) {
  const i = findLast(samples, t);
  const facts = [...used].reverse().filter((c) => memory[c][i] > 0)
    .map((c) => [D.categories[c], bytesText(memory[c][i]), colours.memory[c]]);
  if (D.capBytes) facts.push(["left under the cap", bytesText(D.capBytes - total[i])]);
  return [bytesText(total[i]) + " live at " + timeText(Math.round(t)), facts];
}

// ------------------------------------------------------------------ header

function addTile(name, value, more, meter, aside) {
  const tile = make("div", undefined, "tile"), shown = make("div", value, "value");
  if (aside) shown.append(make("small", aside));
  tile.append(make("div", name, "name"), shown);
  const bar = make("div", undefined, "meter");
  for (const [part, colour] of meter) {
    const piece = square(colour);
    piece.style.width = Math.min(100, Math.max(0, 100 * part)) + "%";
    bar.append(piece);
  }
  tile.append(bar, make("div", more, "more"));
  element("tiles").append(tile);
}

function fillHeader() {
  element("title").textContent = document.title = (D.model || "step") + ": one simulated step";
  for (const [key, value] of D.facts) {
    const fact = make("span", key + " ");
    fact.append(make("b", value));
    element("facts").append(fact);
  }
  const exposed = D.exposedGatherNs + D.exposedReduceNs;
  addTile("predicted step", timeText(D.makespanNs), timeText(D.computeNs) + " of it computation",
    [[D.computeNs / end, colours.forward]]);
  addTile("against the bound that no schedule can beat", (D.makespanNs / D.bound.ns).toFixed(4) + " ×",
    "bound " + timeText(D.bound.ns) + " (" + D.bound.kind + ")", [[D.bound.ns / end, colours.gather]]);
  addTile("exposed communication", timeText(exposed),
    share(D.collectiveNs ? Math.max(0, 1 - exposed / D.collectiveNs) : 1) + " of " + timeText(D.collectiveNs) + " hidden",
    [[D.collectiveNs ? 1 - exposed / D.collectiveNs : 1, colours.gather], [D.collectiveNs ? exposed / D.collectiveNs : 0, colours.wait]]);
  addTile("peak memory", bytesText(D.peak.bytes), "at " + D.peak.place,
    used.map((c) => [memory[c][D.peak.sample] / (D.capBytes || D.peak.bytes), colours.memory[c]]),
    D.capBytes ? " of " + bytesText(D.capBytes) : "");
}

function fillLegend() {
  const legend = element("legend");
  const entry = (colour, text) => {
    const span = make("span", text);
    span.prepend(square(colour));
    legend.append(span);
  };
  PARTS.forEach((part) => entry(colours[part], part));
  entry(colours.gather, "gather");
  entry(colours.reduce, "reduce");
  entry(colours.wait, "computation waits");
  legend.append(make("span", undefined, "sep"), make("span", "memory:"));
  used.forEach((c) => entry(colours.memory[c], D.categories[c]));
}

// ------------------------------------------------------------------ groups

function fillGroups() {
  const table = element("groups"), head = make("tr");
  const columns = [["group"], ["part"], ["what"], ["size", "num"], ["issued before"], ["starts", "num"],
    ["takes", "num"], ["exposed", "num"], ["why", "why"]];
  columns.forEach(([name, kind]) => head.append(make("th", name, kind)));
  const body = make("tbody");
  let previous = null;
  for (const row of D.rows) {
    const c = row.collective === null ? null : D.collectives[row.collective];
    const line = make("tr", undefined, row.group === previous ? "" : "head");
    const what = make("td", row.what), dot = make("span", undefined, "dot");
    dot.style.background = c ? colours[laneOf[c.kind]] : colours.memory[D.categories.indexOf("gathered")];
    what.prepend(dot);
    line.append(make("td", row.group === previous ? "" : row.group, "group"), make("td", PARTS[row.part]), what,
      make("td", bytesText(row.bytes), "num"), make("td", c ? c.place : ""),
      make("td", c ? timeText(c.start) : "", "num"), make("td", c ? timeText(c.end - c.start) : "", "num"),
      make("td", c ? timeText(c.exposed) : "", "num" + (c && c.exposed > 0 ? " waits" : "")), make("td", row.why, "why"));
    line.dataset.text = [row.group, PARTS[row.part], row.what, c ? c.place : "", row.why].join(" ").toLowerCase();
    if (c) {
      line.classList.add("link");
      line.addEventListener("click", () => {
        const margin = 2 * (c.end - c.start) + 1000;
        hovered = { collective: c };
        show(Math.min(c.issue, c.start) - margin, Math.max(c.end, ops.start[Math.min(c.wait, count - 1)]) + margin);
        timeline.scrollIntoView({ block: "nearest" });
      });
    }
    body.append(line);
    previous = row.group;
  }
  const header = make("thead");
  header.append(head);
  table.append(header, body);
  element("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const line of body.rows) {
      line.hidden = !line.dataset.text.includes(wanted);
      // Without its neighbours a line needs its group's name.
      line.cells[0].textContent = wanted || line.classList.contains("head") ? D.rows[line.sectionRowIndex].group : "";
    }
  });
}

readColours();
fillHeader();
fillLegend();
fillGroups();
// page.html#12.5-40 shows these milliseconds.
const range = /^#([\d.]+)-([\d.]+)$/.exec(location.hash);
if (range) show(range[1] * 1e6, range[2] * 1e6); else draw();
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); stripes = null; draw(); });
