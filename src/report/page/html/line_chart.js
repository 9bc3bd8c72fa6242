// Curves over steps, as SVG. Drag to zoom, double click or Escape for all; arrow keys move the cursor, + and -
// zoom around it.
//
// options.series: { name, color ("--m-loss"), points: [[x, y]], dots, pale, dash }; options.format(y);
// options.floor: least value on the axis; options.marks: { step, name, look: "epoch" or "checkpoint" };
// options.about(step): the tooltip's line about the step.

function lineChart(name, caption, options) {
  const full = domain(options.series.filter((s) => !s.dash));
  const state = { from: full[0], to: full[1], cursor: null };
  const redraw = (area, width) => drawLines(area, width, options, state, full, () => redraw(area, area.clientWidth));
  const look = (s) => (s.dots ? 'dot' : s.dash ? 'line dash' : s.broken ? 'line broken' : s.pale ? 'line pale' : 'line');
  const keys = options.series.map((s) => [s.name, `var(${s.color})`, look(s)]);
  if ((options.marks || []).some((m) => m.look === 'checkpoint')) keys.push(['checkpoint kept', 'var(--m-checkpoint)', 'mark']);
  const label = `${name}: ${options.series.map((s) => `${s.name} ${summary(s, options)}`).join('; ')}`;
  return charts.figure(name, [caption, legend(keys)], redraw, label);
}

function domain(series) {
  const xs = series.flatMap((s) => s.points.map((p) => p[0]));
  const low = xs.reduce((a, b) => Math.min(a, b), Infinity), high = xs.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!finite(low)) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}
function summary(series, options) {
  const ys = series.points.map((p) => p[1]).filter(finite);
  return ys.length ? `from ${options.format(ys[0])} to ${options.format(ys[ys.length - 1])}` : 'nothing';
}

// Range of the values in view. If `robust`, a few outliers of a long curve may lie outside.
function heights(options, state) {
  const ys = options.series.flatMap((s) =>
    s.points.filter((p) => s.dash || (p[0] >= state.from && p[0] <= state.to)).map((p) => p[1])).filter(finite);
  if (ys.length === 0) return [0, 1];
  ys.sort((a, b) => a - b);
  let low = ys[0], high = ys[ys.length - 1];
  if (options.robust && ys.length > 20) high = Math.min(high, ys[Math.floor(ys.length * 0.98)] * 1.3);
  if (options.floor !== undefined) low = Math.min(low, options.floor);
  if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  const margin = (high - low) * 0.06;
  return [options.floor === low ? low : low - margin, high + margin];
}

function drawLines(area, width, options, state, full, again) {
  const height = options.height || 230, left = 56, right = 12, top = 8, bottom = 24;
  const [low, high] = heights(options, state);
  const x = (v) => left + (v - state.from) / (state.to - state.from || 1) * (width - left - right);
  const y = (v) => height - bottom - (v - low) / (high - low) * (height - top - bottom);
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  const focused = area.contains(document.activeElement);
  const node = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: 'img',
    'aria-label': 'arrow keys move the cursor, plus and minus zoom' },
    svg('defs', {}, svg('clipPath', { id: clip }, svg('rect', { x: left - 5, y: top - 5, width: width - left - right + 10, height: height - top - bottom + 8 }))));
  for (const v of ticks(low, high, 5)) {
    node.append(svg('line', { x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: 'var(--grid)' }),
      svg('text', { x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, options.format(v)));
  }
  for (const v of ticks(state.from, state.to, width / 90)) {
    if (v !== Math.round(v)) continue;
    node.append(svg('text', { x: x(v), y: height - 6, 'text-anchor': 'middle' }, v.toLocaleString('en')));
  }
  node.append(...marksOf(options.marks || [], state, { x, left, top, foot: height - bottom }));
  const lines = svg('g', { 'clip-path': `url(#${clip})`, fill: 'none' });
  for (const s of options.series) lines.append(...curveOf(s, x, y));
  node.append(lines);
  const cursor = svg('g', {});
  node.append(cursor);
  const draw = { x, y, left, width, right, top, bottom, height, cursor };
  listen(node, area, options, state, full, draw, again);
  area.replaceChildren(node);
  if (focused) node.focus({ preventScroll: true });
  if (state.cursor !== null && focused) showCursor(options, state, draw, node.getBoundingClientRect());
}

// Draws ends of epochs as lines, with their number if there is room, and checkpoints as marks on the axis.
function marksOf(marks, state, d) {
  const seen = marks.filter((m) => m.step >= state.from && m.step <= state.to), out = [];
  let free = d.left;
  for (const m of seen) {
    const at = d.x(m.step);
    if (m.look === 'checkpoint') {
      out.push(svg('path', { d: `M${at - 5} ${d.foot}L${at + 5} ${d.foot}L${at} ${d.foot - 8}Z`, fill: 'var(--m-checkpoint)' }, svg('title', {}, m.name)));
      continue;
    }
    // The name is above the epoch that ends at the line.
    const named = m.name && at - 52 >= free;
    out.push(svg('line', { x1: at, x2: at, y1: d.top, y2: d.foot, stroke: 'var(--faint)', 'stroke-dasharray': '1 4' }));
    if (!named) continue;
    out.push(svg('text', { x: at - 4, y: d.top + 8, 'text-anchor': 'end' }, m.name));
    free = at;
  }
  return out;
}

