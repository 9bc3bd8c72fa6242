// Timeline: lanes of one step, predicted above measured, for one run or two.

const laneRowHeight = 17;
const laneRowsMax = 6;  // requests of a disk lane overlap: at most this many rows

// Row of the timeline: the ops of one lane of one run, predicted or measured, packed side by side.
function packRow(step, name, lane) {
  const length = step.length(name), boxes = [];
  for (let op = 0; op < step.ops; ++op) {
    if (step.lane(op) !== lane) continue;
    for (const [from, to] of folded(step.started(name, op), step.finished(name, op), length)) boxes.push({ op, from, to });
  }
  boxes.sort((a, b) => a.from - b.from);
  // Other lanes run one op at a time; overlaps by rounding or folding are ignored.
  const overlaps = step.data.lanes[lane].startsWith('disk');
  const free = [];
  for (const box of boxes) {
    if (!overlaps) { box.row = 0; free[0] = box.to; continue; }
    let row = free.findIndex((until) => until <= box.from + 1e-9);
    if (row < 0) row = free.length < laneRowsMax ? free.length : free.indexOf(Math.min(...free));
    free[row] = box.to;
    box.row = row;
  }
  return { boxes, rows: Math.max(free.length, 1), length };
}

function timelineRows(runs) {
  const lanes = [];
  for (const run of runs) for (const lane of run.step.data.lanes) if (!lanes.includes(lane)) lanes.push(lane);
  return lanes.map((lane) => ({
    lane,
    rows: runs.flatMap((run) => run.step.times.map((name) => {
      const number = run.step.data.lanes.indexOf(lane);
      return number < 0 ? null : { run, name, ...packRow(run.step, name, number) };
    })).filter(Boolean),
  }));
}

