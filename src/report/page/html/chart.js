// Shared parts of charts: round numbers on axes, a canvas of the right density, and the list of drawn charts.

// About `count` round values that cover [low, high].
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= rough) * power;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) out.push(i * step);
  return out;
}
// Bytes are round in powers of two.
function byteTicks(high, count) {
  let step = 1;
  while (high / step > count) step *= 2;
  const out = [];
  for (let v = 0; v <= high; v += step) out.push(v);
  return out;
}

const charts = {
  expected: 0,
  drawn: 0,
  // Adds a figure. It is drawn when it has a width, and again when the width or the theme changes. A chart that
  // fails shows the error in its place; the rest of the page stays.
  figure(name, caption, draw, label) {
    const area = el('div', { class: 'area' });
    const node = el('figure', { class: 'card', 'data-chart': name, 'aria-label': label || name },
      el('figcaption', {}, caption), area);
    ++charts.expected;
    const redraw = () => {
      if (area.clientWidth === 0) return;
      try {
        draw(area, area.clientWidth);
        if (node.dataset.drawn !== 'yes') { node.dataset.drawn = 'yes'; ++charts.drawn; }
      } catch (error) {
        node.dataset.drawn = 'no';
        area.replaceChildren(el('p', { class: 'note' }, `This chart could not be drawn: ${error.message}`));
        errors.add(`${name}: ${error.stack || error.message}`);
      }
    };
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(area.clientWidth - width) < 1) return;
      width = area.clientWidth;
      redraw();
    }).observe(area);
    theme.listeners.push(redraw);
    return node;
  },
};

// Read by the test of this page, and by people who look into its source.
const errors = {
  list: [],
  add(message) {
    errors.list.push(message);
    document.documentElement.dataset.errors = errors.list.join(' | ');
  },
};
addEventListener('error', (event) => errors.add(event.message));
addEventListener('unhandledrejection', (event) => errors.add(String(event.reason)));

// Returns a cleared canvas of `width` x `height` CSS pixels that can have the focus. Made once per area.
function canvasIn(area, width, height, label) {
  let canvas = area.querySelector('canvas');
  if (!canvas) {
    canvas = el('canvas', { tabindex: label ? 0 : null, role: 'img', 'aria-label': label });
    area.replaceChildren(canvas);
  }
  const density = Math.min(devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  pen.setTransform(density, 0, 0, density, 0, 0);
  pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
  pen.textBaseline = 'middle';
  return { canvas, pen };
}

// Draws a line at the end of a step that is shorter than the axis: an empty stretch could be read as idle time.
function stepEnd(pen, x, length, top, bottom, right) {
  if (x(length) >= right - 0.5) return;
  pen.fillStyle = theme.color('--faint');
  pen.fillRect(x(length), top, 1, bottom - top);
}

// Draws the time axis along the bottom of a canvas, with vertical lines.
function timeAxis(pen, view, left, width, top, bottom) {
  pen.strokeStyle = theme.color('--grid');
  pen.fillStyle = theme.color('--soft');
  pen.textAlign = 'center';
  pen.lineWidth = 1;
  const x = (t) => left + (t - view.from) / (view.to - view.from) * width;
  for (const t of ticks(view.from, view.to, Math.max(2, width / 110))) {
    if (x(t) < left - 0.5 || x(t) > left + width + 0.5) continue;
    pen.beginPath();
    pen.moveTo(Math.round(x(t)) + 0.5, top);
    pen.lineTo(Math.round(x(t)) + 0.5, bottom + 4);
    pen.stroke();
    pen.fillText(text.seconds(t), clamp(x(t), left + 12, left + width - 16), bottom + 13);
  }
  return x;
}
