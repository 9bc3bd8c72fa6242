// Routing of tokens to experts: a heat map over layers and experts, and the routers' numbers over the steps.

const loadRange = 2;  // the scale ends at 2^-2 and 2^2 times the even load

// Shares of the even load, by layer: [[share of each expert]]. A layer without tokens has NaN.
const sharesOf = (rows) => rows.map((row) => {
  const mean = total(row) / row.length;
  return row.map((tokens) => (mean > 0 ? tokens / mean : NaN));
});
const mostOf = (row) => row.reduce((a, b) => Math.max(a, b), 0);

// Colour between that of the even load and the end of the scale.
function loadColor(share, ends) {
  if (!finite(share)) return theme.color('--card');
  const way = share > 0 ? clamp(Math.log2(share) / loadRange, -1, 1) : -1;
  const channel = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
  const end = way < 0 ? ends.few : ends.many;
  return `rgb(${[0, 1, 2].map((i) => Math.round(channel(ends.even, i) + (channel(end, i) - channel(ends.even, i)) * Math.abs(way))).join(',')})`;
}

// Place of the map's cells in a canvas of this width.
function mapPlan(use, width) {
  const rows = use.layers.length, row = clamp(Math.floor(480 / rows), 6, 24), left = 52, right = width < 560 ? 56 : 150;
  return { rows, row, left, top: 18, bars: right, cell: (width - left - right) / use.experts, foot: 18 + rows * row, height: 18 + rows * row + 24 };
}

function drawMap(pen, plan, use, shares, width) {
  const ends = { few: theme.color('--m-expert-few'), many: theme.color('--m-expert-many'), even: theme.color('--line') };
  const gap = plan.cell >= 5 ? 1 : 0, end = plan.left + plan.cell * use.experts;
  const longest = Math.max(...shares.map(mostOf), 1), every = Math.ceil(13 / plan.row);
  const number = (x) => `${x >= 9.95 ? Math.round(x) : x.toFixed(1)}×`;
  shares.forEach((row, layer) => {
    const y = plan.top + layer * plan.row, most = mostOf(row);
    row.forEach((share, expert) => {
      pen.fillStyle = loadColor(share, ends);
      pen.fillRect(plan.left + expert * plan.cell, y, Math.max(plan.cell - gap, 0.5), plan.row - (plan.row > 8 ? 1 : 0));
    });
    const room = plan.bars - 48;
    pen.fillStyle = theme.color('--m-expert-many');
    if (room > 20) pen.fillRect(end + 8, y + 1, most / longest * room, plan.row - 3);
    if (layer % every) return;
    pen.fillStyle = theme.color('--soft');
    pen.textAlign = 'right';
    pen.fillText(String(use.layers[layer]), plan.left - 8, y + plan.row / 2);
    pen.textAlign = 'left';
    pen.fillText(number(most), room > 20 ? end + 14 + most / longest * room : end + 8, y + plan.row / 2);
  });
  pen.fillStyle = theme.color('--soft');
  pen.textAlign = 'left';
  pen.fillText('layer', 0, 8);
  pen.fillText(width < 560 ? 'busiest' : 'busiest expert', end + 8, 8);
  pen.textAlign = 'center';
  for (const expert of ticks(0, use.experts - 1, Math.max(2, Math.min(use.experts, (end - plan.left) / 60))))
    if (expert === Math.round(expert)) pen.fillText(String(expert), plan.left + (expert + 0.5) * plan.cell, plan.foot + 12);
}

