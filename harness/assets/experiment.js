// The experiment: a control for every field of a scenario, made from the server's table of fields, and the address that
// holds what differs from the defaults. Whether a value is allowed is for the server to say.

import { byId, h, label, setText } from './dom.js';

const GROUPS = [
  ['load', 'Load', ['request_interval_s', 'invocation_s']],
  ['worker', 'Workers', ['initial_workers', 'slots_per_worker', 'startup_s', 'fail_worker_1', 'ready_only_routing']],
  ['stop', 'Stop', ['signal_at_s', 'grace_period_s', 'on_sigterm', 'handler_installed', 'boot_replacement']],
  ['platform', 'Platform', ['entrypoint', 'expected_effect', 'pid_namespace']],
  ['gate', 'Gate', ['rejection_allowance_percent']],
  ['texts', 'Name and text', ['name', 'title', 'why']],
];
const TEXTS = ['name', 'title', 'why'];
/** What an experiment is called that was given no name. */
const UNNAMED = { name: 'my-experiment', title: 'My experiment' };
const LIST = 'list';
/** What else an address can hold. */
const NO_FIELDS = ['run', 'at'];
/** How long typing may pause before it counts as an edit, in milliseconds. */
const TYPING_MS = 120;

/** The form. `edited(scenario)` is called with the whole scenario after every change. */
export class Experiment {
  constructor({ edited }) {
    this.edited = edited;
    this.form = byId('experiment');
    this.preset = byId('preset');
    this.controls = new Map();
    this.form.addEventListener('submit', (event) => event.preventDefault());
    this.form.addEventListener('input', (event) => this.input(event));
    this.form.addEventListener('change', (event) => this.changed(event));
    byId('opening-settings').addEventListener('click', () => this.choose(this.table.opening));
    byId('common-baseline').addEventListener('click', () => this.choose(this.table.baseline));
  }

  /** Builds the controls from what `/api/fields` tells. */
  build(table) {
    this.table = table;
    this.fields = new Map(table.fields.map((field) => [field.name, field]));
    const placed = new Set(GROUPS.flatMap(([, , names]) => names));
    const others = table.fields.map((field) => field.name).filter((name) => !placed.has(name));
    const groups = others.length > 0 ? [...GROUPS, ['other', 'Other', others]] : GROUPS;
    const room = matchMedia('(min-width: 60rem)');
    const roomy = room.matches;
    const settings = byId('settings');
    settings.open = roomy;
    room.addEventListener('change', () => {
      settings.open ||= room.matches;
    });
    byId('fields').replaceChildren(...groups.map(([id, title, names]) => {
      const rows = names.filter((name) => this.fields.has(name)).map((name) => this.control(this.fields.get(name)));
      return h('details', { class: 'group', id: `group-${id}`, open: roomy && id !== 'texts' }, h('summary', {}, h('h3', {}, title)), h('div', { class: 'group-fields', role: 'group', 'aria-label': title }, rows));
    }));
    this.preset.append(...table.presets.map((preset) => h('option', { value: preset.name }, preset.title)));
  }

  control(field) {
    const id = `field-${field.name}`;
    const described = `${id}-help ${id}-problem`;
    const common = { id, name: field.name, 'data-field': field.name, 'aria-describedby': described };
    const parts = { field };
    const unit = field.unit ? h('span', { class: 'unit', 'aria-hidden': 'true' }, field.unit) : null;
    const unitWords = field.unit ? h('span', { class: 'unseen' }, ` in ${field.unit === 's' ? 'seconds' : 'percent'}`) : null;
    const ranged = field.kind === 'whole' || field.kind === 'seconds';
    const range = ranged ? h('span', { class: 'range', id: `${id}-range` }, `${field.min} to ${field.max}${field.unit ? ` ${field.unit}` : ''}`) : null;
    if (range) common['aria-describedby'] = `${id}-range ${described}`;
    const title = h('label', { for: id }, label(field.name, field.unit), unitWords);
    let body;
    if (field.kind === 'flag') {
      parts.input = h('input', { type: 'checkbox', ...common });
      body = h('div', { class: 'check' }, parts.input, title);
    } else if (ranged) {
      parts.input = h('input', { type: 'number', min: field.min, max: field.max, step: field.step, inputmode: 'decimal', ...common });
      body = h('div', { class: 'line' }, h('div', { class: 'named' }, title, range), h('span', { class: 'value' }, parts.input, unit));
    } else if (field.kind === 'choice' || field.kind === 'effect') {
      const options = field.choices.map((choice) => h('option', { value: choice }, choice));
      if (field.kind === 'effect') options.unshift(h('option', { value: '' }, 'none'));
      parts.input = h('select', common, options);
      body = h('div', { class: 'line' }, title, parts.input);
    } else if (field.kind === 'entrypoint') {
      parts.input = h('select', common, field.choices.map((choice) => h('option', { value: choice }, choice)), h('option', { value: LIST }, 'a list of words'));
      parts.list = h('textarea', { id: `${id}-list`, rows: 2, spellcheck: 'false', 'data-field': field.name, 'aria-label': 'Entrypoint as a JSON list', 'aria-describedby': described });
      parts.listRow = h('div', { class: 'entrypoint-list', hidden: true }, parts.list,
        this.table.allow_commands ? null : h('p', { class: 'help' }, 'What should happen is shown. To run a list for real this server must be started with ', h('code', {}, '--allow-commands'), '.'));
      body = h('div', {}, h('div', { class: 'line' }, title, parts.input), parts.listRow);
    } else {
      parts.input = field.name === 'why' ? h('textarea', { rows: 4, ...common }) : h('input', { type: 'text', spellcheck: String(field.name !== 'name'), ...common });
      body = h('div', { class: 'stack' }, title, parts.input);
    }
    parts.problem = h('p', { class: 'problem', id: `${id}-problem`, hidden: true });
    const help = h('p', { class: 'help', id: `${id}-help` }, field.meaning);
    this.controls.set(field.name, parts);
    return h('div', { class: `field kind-${field.kind}` }, body, help, parts.problem);
  }

