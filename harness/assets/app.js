// The page as a whole: what is shown (an expected trace, a run, or both), the time, and what is chosen. It asks the server
// what should happen, hands the answer to the parts that draw it, and moves all of them when time moves.

import { END, ask, byId, h, seconds, setText } from './dom.js';
import { expect, inAddress, keep, leave, turnTo, writeNow } from './address.js';
import { Player } from './player.js';
import { Experiment } from './experiment.js';
import { listenForKeys } from './keys.js';
import { Lanes, lanesTable, legend } from './lanes.js';
import { Decisions, Inspector, Outcome, Store } from './panels.js';
import { drawEvidence } from './evidence.js';
import { Runs } from './runs.js';

/** What is shown. `run` is the document of a run of the shown scenario, also while it goes on, or null. */
const shown = { model: null, run: null, source: 'expected', worker: 'worker-1', request: null };

const lanes = new Lanes(byId('lanes'), choose);
const outcome = new Outcome();
const store = new Store();
const decisions = new Decisions();
const inspector = new Inspector(choose);
const player = new Player({ moved, drawn: (place) => lanes.place(place) });
const experiment = new Experiment({ edited });
const runs = new Runs({ turn, experiment: asEdited, shows: (model) => shown.model === model, started, live, lost, finished, unknown: () => player.leave(), replay });

/** The trace that the panels tell of: what happened where that is to be seen, else what should. */
function trace() {
  const observed = shown.run?.observed;
  return shown.source !== 'expected' && observed ? observed : expectedTrace();
}

const expectedTrace = () => shown.run?.expected ?? shown.model;

/** Draws everything anew, at the time that it is. */
function draw() {
  if (!shown.model) return;
  const { scenario } = shown.model;
  const observed = shown.run?.observed ?? null;
  for (const name of ['observed', 'both']) byId(`source-${name}`).disabled = !observed;
  if (!observed) shown.source = 'expected';
  byId(`source-${shown.source}`).checked = true;
  const { view, outcome: figures } = trace();
  const differences = shown.source === 'expected' ? [] : (shown.run?.differences ?? []).map(difference);

  lanes.draw(view, shown.source === 'both' ? expectedTrace().view : null, scenario.slots_per_worker, differences);
  drawDifferences(differences);
  drawWords();
  outcome.draw(view, figures, scenario);
  store.draw(view);
  decisions.draw(view, notes(view, differences));
  const names = inspector.draw(view, shown.source === 'expected' ? new Map() : processes(), shown.run?.state === 'running' ? END : view.known_until_tick);
  if (!names.includes(shown.worker)) [shown.worker, shown.request] = [names[0] ?? null, null];
  inspector.choose(shown.worker, shown.request);
  lanes.select(shown.worker, shown.request);
  const evidence = shown.source === 'expected' ? null : shown.run?.evidence;
  drawEvidence(evidence ?? null, view.grace?.worker ?? 'worker-1');
  seek(player.tick);
  lanes.place(player.place);
}

function seek(tick) {
  outcome.seek(tick);
  store.seek(tick);
  decisions.seek(tick);
  inspector.seek(tick);
}

let before = 0;

/** Time moved. */
function moved(tick, why) {
  if (!shown.model) return;
  // Who moves in time looks for what is latest there.
  if (why === 'step' || why === 'drag' || why === 'restart') decisions.toLatest();
  seek(tick);
  // Of a run that goes on, what is decided at this tick may only become known in a moment.
  const told = why === 'live' ? Math.min(tick, shown.run.observed.view.known_until_tick) : tick;
  if ((why === 'play' || why === 'step' || why === 'live') && told > before) decisions.announce(before, told);
  else if (told < before) decisions.hush();
  before = told;
}

/** A worker, or an invocation of it, is chosen. */
function choose(worker, request) {
  [shown.worker, shown.request] = [worker, request];
  inspector.choose(worker, request);
  inspector.seek(player.tick);
  lanes.select(worker, request);
}

function chooseNext(by) {
  const names = trace().view.lanes.map((lane) => lane.worker);
  if (names.length === 0) return;
  const at = names.indexOf(shown.worker) + by;
  choose(names[Math.min(Math.max(at, 0), names.length - 1)], null);
  lanes.reveal(shown.worker);
}

function drawWords() {
  const words = byId('lanes-words');
  byId('lanes-table').replaceChildren(...(words.open && shown.model ? [lanesTable(trace().view)] : []));
}

/** One difference as the parts of the page take it. */
function difference(one) {
  const event = one.observed ?? one.expected;
  return {
    text: one.text,
    worker: event.worker ?? null,
    request: event.request ?? null,
    expected_tick: one.expected?.tick ?? null,
    observed_tick: one.observed?.tick ?? null,
    event: one.observed?.event ?? null,
  };
}

