// Light and dark theme: the system's preference until the button changes it; paper is light.

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
  // The page's address may allow no storage; then the choice is forgotten.
  start() {
    try { theme.chosen = localStorage.getItem('tidepool-theme'); } catch (refused) { /* as above */ }
    const asked = new URLSearchParams(location.search).get('theme');
    if (asked === 'light' || asked === 'dark') theme.chosen = asked;
    theme.dark.addEventListener('change', theme.apply);
    // On paper charts have the width of the paper, not of the window.
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
  // Returns the current value of a colour such as "--m-loss". Canvases need it; SVG takes var().
  color: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),
};

// Each colour has one meaning on the whole page: kinds of chunks, ops and waits for them, tiers.
const kindLooks = [
  { name: 'param', color: '--m-param', kinds: ['param'] },
  { name: 'master', color: '--m-master', kinds: ['master', 'master_low'] },
  { name: 'momentum', color: '--m-momentum', kinds: ['momentum'] },
  { name: 'variance', color: '--m-variance', kinds: ['variance', 'variance_rows', 'variance_columns'] },
  { name: 'gradients', color: '--m-gradients', kinds: ['grad', 'grad_accum'] },
  { name: 'activations', color: '--m-activations', kinds: ['activation', 'activation_grad', 'kept', 'post_attention', 'middle', 'normed', 'routes', 'expert_sum', 'router_sums', 'branches', 'branches_grad', 'normed_grad', 'routes_grad', 'layer_inputs', 'layer_inputs_grad', 'shared_keys', 'shared_keys_grad'] },
  { name: 'workspace, batch', color: '--m-workspace', kinds: ['workspace', 'batch', 'scalars'] },
];
const kindLook = (kind) => kindLooks.find((look) => look.kinds.includes(kind)) || kindLooks[kindLooks.length - 1];

const opLooks = [
  { name: 'forward', color: '--m-forward', ops: ['forward'] },
  { name: 'backward', color: '--m-backward', ops: ['backward'] },
  { name: 'gradient, norm', color: '--m-gradient', ops: ['gradient', 'norm'] },
  { name: 'update', color: '--m-update', ops: ['update'] },
  { name: 'copy', color: '--m-copy', ops: ['copy'] },
  { name: 'read', color: '--m-read', ops: ['read'] },
  { name: 'write', color: '--m-write', ops: ['write'] },
  { name: 'between devices', color: '--m-between', ops: ['all_gather', 'reduce_scatter'] },
  { name: 'other', color: '--m-other', ops: [] },
];
const opLook = (op) => opLooks.find((look) => look.ops.includes(op)) || opLooks[opLooks.length - 1];
const runColors = ['--m-run-a', '--m-run-b'];
const tierColors = { host: '--m-host', disk: '--m-disk' };
const deviceColors = ['--m-device', '--m-device-1', '--m-device-2', '--m-device-3'];  // repeated for more devices, which rows distinguish
const placeColor = (place) => tierColors[place.tier] || deviceColors[place.device % deviceColors.length];
