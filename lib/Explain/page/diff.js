// ------------------------------------------------------------------ matching the two steps

const sides = D.steps.map(readStep), [one, two] = sides;
const otherOf = (step) => sides[1 - sides.indexOf(step)];
for (const step of sides) step.title = step.name + ": " + timeText(step.makespanNs);

/// By side and collective: the indices of the other side's matching collectives, and the row.
const paired = sides.map((step) => step.collectives.map(() => []));
const rowOf = sides.map((step) => step.collectives.map(() => null));
for (const [a, b] of D.pairs) { paired[0][a].push(b); paired[1][b].push(a); }
for (const row of D.differences) row.collectives.forEach((indices, side) => { for (const i of indices) rowOf[side][i] = row; });

/// Operations by part, module and name, in order.
function collectOperations(step) {
  const found = new Map();
  for (let i = 0; i < step.count; i++) {
    if (step.ops.end[i] === step.ops.start[i]) continue;
    const key = step.ops.part[i] + step.moduleOf(i) + " " + step.nameOf(i);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(i);
  }
  return found;
}
const operations = sides.map(collectOperations);

/// Equal operations are matched from the last one: recomputed ones, which one side lacks, come first.
function findOperationOf(step, i) {
  const key = step.ops.part[i] + step.moduleOf(i) + " " + step.nameOf(i), side = sides.indexOf(step);
  const own = operations[side].get(key) ?? [], others = operations[1 - side].get(key) ?? [];
  return others[others.length - (own.length - own.indexOf(i))];
}

const blocksOf = (step, name, part) => step.blocks.filter((block) => block[0] === name && block[1] === part);
const placeOfBlock = (step, [, , first, last]) => ({ band: bandOf(step, "blocks"), start: step.ops.start[first], end: step.ops.end[last] });

findCounterparts = (step, what) => {
  const other = otherOf(step), side = sides.indexOf(step), places = [], texts = [];
  const add = (place, text) => { places.push(place); texts.push(text); };
  if (what.collective) {
    const c = what.collective, index = step.collectives.indexOf(c);
    // Collectives of other lanes match one each.
    const found = index >= 0 ? paired[side][index].map((i) => other.collectives[i])
      : (other.lanes[c.kind]?.items ?? []).filter((d) => joinNames(d.groups) === joinNames(c.groups)).slice(0, 1);
    for (const d of found)
      add(placeOf(other, d), nameCollective(d) + ", begins " + timeText(d.start) + ", takes " + timeText(d.end - d.start) + ", exposed " + timeText(d.exposed));
    if (!found.length) texts.push(index >= 0 && rowOf[side][index] ? rowOf[side][index][side ? "left" : "right"] : "nothing");
  } else if (what.block) {
    const [name, part] = what.block, own = blocksOf(step, name, part), found = blocksOf(other, name, part)[own.indexOf(what.block)];
    if (found) {
      const place = placeOfBlock(other, found);
      add(place, "begins " + timeText(place.start) + ", takes " + timeText(place.end - place.start));
    } else texts.push("not there");
  } else {
    const i = findOperationOf(step, what.operation);
    if (i === undefined) texts.push("not there");
    else add({ band: bandOf(other, "compute"), start: other.ops.start[i], end: other.ops.end[i] },
      "begins " + timeText(other.ops.start[i]) + ", takes " + timeText(other.ops.end[i] - other.ops.start[i]));
  }
  return { places, facts: texts.map((text) => ["in " + other.name, text]) };
};

// ------------------------------------------------------------------ figures

const sign = (change) => (change > 0 ? "+" : "−");
const changeText = (a, b, text) => (a === b ? "equal" : sign(b - a) + text(Math.abs(b - a)) + (a ? " (" + sign(b - a) + (100 * Math.abs(b / a - 1)).toFixed(2) + " %)" : ""));
const changeClass = (change) => (change < 0 ? "better" : change > 0 ? "worse" : "");

/// A number of both steps, with a bar each. `judge`: -1 if less is better, 1 if more is better,
/// else 0.
function addPair(name, get, text, colour, judge, describeChange = changeText) {
  const values = sides.map(get), most = Math.max(...values) || 1;
  const tile = make("div", undefined, "tile"), pair = make("div", undefined, "pair");
  sides.forEach((step, i) => {
    const bar = make("div", undefined, "meter"), piece = square(colour), label = make("span", step.name, "side");
    label.title = step.name;
    piece.style.width = (100 * values[i]) / most + "%";
    bar.append(piece);
    pair.append(label, bar, make("b", text(values[i])));
  });
  tile.append(make("div", name, "name"), pair, make("div", describeChange(...values, text), "change " + changeClass(-judge * (values[1] - values[0]))));
  element("tiles").append(tile);
}