function drawDifferences(differences) {
  byId('differences').hidden = differences.length === 0;
  byId('difference-list').replaceChildren(...differences.map((one) => {
    const tick = Math.min(...[one.expected_tick, one.observed_tick].filter((at) => at !== null));
    const go = () => {
      player.go(tick);
      if (one.worker) choose(one.worker, one.request);
    };
    return h('li', {}, h('button', { type: 'button', onclick: go }, one.text));
  }));
}

/** What to say of decisions that are not as expected, by their place in the list. */
function notes(view, differences) {
  const said = new Map();
  const key = (tick, event, worker, request) => [tick, event, worker ?? '', request ?? ''].join(' ');
  const wrong = new Map(differences.filter((one) => one.event).map((one) => [key(one.observed_tick, one.event, one.worker, one.request), one]));
  view.decisions.forEach((decision, index) => {
    const one = wrong.get(key(decision.tick, decision.event, decision.worker, decision.request));
    if (one) said.set(index, one.expected_tick === null ? 'not expected' : one.expected_tick === one.observed_tick ? 'expected otherwise' : `expected at ${seconds(one.expected_tick)}`);
  });
  return said;
}

/** The process of each worker, as the run's events and its evidence tell of it. */
function processes() {
  const known = new Map();
  const { observed, evidence } = shown.run ?? {};
  for (const event of observed?.events ?? []) {
    if (event.worker && event.pid && event.event !== 'request_rejected') known.set(event.worker, { pid: event.pid });
  }
  const snapshot = evidence?.before ?? evidence?.after ?? evidence?.at_end;
  const process = snapshot?.processes.find((one) => one.pid === evidence.worker_pid);
  const worker = observed?.view.grace?.worker;
  if (process && worker) known.set(worker, { pid: process.pid, namespace_pid: process.namespace_pid, sigterm: process.sigterm });
  return known;
}

// The experiment

let asked = 0;
let editing = Promise.resolve();

/** Something else is to be shown. What this gives tells whether nothing was asked for since: an answer may come too late. */
function turn() {
  asked += 1;
  const mine = asked;
  return () => mine === asked;
}

/** What should happen by the experiment as it was edited last, or null where it holds what is not allowed. */
async function asEdited() {
  experiment.flush();
  let last;
  do {
    last = editing;
    await last;
  } while (last !== editing);
  return experiment.troubled ? null : shown.model;
}

/**
 * The experiment was edited: the server is asked what should happen now, and time starts anew. Where it can't be, what was
 * shown stays, and the answer is false. `chosen` tells that it is another experiment, and not a change of the one before.
 */
function edited(scenario, options = {}) {
  editing = take(scenario, { ...options, isLast: options.isLast ?? turn() });
  return editing;
}

async function take(scenario, { remember = true, chosen = false, isLast }) {
  const began = performance.now();
  let model;
  // What the table of fields rules out is not asked for: the answer is known, and at once.
  const ruledOut = experiment.ruledOut();
  if (ruledOut.length > 0) {
    experiment.problems(ruledOut);
    return false;
  }
  if (remember && !chosen) expect(experiment.address(scenario));
  try {
    model = await ask('/api/model', { scenario });
  } catch (error) {
    if (!isLast()) return true;
    expect(null);
    const problems = error.document?.problems;
    experiment.problems(problems ?? [{ field: null, message: error.message }]);
    return false;
  }
  if (!isLast()) return true;
  experiment.problems([]);
  show(model);
  // For whoever measures: the time from an edit until all of it is drawn anew.
  performance.clearMeasures('edit');
  performance.measure('edit', { start: began });
  if (!chosen) expect(null);
  if (remember && (chosen || inAddress().has('run'))) turnTo(experiment.address(model.scenario));
  else if (remember) keep(experiment.address(model.scenario));
  return true;
}

/** Shows what should happen, from its beginning. */
function show(model) {
  shown.model = model;
  shown.run = null;
  shown.source = 'expected';
  runs.forget();
  drawAbout();
  draw();
  rewindTime();
}

function rewindTime() {
  player.leave();
  player.pause();
  before = 0;
  decisions.hush();
  player.seek(0, 'restart');
}

function drawAbout() {
  const { scenario, notes: remarks } = shown.model;
  setText(byId('scenario-title'), scenario.title);
  setText(byId('scenario-why'), scenario.why ?? '');
  byId('scenario-why').hidden = !scenario.why;
  const effect = byId('scenario-effect');
  setText(effect, [effectText(shown.model), ...(remarks ?? [])].filter(Boolean).join(' '));
  effect.hidden = effect.textContent === '';
  document.title = `${scenario.title} · termdrill`;
}

const EFFECTS = {
  drained: 'readiness is withdrawn and the work in flight is finished',
  ignored: 'nothing changes until SIGKILL',
  terminated: 'the worker is gone at once, with its work',
  orphaned: 'the first process ends, and the worker lives on out of reach',
};

