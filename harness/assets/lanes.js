// The worker lanes as pictures. Everything is drawn once for a view; what moves while time passes is a curtain over what
// has not happened yet, so that no shape is drawn again from frame to frame.

import { END, h, label, percent, s, seconds } from './dom.js';

const LIFE_HEIGHT = 26;
const SLOT_HEIGHT = 18;
const BAR_HEIGHT = 14;
/** How many slots of a worker get a row of their own though they are never used. */
const EMPTY_SLOTS_SHOWN = 8;
/** With more workers than this only slots that were used get a row. */
const MANY_WORKERS = 8;
/** Shorter invocations than this, in ticks, have no room for their number. */
const NUMBER_FITS_TICKS = 12;
/** How near to being seen a lane is drawn, in pixels. */
const NEAR_PX = 400;

const MARKS = {
  worker_ready: ['ready', 'ready'],
  worker_failed: ['failed', 'boot failed'],
  sigterm_sent: ['sigterm', 'SIGTERM'],
  sigterm_skipped: ['sigterm-skipped', 'SIGTERM skipped: already ended'],
  readiness_withdrawn: ['withdrawn', 'readiness withdrawn'],
  sigterm_ignored: ['ignored', 'SIGTERM ignored'],
  sigkill_sent: ['sigkill', 'SIGKILL'],
  worker_exited: ['exited', 'ended'],
  worker_orphaned: ['orphaned', 'orphaned'],
  orphan_exited: ['exited', 'orphan ended'],
};
/** Of marks of one tick these give way to the others: they stand beside them. */
const GIVE_WAY = new Set(['readiness_withdrawn', 'sigterm_ignored', 'worker_exited', 'worker_orphaned']);

const number = (id) => id.slice(id.lastIndexOf('-') + 1);

