// Elements and texts, independent of runs.

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child.nodeType ? child : String(child));
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const finite = (x) => typeof x === 'number' && Number.isFinite(x);

// ---- Quantities with three significant digits; "–" for unknown values.
const text = {
  digits(x) {
    if (!finite(x)) return '–';
    const size = Math.abs(x);
    if (size >= 1000) return Math.round(x).toLocaleString('en');
    return Number(x.toPrecision(3)).toString();
  },
  bytes(n) {
    if (!finite(n)) return '–';
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
    let i = 0;
    while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; ++i; }
    const digits = Math.abs(n) >= 100 || i === 0 ? 0 : Math.abs(n) >= 10 ? 1 : 2;
    return `${n.toFixed(digits)} ${units[i]}`;
  },
  seconds(s) {
    if (!finite(s)) return '–';
    const size = Math.abs(s);
    if (size === 0) return '0 s';
    if (size < 1e-3) return `${text.digits(s * 1e6)} µs`;
    if (size < 1) return `${text.digits(s * 1e3)} ms`;
    if (size < 120) return `${text.digits(s)} s`;
    if (size < 7200) return `${Math.floor(Math.round(s) / 60)} min ${Math.round(s) % 60} s`;
    if (size < 172800) return `${text.digits(s / 3600)} h`;
    return s / 86400 > 400 ? `${text.digits(s / 86400 / 365.25)} years` : `${text.digits(s / 86400)} days`;
  },
  percent: (x) => (finite(x) ? `${Math.abs(x) < 0.0995 ? (x * 100).toFixed(1) : Math.round(x * 100)}%` : '–'),
  signed: (x) => (finite(x) ? `${x >= 0 ? '+' : '−'}${text.percent(Math.abs(x))}` : '–'),
  count(n) {
    if (!finite(n)) return '–';
    for (const [size, unit] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e4, 'k']])
      if (Math.abs(n) >= size) return text.digits(n / (unit === 'k' ? 1e3 : size)) + unit;
    return text.digits(n);
  },
  flops(n) {
    if (!finite(n)) return '–';
    for (const [size, unit] of [[1e15, 'PFLOP/s'], [1e12, 'TFLOP/s'], [1e9, 'GFLOP/s']])
      if (n >= size) return `${text.digits(n / size)} ${unit}`;
    return `${text.digits(n / 1e6)} MFLOP/s`;
  },
  rate: (bytes, seconds) => (seconds > 0 ? `${text.digits(bytes / seconds / 1e9)} GB/s` : '–'),
};

// ---- The tooltip: follows the pointer, or is beside the element that has the focus.
const tip = {
  show(lines, x, y) {
    const node = document.getElementById('tip');
    node.textContent = lines.filter(Boolean).join('\n');
    node.hidden = false;
    const box = node.getBoundingClientRect();
    node.style.left = `${clamp(x + 14, 4, innerWidth - box.width - 4)}px`;
    node.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  },
  hide() { document.getElementById('tip').hidden = true; },
};
addEventListener('scroll', tip.hide, { passive: true });

function legend(entries) {
  return el('span', { class: 'legend' }, entries.map(([name, color, look]) =>
    el('span', {}, el('i', { class: look, style: `color:${color}` }), name)));
}

function table(columns, rows) {
  const head = columns.map((c) => el('th', { scope: 'col', class: c.text ? 'text' : null }, c.name));
  const body = rows.map((row) => el('tr', { class: row.differs ? 'differs' : null },
    (row.cells || row).map((cell, i) => el('td', { class: columns[i].text ? 'text' : null }, cell))));
  return el('div', { class: 'tablewrap' }, el('table', {}, el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}