function effectText({ effect }) {
  return effect ? `Expected effect of SIGTERM: ${effect}. That is, ${EFFECTS[effect]}.` : '';
}

// Runs

/** A run of the shown scenario began. */
function started() {
  shown.run = null;
  shown.source = 'expected';
  draw();
  rewindTime();
}

/** More is known of a run that goes on. It is drawn over what is expected, which it fills by and by. */
function live(run) {
  if (!shown.run) shown.source = 'both';
  shown.run = run;
  draw();
  player.follow(run.observed.view.known_until_tick, run.attempt);
}

/** Nothing more is known of the run that goes on: time stays where something is known. */
function lost() {
  player.lose();
}

/** A run came to its end, and is shown. */
function finished(run) {
  const follows = shown.source === 'both' || !shown.run;
  shown.run = run.expected ? run : null;
  if (follows) shown.source = sourceOf(run);
  draw();
  // Who looks at something else is left there.
  if (player.leave() && run.observed) player.seek(run.observed.view.known_until_tick, 'drag');
}

/** Where all is as expected there is nothing to lay over it. */
const sourceOf = (run) => (!run.observed ? 'expected' : run.differences.length > 0 ? 'both' : 'observed');

/** Shows a run with the experiment that it was. */
async function replay(run, isLast) {
  experiment.show(run.scenario);
  if (!run.expected) {
    await edited(experiment.scenario(), { remember: false, isLast });
    return;
  }
  writeNow();
  experiment.problems([]);
  runs.forget();
  shown.model = { scenario: run.scenario, effect: run.effect, ...run.expected };
  shown.run = run;
  shown.source = sourceOf(run);
  drawAbout();
  draw();
  rewindTime();
}

// Keys

listenForKeys({
  ' ': () => player.toggle(),
  ArrowRight: () => player.step(10),
  ArrowLeft: () => player.step(-10),
  '.': () => player.step(1),
  ',': () => player.step(-1),
  Home: () => player.restart(),
  r: () => player.restart(),
  End: () => player.toEnd(),
  '+': () => player.changeSpeed(1),
  '=': () => player.changeSpeed(1),
  '-': () => player.changeSpeed(-1),
  e: nextSource,
  d: () => byId('decision-search').focus(),
  // A report has the button, and does not show it.
  x: () => byId('run-start').closest('[hidden]') ?? byId('run-start').click(),
  '?': toggleHelp,
}, { ArrowDown: () => chooseNext(1), ArrowUp: () => chooseNext(-1) });

function nextSource() {
  const order = ['expected', 'observed', 'both'];
  if (!shown.run?.observed) return;
  shown.source = order[(order.indexOf(shown.source) + 1) % order.length];
  draw();
}

function toggleHelp() {
  const help = byId('keys-help');
  help.hidden = !help.hidden;
  byId('keys-button').setAttribute('aria-expanded', String(!help.hidden));
}

// Beginning

byId('keys-button').addEventListener('click', toggleHelp);
// The address holds the experiment: a link within the page may not take its place.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('lanes').focus();
});
byId('source').addEventListener('change', (event) => {
  shown.source = event.target.value;
  draw();
});
byId('lanes-words').addEventListener('toggle', drawWords);
byId('legend').replaceChildren(...legend());

/** Takes the experiment, or the run, that the address names, and the time where it has one; else the opening settings. */
async function open(hash) {
  const address = new URLSearchParams(hash.slice(1));
  const run = address.get('run');
  const isLast = turn();
  const trouble = run ? await runs.open(run, isLast) : null;
  if (!isLast()) return;
  if (!run || trouble) {
    const misread = experiment.misread(address);
    const given = experiment.fromAddress(address);
    const opening = experiment.table.presets.find((preset) => preset.name === experiment.table.opening);
    experiment.show(given ?? opening.scenario);
    if (misread.length > 0) experiment.problems(misread);
    // An address that holds a time stays as it is: it can be loaded again.
    const remember = given !== null && !address.has('at');
    const known = misread.length === 0 && (await edited(experiment.scenario(), { remember, isLast }));
    if (!isLast()) return;
    // An address can hold what is not allowed. Its problems are told, and there is something to look at.
    if (!known && !shown.model) show(await ask('/api/model', { scenario: opening.scenario }));
    if (trouble) runs.problem(trouble);
  }
  const at = Number(address.get('at'));
  if (at > 0) player.seek(at * 10, 'drag');
}

addEventListener('hashchange', ({ newURL }) => {
  // An edit that was not written yet may not take the place of what was asked for.
  leave();
  open(new URL(newURL).hash);
});

try {
  const table = await ask('/api/fields');
  experiment.build(table);
  runs.build(table);
  byId('columns').hidden = false;
  await open(location.hash);
  runs.list.refresh();
} catch (error) {
  experiment.problems([{ field: null, message: error.message }]);
}
