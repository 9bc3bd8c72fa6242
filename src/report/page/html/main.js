// Builds the page from top to bottom.

function section(id, title, why, ...content) {
  return el('section', { id }, el('h2', {}, title), why ? el('p', { class: 'why' }, why) : null, ...content);
}
const paired = (curve, map) => curve.step.map((s, i) => [s, curve.value[i] === null ? NaN : map ? map(curve.value[i]) : curve.value[i]]);

// Returns for each point the mean of `width` points around it, with as many points before as after, so that the
// mean does not lag. Near an end the mean is over fewer points.
function runningMean(points, width) {
  const sums = [0], counts = [0];
  for (const [, v] of points) {
    sums.push(sums[sums.length - 1] + (finite(v) ? v : 0));
    counts.push(counts[counts.length - 1] + (finite(v) ? 1 : 0));
  }
  return points.map(([s], i) => {
    const half = Math.min(width >> 1, i, points.length - 1 - i), from = i - half, to = i + half + 1;
    return [s, counts[to] > counts[from] ? (sums[to] - sums[from]) / (counts[to] - counts[from]) : NaN];
  });
}
const meanWidth = (points) => 2 * clamp(Math.round(points / 60), 2, 50) + 1;

// Marks of one run: ends of epochs and kept checkpoints. Marks of two runs would overlap.
function marksOfRun(run) {
  const perEpoch = run.report.steps_per_epoch, last = run.lastStep, marks = [];
  const shown = perEpoch > 0 ? Math.floor(last / perEpoch) : 0, every = Math.max(1, Math.ceil(shown / 40));
  for (let epoch = every; epoch <= shown; epoch += every) marks.push({ step: epoch * perEpoch, name: `epoch ${epoch}`, look: 'epoch' });
  for (const step of run.checkpoints) marks.push({ step, name: `checkpoint-${step}${step === run.report.best_step ? ', the best' : ''}`, look: 'checkpoint' });
  return marks;
}

function aboutStep(run, step) {
  const parts = [`step ${step.toLocaleString('en')}`];
  if (run.report.steps_per_epoch > 0) parts.push(`epoch ${text.digits(step / run.report.steps_per_epoch)}`);
  if (run.report.tokens > 0 && run.lastStep > 0) parts.push(`about ${text.count(run.report.tokens / run.lastStep * step)} tokens`);
  return parts.join(' · ');
}

function lossSection(runs) {
  const two = runs.length > 1, mark = (run) => (two ? ` ${'AB'[run.number]}` : '');
  const one = two ? {} : { marks: marksOfRun(runs[0]), about: (step) => aboutStep(runs[0], step) };
  const small = two ? {} : { ...one, marks: one.marks.filter((m) => m.look === 'epoch').map((m) => ({ ...m, name: '' })) };
  const stride = (curve) => (curve.stride > 1 ? `mean of ${curve.stride} steps` : 'each step');
  const losses = runs.flatMap((run) => {
    const points = paired(run.curves.loss), many = points.length > 60, width = meanWidth(points.length);
    const color = two ? run.color : '--m-loss';
    return [many ? { name: `${stride(run.curves.loss)}${mark(run)}`, color, points, pale: true } : null,
      { name: `${many ? `mean of ${width * run.curves.loss.stride} steps around each` : 'loss'}${mark(run)}`, color, broken: run.number > 0,
        points: many ? runningMean(points, width) : points },
      { name: `validation${mark(run)}`, color: two ? run.color : '--m-validation', points: paired(run.curves.eval_loss), dots: true }].filter((s) => s && (!s.dots || s.points.length > 0));
  });
  const simple = (key, color) => runs.map((run) => ({ name: `${stride(run.curves[key])}${mark(run)}`, color: two ? run.color : color, broken: run.number > 0, points: paired(run.curves[key]) }));
  return section('loss', 'Loss', 'Nats per target token, over the whole step. Drag across a chart to zoom, double click for all of it.',
    lineChart('loss', 'Loss', { series: losses, ...one, format: (v) => (finite(v) ? Number(v.toPrecision(4)).toString() : '–'), height: 270 }),
    el('div', { class: 'row' },
      lineChart('learning-rate', 'Learning rate', { series: simple('learning_rate', '--m-rate'), ...small, format: (v) => (v === 0 ? '0' : v.toExponential(1)), floor: 0, height: 180 }),
      lineChart('grad-norm', 'Gradient norm, before clipping', { series: simple('grad_norm', '--m-norm'), ...small, format: text.digits, floor: 0, robust: true, height: 180 })));
}