/** The view of the lanes box. `choose(worker, request)` is called when one is clicked. */
export class Lanes {
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.curtain = h('div', { class: 'curtain' });
    this.playhead = h('div', { class: 'playhead' });
    this.cover = h('div', { class: 'track-cover', 'aria-hidden': 'true' }, this.curtain, this.playhead);
    this.sheet = h('div', { class: 'sheet' });
    this.axis = axis();
    this.box.replaceChildren(this.sheet);
    this.sheet.addEventListener('click', (event) => {
      const lane = event.target.closest?.('.lane');
      if (!lane) return;
      const bar = event.target.closest('[data-request]');
      this.choose(lane.dataset.worker, bar?.dataset.request ?? null);
    });
    this.lanes = new Map();
    this.width = 0;
    this.box.addEventListener('scroll', () => {
      this.scrolled = this.box.scrollTop;
    }, { passive: true });
    new ResizeObserver(() => this.measure()).observe(this.sheet);
    this.sight = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) this.paint(target);
    }, { root: this.box, rootMargin: `${NEAR_PX}px 0px` });
  }

  /** Draws the picture of a lane that comes into sight. Until then it is an empty one of the same height. */
  paint(row) {
    this.sight.unobserve(row);
    const fill = this.unpainted.get(row);
    if (!fill) return;
    this.unpainted.delete(row);
    fill();
    if (this.selected?.request) this.markRequest(row, this.selected.request);
  }

  /**
   * Draws `main`, a view, and under it `ghost`, another one, as outlines. `differences` have `worker`, and the ticks at
   * which something was expected and observed.
   */
  draw(main, ghost, slotsPerWorker, differences) {
    const workers = new Map();
    for (const lane of ghost?.lanes ?? []) workers.set(lane.worker, { ghost: lane });
    for (const lane of main.lanes) workers.set(lane.worker, { ...workers.get(lane.worker), main: lane });
    const order = [...workers.keys()].sort((a, b) => number(a) - number(b));
    const graces = [ghost?.grace, main.grace].filter(Boolean);
    const held = this.sheet.contains(document.activeElement);
    const before = this.lanes;
    this.lanes = new Map();
    this.sight.disconnect();
    this.unpainted = new Map();
    const emptyShown = order.length > MANY_WORKERS ? 1 : EMPTY_SLOTS_SHOWN;
    const top = this.scrolled ?? 0;
    const bottom = top + (this.height ?? 0);
    let down = 0;
    const rows = order.map((worker) => {
      const { main: lane, ghost: shade } = workers.get(worker);
      const grace = graces.filter((band) => band.worker === worker).at(-1);
      const own = differences.filter((difference) => difference.worker === worker);
      const row = this.lane(worker, lane, shade, grace, slotsPerWorker, emptyShown, main.known_until_tick, own, before.get(worker));
      this.lanes.set(worker, row);
      // What is in sight is drawn at once, the rest when it comes into sight.
      const height = laneHeight(parseInt(row.dataset.rows, 10));
      const inSight = down + height > top - NEAR_PX && down < bottom + NEAR_PX;
      down += height;
      if (inSight) this.paint(row);
      return row;
    });
    const rejections = rejectionRow(main, ghost, differences);
    this.arrange([this.axis, ...rows, rejections, this.cover]);
    for (const row of this.unpainted.keys()) this.sight.observe(row);
    this.select(this.selected?.worker, this.selected?.request);
    // Where the lane of whoever is there with the keyboard is gone, the chosen one is next.
    if (held && !this.sheet.contains(document.activeElement)) this.sheet.querySelector('.lane-name[tabindex="0"]')?.focus({ preventScroll: true });
  }

  /** Puts the parts of the sheet in order. What is in its place stays in the document, and keeps the focus. */
  arrange(parts) {
    parts.forEach((part, place) => {
      if (this.sheet.children[place] !== part) this.sheet.insertBefore(part, this.sheet.children[place] ?? null);
    });
    while (this.sheet.children.length > parts.length) this.sheet.lastChild.remove();
  }

  /** The lane of a worker; `before` is the one that was drawn, which is changed where it has as many rows. */
  lane(worker, lane, shade, grace, slotsPerWorker, emptyShown, knownUntil, differences, before) {
    const used = Math.max(0, ...[lane, shade].flatMap((one) => (one?.slots ?? []).map((slot) => slot.slot)));
    const shown = Math.max(used, Math.min(slotsPerWorker, emptyShown));
    const height = laneHeight(shown);
    const picture = s('svg', { class: 'track', width: '100%', height, role: 'img', 'aria-label': words(worker, lane ?? shade) });
    const row = before?.dataset.rows === `${shown} of ${slotsPerWorker}` ? before : laneRow(worker, shown, slotsPerWorker);
    row.lastChild.replaceWith(picture);
    this.unpainted.set(row, () => picture.append(...shapes(lane, shade, grace, shown, knownUntil, differences)));
    return row;
  }

  /** Marks what is chosen. */
  select(worker, request) {
    for (const [name, row] of this.lanes) {
      row.classList.toggle('chosen', name === worker);
      const button = row.querySelector('.lane-name');
      button.setAttribute('aria-pressed', String(name === worker));
      // One stop for the tab key, however many workers there are: the arrow keys lead to the others.
      button.tabIndex = name === worker ? 0 : -1;
    }
    for (const bar of this.sheet.querySelectorAll('.bar.chosen')) bar.classList.remove('chosen');
    if (request) this.markRequest(this.sheet, request);
    this.selected = { worker, request };
  }

  markRequest(within, request) {
    for (const bar of within.querySelectorAll(`[data-request="${CSS.escape(request)}"]`)) bar.classList.add('chosen');
  }

  /** Scrolls a worker's lane into sight, up and down only. */
  reveal(worker) {
    const row = this.lanes.get(worker);
    if (!row) return;
    const top = row.offsetTop - 36;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    const below = row.offsetTop + Math.min(row.offsetHeight, this.box.clientHeight - 40) - this.box.clientHeight;
    if (below > this.box.scrollTop) this.box.scrollTop = below;
    if (this.sheet.contains(document.activeElement)) row.querySelector('.lane-name').focus({ preventScroll: true });
  }

  /** Called after the browser has laid the sheet out anew: to ask for sizes at any other time costs a layout. */
  measure() {
    this.width = this.cover.clientWidth - parseFloat(getComputedStyle(this.sheet).paddingRight);
    this.free = this.box.clientWidth - this.cover.offsetLeft;
    this.height = this.box.clientHeight;
    this.scrolled = this.box.scrollTop;
    this.place(this.at ?? 0);
  }

  /** Moves the playhead to a place in ticks, which need not be a whole one. */
  place(tick) {
    this.at = tick;
    const x = (tick / END) * this.width;
    this.curtain.style.transform = `translateX(${x}px)`;
    this.playhead.style.transform = `translateX(${x}px)`;
    // Where the lanes are wider than their box the playhead is kept in sight.
    const { free } = this;
    if (this.width > free + 16) {
      const left = this.box.scrollLeft;
      if (x < left + 8 || x > left + free - 24) this.box.scrollLeft = Math.max(x - free * 0.35, 0);
    }
  }
}