function fillHeader() {
  element("title").textContent = document.title = (one.model ? one.model + ": " : "") + one.name + " and " + two.name;
  for (const [key, value] of one.facts)
    if (!D.facts.some(([name]) => name === key)) addFact(key, value);
  for (const [key, a, b] of D.facts) addFact(key, one.name + ": " + (a || "-") + "; " + two.name + ": " + (b || "-"));
  const measured = two.facts.find(([key]) => key === "costs");
  if (!two.bound && measured) addFact("measured", measured[1].replace(/^measured, /, ""));
  const sumOf = (get) => (step) => step.collectives.reduce((sum, c) => sum + get(c), 0);
  addPair("step", (step) => step.makespanNs, timeText, colours.forward, -1);
  addPair("computation", (step) => step.computeNs, timeText, colours.forward, -1);
  addPair("exposed communication", (step) => step.exposedGatherNs + step.exposedReduceNs, timeText, colours.wait, -1);
  if (sides.every((step) => step.used.length)) addPair("peak memory", (step) => step.peak.bytes, bytesText, colours.activations, 0);
  addPair("gathered and reduced", sumOf((c) => c.bytes), bytesText, colours.gather, -1);
  addPair("collectives", (step) => step.collectives.length, countText, colours.gather, 0);
  addPair("busy with collectives", (step) => step.collectiveNs, timeText, colours.gather, -1);
  if (sides.some((step) => step.modelPeakNs / step.makespanNs >= 0.0005)) addPair("MFU", (step) => step.modelPeakNs / step.makespanNs, shareText, colours.forward, 1,
    (a, b) => (a === b ? "equal" : sign(b - a) + (100 * Math.abs(b - a)).toFixed(2) + " points"));
  element("tiles").style.setProperty("--columns", element("tiles").children.length === 6 ? 3 : 4);
}

// ------------------------------------------------------------------ differences

/// The places of rows in both timelines, and the pairs of matching places.
function markOf(rows) {
  const places = [], pairs = [], indexOf = new Map();
  for (const row of rows) {
    row.collectives.forEach((indices, side) => {
      for (const i of indices) {
        indexOf.set(side + " " + i, places.length);
        places.push(placeOf(sides[side], sides[side].collectives[i]));
      }
    });
    for (const a of row.collectives[0])
      for (const b of paired[0][a])
        if (row.collectives[1].includes(b)) pairs.push([indexOf.get("0 " + a), indexOf.get("1 " + b)]);
    if (row.isComputation)
      for (const step of sides)
        for (const block of blocksOf(step, row.names[0] === "root" ? "" : row.names[0], row.part)) places.push(placeOfBlock(step, block));
  }
  return makeMark(places, { pairs });
}

/// The collectives of rows, with their total time.
function describeCollectives(rows, side) {
  const found = rows.flatMap((row) => row.collectives[side].map((i) => sides[side].collectives[i]));
  if (!found.length) return "kept";
  const sum = (get) => timeText(found.reduce((sum, c) => sum + get(c), 0));
  return found.length + (found[0].kind === "all_gather" ? " gathers, " : " reductions, ") + sum((c) => c.end - c.start) + ", exposed " + sum((c) => c.exposed);
}

const changeOf = (row) => row.costs[1] - row.costs[0];
/// Joins rows of one kind into one row with their sums and with `members`.
function sumRows(rows) {
  if (rows.length === 1) return rows[0];
  const sum = { ...rows[0], members: rows, names: rows.flatMap((row) => row.names), lanes: 0, costs: [0, 0] };
  for (const row of rows) { sum.lanes += row.lanes; sum.costs[0] += row.costs[0]; sum.costs[1] += row.costs[1]; }
  ["left", "right"].forEach((key, side) => {
    const isSame = rows.every((row) => row[key] === rows[0][key]);
    if (sum.isComputation) sum[key] = timeText(sum.costs[side]) + (isSame ? ", each " + rows[0][key] : "");
    else if (!isSame || rows[0].collectives[side].length) sum[key] = describeCollectives(rows, side);
  });
  if (sum.what.endsWith(" launch")) sum.right = describeLaunches(rows) || sum.right;
  return sum;
}