function speedSection(runs) {
  const two = runs.length > 1;
  const series = runs.flatMap((run) => {
    const tokens = run.report.tokens_per_step, points = paired(run.curves.step_seconds, (s) => tokens / s);
    const color = two ? run.color : '--m-speed', mark = two ? ` ${'AB'[run.number]}` : '';
    const ends = points.length ? [points[0][0], points[points.length - 1][0]] : [];
    const level = (name, value, c) => (value > 0 && finite(value) ? { name: `${name}${mark}`, color: c, dash: true, points: ends.map((s) => [s, value]) } : null);
    return [{ name: `measured${mark}`, color, points },
      level('predicted', run.report.predicted_step_seconds > 0 ? tokens / run.report.predicted_step_seconds : 0, two ? run.color : '--m-predicted'),
      !two && run.ofPeak > 0.5 ? level('at the peak', run.report.tokens_per_second / run.ofPeak, '--m-peak') : null].filter(Boolean);
  });
  return section('speed', 'Speed', 'Tokens per second of each step, evaluation and checkpoints left out.',
    lineChart('tokens', runs.length === 1 && finite(runs[0].ofPeak) ? `Tokens per second: ${text.percent(runs[0].ofPeak)} of the measured peak` : 'Tokens per second',
      { series, format: text.count, floor: 0, height: 200 }));
}

// Timeline of one step; needs step.json.
function stepSections(runs) {
  const known = runs.filter((run) => run.step);
  const notes = runs.filter((run) => !run.step).map((run) => el('p', { class: 'note' }, run.tooLarge
    ? `${run.name}: a step has ${run.tooLarge.toLocaleString('en')} operations, more than this page can draw; trace.json opens in Perfetto.`
    : `${run.name} kept no trace of a whole step, so there is no timeline, memory or life of chunks here. A trace needs output.trace: true and at least three steps in a row.`));
  if (known.length === 0) return [section('step', 'The step', '', notes)];
  const two = runs.length > 1;
  const view = new View(Math.max(...known.flatMap((run) => run.step.times.map((name) => run.step.length(name)))));
  const detail = el('div', { class: 'detail', 'aria-live': 'polite' }, 'Select an operation to see what it touches: click, or comma and period.');
  const both = known.every((run) => run.step.times.length === 2);
  return [
    section('step', 'The step', `One steady step, from the end of one gradient norm to the next${both ? ', predicted in virtual time above and measured below' : ''}. Ops that run ahead for the next step are shown within this step.`,
      notes, view.toolbar(), timeline(known, view, detail), laneBars(known)),
    section('memory', 'Memory', 'Bytes of the plan in each tier over the same step, by kind. The arena is the allocated memory; it is never exceeded.',
      two ? el('div', { class: 'row' }, memoryPairs(known, view)) : known[0].step.data.places.map((_, place) => memoryChart(known[0], place, view, false))),
    section('lives', 'Lives of chunks', 'Chunks move between the tiers as planned; a strip is filled while its chunk is in the tier. Select a chunk to read its path through the step.',
      known.map((run) => lives(run, view, two)))];
}

// Puts the same tier of two runs side by side.
function memoryPairs(runs, view) {
  const most = Math.max(...runs.map((run) => run.step.data.places.length)), out = [];
  for (let place = 0; place < most; ++place)
    for (const run of runs) if (run.step.data.places[place]) out.push(memoryChart(run, place, view, true));
  return out;
}

