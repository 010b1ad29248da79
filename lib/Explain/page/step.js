// ------------------------------------------------------------------ one step

const PARTS = ["forward", "backward", "update"];
const LANE_OF = { all_gather: "gather", reduce_scatter: "reduce" };

/// The last index whose value is at most x, or 0.
function findLast(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1; else high = middle;
  }
  return Math.max(0, low - 1);
}
const joinNames = (names) => (names.length > 3 ? `${names[0]} ... ${names[names.length - 1]} (${names.length} groups)` : names.join(" + "));
const nameCollective = (c) => c.kind + " of " + joinNames(c.groups);

/// The data of StepData.cpp, with lanes by name and memory by sample.
function readStep(data) {
  const step = { ...data, ops: data.operations, count: data.operations.start.length, samples: data.memory.time, lanes: {} };
  step.memory = data.memory.changes.map(([at, values]) => {
    const bytes = new Float64Array(step.samples.length);
    for (let i = 0; i < at.length; i++) bytes.fill(values[i], at[i], at[i + 1] ?? step.samples.length);
    return bytes;
  });
  step.total = step.samples.map((_, i) => step.memory.reduce((sum, bytes) => sum + bytes[i], 0));
  step.used = data.categories.map((_, c) => c).filter((c) => step.memory[c].some((b) => b > 0));
  for (const [lane, kind] of [["gather", "all_gather"], ["reduce", "reduce_scatter"]])
    step.lanes[lane] = { label: lane, items: data.collectives.filter((c) => c.kind === kind) };
  for (const { kind, name, items } of data.lanes)
    step.lanes[kind] = { label: name, items: items.map((item) => ({ ...item, kind })) };
  for (const { items } of Object.values(step.lanes)) items.sort((a, b) => a.start - b.start);
  step.moduleOf = (i) => data.strings[step.ops.module[i]] || "root";
  step.nameOf = (i) => data.strings[step.ops.name[i]];
  step.originOf = (i) => data.strings[step.ops.origin[i]];
  return step;
}

/// What the critical path consists of, by number (StepData.cpp): the names, colours and bands of its segments. Waits for
/// copies are within operations.
const PATH_NAMES = ["computation", "gathers", "reductions", "over replicas", "copies from the host", "copies to the host"];
const PATH_COLOURS = ["forward", "gather", "reduce", "reduce", "copy", "copy"];
const PATH_LANES = [null, "gather", "reduce", "all_reduce", null, null];
const isOnPath = (step, lane, start, end) =>
  step.path.some(([kind, a, b]) => PATH_LANES[kind] === lane && a < end && b > start);
const pathFact = (step, lane, start, end) => (isOnPath(step, lane, start, end) ? [["critical path", "bounds the step"]] : []);

/// The operation at a time, or the next one if computation waits. Of several operations at one time
/// the one with a duration.
function findOperation(step, t) {
  let i = findLast(step.ops.start, t);
  if (t > step.ops.end[i] && i + 1 < step.count) return [i + 1, true];
  while (i > 0 && step.ops.end[i] === step.ops.start[i]) i--;
  return [i, false];
}

// ------------------------------------------------------------------ in words

function describeOperation(step, i) {
  const { ops } = step, takes = timeText(ops.end[i] - ops.start[i]), origin = step.originOf(i);
  const facts = [["operator", step.nameOf(i)], ["part", PARTS[ops.part[i]]], ["takes", takes + (origin ? " (" + origin + ")" : "")],
    ["begins", timeText(ops.start[i])]];
  if (step.used.length) facts.push(["live memory", bytesText(ops.live[i])]);
  return [step.moduleOf(i), [...facts, ...pathFact(step, null, ops.start[i], ops.end[i]), ["operation", i + " of " + step.count]]];
}

function describeWait(step, i) {
  return ["computation waits", [["for", timeText(step.ops.start[i] - (i ? step.ops.end[i - 1] : 0))],
    ["before", step.moduleOf(i) + " (" + step.nameOf(i) + ")"]]];
}

function describeCollective(step, c) {
  const facts = [["size", bytesText(c.bytes)], ["takes", timeText(c.end - c.start) + (c.origin ? " (" + c.origin + ")" : "")]];
  if (c.part !== undefined) facts.unshift(["part", PARTS[c.part]]);
  if (c.issue !== undefined) facts.push(["issued", timeText(c.issue) + ", before " + c.place]);
  facts.push(["begins", timeText(c.start)]);
  if (c.kind in LANE_OF) facts.push(["hidden", timeText(Math.max(0, c.end - c.start - c.exposed))]);
  facts.push(["exposed", timeText(c.exposed)]);
  if (c.why) facts.push(["why here", c.why]);
  facts.push(...pathFact(step, LANE_OF[c.kind] ?? c.kind, c.start, c.end));
  return [nameCollective(c), facts];
}

function describeMemory(step, t) {
  const i = findLast(step.samples, t);
  const facts = [...step.used].reverse().filter((c) => step.memory[c][i] > 0)
    .map((c) => [step.categories[c], bytesText(step.memory[c][i]), colours[step.categories[c]]]);
  if (step.capBytes) facts.push(["left under the cap", bytesText(step.capBytes - step.total[i])]);
  return [bytesText(step.total[i]) + " live at " + timeText(Math.round(t)), facts];
}

// ------------------------------------------------------------------ colours

let colours = {};
function readColours(categories) {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "card", "ink", "soft", "line", "gather", "reduce", "copy", "wait", "cap", ...PARTS, ...categories])
    colours[name] = style.getPropertyValue("--" + name.replace(" ", "-")).trim();
  // Lanes that not every step has. Text on a coloured bar is dark in both schemes.
  Object.assign(colours, { all_reduce: colours.reduce, fetch: colours.copy, store: colours.copy, onBar: "#0d1526" });
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

function addFact(key, value) {
  const fact = make("span", key + " ");
  fact.append(make("b", value));
  element("facts").append(fact);
}

/// All colours of the timelines with their names. `more`: nodes to append.
function fillLegend(steps, more = []) {
  const legend = element("legend");
  const entry = (colour, text) => {
    const span = make("span", text);
    span.prepend(square(colour));
    return span;
  };
  const used = [...new Set(steps.flatMap((step) => step.used.map((c) => step.categories[c])))];
  legend.replaceChildren(...PARTS.map((part) => entry(colours[part], part)), entry(colours.gather, "gather"), entry(colours.reduce, "reduce"),
    ...(steps.some((step) => step.lanes.fetch) ? [entry(colours.copy, "copies to and from the host")] : []), entry(colours.wait, "computation waits"), ...(used.length ? [make("span", "memory:", "aside")] : []),
    ...used.map((name) => entry(colours[name], name)), ...more);
}