/// How much sooner or later the right step issues the same collectives.
function describeLaunches(rows) {
  const shifts = rows.flatMap((row) => row.collectives[1].map((i, k) => two.collectives[i].issue - one.collectives[row.collectives[0][k]].issue));
  const sooner = shifts.filter((shift) => shift < 0), later = shifts.filter((shift) => shift > 0);
  return [[sooner, "sooner"], [later, "later"]].filter(([found]) => found.length)
    .map(([found, word]) => found.length + " " + word + ", by up to " + timeText(Math.max(...found.map(Math.abs)))).join("; ");
}

const signed = (ns) => (Math.abs(ns) < 1 ? "0 s" : sign(ns) + timeText(Math.abs(ns)));
function namesText(names, isComputation) {
  const all = [...new Set(names)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return all.length > 3 ? `${all[0]} ... ${all[all.length - 1]} (${all.length} ${isComputation ? "blocks" : "groups"})` : all.join(" + ");
}

function fillDifferences() {
  const columns = [["what", "name"], ["part"], ["of", "of"], [one.name, "side"], [two.name, "side"], ["step", "num"], ["lanes", "num"]];
  const sorts = new Map();
  for (const row of D.differences) {
    const sort = row.what + " " + row.part;
    if (!sorts.has(sort)) sorts.set(sort, []);
    sorts.get(sort).push(row);
  }
  const cost = (row) => Math.abs(changeOf(row)) + 1e-6 * Math.abs(row.lanes);
  const rows = [...sorts.values()].map(sumRows).sort((a, b) => cost(b) - cost(a)), body = make("tbody");
  const addLine = (row, className) => {
    const line = makeLine(columns, [(row.members ? "▸ " : "") + row.what, row.part === undefined ? "" : PARTS[row.part],
      row.names ? namesText(row.names, row.isComputation) : "", row.left, row.right, signed(changeOf(row)), row.lanes === undefined ? "" : signed(row.lanes)]);
    line.className = className;
    line.cells[5].classList.add(changeClass(Math.abs(changeOf(row)) < 1 ? 0 : changeOf(row)) || "none");
    line.dataset.text = [row.what, PARTS[row.part], ...(row.names ?? []), row.left, row.right].join(" ").toLowerCase();
    body.append(line);
    return line;
  };
  const choose = (line, row) => {
    for (const other of body.rows) other.classList.toggle("chosen", other === line);
    showMark(markOf(row.members ?? [row]));
  };
  for (const row of rows) {
    const line = addLine(row, "link"), members = (row.members ?? []).map((member) => [addLine(member, "link member"), member]);
    for (const [memberLine, member] of members) {
      memberLine.hidden = true;
      memberLine.addEventListener("click", () => choose(memberLine, member));
    }
    line.addEventListener("click", () => {
      const isOpen = line.classList.toggle("open");
      for (const [memberLine] of members) memberLine.hidden = !isOpen;
      if (members.length) line.cells[0].textContent = (isOpen ? "▾ " : "▸ ") + row.what;
      choose(line, row);
    });
  }
  const all = two.makespanNs - one.makespanNs, rest = all - D.same - rows.reduce((sum, row) => sum + changeOf(row), 0);
  if (Math.abs(D.same) >= 1) addLine({ what: "the same in both", left: "", right: "", costs: [0, D.same] }, "sum");
  if (Math.abs(rest) >= 1000) addLine({ what: "all else", left: "", right: "", costs: [0, rest] }, "sum");
  addLine({ what: rows.length ? "the step" : "nothing differs", left: timeText(one.makespanNs), right: timeText(two.makespanNs), costs: [0, all] }, "sum");
  element("differences").append(makeHead(columns), body);
  element("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const line of body.rows)
      line.hidden = wanted ? !line.dataset.text.includes(wanted) : line.classList.contains("member");
  });
}

readColours(one.categories);
showSteps(sides);
fillHeader();
const dashed = make("span", "the other step's memory");
dashed.prepend(make("i", undefined, "dash"));
fillLegend(sides, sides.every((step) => step.used.length) ? [dashed] : []);
fillDifferences();
startPath(sides, false);
start(sides);