  /** The value of a control as JSON; what is no number is passed on as it is, for the server to refuse. */
  value({ field, input, list }) {
    if (field.kind === 'flag') return input.checked;
    if (field.kind === 'whole' || field.kind === 'seconds') {
      return input.value === '' || Number.isNaN(Number(input.value)) ? input.value : Number(input.value);
    }
    if (field.kind === 'entrypoint' && input.value === LIST) {
      try {
        return JSON.parse(list.value);
      } catch {
        return list.value;
      }
    }
    if ((field.kind === 'effect' || field.kind === 'text') && input.value === '') return undefined;
    return input.value;
  }

  /** The scenario that the controls show. */
  scenario() {
    const scenario = {};
    for (const [name, parts] of this.controls) {
      const value = this.value(parts);
      if (value !== undefined) scenario[name] = value;
    }
    return scenario;
  }

  /**
   * What is wrong by the table of fields alone: numbers that are none, out of range or off the grid, a list that is none, and a
   * list of which nobody says what SIGTERM does behind it.
   */
  ruledOut() {
    const wrong = [];
    for (const [name, parts] of this.controls) {
      const { field, input } = parts;
      if (field.kind === 'entrypoint' && input.value === LIST && !Array.isArray(this.value(parts))) {
        wrong.push({ field: name, message: `This is not a JSON list: ${field.allowed}` });
      }
      if (field.kind === 'effect' && input.value === '' && Array.isArray(this.scenario().entrypoint)) {
        wrong.push({ field: name, message: `Say what SIGTERM does behind this entrypoint: ${field.allowed}` });
      }
      if (input.type !== 'number') continue;
      const { validity, value } = input;
      const what = validity.badInput || value === '' ? 'This is not a number' : validity.rangeUnderflow || validity.rangeOverflow ? `${value} is out of range` : validity.stepMismatch ? `${value} is off the grid` : null;
      if (what) wrong.push({ field: name, message: `${what}: ${field.allowed}` });
    }
    return wrong;
  }

  /** Shows a scenario in the controls. */
  show(scenario) {
    // What was being typed is overwritten.
    clearTimeout(this.typing);
    this.typed = null;
    for (const [name, { field, input, list, listRow }] of this.controls) {
      const value = scenario[name] ?? field.default ?? '';
      if (field.kind === 'flag') {
        input.checked = value === true || value === 'true';
      } else if (field.kind === 'entrypoint') {
        const known = field.choices.includes(value);
        input.value = known ? value : LIST;
        list.value = known ? '["tini", "--", "{worker}"]' : typeof value === 'string' ? value : JSON.stringify(value);
        listRow.hidden = known;
      } else {
        input.value = String(value);
      }
    }
    this.like(scenario);
  }

  /** Chooses the preset in the list that a scenario is. */
  like(scenario) {
    this.preset.value = this.table.presets.find((preset) => preset.name === scenario.name && same(preset.scenario, scenario, this.fields))?.name ?? '';
  }

  /** Takes a preset by its name. */
  choose(name) {
    const preset = this.table.presets.find((one) => one.name === name);
    if (!preset) return;
    this.show(preset.scenario);
    this.edited(this.scenario(), { chosen: true });
  }

  input(event) {
    const name = event.target.dataset.field;
    if (!name) return;
    const { field, input, listRow } = this.controls.get(name);
    if (field.kind === 'entrypoint') listRow.hidden = input.value !== LIST;
    clearTimeout(this.typing);
    const typed = event.target.matches('textarea, input[type=text]');
    this.typed = typed ? name : null;
    if (typed) this.typing = setTimeout(() => this.flush(), TYPING_MS);
    else this.edit(name);
  }

  /** Takes what is being typed as an edit. */
  flush() {
    const name = this.typed;
    this.typed = null;
    clearTimeout(this.typing);
    if (name) this.edit(name);
  }