/** A lane with its name and no picture yet. */
function laneRow(worker, shown, slotsPerWorker) {
  const name = h('button', { type: 'button', class: 'lane-name', 'data-worker': worker, 'aria-pressed': 'false', tabindex: '-1' }, worker);
  const slots = Array.from({ length: shown }, (_, index) => h('span', {}, `slot ${index + 1}`));
  if (shown < slotsPerWorker) slots[shown - 1].textContent += ` of ${slotsPerWorker}`;
  const head = h('div', { class: 'lane-head' }, name, h('div', { class: 'slot-names', 'aria-hidden': 'true' }, slots));
  return h('div', { class: 'lane', 'data-worker': worker, 'data-rows': `${shown} of ${slotsPerWorker}` }, head, s('svg', {}));
}

/** All shapes of one lane. */
function shapes(lane, shade, grace, rows, knownUntil, differences) {
  const height = laneHeight(rows);
  const drawn = gridLines(height);
  if (grace) drawn.push(...graceBand(grace, height));
  for (let slot = 1; slot <= rows; slot += 1) {
    const y = LIFE_HEIGHT + (slot - 1) * SLOT_HEIGHT;
    drawn.push(s('line', { class: 'slot-line', x1: 0, x2: '100%', y1: y + SLOT_HEIGHT - 1.5, y2: y + SLOT_HEIGHT - 1.5 }));
  }
  for (const phase of lane?.phases ?? []) drawn.push(life(phase, knownUntil));
  for (const slot of lane?.slots ?? []) {
    for (const invocation of slot.invocations) drawn.push(...bar(invocation, rowOf(slot.slot), knownUntil));
  }
  if (shade) drawn.push(...outlines(shade, lane));
  // Marks last: where one invocation follows the other at once, the end of the first stays visible.
  for (const slot of lane?.slots ?? []) {
    for (const invocation of slot.invocations) drawn.push(ending(invocation, rowOf(slot.slot), knownUntil));
  }
  const taken = new Set((lane?.marks ?? []).filter((mark) => !GIVE_WAY.has(mark.event)).map((mark) => mark.tick));
  // That SIGKILL ends a worker needs no mark of its own.
  const killed = new Set((lane?.marks ?? []).filter((mark) => mark.event === 'sigkill_sent').map((mark) => mark.tick));
  for (const mark of lane?.marks ?? []) {
    const known = MARKS[mark.event];
    if (!known || (mark.event === 'worker_exited' && killed.has(mark.tick))) continue;
    const beside = GIVE_WAY.has(mark.event) && taken.has(mark.tick) ? 13 : 0;
    drawn.push(use(known[0], mark.tick, beside ? 6 : LIFE_HEIGHT / 2, `${seconds(mark.tick)}: ${mark.text}`, beside));
  }
  drawn.push(...differences.flatMap((difference) => differs(difference, lane ?? shade)));
  return drawn;
}

