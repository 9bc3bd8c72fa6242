// Figures at the top, and tables.

const perplexity = (loss) => Number(Math.exp(loss).toPrecision(4)).toString();

function tiles(runs) {
  const entries = [
    ['tokens per second', (run) => text.count(run.report.tokens_per_second), (run) => `mean; ${text.flops(run.report.flops_per_second)}`],
    ['of the measured peak', (run) => run.ofPeakText, (run) => (run.peakRange[0] > 0 ? `of ${text.flops(run.report.peak_flops_per_second)}` : 'the peak was not measured')],
    ['median step', (run) => text.seconds(run.report.step_seconds), (run) => `of ${text.digits(run.report.steps)}; mean ${text.seconds(run.perStep(run.report.train_seconds))}`],
    ['prediction', (run) => (run.report.predicted_step_seconds > 0 ? text.seconds(run.report.predicted_step_seconds) : '–'),
      (run) => (finite(run.predictionError) ? `${text.percent(Math.abs(run.predictionError))} ${run.predictionError > 0 ? 'longer' : 'shorter'} than the median` : run.predictionDoubt || 'none was made')],
    ['loss', (run) => (finite(run.lastLoss) ? run.lastLoss.toFixed(3) : '–'), (run) => (finite(run.lastEval) ? `validation ${run.lastEval.toFixed(3)}, perplexity ${perplexity(run.lastEval)}` : 'no evaluation')],
    ['trained on', (run) => `${text.count(run.report.tokens)} tokens`, (run) => (run.report.steps_per_epoch > 0
      ? `${text.digits(run.lastStep / run.report.steps_per_epoch)} epochs of ${text.digits(run.report.steps_per_epoch)} steps` : `${text.digits(run.lastStep)} steps`)],
    ['checkpoints kept', (run) => text.digits(run.checkpoints.length), (run) => (run.checkpoints.length === 0 ? 'none in the run directory'
      : `the last at step ${text.digits(run.checkpoints[run.checkpoints.length - 1])}${run.report.best_step ? `, the best at ${text.digits(run.report.best_step)}` : ''}`)],
    ['binds', (run) => run.report.binds || '–', () => 'what most of a step waits for, predicted'],
  ].filter(([name]) => runs.every((run) => !run.unfinished) || !['of the measured peak', 'prediction', 'binds', 'median step'].includes(name));
  return el('div', { class: 'tiles' }, entries.map(([name, value, aside]) => el('div', { class: 'tile' }, el('h3', {}, name),
    runs.map((run) => el('div', { class: runs.length > 1 ? 'value two' : 'value', style: runs.length > 1 ? `color:var(${run.color})` : null },
      runs.length > 1 ? `${'AB'[run.number]} ${value(run)}` : value(run))),
    runs.length === 1 ? el('div', { class: 'aside' }, aside(runs[0])) : null)));
}

// Two numbers, and the second as a share of the first.
function comparison(runs) {
  const [a, b] = runs, rows = [];
  const row = (name, of, show, better) => {
    const x = of(a), y = of(b), change = finite(x) && finite(y) && x !== 0 ? y / x - 1 : NaN;
    const tone = !better || !finite(change) || Math.abs(change) < 0.005 ? null : (change > 0) === (better === 'more') ? 'good' : 'bad';
    rows.push([name, show(x), show(y), el('span', { class: tone }, x === y ? '=' : text.signed(change))]);
  };
  row('tokens per second, mean of all steps', (r) => r.report.tokens_per_second, text.count, 'more');
  row('achieved, mean of all steps', (r) => r.report.flops_per_second, text.flops, 'more');
  row('step, mean', (r) => r.perStep(r.report.train_seconds), text.seconds, 'less');
  row('step, median', (r) => r.report.step_seconds, text.seconds, 'less');
  row('step, predicted', (r) => r.report.predicted_step_seconds || NaN, text.seconds);
  row('last loss', (r) => r.lastLoss, (x) => (finite(x) ? x.toFixed(4) : '–'), 'less');
  row('validation loss', (r) => r.lastEval, (x) => (finite(x) ? x.toFixed(4) : '–'), 'less');
  row('perplexity', (r) => Math.exp(r.lastEval), (x) => (finite(x) ? Number(x.toPrecision(4)).toString() : '–'), 'less');
  row('steps', (r) => r.report.steps, text.digits);
  row('parameters', (r) => r.report.parameters, text.count);
  for (const link of linkNames(runs)) row(`${link}, mean per step`, (r) => r.perStep((r.links[link] || {}).measured_bytes), text.bytes, 'less');
  for (const tier of Object.keys(a.report.tiers)) row(`${tier} peak`, (r) => r.report.tiers[tier].measured_peak_bytes, text.bytes);
  row('resident process', (r) => r.report.rss_peak_bytes, text.bytes);
  return el('div', { class: 'card', 'data-chart-table': 'comparison' }, table([{ name: '' }, { name: `A ${a.name}` }, { name: `B ${b.name}` }, { name: 'B against A' }], rows));
}