  changed(event) {
    if (event.target === this.preset) this.choose(this.preset.value);
  }

  edit(name) {
    if (!TEXTS.includes(name)) this.rename();
    const scenario = this.scenario();
    this.like(scenario);
    this.edited(scenario);
  }

  /** A preset that was changed is no longer what its name and its text say; one that is changed back is again. */
  rename() {
    const now = this.scenario();
    const named = this.table.presets.find((preset) => preset.name === now.name);
    if (named && !same(named.scenario, now, this.fields)) {
      this.origin = named.name;
      this.write({ name: UNNAMED.name, title: derived(named), why: '' });
      return;
    }
    const origin = this.table.presets.find((preset) => preset.name === this.origin);
    const untouched = origin && now.name === UNNAMED.name && now.title === derived(origin);
    if (untouched && same(origin.scenario, now, this.fields)) this.write(origin.scenario);
  }

  write(texts) {
    for (const name of TEXTS) this.controls.get(name).input.value = texts[name] ?? '';
  }

  /** Shows what is wrong beside the controls; an empty list clears that. */
  problems(list) {
    if (list.length === 0 && !this.troubled) return;
    this.troubled = list.length > 0;
    const loose = [];
    const said = new Map();
    for (const problem of list) {
      if (this.controls.has(problem.field)) said.set(problem.field, [...(said.get(problem.field) ?? []), problem.message.replace(`${problem.field}: `, '')]);
      else loose.push(problem.message);
    }
    for (const [name, { input, list: text, problem }] of this.controls) {
      const words = said.get(name)?.join(' ') ?? '';
      problem.hidden = words === '';
      setText(problem, words);
      for (const control of [input, text].filter(Boolean)) {
        if (words) control.setAttribute('aria-invalid', 'true');
        else control.removeAttribute('aria-invalid');
      }
      if (words) [problem.closest('.group'), byId('settings')].forEach((details) => (details.open = true));
    }
    const all = byId('experiment-problem');
    all.hidden = loose.length === 0;
    setText(all, loose.join(' '));
  }

  /** The part of the address after `#` for a scenario: fields that are not at their default. */
  address(scenario) {
    const preset = this.table.presets.find((one) => one.name === scenario.name);
    const parts = new URLSearchParams();
    for (const [name, { field }] of this.controls) {
      const value = scenario[name];
      const usual = preset && name !== 'name' && TEXTS.includes(name) ? preset.scenario[name] : (UNNAMED[name] ?? field.default);
      if (value === undefined || value === null || equal(value, usual)) continue;
      parts.set(name, typeof value === 'object' ? JSON.stringify(value) : String(value));
    }
    // An empty address is that of the opening settings.
    if (parts.size === 0) parts.set('name', scenario.name);
    return parts.toString();
  }

  /** What an address holds that no control can show, as problems. */
  misread(parts) {
    const wrong = [];
    for (const [name, text] of parts) {
      if (NO_FIELDS.includes(name)) continue;
      const field = this.fields.get(name);
      if (!field) wrong.push({ field: null, message: `The address holds ${JSON.stringify(name)}, which is no field of a scenario.` });
      else if (!readable(field, text)) wrong.push({ field: name, message: `The address has ${JSON.stringify(text)} here. Allowed is: ${field.allowed}` });
    }
    return wrong;
  }

  /** The scenario that the part of an address after `#` holds, or null where it holds none. */
  fromAddress(parts) {
    const given = [...parts].filter(([name, text]) => this.controls.has(name) && readable(this.fields.get(name), text));
    if (given.length === 0) return null;
    const preset = this.table.presets.find((one) => one.name === parts.get('name'));
    const scenario = { ...UNNAMED };
    if (preset) Object.assign(scenario, { title: preset.scenario.title, why: preset.scenario.why });
    for (const [name, text] of given) {
      const { field } = this.controls.get(name);
      scenario[name] = field.kind === 'entrypoint' && text.startsWith('[') ? parsed(text) : text;
    }
    return scenario;
  }
}

/** Whether a control can show what an address says of its field. Whether that is allowed is another question. */
function readable(field, text) {
  switch (field.kind) {
    case 'flag':
      return text === 'true' || text === 'false';
    case 'whole':
    case 'seconds':
      return text.trim() !== '' && !Number.isNaN(Number(text));
    case 'choice':
    case 'effect':
      return field.choices.includes(text);
    case 'entrypoint':
      return field.choices.includes(text) || text.startsWith('[');
    default:
      return true;
  }
}

const derived = (preset) => `${UNNAMED.title}, from ${preset.name}`;

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Whether two scenarios are the same experiment, whatever they are called. */
function same(a, b, fields) {
  for (const field of fields.values()) {
    if (TEXTS.includes(field.name)) continue;
    if (!equal(a[field.name] ?? field.default, b[field.name] ?? field.default)) return false;
  }
  return true;
}
