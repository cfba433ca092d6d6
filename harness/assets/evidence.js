// What the kernel told of the processes of a real run: process trees, dispositions of SIGTERM, how each process ended.

import { byId, count, h, statusText } from './dom.js';

/** What a process does about SIGTERM, by the name that the evidence has for it. */
export const DISPOSITIONS = {
  default: 'default action',
  ignored: 'ignored (SIG_IGN)',
  caught: 'caught by a handler',
  blocked: 'blocked',
  waited_for: 'taken by sigtimedwait or signalfd',
};

const milliseconds = (us) => `${(us / 1000).toFixed(us < 10_000 ? 2 : 1)} ms`;

let drawn = null;

/** Shows the evidence on the worker that was told to stop. The same stays as it is: some of it may be unfolded. */
export function drawEvidence(evidence, signalled) {
  if (evidence === drawn) return;
  drawn = evidence;
  byId('evidence').replaceChildren(...evidencePanel(evidence, signalled));
}

/** The evidence as nodes. `signalled` is the name of the worker. */
function evidencePanel(evidence, signalled) {
  if (!evidence) return [];
  const moments = [
    ['Shortly before SIGTERM', evidence.before],
    ['Shortly after SIGTERM', evidence.after],
    ['Shortly before SIGKILL', evidence.before_sigkill],
    ['At the end of the drill', evidence.at_end],
  ];
  const parts = [h('h3', {}, `Processes of ${signalled}`)];
  if (evidence.received) parts.push(h('p', {}, received(evidence.received)));
  if (evidence.shell) parts.push(h('p', {}, '/bin/sh is ', h('code', {}, evidence.shell), ' here.'));
  for (const [title, snapshot] of moments) {
    if (snapshot) parts.push(moment(title, snapshot, evidence.worker_pid, snapshot === evidence.before));
  }
  if (evidence.ends.length > 0) {
    const ends = evidence.ends.map((end) => h('li', {}, `pid ${end.pid}: ${end.status ? statusText(end.status) : 'status unknown'}${end.t === null || end.t === undefined ? ', only when the drill was cleaned up' : `, at ${end.t.toFixed(1)} s`}`));
    parts.push(h('h4', {}, 'How they ended'), h('ul', { class: 'plain' }, ends));
  }
  if (evidence.kernel) {
    parts.push(h('details', {}, h('summary', {}, 'The kernel’s own record'), h('pre', { tabindex: '0', role: 'region', 'aria-label': 'The kernel’s own record' }, JSON.stringify(evidence.kernel, null, 2))));
  }
  return parts;
}

function received({ from_pid: from }) {
  if (from === null || from === undefined) return 'The worker got SIGTERM; from whom it does not tell.';
  if (from === 0) return 'The worker’s handler got SIGTERM from outside of its PID namespace.';
  return `The worker’s handler got SIGTERM from pid ${from} of its PID namespace.`;
}

function moment(title, snapshot, workerPid, open) {
  const rows = snapshot.processes.map((process) => treeNode(process, workerPid));
  const body = rows.length > 0 ? h('ul', { class: 'tree' }, rows) : h('p', { class: 'muted' }, 'No process was left.');
  return h('details', { open }, h('summary', {}, `${title}: ${count(rows.length, 'process').replace('processs', 'processes')}`), body);
}

function treeNode(process, workerPid) {
  const node = h('li', {},
    h('code', {}, process.argv.join(' ') || '(no command line)'),
    process.pid === workerPid ? h('strong', {}, ' the worker') : null,
    h('span', { class: 'tree-facts' }, [
      `pid ${process.pid}`,
      process.namespace_pid === process.pid ? 'same number in its namespace' : `${process.namespace_pid} in its namespace`,
      process.state,
      `SIGTERM: ${DISPOSITIONS[process.sigterm] ?? process.sigterm}`,
      process.pending ? 'SIGTERM pending' : null,
      process.waits_for_child ? 'waits for a child' : null,
      process.exe && process.exe !== process.argv[0] ? `runs ${process.exe}` : null,
    ].filter(Boolean).join(' · ')));
  node.style.setProperty('--depth', String(process.depth));
  return node;
}

/** How late things were, as a table; nothing on a stepped clock. */
export function latenessTable(lateness) {
  if (!lateness || lateness.length === 0) return null;
  const rows = lateness.map((part) => h('tr', { class: part.closest_us > part.allowed_us ? 'late' : null },
    h('th', { scope: 'row' }, part.part), h('td', {}, part.count), h('td', {}, milliseconds(part.median_us)), h('td', {}, milliseconds(part.worst_us)), h('td', {}, `${milliseconds(part.closest_us)} of ${milliseconds(part.allowed_us)}`)));
  return h('details', {}, h('summary', {}, 'How late things were'),
    h('div', { class: 'scroll-x', tabindex: '0', role: 'region', 'aria-label': 'Lateness' },
      h('table', {}, h('caption', { class: 'unseen' }, 'Lateness by part of the tick'),
        h('thead', {}, h('tr', {}, ['Part', 'Count', 'Median', 'Worst', 'Closest to its limit'].map((name) => h('th', { scope: 'col' }, name)))),
        h('tbody', {}, rows))));
}
