// Memory of a tier over the step, stacked by kind, with the budget, on the timeline's clock.

// Returns { times: [t], sums: [[bytes by look]] }: from times[i] on the bytes are sums[i].
function occupancy(step, place) {
  const arcs = step.data.arcs, chunks = step.data.chunks, changes = [];
  const looks = kindLooks.length, start = new Array(looks).fill(0), length = step.clock.length_us * 1e-6;
  for (let arc = 0; arc < arcs.chunk.length; ++arc) {
    if (arcs.place[arc] !== place) continue;
    const look = kindLooks.indexOf(kindLook(step.data.kinds[chunks.kind[arcs.chunk[arc]]]));
    const bytes = chunks.bytes[arcs.chunk[arc]];
    if (arcs.from[arc] < 0) { start[look] += bytes; continue; }
    for (const [from, to] of step.stretches(arc)) changes.push([from, look, bytes], [to, look, -bytes]);
  }
  changes.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
  const times = [0], sums = [start.slice()], now = start.slice();
  for (const [t, look, bytes] of changes) {
    now[look] += bytes;
    if (t > times[times.length - 1]) { times.push(t); sums.push(now.slice()); }
    else sums[sums.length - 1] = now.slice();
  }
  times.push(length);
  sums.push(now.slice());
  return { times, sums };
}

const total = (list) => list.reduce((a, b) => a + b, 0);

function at(use, t) {
  let low = 0, high = use.times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (use.times[middle] <= t) low = middle; else high = middle - 1;
  }
  return use.sums[low];
}

function memoryChart(run, place, view, two) {
  const step = run.step, tier = step.data.places[place], use = occupancy(step, place);
  // A disk without a limit has the free space in the report as its budget.
  const budget = Math.min(tier.budget_bytes, (run.report.tiers[tier.tier] || {}).budget_bytes || Infinity);
  const most = use.sums.reduce((a, b) => Math.max(a, total(b)), 0), peak = Math.max(most, tier.planned_peak_bytes);
  const shown = budget <= peak * 2.5, top = (shown ? Math.max(budget, peak) : peak) * 1.08 || 1;
  const left = 70, height = 190, state = { cursor: null };
  let plot = { left, width: 1 }, canvas = null;
  const y = (bytes) => height - 24 - bytes / top * (height - 34);

  const lines = (t) => {
    const sums = at(use, t);
    return [`${text.seconds(t)}: ${text.bytes(total(sums))}`,
      ...kindLooks.map((look, i) => (sums[i] > 0 ? `${look.name} ${text.bytes(sums[i])}` : '')).reverse()];
  };
  const draw = (area, width) => {
    const made = canvasIn(area, width, height, `${step.placeName(place)} memory over the step: at most ${text.bytes(most)}, budget ${text.bytes(budget)}`);
    plot = { left, width: width - left - 8 };
    if (canvas !== made.canvas) { canvas = made.canvas; connect(); }
    const pen = made.pen, x = timeAxis(pen, view, left, plot.width, 6, height - 24);
    pen.textAlign = 'right';
    for (const v of byteTicks(top, 4)) {
      pen.fillStyle = theme.color('--grid');
      pen.fillRect(left, Math.round(y(v)), plot.width, 1);
      pen.fillStyle = theme.color('--soft');
      pen.fillText(text.bytes(v), left - 8, y(v));
    }
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, plot.width, height);
    pen.clip();
    areas(pen, x);
    stepEnd(pen, x, use.times[use.times.length - 1], 6, height - 24, left + plot.width);
    rule(pen, tier.planned_peak_bytes, '--faint', [2, 3]);
    if (shown) rule(pen, budget, '--bad', [6, 4]);
    if (state.cursor !== null) {
      pen.fillStyle = theme.color('--ink');
      pen.fillRect(x(state.cursor), 6, 1, height - 30);
    }
    pen.restore();
  };
  const rule = (pen, bytes, color, dash) => {
    pen.strokeStyle = theme.color(color);
    pen.setLineDash(dash);
    pen.lineWidth = 1.4;
    pen.beginPath();
    pen.moveTo(left, y(bytes));
    pen.lineTo(left + plot.width, y(bytes));
    pen.stroke();
    pen.setLineDash([]);
  };
  // Draws from the top layer down, each over the next, so that no seams show between layers.
  const areas = (pen, x) => {
    const first = Math.max(0, use.times.findIndex((t) => t > view.from) - 1);
    for (let look = kindLooks.length - 1; look >= 0; --look) {
      const height_of = (sums) => y(sums.slice(0, look + 1).reduce((a, b) => a + b, 0));
      pen.fillStyle = theme.color(kindLooks[look].color);
      pen.beginPath();
      pen.moveTo(x(use.times[first]), y(0));
      for (let i = first; i < use.times.length; ++i) {
        const h = height_of(use.sums[i]);
        pen.lineTo(x(use.times[i]), h);
        if (i + 1 < use.times.length) pen.lineTo(x(use.times[i + 1]), h);
        if (use.times[i] > view.to) break;
      }
      pen.lineTo(x(Math.min(use.times[use.times.length - 1], view.to + view.length)), y(0));
      pen.fill();
    }
  };
  const connect = () => {
    const timeAt = view.attach(canvas, () => plot);
    const point = (t, px, py) => {
      state.cursor = clamp(t, 0, use.times[use.times.length - 1]);
      draw(canvas.parentNode, canvas.parentNode.clientWidth);
      tip.show(lines(state.cursor), px, py);
    };
    const leave = () => { state.cursor = null; draw(canvas.parentNode, canvas.parentNode.clientWidth); tip.hide(); };
    canvas.addEventListener('pointermove', (event) => point(timeAt(event), event.clientX, event.clientY));
    canvas.addEventListener('pointerleave', leave);
    canvas.addEventListener('blur', leave);
    canvas.addEventListener('keydown', (event) => view.key(event));
  };
  const present = kindLooks.filter((_, i) => use.sums.some((sums) => sums[i] > 0));
  const measured = (run.report.tiers[tier.tier] || {}).measured_peak_bytes;
  const caption = [`${two ? `${'AB'[run.number]}: ` : ''}${step.placeName(place)}`,
    el('span', { class: 'aside' }, `at most ${text.bytes(most)} in use, arena ${text.bytes(tier.planned_peak_bytes)}` +
      (finite(measured) ? `, touched ${text.bytes(measured)}` : '') +
      (budget < 1e18 ? `, budget ${text.bytes(budget)}${shown ? '' : ' (far above)'}` : ', no budget')),
    legend([...present.map((look) => [look.name, `var(${look.color})`]), ['arena', 'var(--faint)', 'line dotted'],
      ...(shown ? [['budget', 'var(--bad)', 'line dash']] : [])])];
  const name = `memory-${step.placeName(place).replace(' ', '-')}${two ? `-${'ab'[run.number]}` : ''}`;
  const figure = charts.figure(name, caption, draw, `Memory of ${step.placeName(place)} over the step by kind`);
  const area = figure.querySelector('.area');
  view.listeners.push(() => { if (area.clientWidth) draw(area, area.clientWidth); });
  return figure;
}