const stepsOf = (runs) => runs.map((run) => `${runs.length > 1 ? `${'AB'[run.number]}'s ` : ''}${run.report.steps === 1 ? 'one step' : `${text.digits(run.report.steps)} steps`}`).join(' and ');

function movementSections(runs) {
  return [
    section('links', 'Bytes', `Useful bytes of a step: the mean of ${stepsOf(runs)}, first and last included, which move other bytes than steady steps. Retries, checkpoints and evaluation are counted separately. Least: no placement in these budgets moves fewer bytes.`,
      linkBars(runs), el('div', { class: 'card' }, linkTable(runs))),
    section('time', 'Time', `Compute, and the time in which compute waited, by the cause of the wait: the mean of ${stepsOf(runs)}. Together they are the training time.`, causeBar(runs), el('div', { class: 'card' }, causeTable(runs))),
    ...(runs.some((run) => run.report.gpus) ? [section('gpus', 'GPUs', 'Readings of each GPU by its driver during training, about once a second.',
      el('div', { class: 'card', 'data-chart': 'gpus', 'data-drawn': 'yes' }, gpuTable(runs)))] : []),
    section('wear', 'SSD wear', '', el('div', { class: 'card', 'data-chart': 'wear', 'data-drawn': 'yes' }, wearTable(runs)))];
}

// Bytes, times and the timeline of a step are known only at the end of a run, so an unfinished run has none.
const ended = (runs) => runs.every((run) => !run.unfinished);

function header(runs) {
  const r = runs[0].report, two = runs.length > 1;
  const logo = svg('svg', { width: 26, height: 26, viewBox: '0 0 26 26', 'aria-hidden': 'true' },
    svg('rect', { width: 26, height: 26, rx: 7, fill: 'var(--accent)' }),
    svg('path', { d: 'M4 11q3-4 6 0t6 0 6 0M4 17q3-4 6 0t6 0 6 0', fill: 'none', stroke: 'var(--card)', 'stroke-width': 2.2, 'stroke-linecap': 'round' }));
  const toggle = el('button', { type: 'button', onclick: theme.toggle }, '');
  theme.listeners.push(() => { toggle.textContent = theme.name() === 'dark' ? 'Light' : 'Dark'; toggle.setAttribute('aria-label', `switch to ${toggle.textContent.toLowerCase()} colours`); });
  const sections = [...(two ? [['comparison', 'Side by side']] : []), ['loss', 'Loss'], ['speed', 'Speed'],
    ...(runs.some((run) => run.report.experts) ? [['experts', 'Experts']] : []),
    ...(ended(runs) ? [['step', 'Step'], ['memory', 'Memory'], ['lives', 'Chunks'], ['links', 'Bytes'], ['time', 'Time'], ['wear', 'SSD']] : []), ['config', 'Config']];
  return [el('div', { class: 'brand' }, logo, 'Tidepool', el('span', { class: 'grow' }), toggle),
    two ? el('h1', {}, runs.map((run, i) => [i ? ' against ' : '', el('span', { style: `color:var(${run.color})` }, run.name)])) : el('h1', {}, runs[0].name),
    el('p', { class: 'lead' }, two ? 'Two runs side by side: A and B.' : `${r.model}, ${text.count(r.parameters)} parameters, ${r.precision}, on ${r.executor} · ${text.digits(r.steps)} steps in ${text.seconds(r.train_seconds)}`),
    ...runs.filter((run) => run.unfinished).map((run) => el('p', { class: 'note', role: 'status' }, `This run ${run.unfinished}.`)),
    el('nav', { 'aria-label': 'sections' }, sections.map(([id, name]) => el('a', { href: `#${id}` }, name)))];
}

function build() {
  const data = JSON.parse(document.getElementById('data').textContent);
  const runs = data.runs.map((run, i) => new Run(run, i));
  document.getElementById('head').append(...header(runs));
  const main = document.getElementById('main');
  main.append(tiles(runs));
  if (runs.length > 1) main.append(section('comparison', 'Side by side', '', comparison(runs)));
  // Each part is built separately: if one fails, the others are still shown.
  const atItsEnd = ended(runs) ? [() => stepSections(runs), () => movementSections(runs)] : [];
  for (const part of [() => lossSection(runs), () => speedSection(runs), () => expertSection(runs), ...atItsEnd]) {
    try {
      main.append(...[part()].flat());
    } catch (error) {
      errors.add(error.stack || error.message);
      main.append(el('p', { class: 'note' }, `A part of this page could not be drawn: ${error.message}`));
    }
  }
  main.append(section('config', 'Config, machine, versions', '',
    el('div', { class: 'card' }, el('details', { open: true }, el('summary', {}, 'Run and machine'), textTable(runs, factsOf)),
      el('details', { open: runs.length > 1 }, el('summary', {}, 'Config, every key'), textTable(runs, (run) => run.report.config)))));
  main.append(el('footer', {}, 'Made by Tidepool from report.json, metrics.jsonl and step.json of the run. tidepool report RUN_DIR makes it again.'));
}

theme.start();
build();
theme.apply();
const root = document.documentElement;
root.dataset.charts = String(charts.expected);
root.dataset.drawn = String(charts.drawn);
root.dataset.errors = errors.list.join(' | ');
root.dataset.ready = 'yes';
