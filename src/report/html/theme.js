// Light and dark: what the system prefers until the button says otherwise; paper is light.

const theme = {
  listeners: [],
  chosen: null,
  printing: false,
  dark: matchMedia('(prefers-color-scheme: dark)'),

  name() {
    if (theme.printing) return 'light';
    return theme.chosen || (theme.dark.matches ? 'dark' : 'light');
  },
  apply() {
    document.documentElement.dataset.theme = theme.name();
    for (const listener of theme.listeners) listener();
  },
  // The page may lie where nothing can be stored; it then forgets the choice.
  start() {
    try { theme.chosen = localStorage.getItem('tidepool-theme'); } catch (refused) { /* as above */ }
    const asked = new URLSearchParams(location.search).get('theme');
    if (asked === 'light' || asked === 'dark') theme.chosen = asked;
    theme.dark.addEventListener('change', theme.apply);
    // On paper charts are as wide as it is, not as the window was.
    const print = (on) => {
      theme.printing = on;
      document.documentElement.classList.toggle('printing', on);
      theme.apply();
    };
    addEventListener('beforeprint', () => print(true));
    addEventListener('afterprint', () => print(false));
    theme.apply();
  },
  toggle() {
    theme.chosen = theme.name() === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('tidepool-theme', theme.chosen); } catch (refused) { /* as above */ }
    theme.apply();
  },
  // The value of a colour like "--c-blue" now: canvases need it, SVG takes var().
  color: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),
};

// What is alike in a person's mind has one colour: kinds of chunks, and ops.
const kindLooks = [
  { name: 'param', color: '--c-blue', kinds: ['param'] },
  { name: 'master', color: '--c-teal', kinds: ['master', 'master_low'] },
  { name: 'momentum', color: '--c-aqua', kinds: ['momentum'] },
  { name: 'variance', color: '--c-yellow', kinds: ['variance'] },
  { name: 'gradients', color: '--c-violet', kinds: ['grad', 'grad_accum'] },
  { name: 'activations', color: '--c-red', kinds: ['activation', 'activation_grad', 'kept'] },
  { name: 'workspace, batch', color: '--c-gray', kinds: ['workspace', 'batch', 'scalars'] },
];
const kindLook = (kind) => kindLooks.find((look) => look.kinds.includes(kind)) || kindLooks[kindLooks.length - 1];

const opLooks = [
  { name: 'forward', color: '--c-aqua', ops: ['forward'] },
  { name: 'backward', color: '--c-blue', ops: ['backward'] },
  { name: 'gradient, norm', color: '--c-violet', ops: ['gradient', 'norm'] },
  { name: 'update', color: '--c-green', ops: ['update'] },
  { name: 'copy', color: '--c-yellow', ops: ['copy'] },
  { name: 'read', color: '--c-pink', ops: ['read'] },
  { name: 'write', color: '--c-orange', ops: ['write'] },
  { name: 'between devices', color: '--c-teal', ops: ['all_gather', 'reduce_scatter'] },
  { name: 'other', color: '--c-gray', ops: [] },
];
const opLook = (op) => opLooks.find((look) => look.ops.includes(op)) || opLooks[opLooks.length - 1];
const runColors = ['--c-blue', '--c-orange'];
const tierColors = { host: '--c-aqua', disk: '--c-yellow' };
const deviceColors = ['--c-violet', '--c-blue', '--c-pink', '--c-orange'];  // in turn: rows tell more of them apart
const placeColor = (place) => tierColors[place.tier] || deviceColors[place.device % deviceColors.length];