const laneHeight = (rows) => LIFE_HEIGHT + rows * SLOT_HEIGHT + 4;
const rowOf = (slot) => LIFE_HEIGHT + (slot - 1) * SLOT_HEIGHT;

function span(from, until, more) {
  return { x: percent(from), width: percent(Math.min(until, END) - from), ...more };
}

function axis() {
  const picture = s('svg', { class: 'axis-track', width: '100%', height: 24, 'aria-hidden': 'true' });
  for (let at = 0; at <= 60; at += 5) {
    const anchor = at === 0 ? 'start' : at === 60 ? 'end' : 'middle';
    if (at % 10 === 0) picture.append(s('text', { x: percent(at * 10), y: 14, 'text-anchor': anchor }, at === 60 ? '60 s' : String(at)));
    picture.append(s('line', { class: 'axis-tick', x1: percent(at * 10), x2: percent(at * 10), y1: at % 10 === 0 ? 18 : 20, y2: 24 }));
  }
  return h('div', { class: 'axis' }, h('div', { class: 'axis-head' }), picture);
}

function gridLines(height) {
  return [10, 20, 30, 40, 50].map((at) => s('line', { class: 'grid-line', x1: percent(at * 10), x2: percent(at * 10), y1: 0, y2: height }));
}

function graceBand(grace, height) {
  const length = grace.deadline_tick - grace.from_tick;
  const title = `grace period: ${seconds(length)}, deadline at ${seconds(grace.deadline_tick)}`;
  const line = s('line', { class: 'deadline', x1: percent(grace.deadline_tick), x2: percent(grace.deadline_tick), y1: 0, y2: height });
  if (length === 0) return [line];
  return [s('rect', span(grace.from_tick, grace.deadline_tick, { class: 'grace', y: 0, height }), s('title', {}, title)), line];
}

function life(phase, knownUntil) {
  const until = Math.min(phase.until_tick, knownUntil);
  const kind = phase.alive ? phase.state : 'gone';
  const tall = { starting: 8, ready: 6, draining: 6, orphaned: 6 }[kind] ?? 1;
  const title = `${phase.state} from ${seconds(phase.from_tick)} to ${seconds(until)}`;
  return s('rect', span(phase.from_tick, Math.max(until, phase.from_tick), { class: `life ${kind}`, y: LIFE_HEIGHT / 2 - tall / 2, height: tall }), s('title', {}, title));
}

function bar(invocation, y, knownUntil) {
  const until = Math.min(invocation.until_tick, knownUntil);
  const group = s('g', { class: `bar ${invocation.end}`, 'data-request': invocation.request });
  group.append(s('title', {}, told(invocation)));
  const stages = invocation.stages.length > 0 ? invocation.stages : [{ stage: 'prepare', from_tick: invocation.from_tick, until_tick: until }];
  for (const stage of stages) {
    const end = Math.min(stage.until_tick, until);
    group.append(s('rect', span(stage.from_tick, Math.max(end, stage.from_tick), { class: `stage ${stage.stage}`, y: y + 1, height: BAR_HEIGHT })));
  }
  const length = Math.max(until - invocation.from_tick, 0);
  group.append(s('rect', span(invocation.from_tick, invocation.from_tick + length, { class: 'frame', y: y + 1, height: BAR_HEIGHT })));
  if (length >= NUMBER_FITS_TICKS) {
    group.append(s('svg', { x: percent(invocation.from_tick), y: y + 1, overflow: 'visible' }, s('text', { class: 'request-number', x: 8, y: 11 }, number(invocation.request))));
  }
  return [group];
}

function ending(invocation, y, knownUntil) {
  const until = Math.min(invocation.until_tick, knownUntil);
  const name = invocation.end === 'committed' ? 'committed' : invocation.end === 'killed' ? 'killed' : 'running';
  return use(name, until, y + 1 + BAR_HEIGHT / 2, told(invocation));
}