function timeline(runs, view, detail) {
  const lanes = timelineRows(runs), two = runs.length > 1;
  const left = two ? 150 : 142, state = { selected: null };
  const rowHeight = (row) => (row.rows > 1 ? Math.max(laneRowHeight, row.rows * 5) : laneRowHeight);
  const height = lanes.reduce((sum, l) => sum + l.rows.reduce((s, r) => s + rowHeight(r) + 2, 0) + 9, 0) + 26;
  let plot = { left, width: 1 }, canvas = null;

  const place = (visit) => {
    let y = 4;
    for (const lane of lanes) {
      visit(lane, null, y, 0);
      for (const row of lane.rows) { visit(lane, row, y, rowHeight(row)); y += rowHeight(row) + 2; }
      y += 9;
    }
  };
  const draw = (area, width) => {
    const made = canvasIn(area, width, height, `Timeline of ${lanes.map((l) => l.lane).join(', ')}. Arrow keys pan and zoom, comma and period go from op to op.`);
    plot = { left, width: width - left - 8 };
    if (canvas !== made.canvas) { canvas = made.canvas; connect(); }
    const pen = made.pen, x = timeAxis(pen, view, left, plot.width, 0, height - 24);
    const colors = new Map(opLooks.map((look) => [look.name, theme.color(look.color)]));
    const ink = theme.color('--ink'), soft = theme.color('--soft'), shade = theme.color('--shade');
    place((lane, row, y, h) => {
      if (!row) {
        pen.fillStyle = ink;
        pen.textAlign = 'left';
        pen.fillText(lane.lane, 0, y + laneRowHeight / 2);
        return;
      }
      pen.fillStyle = soft;
      pen.textAlign = 'right';
      pen.fillText((two ? `${'AB'[row.run.number]} ` : '') + row.name, left - 8, y + h / 2);
      pen.save();
      pen.beginPath();
      pen.rect(left, y, plot.width, h);
      pen.clip();
      pen.fillStyle = shade;
      pen.fillRect(left, y, x(row.length) - left, h);
      drawBoxes(pen, row, y, h, x, colors);
      pen.restore();
      stepEnd(pen, x, row.length, y, y + h, left + plot.width);
    });
  };
  const drawBoxes = (pen, row, y, h, x, colors) => {
    const each = h / row.rows;
    pen.globalAlpha = row.name === 'predicted' ? 0.62 : 1;
    for (const box of row.boxes) {
      if (box.to < view.from || box.from > view.to) continue;
      const a = x(box.from), w = Math.max(x(box.to) - a, 0.6);
      pen.fillStyle = colors.get(opLook(row.run.step.kind(box.op)).name);
      // Leaves a thin gap between neighbours that are wide enough.
      pen.fillRect(a, y + box.row * each, w > 3 ? w - 0.7 : w, Math.max(each - (row.rows > 1 ? 0.6 : 0), 1));
      if (row.rows === 1 && w > 60) label(pen, row.run.step.title(box.op), a, w, y + h / 2);
    }
    pen.globalAlpha = 1;
    if (!state.selected || state.selected.row !== row) return;
    const box = state.selected.box;
    pen.strokeStyle = theme.color('--ink');
    pen.lineWidth = 2;
    pen.strokeRect(x(box.from), y + box.row * each + 1, Math.max(x(box.to) - x(box.from), 2), Math.max(each - 2, 2));
  };
  const label = (pen, title, a, w, y) => {
    const inside = Math.max(a, left) + 4, room = a + w - inside - 4;
    if (room < 50) return;
    let words = title;
    while (words.length > 6 && pen.measureText(words).width > room) words = words.slice(0, -2);
    pen.globalAlpha = 1;
    pen.fillStyle = theme.name() === 'dark' ? '#0d1517' : '#ffffff';
    pen.textAlign = 'left';
    pen.fillText(words, inside, y);
    pen.globalAlpha = 1;
  };
  const hit = (event) => {
    const bounds = canvas.getBoundingClientRect(), py = event.clientY - bounds.top;
    const t = view.from + (event.clientX - bounds.left - left) / plot.width * (view.to - view.from);
    let found = null;
    place((lane, row, y, h) => {
      if (!row || py < y || py >= y + h) return;
      const near = (view.to - view.from) / plot.width * 2, inRow = Math.floor((py - y) / (h / row.rows));
      const boxes = row.boxes.filter((b) => b.row === inRow && b.from - near <= t && b.to + near >= t);
      boxes.sort((a, b) => Math.abs((a.from + a.to) / 2 - t) - Math.abs((b.from + b.to) / 2 - t));
      if (boxes.length) found = { row, box: boxes[0] };
    });
    return found;
  };
  const select = (found) => {
    state.selected = found;
    detail.replaceChildren(...(found ? opDetail(found.row.run, found.row.name, found.box.op) : []));
    for (const listener of view.listeners) listener();
  };
  const connect = () => {
    view.attach(canvas, () => plot);
    canvas.addEventListener('pointermove', (event) => {
      const found = hit(event);
      canvas.style.cursor = found ? 'pointer' : 'grab';
      if (found) tip.show(opLines(found.row.run, found.row.name, found.box.op), event.clientX, event.clientY);
      else tip.hide();
    });
    canvas.addEventListener('pointerleave', tip.hide);
    canvas.addEventListener('click', (event) => { if (canvas.dataset.dragged !== 'yes') select(hit(event)); });
    canvas.addEventListener('keydown', (event) => {
      if (event.key === '.' || event.key === ',') {
        const row = state.selected ? state.selected.row : lanes[0].rows[lanes[0].rows.length - 1];
        const at = state.selected ? row.boxes.indexOf(state.selected.box) + (event.key === '.' ? 1 : -1) : 0;
        if (row.boxes[at]) select({ row, box: row.boxes[at] });
        event.preventDefault();
      } else view.key(event);
    });
  };
  const kinds = new Set(runs.flatMap((run) => run.step.data.ops.kind.map((kind) => run.step.data.op_kinds[kind])));
  const present = opLooks.filter((look) => look.ops.some((op) => kinds.has(op)));
  const lengths = runs.flatMap((run) => run.step.times.map((name) => `${two ? `${'AB'[run.number]} ` : ''}${name} ${text.seconds(run.step.length(name))}`));
  const caption = ['One step on its lanes', el('span', { class: 'aside' }, lengths.join(', ')), legend(present.map((look) => [look.name, `var(${look.color})`]))];
  const figure = charts.figure('timeline', caption, draw, 'One step as a timeline of lanes, predicted above measured');
  const area = figure.querySelector('.area');
  view.listeners.push(() => { if (area.clientWidth) draw(area, area.clientWidth); });
  figure.append(detail);
  return figure;
}

function opLines(run, name, op) {
  const step = run.step, bytes = step.data.ops.bytes[op];
  const lines = [step.title(op)];
  for (const clock of step.times) {
    const took = step.finished(clock, op) - step.started(clock, op);
    lines.push(`${clock}: ${text.seconds(took)} from ${text.seconds(step.started(clock, op))}` +
      (bytes ? `, ${text.rate(bytes, took)}` : ''));
  }
  if (bytes) lines.push(text.bytes(bytes));
  return lines;
}

function opDetail(run, name, op) {
  const step = run.step, access = ['reads', 'writes', 'rewrites'];
  const [title, ...rest] = opLines(run, name, op);
  const operands = step.operands(op).map((o) =>
    `${access[o.access]} ${step.chunkName(o.chunk)}${o.count > 1 ? ` and ${o.count - 1} more` : ''} (${step.placeName(o.place)})`);
  return [el('strong', {}, title), ` · op ${op} · ${rest.join(' · ')}`, el('br'), operands.join(' · '), el('br'),
    'why it is there: ', el('code', {}, `tidepool plan CONFIG --explain op:${op}`)];
}
