// ------------------------------------------------------------------ memory

/// The scale, which all steps share.
function memoryScale() {
  const peak = Math.max(1, ...steps.map((step) => step.peak?.bytes ?? 0)), cap = Math.max(0, ...steps.map((step) => step.capBytes ?? 0));
  return (cap && cap < 2.2 * peak ? Math.max(cap, peak) : peak) * 1.02;
}

/// Each column of pixels shows its largest sample, so that no peak is lost.
function chooseSamples(step, xOf, plot) {
  const { samples, total } = step, chosen = new Int32Array(Math.ceil(plot)).fill(-1);
  for (let i = findLast(samples, from); i < samples.length && samples[i] <= to; i++) {
    const first = Math.max(0, Math.floor(xOf(samples[i]) - left));
    const last = Math.min(chosen.length - 1, Math.ceil(xOf(samples[i + 1] ?? step.makespanNs) - left) - 1);
    for (let x = first; x <= Math.max(first, last) && x < chosen.length; x++)
      if (chosen[x] < 0 || total[i] > total[chosen[x]]) chosen[x] = i;
  }
  return chosen;
}

/// The top of a memory band is free for the names of its lines.
const memoryPlot = (band) => {
  const bottom = band.top + band.size - 4;
  return { top: band.top + band.room, bottom, scale: (bottom - band.top - band.room) / memoryScale() };
};

function drawMemory(g, xOf, band) {
  const { step } = band, { top, bottom, scale } = memoryPlot(band), plot = plotWidth();
  const chosen = chooseSamples(step, xOf, plot), base = new Float64Array(chosen.length);
  for (const c of step.used) {
    g.fillStyle = colours[step.categories[c]];
    g.beginPath();
    for (let x = 0; x < chosen.length; x++) {
      const bytes = chosen[x] < 0 ? 0 : step.memory[c][chosen[x]];
      if (bytes > 0) g.rect(left + x, bottom - (base[x] + bytes) * scale, 1.02, bytes * scale);
      base[x] += bytes;
    }
    g.fill();
  }
  for (const other of steps) if (other !== step && other.used.length) drawOtherMemory(g, xOf, other, bottom, scale);
  if (step.title) {
    g.fillStyle = colours.ink;
    fitText(g, "memory of " + step.name, left, band.top + 7, plot);
  }
  const x = xOf(step.samples[step.peak.sample]), y = bottom - step.peak.bytes * scale;
  drawCap(g, step, x > left + plot / 2, top, bottom, scale);
  if (x < left || x > left + plot) return;
  g.fillStyle = colours.ink;
  g.beginPath();
  g.arc(x, y, 3.5, 0, 7);
  g.fill();
  const text = "peak " + bytesText(step.peak.bytes), w = g.measureText(text).width;
  drawLabel(g, text, Math.min(Math.max(x - w / 2, left + 4), left + plot - w - 4), y - 11, colours.ink);
}

function drawOtherMemory(g, xOf, step, bottom, scale) {
  const chosen = chooseSamples(step, xOf, plotWidth());
  g.strokeStyle = colours.ink;
  g.setLineDash([3, 2]);
  g.beginPath();
  chosen.forEach((i, x) => { if (i >= 0) g.lineTo(left + x, bottom - step.total[i] * scale); });
  g.stroke();
  g.setLineDash([]);
}

/// The cap's name is on the side without the peak.
function drawCap(g, step, isLeft, top, bottom, scale) {
  if (!step.capBytes) return;
  const y = bottom - step.capBytes * scale, isInside = y > top - 2;
  g.fillStyle = g.strokeStyle = colours.cap;
  const text = "cap " + bytesText(step.capBytes) + (isInside ? "" : " (above)"), width = g.measureText(text).width;
  if (isInside) {
    g.setLineDash([6, 4]);
    g.beginPath();
    g.moveTo(left, y);
    g.lineTo(left + plotWidth(), y);
    g.stroke();
    g.setLineDash([]);
  }
  drawLabel(g, text, isLeft ? left + 6 : left + plotWidth() - width - 6, isInside ? y - 9 : top - 18, colours.cap);
}

function drawMemoryTicks(g, band) {
  const { top, bottom, scale } = memoryPlot(band), max = memoryScale();
  const step = niceByteStep(max, band.size / 55);
  for (let b = 0; b <= max; b += step) {
    const y = bottom - b * scale;
    if (y > top - 2) g.fillText(b ? tickText(bytesText(b)) : "0", left - 10, Math.min(y, bottom - 4));
  }
}