function use(name, tick, y, title, beside = 0) {
  // A nested picture takes its place in percent, so that nothing is drawn again when the width changes.
  return s('svg', { x: percent(tick), y, overflow: 'visible' }, s('g', beside ? { transform: `translate(${beside} 0)` } : {}, s('title', {}, title), s('use', { href: `#mark-${name}` })));
}

/** What was expected, as outlines: faint where the same was observed. */
function outlines(expected, observed) {
  const key = (...parts) => parts.join(' ');
  const life = (phase) => key(phase.state, phase.from_tick, phase.until_tick);
  const held = (slot, one) => key(slot.slot, one.request, one.from_tick, one.until_tick);
  const seen = new Set((observed?.phases ?? []).map(life));
  for (const slot of observed?.slots ?? []) for (const one of slot.invocations) seen.add(held(slot, one));
  const outline = (name) => (seen.has(name) ? 'outline same' : 'outline');
  const drawn = [];
  for (const phase of expected.phases) {
    if (phase.alive) drawn.push(s('rect', span(phase.from_tick, phase.until_tick, { class: outline(life(phase)), y: 4, height: LIFE_HEIGHT - 8 })));
  }
  for (const slot of expected.slots) {
    for (const one of slot.invocations) {
      drawn.push(s('rect', span(one.from_tick, one.until_tick, { class: outline(held(slot, one)), y: rowOf(slot.slot), height: BAR_HEIGHT + 2 })));
    }
  }
  return drawn;
}

function differs(difference, lane) {
  const slot = lane?.slots.find((one) => one.invocations.some((invocation) => invocation.request === difference.request));
  const y = slot ? rowOf(slot.slot) + 1 + BAR_HEIGHT / 2 : LIFE_HEIGHT / 2;
  const ticks = [difference.expected_tick, difference.observed_tick].filter((tick) => tick !== null && tick !== undefined);
  const drawn = [];
  if (ticks.length === 2 && ticks[0] !== ticks[1]) {
    const [from, until] = [Math.min(...ticks), Math.max(...ticks)];
    drawn.push(s('rect', span(from, until, { class: 'differs-span', y: y - 4, height: 8 })));
  }
  const at = ticks.at(-1) ?? 0;
  drawn.push(use('differs', at, y, difference.text, at > END - 20 ? -14 : 14));
  return drawn;
}

function rejectionRow(main, ghost, differences) {
  const picture = s('svg', { class: 'track', width: '100%', height: 22, role: 'img', 'aria-label': `${main.rejections.length} requests rejected` });
  const seen = new Set(main.rejections.map((one) => `${one.request} ${one.tick}`));
  for (const rejection of ghost?.rejections ?? []) {
    if (seen.has(`${rejection.request} ${rejection.tick}`)) continue;
    picture.append(s('svg', { x: percent(rejection.tick), y: 11, overflow: 'visible' }, s('circle', { class: 'outline', r: 5.5 })));
  }
  for (const rejection of main.rejections) {
    const title = `${seconds(rejection.tick)}: ${rejection.request} is rejected: ${rejection.reason}`;
    picture.append(s('svg', { x: percent(rejection.tick), y: 11, overflow: 'visible' }, s('path', { class: 'mark-line reject-line', d: 'M-3.5 0H3.5' }, s('title', {}, title))));
  }
  for (const difference of differences.filter((one) => !one.worker)) picture.append(...differs(difference, null).map((shape) => {
    if (shape.tagName === 'svg') shape.setAttribute('y', 11);
    else shape.setAttribute('y', 7);
    return shape;
  }));
  return h('div', { class: 'lane-plain' }, h('div', { class: 'lane-head plain' }, 'rejected'), picture);
}

/** An invocation in words. */
function told(invocation) {
  const from = `${invocation.request}: from ${seconds(invocation.from_tick)}`;
  if (invocation.end === 'committed') return `${from}, commits ${invocation.sum} at ${seconds(invocation.until_tick)}`;
  if (invocation.end === 'killed') return `${from}, killed at ${seconds(invocation.until_tick)}`;
  return `${from}, still running when the trace ends`;
}

