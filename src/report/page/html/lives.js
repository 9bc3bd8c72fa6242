// Lives of chunks: a row per chunk, with a strip per tier that is filled while the chunk is in the tier. The
// selected chunk is also described in words.

const livesRowsMax = 300;  // a taller canvas is more than browsers allow
const livesHeightPrinted = 640;  // CSS pixels: one page with its heading, because paper does not scroll

function lives(run, view, two) {
  const step = run.step, chunks = step.data.chunks, arcs = step.data.arcs;
  const arcsOf = new Map();
  for (let arc = 0; arc < arcs.chunk.length; ++arc) {
    if (!arcsOf.has(arcs.chunk[arc])) arcsOf.set(arcs.chunk[arc], []);
    arcsOf.get(arcs.chunk[arc]).push(arc);
  }
  const touched = touches(step);
  const state = { window: middleWindow(step, arcsOf), look: 'all', row: 0, rows: [] };
  const strip = 5, rowHeight = step.data.places.length * (strip + 1) + 7, left = 190;
  const detail = el('div', { class: 'detail', 'aria-live': 'polite' });
  // The axis stays in sight while the rows scroll.
  const axis = el('div', { 'aria-hidden': 'true' });
  let plot = { left, width: 1 }, canvas = null;

  const choose = () => {
    const all = [];
    for (const chunk of arcsOf.keys()) {
      const look = kindLook(step.data.kinds[chunks.kind[chunk]]);
      if (state.look !== 'all' && look.name !== state.look) continue;
      if (state.window !== 'all' && groupOf(step, chunk) !== state.window) continue;
      all.push(chunk);
    }
    all.sort((a, b) => chunks.cut[a] - chunks.cut[b] || chunks.kind[a] - chunks.kind[b] || a - b);
    state.dropped = Math.max(0, all.length - livesRowsMax);
    state.rows = all.slice(0, livesRowsMax);
    state.row = Math.min(state.row, Math.max(0, state.rows.length - 1));
  };
  const draw = (area, width) => {
    const shown = theme.printing ? Math.floor(livesHeightPrinted / rowHeight) : state.rows.length;
    const first = clamp(state.row - (shown >> 1), 0, Math.max(0, state.rows.length - shown));
    const rows = state.rows.slice(first, first + shown);
    const height = rows.length * rowHeight + 4;
    const made = canvasIn(area, width, height, 'Lives of chunks; up and down select one, left and right pan');
    plot = { left, width: width - left - 8 };
    if (canvas !== made.canvas) { canvas = made.canvas; connect(); }
    const pen = made.pen, x = timeAxis(pen, view, left, plot.width, 0, height - 4);
    timeAxis(canvasIn(axis, width, 24, null).pen, view, left, plot.width, 0, 2);
    stepEnd(pen, x, step.clock.length_us * 1e-6, 0, height - 4, left + plot.width);
    const colors = step.data.places.map((p) => theme.color(placeColor(p)));
    const shade = theme.color('--shade'), soft = theme.color('--soft'), ink = theme.color('--ink');
    rows.forEach((chunk, i) => {
      const y = i * rowHeight + 3, selected = first + i === state.row;
      if (selected) {
        pen.fillStyle = shade;
        pen.fillRect(0, y - 3, left + plot.width, rowHeight);
      }
      pen.fillStyle = selected ? ink : soft;
      pen.textAlign = 'left';
      pen.fillText(step.chunkName(chunk), 4, y + rowHeight / 2 - 3, left - 12);
      pen.save();
      pen.beginPath();
      pen.rect(left, y, plot.width, rowHeight);
      pen.clip();
      for (const arc of arcsOf.get(chunk)) {
        pen.fillStyle = colors[arcs.place[arc]];
        for (const [from, to] of step.stretches(arc))
          pen.fillRect(x(from), y + arcs.place[arc] * (strip + 1), Math.max(x(to) - x(from), 1), strip);
      }
      pen.restore();
    });
  };
  const again = () => { const area = figure.querySelector('.area'); if (area.clientWidth) draw(area, area.clientWidth); };
  const select = (row) => {
    if (row < 0 || row >= state.rows.length) return;
    state.row = row;
    again();
    const scroller = canvas && canvas.closest('.scroll');
    if (scroller) {
      if (row * rowHeight < scroller.scrollTop) scroller.scrollTop = row * rowHeight;
      if ((row + 1) * rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = (row + 1) * rowHeight - scroller.clientHeight;
    }
    detail.replaceChildren(...itinerary(step, state.rows[row], arcsOf.get(state.rows[row]), touched));
  };
  const connect = () => {
    const timeAt = view.attach(canvas, () => plot);
    const rowAt = (event) => Math.floor((event.clientY - canvas.getBoundingClientRect().top) / rowHeight);
    canvas.addEventListener('pointermove', (event) => {
      const chunk = state.rows[rowAt(event)], t = timeAt(event);
      if (chunk === undefined) return tip.hide();
      const there = arcsOf.get(chunk).filter((arc) => step.stretches(arc).some(([a, b]) => a <= t && t <= b));
      tip.show([step.chunkName(chunk), `${text.seconds(t)}: ${there.length ? `in ${[...new Set(there.map((arc) => step.placeName(arcs.place[arc])))].join(', ')}` : 'nowhere'}`,
        text.bytes(chunks.bytes[chunk])], event.clientX, event.clientY);
    });
    canvas.addEventListener('pointerleave', tip.hide);
    canvas.addEventListener('click', (event) => { if (canvas.dataset.dragged !== 'yes') select(rowAt(event)); });
    canvas.addEventListener('keydown', (event) => {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
        select(state.row + (event.key === 'ArrowDown' ? 1 : -1));
        event.preventDefault();
      } else view.key(event);
    });
  };
  const filter = (label, names, chosen, set) => el('label', {}, `${label} `, el('select', {
    onchange: (event) => { set(event.target.value); state.row = 0; choose(); again(); dropped(); select(0); } },
    ['all', ...names].map((n) => el('option', { value: n, selected: n === chosen }, n))));
  const aside = el('span', {});
  const dropped = () => { aside.textContent = state.dropped ? `the first ${livesRowsMax} of ${livesRowsMax + state.dropped}` : `${state.rows.length} chunks`; };
  const groups = [...new Set([...arcsOf.keys()].map((chunk) => groupOf(step, chunk)))];
  choose();
  state.row = Math.max(0, state.rows.findIndex((chunk) => step.data.kinds[chunks.kind[chunk]] === 'param'));
  dropped();
  const used = step.data.places.map((p, i) => [step.placeName(i), `var(${placeColor(p)})`]);
  const figure = charts.figure(`lives${two ? `-${'ab'[run.number]}` : ''}`,
    [`${two ? `${'AB'[run.number]}: ` : ''}Where each chunk is, over the step`, legend(used)], draw, 'Lives of chunks across tiers');
  const area = figure.querySelector('.area'), scroller = el('div', { class: 'scroll' });
  area.before(el('div', { class: 'toolbar' },
    filter('of', groups, state.window, (v) => { state.window = v; }),
    filter('kind', kindLooks.map((look) => look.name), 'all', (v) => { state.look = v; }), aside));
  area.before(scroller);
  scroller.append(area);
  figure.append(axis, detail);
  view.listeners.push(again);
  select(state.row);
  return figure;
}

