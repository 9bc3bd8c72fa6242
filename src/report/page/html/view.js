// View: the range of the step that timeline, memory and lives show. Zooming one of them zooms all.

class View {
  constructor(length) {
    this.length = length;
    this.from = 0;
    this.to = length;
    this.listeners = [];
  }
  set(from, to) {
    const span = clamp(to - from, this.length / 20000, this.length);
    this.from = clamp(from, 0, this.length - span);
    this.to = this.from + span;
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      for (const listener of this.listeners) listener();
    });
  }
  all() { this.set(0, this.length); }
  zoom(factor, at) {
    const center = at === undefined ? (this.from + this.to) / 2 : at;
    this.set(center - (center - this.from) * factor, center + (this.to - center) * factor);
  }
  pan(share) {
    const by = share * (this.to - this.from);
    this.set(this.from + by, this.to + by);
  }

  // Returns true if the view handled the key.
  key(event) {
    const shift = event.shiftKey ? 4 : 1;
    switch (event.key) {
      case 'ArrowLeft': this.pan(-0.1 * shift); break;
      case 'ArrowRight': this.pan(0.1 * shift); break;
      case 'ArrowUp': case '+': case '=': this.zoom(1 / 1.4); break;
      case 'ArrowDown': case '-': this.zoom(1.4); break;
      case 'Home': case '0': case 'Escape': this.all(); break;
      default: return false;
    }
    event.preventDefault();
    return true;
  }

  // Drag pans, the wheel with Ctrl (or a pinch) zooms, a double click shows all. `plot` gives { left, width }.
  attach(canvas, plot) {
    const timeAt = (event) => {
      const { left, width } = plot();
      return this.from + (event.clientX - canvas.getBoundingClientRect().left - left) / width * (this.to - this.from);
    };
    canvas.addEventListener('wheel', (event) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(clamp(event.deltaY, -60, 60) * 0.01), timeAt(event));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan(event.deltaX / plot().width);
      }
    }, { passive: false });
    let held = null;
    canvas.addEventListener('pointerdown', (event) => {
      held = { x: event.clientX, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (!held) return;
      const by = event.clientX - held.x;
      if (Math.abs(by) < 3 && !held.moved) return;
      held = { x: event.clientX, moved: true };
      this.set(this.from - by / plot().width * (this.to - this.from), this.to - by / plot().width * (this.to - this.from));
    });
    canvas.addEventListener('pointerup', (event) => {
      canvas.dataset.dragged = held && held.moved ? 'yes' : '';
      held = null;
    });
    canvas.addEventListener('dblclick', () => this.all());
    return timeAt;
  }

  toolbar() {
    return el('div', { class: 'toolbar' },
      el('button', { type: 'button', onclick: () => this.zoom(1 / 2), 'aria-label': 'zoom in' }, '+'),
      el('button', { type: 'button', onclick: () => this.zoom(2), 'aria-label': 'zoom out' }, '−'),
      el('button', { type: 'button', onclick: () => this.pan(-0.25), 'aria-label': 'earlier' }, '←'),
      el('button', { type: 'button', onclick: () => this.pan(0.25), 'aria-label': 'later' }, '→'),
      el('button', { type: 'button', onclick: () => this.all() }, 'whole step'),
      el('span', {}, 'Drag to move, ', el('kbd', {}, 'Ctrl'), ' + wheel to zoom; with the focus on a chart: ',
        el('kbd', {}, '←'), ' ', el('kbd', {}, '→'), ' ', el('kbd', {}, '↑'), ' ', el('kbd', {}, '↓'), '.'));
  }
}