function words(worker, lane) {
  if (!lane) return worker;
  const invocations = lane.slots.flatMap((slot) => slot.invocations);
  const ended = (end) => invocations.filter((invocation) => invocation.end === end).length;
  const marks = lane.marks.map((mark) => `${MARKS[mark.event]?.[1] ?? label(mark.event).toLowerCase()} at ${seconds(mark.tick)}`);
  return `${worker}: ${marks.join(', ')}. ${ended('committed')} committed, ${ended('killed')} killed, ${ended('running')} running.`;
}

/** The lanes as a table: what each worker did, and each slot of it. */
export function lanesTable(view) {
  const rows = view.lanes.flatMap((lane) => {
    const life = lane.marks.map((mark) => h('li', {}, `${seconds(mark.tick)}: ${mark.text}`));
    const slots = lane.slots.map((slot) => h('tr', {}, h('th', { scope: 'row' }, `slot ${slot.slot}`), h('td', {}, slot.invocations.map(told).join('; '))));
    return [h('tr', {}, h('th', { scope: 'row' }, lane.worker), h('td', {}, h('ul', {}, life))), ...slots];
  });
  if (view.rejections.length > 0) {
    const text = view.rejections.map((one) => `${one.request} at ${seconds(one.tick)} (${one.reason})`).join('; ');
    rows.push(h('tr', {}, h('th', { scope: 'row' }, 'rejected'), h('td', {}, text)));
  }
  return h('table', {}, h('caption', { class: 'unseen' }, 'What each worker and each of its slots did'), h('tbody', {}, rows));
}

/** What the shapes mean. */
export function legend() {
  const swatch = (draw) => s('svg', { width: 22, height: 16, 'aria-hidden': 'true' }, draw);
  const stage = (name) => swatch(s('g', {}, ['stage', 'frame'].map((kind) => s('rect', { class: `${kind} ${name}`, x: 1, y: 1, width: 20, height: 14 }))));
  const alive = (name, tall) => swatch(s('rect', { class: `life ${name}`, x: 0, y: 8 - tall / 2, width: 22, height: tall }));
  const mark = (name) => swatch(s('g', { transform: 'translate(11 8)' }, s('use', { href: `#mark-${name}` })));
  const item = (picture, text) => h('li', {}, picture, text);
  return [
    item(alive('starting', 8), 'boots'),
    item(alive('ready', 6), 'ready'),
    item(alive('draining', 6), 'drains'),
    item(alive('orphaned', 6), 'orphan'),
    item(stage('prepare'), 'prepare'),
    item(stage('model'), 'model'),
    item(stage('tool'), 'tool'),
    item(swatch(s('rect', { class: 'grace', x: 0, y: 0, width: 22, height: 16 })), 'grace period'),
    item(swatch(s('line', { class: 'deadline', x1: 11, x2: 11, y1: 0, y2: 16 })), 'deadline'),
    item(mark('ready'), 'ready'),
    item(mark('sigterm'), 'SIGTERM'),
    item(mark('withdrawn'), 'readiness withdrawn'),
    item(mark('ignored'), 'SIGTERM ignored'),
    item(mark('sigkill'), 'SIGKILL'),
    item(mark('exited'), 'ended'),
    item(mark('failed'), 'boot failed'),
    item(mark('orphaned'), 'orphaned'),
    item(mark('committed'), 'commit'),
    item(mark('killed'), 'killed'),
    item(mark('running'), 'still running'),
    item(swatch(s('path', { class: 'mark-line reject-line', d: 'M7.5 8H14.5' })), 'rejected'),
    item(swatch(s('rect', { class: 'outline', x: 1, y: 1, width: 20, height: 14 })), 'expected, with both'),
    item(mark('differs'), 'differs'),
  ];
}
