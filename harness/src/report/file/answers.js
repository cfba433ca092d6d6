// In a report there is no server: what the page would ask it is answered from the file itself.

const report = JSON.parse(document.getElementById('report').textContent);

/** What the server would answer. */
async function answer(path, body) {
  if (body !== undefined) throw new Error('A report holds what was run, and nothing else. termdrill serve shows what would happen.');
  if (path === '/api/fields') return report.fields;
  if (path === '/api/runs') return { current: null, queue: [], runs: report.runs };
  const run = report.documents[decodeURIComponent(path.replace('/api/runs/', ''))];
  if (run) return run;
  throw new Error('There is no such run in this report.');
}

// What can only be done with a server is not offered: the settings can be read, and nothing can be run.
const form = document.getElementById('experiment');
const settings = document.createElement('fieldset');
settings.disabled = true;
settings.append(...form.childNodes);
form.append(settings);
// It scrolls, and none of its controls takes the focus: so that keys can scroll it, it takes it itself.
form.tabIndex = 0;
const live = '#experiment .buttons, #experiment .field:has(#preset), .run-controls, #runs-refresh, #keys-help div:has(+ div:last-child)';
for (const part of document.querySelectorAll(live)) part.hidden = true;
document.getElementById('run-heading').textContent = 'What it came to';
document.getElementById('runs-heading').textContent = 'Runs in this report';
const address = new URLSearchParams(location.hash.slice(1));
if (!Object.hasOwn(report.documents, address.get('run'))) {
  if (address.has('run')) {
    const problem = document.getElementById('experiment-problem');
    problem.textContent = `There is no run ${JSON.stringify(address.get('run'))} in this report. Another one is shown.`;
    problem.hidden = false;
  }
  address.set('run', report.runs[0].run);
  history.replaceState(null, '', `#${address}`);
}