function curveOf(s, x, y) {
  const color = `var(${s.color})`;
  if (s.dots) {
    return s.points.filter((p) => finite(p[1])).map((p) => svg('circle', { cx: x(p[0]), cy: y(p[1]), r: 4, fill: color,
      stroke: 'var(--card)', 'stroke-width': 1.5 }));
  }
  let path = '', pen = 'M';
  for (const [a, b] of s.points) {
    if (!finite(b)) { pen = 'M'; continue; }
    path += `${pen}${x(a).toFixed(1)} ${y(b).toFixed(1)}`;
    pen = 'L';
  }
  if (!path) return [];
  return [svg('path', { d: path, stroke: color, 'stroke-width': s.pale ? 1 : 1.8, 'stroke-linejoin': 'round',
    opacity: s.pale ? 0.5 : 1, 'stroke-dasharray': s.dash ? '5 4' : s.broken ? '9 4' : null })];
}

function nearest(points, at) {
  let best = null;
  for (const p of points) if (finite(p[1]) && (!best || Math.abs(p[0] - at) < Math.abs(best[0] - at))) best = p;
  return best;
}

function showCursor(options, state, d, box) {
  d.cursor.replaceChildren(svg('line', { x1: d.x(state.cursor), x2: d.x(state.cursor), y1: d.top, y2: d.height - d.bottom, stroke: 'var(--faint)' }));
  const lines = options.about ? [options.about(Math.round(state.cursor))] : [];
  const near = (options.marks || []).find((m) => m.look === 'checkpoint' && Math.abs(d.x(m.step) - d.x(state.cursor)) < 6);
  if (near) lines.push(near.name);
  for (const s of options.series) {
    const p = nearest(s.points, state.cursor);
    if (!p) continue;
    lines.push(s.dash ? `${s.name} ${options.format(p[1])}` : `step ${Math.round(p[0]).toLocaleString('en')}: ${s.name} ${options.format(p[1])}`);
    if (!s.dash) d.cursor.append(svg('circle', { cx: d.x(p[0]), cy: d.y(p[1]), r: 3.5, fill: `var(${s.color})` }));
  }
  tip.show(lines, box.left + d.x(state.cursor), box.top + d.top + 20);
}

function listen(node, area, options, state, full, d, again) {
  const valueAt = (event) => clamp(state.from + (event.clientX - node.getBoundingClientRect().left - d.left) /
    (d.width - d.left - d.right) * (state.to - state.from), state.from, state.to);
  const zoom = (from, to) => {
    const span = Math.max(to - from, (full[1] - full[0]) / 1000);
    state.from = clamp(from, full[0], full[1] - span);
    state.to = Math.min(full[1], state.from + span);
    again();
  };
  let begin = null;
  node.addEventListener('pointermove', (event) => {
    state.cursor = valueAt(event);
    showCursor(options, state, d, node.getBoundingClientRect());
    if (begin === null) return;
    const a = d.x(begin), b = d.x(state.cursor);
    d.cursor.append(svg('rect', { x: Math.min(a, b), width: Math.abs(b - a), y: d.top, height: d.height - d.top - d.bottom, fill: 'var(--accent)', opacity: 0.15 }));
  });
  node.addEventListener('pointerdown', (event) => { begin = valueAt(event); node.setPointerCapture(event.pointerId); });
  node.addEventListener('pointerup', (event) => {
    const end = valueAt(event), start = begin;
    begin = null;
    if (start !== null && Math.abs(d.x(end) - d.x(start)) > 6) zoom(Math.min(start, end), Math.max(start, end));
  });
  node.addEventListener('pointerleave', () => { d.cursor.replaceChildren(); tip.hide(); });
  node.addEventListener('blur', () => { d.cursor.replaceChildren(); tip.hide(); });
  node.addEventListener('dblclick', () => zoom(full[0], full[1]));
  node.addEventListener('keydown', (event) => {
    const span = state.to - state.from, at = state.cursor === null ? (state.from + state.to) / 2 : state.cursor;
    const move = { ArrowLeft: -span / 50, ArrowRight: span / 50, PageUp: -span / 5, PageDown: span / 5 }[event.key];
    if (move !== undefined) {
      state.cursor = clamp(at + move, full[0], full[1]);
      if (state.cursor < state.from || state.cursor > state.to) zoom(state.from + move, state.to + move);
      else showCursor(options, state, d, node.getBoundingClientRect());
    } else if (event.key === '+' || event.key === '=' || event.key === 'ArrowUp') zoom(at - (at - state.from) / 1.5, at + (state.to - at) / 1.5);
    else if (event.key === '-' || event.key === 'ArrowDown') zoom(at - (at - state.from) * 1.5, at + (state.to - at) * 1.5);
    else if (event.key === 'Escape' || event.key === '0' || event.key === 'Home') zoom(full[0], full[1]);
    else return;
    event.preventDefault();
  });
}