// Groups by window, or by block, or by kind if a chunk belongs to neither.
function groupOf(step, chunk) {
  const c = step.data.chunks;
  if (c.window[chunk] >= 0) return step.windowName(c.window[chunk]);
  if (c.block[chunk] >= 0) return step.blockName(c.block[chunk]);
  return step.data.kinds[c.kind[chunk]];
}
function middleWindow(step, arcsOf) {
  const names = [...new Set([...arcsOf.keys()].map((chunk) => groupOf(step, chunk)))];
  const layers = names.filter((n) => /^h\.\d+$/.test(n));
  return layers[Math.floor(layers.length / 2)] || names[0] || 'all';
}

// Accesses of each chunk: [op, access, place].
function touches(step) {
  const out = new Map();
  for (let op = 0; op < step.ops; ++op) {
    for (const o of step.operands(op)) {
      for (let i = 0; i < o.count; ++i) {
        if (!out.has(o.chunk + i)) out.set(o.chunk + i, []);
        out.get(o.chunk + i).push([op, o.access, o.place]);
      }
    }
  }
  return out;
}

function itinerary(step, chunk, arcs, touched) {
  const length = step.clock.length_us, stops = [];
  const home = step.data.chunks.home[chunk];
  const seen = new Map();
  for (const [op, access, place] of touched.get(chunk) || []) {
    const began = ((step.clock.started_us[op] % length) + length) % length;
    if (!seen.has(op)) { seen.set(op, { op, began, places: [] }); stops.push(seen.get(op)); }
    seen.get(op).places.push(step.placeName(place));
  }
  stops.sort((a, b) => a.began - b.began);
  // Micro-batches of one pass are one entry.
  const merged = [];
  for (const stop of stops) {
    const kind = step.kind(stop.op), block = step.data.ops.block[stop.op], last = merged[merged.length - 1];
    const many = !movement(kind) && last && last.kind === kind && last.block === block;
    if (many) { ++last.times; last.places.push(...stop.places); continue; }
    merged.push({ ...stop, kind, block, times: 1 });
  }
  const words = merged.map((m) => {
    const places = [...new Set(m.places)], moved = movement(m.kind) || collective(m.kind);
    const where = moved ? places.join(' → ') : `${m.block >= 0 ? `${step.blockName(m.block)} ` : ''}in ${places.join(', ')}`;
    return [el('strong', {}, text.seconds(m.began * 1e-6)), ` ${m.kind} ${where}${m.times > 1 ? ` ×${m.times}` : ''}`];
  });
  const list = words.flatMap((w, i) => (i ? [' · ', ...w] : w));
  return [el('strong', {}, step.chunkName(chunk)), `, ${text.bytes(step.data.chunks.bytes[chunk])}, ` +
    (home >= 0 ? `at home on ${step.placeName(home)}: ` : 'lives for a while: '), ...list, el('br'),
    'why it is where it is: ', el('code', {}, `tidepool plan CONFIG --explain chunk:${chunk}`)];
}
