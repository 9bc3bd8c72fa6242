// Horizontal bars in SVG: bytes per link, time by cause, lanes predicted against measured.

// groups: [{ name, bars: [{ value, color, label, pale, title }], note }]
function barChart(name, caption, groups, options) {
  const draw = (area, width) => {
    const left = options.left || 92, right = options.right || 150, bar = 13, gap = 12;
    const most = Math.max(...groups.flatMap((g) => g.bars.map((b) => (finite(b.value) ? b.value : 0))), 1e-30);
    const height = groups.reduce((sum, g) => sum + g.bars.length * (bar + 3) + gap, 0);
    const node = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
      'aria-label': groups.map((g) => `${g.name}: ${g.bars.map((b) => b.label).join(', ')}`).join('; ') });
    let y = 2;
    for (const group of groups) {
      node.append(svg('text', { x: 0, y: y + (group.bars.length * (bar + 3)) / 2 + 2, class: 'strong' }, group.name));
      for (const b of group.bars) {
        const w = finite(b.value) ? Math.max(b.value / most * (width - left - right), b.value > 0 ? 1.5 : 0) : 0;
        const rect = svg('rect', { x: left, y, width: w, height: bar, rx: 3, fill: `var(${b.color})`, opacity: b.pale ? 0.55 : 1 });
        rect.addEventListener('pointermove', (event) => tip.show([group.name, b.title || b.label], event.clientX, event.clientY));
        rect.addEventListener('pointerleave', tip.hide);
        node.append(rect, svg('text', { x: left + w + 6, y: y + bar - 3 }, b.label));
        y += bar + 3;
      }
      y += gap;
    }
    area.replaceChildren(node);
  };
  return charts.figure(name, caption, draw, `${name}: ${groups.map((g) => g.name).join(', ')}`);
}

// One bar cut into parts: [{ name, value, color, label }].
function shareBar(name, caption, rows) {
  const draw = (area, width) => {
    const bar = 30, left = rows.length > 1 ? 26 : 0, height = rows.length * (bar + 8);
    const node = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
      'aria-label': rows.map((row) => row.parts.map((p) => `${p.name} ${p.label}`).join(', ')).join('; ') });
    rows.forEach((row, i) => {
      const sum = total(row.parts.map((p) => p.value)) || 1, y = i * (bar + 8);
      let x = left;
      if (left) node.append(svg('text', { x: 0, y: y + bar / 2 + 4, class: 'strong' }, row.name));
      for (const part of row.parts) {
        const w = part.value / sum * (width - left);
        if (w <= 0) continue;
        const rect = svg('rect', { x, y, width: Math.max(w - 1.5, 0.5), height: bar, rx: 3, fill: `var(${part.color})` });
        rect.addEventListener('pointermove', (event) => tip.show([part.name, part.label], event.clientX, event.clientY));
        rect.addEventListener('pointerleave', tip.hide);
        node.append(rect);
        if (w > 80) node.append(svg('text', { x: x + 8, y: y + bar / 2 + 4, style: 'fill:var(--card);font-weight:600' }, `${part.name} ${text.percent(part.value / sum)}`));
        x += w;
      }
    });
    area.replaceChildren(node);
  };
  return charts.figure(name, caption, draw, name);
}

function linkBars(runs) {
  const two = runs.length > 1;
  const groups = linkNames(runs).map((link) => ({
    name: link,
    bars: runs.filter((run) => run.links[link]).flatMap((run) => {
      const use = run.links[link], of = (key) => run.perStep(use[key]);
      const mark = two ? `${'AB'[run.number]} ` : '';
      const bar = (key, word, color, pale) => ({ value: of(key), color, pale, label: `${mark}${word} ${text.bytes(of(key))}` });
      const measured = bar('measured_bytes', 'measured', two ? run.color : '--m-measured');
      const least = 'lower_bound_bytes' in use ? [bar('lower_bound_bytes', 'least', two ? run.color : '--m-least', two)] : [];
      return two ? [measured, ...least] : [measured, bar('planned_bytes', 'planned', '--m-planned'), ...least];
    }),
  }));
  return barChart('links', ['Bytes of a step on each link, mean of all steps'], groups, {});
}

const causeColors = { compute: '--m-compute', update: '--m-update', host_adam: '--m-update', h2d: '--m-h2d', d2h: '--m-d2h', comm: '--m-between', disk_read: '--m-read',
  disk_write: '--m-write', record: '--m-commit', commit: '--m-commit', other: '--m-other' };

// Reports have the key `record` for the wait for commits.
const causeLabel = (cause) => (cause === 'record' ? 'commit' : cause);

function causeBar(runs) {
  const rows = runs.map((run) => ({
    name: 'AB'[run.number],
    parts: Object.entries(run.report.exposed_seconds).map(([cause, seconds]) => ({
      name: causeLabel(cause), value: seconds, color: causeColors[cause] || '--m-other', label: `${text.seconds(run.perStep(seconds))} a step` })),
  }));
  const names = [...new Set(rows.flatMap((row) => row.parts.filter((p) => p.value > 0).map((p) => p.name)))];
  return shareBar('causes', ['Where the time of a step goes, mean of all steps', legend(names.map((n) => [n, `var(${causeColors[n] || '--m-other'})`]))], rows);
}

// Busy time of each lane in a step: the error of the prediction, lane by lane.
function laneBars(runs) {
  const two = runs.length > 1, lanes = [];
  for (const run of runs) for (const lane of run.step.data.lanes) if (!lanes.includes(lane)) lanes.push(lane);
  const busy = runs.map((run) => Object.fromEntries(run.step.times.map((name) => [name, run.step.busy(name)])));
  const groups = [{ name: 'step', bars: [] }, ...lanes.map((lane) => ({ name: lane, bars: [] }))];
  runs.forEach((run, r) => {
    for (const name of run.step.times) {
      const add = (group, seconds) => group.bars.push({ value: seconds, color: two ? run.color : name === 'measured' ? '--m-measured' : '--m-predicted',
        pale: two && name === 'predicted', label: `${two ? `${'AB'[r]} ` : ''}${name} ${text.seconds(seconds)}` });
      add(groups[0], run.step.length(name));
      lanes.forEach((lane, i) => {
        const at = run.step.data.lanes.indexOf(lane);
        if (at >= 0) add(groups[i + 1], busy[r][name][at]);
      });
    }
  });
  return barChart('lanes', ['How long each lane works in that step, the median of the steady ones'], groups, {});
}