function expertMap(run, two) {
  const use = run.report.experts, state = { cell: null, last: false };
  let canvas = null, plan = null;
  const rows = () => (state.last ? use.last_tokens : use.tokens);
  const lines = () => {
    const { layer, expert } = state.cell, tokens = rows()[layer], share = sharesOf([tokens])[0];
    return [`layer ${use.layers[layer]}, expert ${expert}`, `${tokens[expert].toLocaleString('en')} tokens, ${text.digits(share[expert])} times the even load`,
      `busiest of this layer: ${text.digits(mostOf(share))} times, expert ${share.indexOf(mostOf(share))}`];
  };
  const draw = (area, width) => {
    const shares = sharesOf(rows());
    plan = mapPlan(use, width);
    const made = canvasIn(area, width, plan.height, `tokens of ${use.experts} experts in ${use.layers.length} layers; the busiest has ${text.digits(Math.max(...shares.map(mostOf)))} times the even load`);
    if (canvas !== made.canvas) { canvas = made.canvas; connect(); }
    drawMap(made.pen, plan, use, shares, width);
    if (!state.cell) return;
    made.pen.strokeStyle = theme.color('--ink');
    made.pen.lineWidth = 1.5;
    made.pen.strokeRect(plan.left + state.cell.expert * plan.cell, plan.top + state.cell.layer * plan.row, Math.max(plan.cell, 3), plan.row);
  };
  const again = () => { const area = figure.querySelector('.area'); if (area.clientWidth) draw(area, area.clientWidth); };
  const choose = (layer, expert) => {
    state.cell = { layer: clamp(layer, 0, use.layers.length - 1), expert: clamp(expert, 0, use.experts - 1) };
    again();
  };
  const leave = () => { state.cell = null; again(); tip.hide(); };
  const connect = () => {
    canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect(), x = event.clientX - box.left - plan.left, y = event.clientY - box.top - plan.top;
      if (x < 0 || y < 0 || x >= plan.cell * use.experts || y >= plan.rows * plan.row) return leave();
      choose(Math.floor(y / plan.row), Math.floor(x / plan.cell));
      tip.show(lines(), event.clientX, event.clientY);
    });
    canvas.addEventListener('pointerleave', leave);
    canvas.addEventListener('blur', leave);
    canvas.addEventListener('keydown', (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      const at = state.cell || { layer: 0, expert: 0 };
      choose(at.layer + (state.cell ? move[0] : 0), at.expert + (state.cell ? move[1] : 0));
      const box = canvas.getBoundingClientRect();
      tip.show(lines(), box.left + plan.left + (state.cell.expert + 1) * plan.cell, box.top + plan.top + state.cell.layer * plan.row);
    });
  };
  const steps = (n) => (n === 1 ? 'one step' : `${text.digits(n)} steps`);
  const option = (last, words) => el('option', { value: last ? 'last' : 'all' }, words);
  const select = use.last_steps > 0 && use.last_steps < use.steps ? el('select', { 'aria-label': 'steps', onchange: () => { state.last = select.value === 'last'; again(); } },
    option(false, steps(use.steps)), option(true, `the last ${steps(use.last_steps)}`)) : el('span', { class: 'aside' }, steps(use.steps));
  const figure = charts.figure(`experts${two ? `-${'ab'[run.number]}` : ''}`, [`${two ? `${'AB'[run.number]}: ` : ''}Tokens per expert`, select,
    legend([['a quarter of the even load, or less', 'var(--m-expert-few)'], ['even', 'var(--line)'], ['4 times, or more', 'var(--m-expert-many)']])],
    draw, 'Tokens per expert over layers and experts');
  return figure;
}

function expertSection(runs) {
  const known = runs.filter((run) => run.report.experts), two = runs.length > 1;
  if (known.length === 0) return [];
  const mark = (run) => (two ? ` ${'AB'[run.number]}` : '');
  const line = (run, key, name, color, more) => ({ name: `${name}${mark(run)}`, color: two ? run.color : color, broken: run.number > 0, points: paired(run.curves[key] || { step: [], value: [] }), ...more });
  const chart = (name, caption, of, floor) => lineChart(name, caption, { series: known.flatMap(of), format: text.digits, height: 180, floor });
  const even = (run) => {
    const points = paired(run.curves.router_entropy || { step: [], value: [] }), most = Math.log(run.report.experts.experts);
    return { name: `even: ln ${run.report.experts.experts}${mark(run)}`, color: two ? run.color : '--m-expert-few', dash: true, points: points.map(([s]) => [s, most]) };
  };
  const dropped = known.map((run) => {
    const use = run.report.experts, count = use.dropped_tokens;
    return el('p', { class: 'note', 'data-dropped': count }, el('strong', { class: count ? 'bad' : 'good' }, `Dropped tokens${mark(run)}: ${count.toLocaleString('en')}`),
      ` · each token went to ${use.experts_per_token} of ${use.experts} experts in ${use.layers.length} layer${use.layers.length === 1 ? '' : 's'}.`);
  });
  return [section('experts', 'Experts', 'Which experts the routers chose. Even load: every expert of a layer gets equally many tokens. No expert has a capacity, so an uneven load costs time, never tokens.',
    dropped, known.map((run) => expertMap(run, two)),
    el('div', { class: 'row' },
      chart('expert-imbalance', 'Busiest expert, times the even load', (run) => [line(run, 'expert_imbalance', 'mean of the layers', '--m-expert-many'), ...(two ? [] : [line(run, 'expert_imbalance_most', 'most uneven layer', '--m-expert-many', { pale: true })])], 1),
      chart('router-entropy', 'Router entropy, nats', (run) => [line(run, 'router_entropy', 'mean of tokens and layers', '--m-expert-few'), even(run)], 0)),
    el('div', { class: 'row' },
      chart('router-balance', 'Load-balancing loss, before its factor', (run) => [line(run, 'router_balance', 'each step', '--m-loss')]),
      chart('router-z', 'Router z-loss, before its factor', (run) => [line(run, 'router_z', 'each step', '--m-loss')])))];
}
