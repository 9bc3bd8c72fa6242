// Run: data for the charts. Ops have titles and times folded onto one step, arcs are ranges of time.

const collective = (kind) => kind === 'all_gather' || kind === 'reduce_scatter';
const movement = (kind) => kind === 'copy' || kind === 'read' || kind === 'write';

// The step repeats. So ops before its beginning or after its end are drawn within it, as ops of its neighbours.
function folded(begin, end, length) {
  const span = Math.min(end - begin, length);
  const from = begin - Math.floor(begin / length) * length;
  return from + span <= length ? [[from, from + span]] : [[from, length], [0, from + span - length]];
}

class StepModel {
  constructor(data) {
    this.data = data;
    this.ops = data.ops.kind.length;
    this.operandsBegin = new Uint32Array(this.ops + 1);
    for (let i = 0; i < this.ops; ++i) this.operandsBegin[i + 1] = this.operandsBegin[i] + data.ops.operands[i];
    this.times = ['predicted', 'measured'].filter((name) => data[name] && data[name].started_us.length === this.ops);
    // Memory and lives use measured times, or predicted times if there are none.
    this.clock = data[this.times.includes('measured') ? 'measured' : this.times[0]];
  }
  kind(op) { return this.data.op_kinds[this.data.ops.kind[op]]; }
  lane(op) { return this.data.ops.lane[op]; }
  length(name) { return this.data[name].length_us * 1e-6; }
  started(name, op) { return this.data[name].started_us[op] * 1e-6; }
  finished(name, op) { return this.data[name].finished_us[op] * 1e-6; }
  operands(op) {
    const out = [], o = this.data.operands;
    for (let i = this.operandsBegin[op]; i < this.operandsBegin[op + 1]; ++i)
      out.push({ chunk: o.chunk[i], count: o.count[i], access: o.access[i], place: o.place[i] });
    return out;
  }
  windowName(w) { return this.data.windows[w] || `window ${w}`; }
  blockName(b) { return this.data.blocks[b] || `block ${b}`; }
  placeName(p) {
    const place = this.data.places[p];
    if (!place) return '?';
    const several = this.data.places.filter((q) => q.tier === place.tier).length > 1;
    return several ? `${place.tier} ${place.device}` : place.tier;
  }
  chunkName(chunk) {
    const c = this.data.chunks;
    let name = this.data.kinds[c.kind[chunk]];
    if (c.window[chunk] >= 0) name += ` ${this.windowName(c.window[chunk])}/${c.cut[chunk]}`;
    if (c.block[chunk] >= 0) name += ` ${this.blockName(c.block[chunk])}`;
    if (c.instance[chunk] > 0 || c.window[chunk] < 0) name += ` #${c.instance[chunk]}`;
    return name;
  }
  title(op) {
    const o = this.data.ops, kind = this.kind(op);
    if (movement(kind)) return `${kind} ${this.chunkName(this.data.operands.chunk[this.operandsBegin[op]])}`;
    let name = kind;
    if (o.block[op] >= 0) name += ` ${this.blockName(o.block[op])}`;
    else if (o.window[op] >= 0) name += ` ${this.windowName(o.window[op])}` + (o.cut[op] >= 0 ? `/${o.cut[op]}` : '');
    if (o.micro_batch[op] >= 0) name += `, micro-batch ${o.micro_batch[op]}`;
    return name;
  }
  // Ranges [begin, end] of the step in which the arc holds its frame.
  stretches(arc) {
    const { from, to } = this.data.arcs, length = this.clock.length_us * 1e-6;
    if (from[arc] < 0) return [[0, length]];
    const begin = this.clock.started_us[from[arc]] * 1e-6;
    let end = this.clock.finished_us[to[arc]] * 1e-6;
    if (from[arc] > to[arc]) end += length;
    return folded(begin, Math.max(end, begin), length);
  }
  // Per lane: time in which at least one op ran.
  busy(name) {
    const spans = this.data.lanes.map(() => []);
    for (let op = 0; op < this.ops; ++op)
      spans[this.lane(op)].push([this.started(name, op), this.finished(name, op)]);
    return spans.map((list) => {
      let sum = 0, until = -Infinity;
      for (const [begin, end] of list.sort((a, b) => a[0] - b[0])) {
        if (end > until) { sum += end - Math.max(begin, until); until = end; }
      }
      return sum;
    });
  }
}

const linkNames = (runs) => [...new Set(runs.flatMap((run) => Object.keys(run.links)))];

class Run {
  constructor(data, number) {
    this.name = data.name;
    this.number = number;
    this.report = data.report;
    this.curves = data.curves;
    this.unfinished = data.unfinished;
    this.checkpoints = data.checkpoints;
    this.color = runColors[number];
    this.step = data.step && data.step.ops.kind.length > 0 ? new StepModel(data.step) : null;
    if (this.step && this.step.times.length === 0) this.step = null;
    this.tooLarge = data.step && data.step.ops.kind.length === 0 ? data.step.ops_in_all : 0;
  }
  // With several devices, exchange between them is one more link, without a lower bound. With several nodes, so
  // are both directions of the network.
  get links() {
    const more = this.report.comm ? { collectives: this.report.comm } : {};
    return { ...this.report.links, ...(this.report.network ?? {}), ...more };
  }
  get lastStep() { return this.report.resumed_from_step + this.report.steps; }
  get lastLoss() { const v = this.curves.loss.value; return v.length ? v[v.length - 1] : NaN; }
  get lastEval() { const v = this.curves.eval_loss.value; return v.length ? v[v.length - 1] : NaN; }
  // Error of the prediction as a share of the measured time: +0.1 is 10 % too long.
  get predictionError() {
    const r = this.report;
    return r.predicted_step_seconds > 0 && r.step_seconds > 0 && !this.predictionDoubt ? r.predicted_step_seconds / r.step_seconds - 1 : NaN;
  }
  // As in report/carried_text.cpp: no percentage is shown if the measurements vary too much for it.
  get predictionDoubt() {
    const r = this.report, least = r.predicted_step_seconds_least, most = r.predicted_step_seconds_most;
    if (least > 0 && most > 1.1 * least) return `measured as ${text.seconds(least)} to ${text.seconds(most)}`;
    const speed = r.speed_at_end;
    if (!(speed > 0) || (speed >= 0.9 && speed * 0.9 <= 1)) return '';
    return `the machine was ${(speed > 1 ? speed : 1 / speed).toFixed(1)} times as ${speed > 1 ? 'fast' : 'slow'} after the last step`;
  }
  get peakRange() {
    const r = this.report;
    return r.peak_flops_per_second_least > 0 ? [r.peak_flops_per_second_least, r.peak_flops_per_second_most] : [r.peak_flops_per_second, r.peak_flops_per_second];
  }
  get ofPeak() {
    const [least, most] = this.peakRange, flops = this.report.flops_per_second;
    return least > 0 && most <= 1.1 * least && flops <= least ? flops / this.report.peak_flops_per_second : NaN;
  }
  get ofPeakText() {
    const [least, most] = this.peakRange, flops = this.report.flops_per_second;
    if (!(least > 0)) return '–';
    if (flops > most) return 'above';
    if (flops > least) return `at least ${text.percent(flops / most)}`;
    return finite(this.ofPeak) ? text.percent(this.ofPeak) : `${text.percent(flops / most)} to ${text.percent(flops / least)}`;
  }
  perStep(total) { return this.report.steps > 0 ? total / this.report.steps : NaN; }
}
