// ------------------------------------------------------------------ the item under the pointer

/// The item at a position of the canvas, with its title and facts.
function find(x, y) {
  const t = timeAt(x), band = bands.find(({ top, size }) => y >= top && y < top + size);
  if (x < left || x > left + plotWidth() || !band) return null;
  const { step } = band, mark = makeMark([], { x, step });
  if (band.kind === "memory") [mark.title, mark.facts] = describeMemory(step, t);
  else if (t > step.makespanNs) return mark;
  else if (band.kind === "compute") {
    const [i, isWait] = findOperation(step, t);
    [mark.title, mark.facts] = isWait ? describeWait(step, i) : describeOperation(step, i);
    if (!isWait) addPlaces(mark, { band, start: step.ops.start[i], end: step.ops.end[i] }, { operation: i });
  } else if (band.kind === "blocks") {
    const block = step.blocks.find(([, , first, last]) => t >= step.ops.start[first] && t <= step.ops.end[last]);
    if (!block) return mark;
    const [name, part, first, last] = block, start = step.ops.start[first];
    mark.title = name || "root";
    mark.facts = [["part", PARTS[part]], ["begins", timeText(start)], ["takes", timeText(step.ops.end[last] - start)]];
    addPlaces(mark, { band, start, end: step.ops.end[last] }, { block });
  } else if (band.kind === "lane") {
    const slack = ((to - from) / plotWidth()) * 2;
    const c = step.lanes[band.lane].items.find((c) => t >= c.start - slack && t <= c.end + slack);
    if (!c) return mark;
    [mark.title, mark.facts] = describeCollective(step, c);
    addPlaces(mark, placeOf(step, c), { collective: c });
  }
  return mark;
}

function addPlaces(mark, own, what) {
  const { places, facts } = findCounterparts(mark.step, what);
  mark.places = [own, ...places];
  mark.pairs = places.map((_, i) => [0, i + 1]);
  mark.facts.push(...facts);
  Object.assign(mark, what);
}

function point(event) {
  hovered = find(event.offsetX, event.offsetY);
  showTip(hovered?.title, hovered?.facts, event.clientX, event.clientY);
  draw();
}

// ------------------------------------------------------------------ moving

function show(newFrom, newTo) {
  const span = Math.min(Math.max(newTo - newFrom, 200), end);
  from = Math.min(Math.max(newFrom, 0), end - span);
  to = from + span;
  requestAnimationFrame(draw);
}
/// Marks places and shows them with some time before and after.
function showMark(mark) {
  selected = mark;
  hovered = null;
  const starts = mark.times ?? mark.places.map(({ start }) => start), ends = mark.times ?? mark.places.map(({ end }) => end);
  const first = Math.min(...starts), last = Math.max(...ends), margin = 0.15 * (last - first) + 1000;
  show(first - margin, last + margin);
  timeline.scrollIntoView({ block: "nearest" });
}
function zoom(factor, around) {
  show(around - (around - from) * factor, around + (to - around) * factor);
}
const timeAt = (x) => from + ((x - left) / plotWidth()) * (to - from);

timeline.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const shift = (event.deltaX / timeline.clientWidth) * (to - from);
    show(from + shift, to + shift);
  } else zoom(Math.exp(event.deltaY * 0.0016), timeAt(event.offsetX));
}, { passive: false });
timeline.addEventListener("dblclick", () => { selected = null; show(0, end); });
let dragged = null, isMoved = false;
timeline.addEventListener("pointerdown", (event) => {
  dragged = [event.offsetX, from, to];
  isMoved = false;
  timeline.setPointerCapture(event.pointerId);
  point(event);
});
timeline.addEventListener("pointerup", () => (dragged = null));
timeline.addEventListener("pointercancel", () => (dragged = null));
timeline.addEventListener("pointerleave", () => { hovered = null; element("tip").hidden = true; draw(); });
timeline.addEventListener("pointermove", (event) => {
  if (!dragged) point(event);
  else if (isMoved ||= Math.abs(event.offsetX - dragged[0]) > 2) {
    const shift = ((dragged[0] - event.offsetX) / plotWidth()) * (dragged[2] - dragged[1]);
    show(dragged[1] + shift, dragged[2] + shift);
  }
});
timeline.addEventListener("click", (event) => {
  if (isMoved) return;
  const found = find(event.offsetX, event.offsetY);
  selected = found?.places.length ? { ...found, facts: undefined } : null;
  draw();
});
function moveOverview(event) {
  if (event.type === "pointermove" && !event.buttons) return;
  const t = ((event.offsetX - left) / plotWidth()) * end;
  show(t - (to - from) / 2, t + (to - from) / 2);
}
overview.addEventListener("pointerdown", moveOverview);
overview.addEventListener("pointermove", moveOverview);
addEventListener("keydown", (event) => {
  if (event.target.type === "search") return;
  const middle = (from + to) / 2, shift = (to - from) / 8;
  if (event.key === "+" || event.key === "=") zoom(0.7, middle);
  else if (event.key === "-") zoom(1 / 0.7, middle);
  else if (event.key === "ArrowLeft") show(from - shift, to - shift);
  else if (event.key === "ArrowRight") show(from + shift, to + shift);
  else if (event.key === "0" || event.key === "Escape") { selected = null; show(0, end); }
});

/// The switch of the critical path, which a measured step does not have.
function startPath(steps, isShown) {
  element("pathlabel").hidden = !steps.some((step) => step.path.length);
  element("path").checked = showsPath = isShown;
  element("path").addEventListener("change", (event) => { showsPath = event.target.checked; draw(); });
}

/// Draws, now and when the window or its colours change. page.html#12.5-40 shows these milliseconds.
function start(steps) {
  const range = /^#([\d.]+)-([\d.]+)$/.exec(location.hash);
  if (range) show(range[1] * 1e6, range[2] * 1e6); else draw();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) { width = innerWidth; selected = hovered = null; layOut(); }
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(steps[0].categories); stripes = null; draw(); });
}