function linkTable(runs) {
  const rows = [];
  for (const run of runs) {
    for (const [link, use] of Object.entries(run.links)) {
      const same = use.measured_bytes === use.planned_bytes;
      const ratio = use.lower_bound_bytes > 0 ? use.measured_bytes / use.lower_bound_bytes : NaN;
      rows.push([`${runs.length > 1 ? `${'AB'[run.number]} ` : ''}${link}`,
        ...['measured_bytes', 'planned_bytes', 'lower_bound_bytes'].map((key) => (key in use ? text.bytes(run.perStep(use[key])) : '–')),
        finite(ratio) ? ratio.toFixed(2) : '–', use.planned_steady_step_bytes === undefined ? '–' : text.bytes(use.planned_steady_step_bytes), el('span', { class: same ? 'good' : 'bad' }, same ? 'as planned' : `${use.measured_bytes - use.planned_bytes} B off`)]);
    }
  }
  return table([{ name: 'link' }, { name: 'measured' }, { name: 'planned' }, { name: 'least' }, { name: 'measured / least' }, { name: 'steady step, planned' }, { name: '' }], rows);
}

function causeTable(runs) {
  const causes = Object.keys(runs[0].report.exposed_seconds);
  const cells = (run, cause) => {
    const all = run.report.exposed_seconds, seconds = all[cause] || 0;
    return [text.seconds(run.perStep(seconds)), text.percent(seconds / (total(Object.values(all)) || 1))];
  };
  const columns = runs.flatMap((run) => [{ name: `${runs.length > 1 ? `${'AB'[run.number]}, ` : ''}mean per step` }, { name: 'share' }]);
  const rows = causes.filter((cause) => runs.some((run) => run.report.exposed_seconds[cause] > 0));
  return table([{ name: 'waited for' }, ...columns], rows.map((cause) =>
    [cause === 'compute' ? 'compute itself' : causeLabel(cause), ...runs.flatMap((run) => cells(run, cause))]));
}

// Wear of a drive. If the machine file has no endurance, 600 TB are assumed, the common promise for 1 TB of a
// consumer drive.
const enduranceAssumed = 600e12;
const terabytes = (bytes) => (bytes < 1e16 ? `${Number((bytes / 1e12).toPrecision(4))} TB` : `${Number((bytes / 1e15).toPrecision(4))} PB`);

function driveLife(run, perDay) {
  const told = run.report.disk_endurance_bytes, endurance = told > 0 ? told : enduranceAssumed;
  const lasts = perDay > 0 ? text.seconds(endurance / perDay * 86400) : 'as long as it likes';
  return `${lasts}, of ${terabytes(endurance)} ${told > 0 ? 'that the machine file tells' : 'assumed: no machine file tells it'}`;
}

function wearTable(runs) {
  const row = (name, of) => [name, ...runs.map(of)];
  const perDay = (run) => run.perStep(run.report.links.disk_write.measured_bytes) / (run.report.train_seconds / run.report.steps) * 86400;
  const columns = [{ name: '' }, ...runs.map((run) => ({ name: runs.length > 1 ? `${'AB'[run.number]} ${run.name}` : 'this run' }))];
  return table(columns, [
    row('written per step, mean', (run) => text.bytes(run.perStep(run.report.links.disk_write.measured_bytes))),
    row('written per day of training', (run) => text.bytes(perDay(run))),
    row('the endurance lasts', (run) => driveLife(run, perDay(run))),
    row('read per step, mean', (run) => text.bytes(run.perStep(run.report.links.disk_read.measured_bytes))),
    row('checkpoints, in all', (run) => text.bytes(run.report.checkpoint_written_bytes)),
    row('transfers that needed a second try', (run) => text.digits(run.report.io_retries)),
  ]);
}

// Readings of each GPU by its driver during training.
function gpuTable(runs) {
  const columns = ['', 'power, mean', 'power, most', 'clock, mean', 'clock, least', 'temperature, most', 'energy per token'];
  const rows = runs.flatMap((run) => Object.entries(run.report.gpus || {}).map(([name, g]) => [
    `${runs.length > 1 ? `${'AB'[run.number]} ` : ''}${name}`, `${text.digits(Math.round(g.watts_mean))} W`,
    `${text.digits(Math.round(g.watts_most))} W`, `${text.digits(Math.round(g.mhz_mean))} MHz`,
    `${text.digits(Math.round(g.mhz_least))} MHz`, `${text.digits(Math.round(g.celsius_most))} \u00b0C`,
    `${(g.watts_mean / run.report.tokens_per_second).toPrecision(3)} J`]));
  return table(columns.map((name) => ({ name })), rows);
}

function factsOf(run) {
  const r = run.report;
  return { model: r.model, parameters: text.count(r.parameters), precision: r.precision, executor: r.executor,
    'training state': text.bytes(r.state_bytes), steps: `${text.digits(r.steps)}${r.resumed_from_step ? `, resumed from step ${r.resumed_from_step}` : ''}`,
    'trained for': text.seconds(r.train_seconds), 'resident process': text.bytes(r.rss_peak_bytes), 'weights xxh3': r.weights_xxh3,
    version: r.version, commit: r.commit || 'not known', ...r.machine };
}

// Table of texts by name. For two runs, rows that differ come first and are marked.
function textTable(runs, of) {
  const values = runs.map(of), names = [...new Set(values.flatMap((v) => Object.keys(v)))];
  const rows = names.map((name) => {
    const cells = values.map((v) => (v[name] === undefined ? '–' : String(v[name])));
    return { differs: cells.length > 1 && cells[0] !== cells[1], cells: [name, ...cells] };
  });
  rows.sort((a, b) => b.differs - a.differs);
  return table([{ name: '' }, ...runs.map((run) => ({ name: runs.length > 1 ? `${'AB'[run.number]} ${run.name}` : 'value', text: true }))], rows);
}
