// Keys of the page: which of them belong to a control that has the focus, and what the others do.

import { byId } from './dom.js';

/** Whether a key belongs to the control that has the focus. */
function isTaken(target, key) {
  if (target.closest('textarea, select, input:not([type=checkbox], [type=radio], [type=range])')) return true;
  if (target.closest('input[type=range]')) return /^(Arrow|Home|End|Page)/.test(key);
  if (target.closest('input[type=radio]')) return key === ' ' || key.startsWith('Arrow');
  if (target.closest('pre, .scroll, .scroll-x')) return /^(Arrow|Home|End|Page)/.test(key);
  return key === ' ' && target.closest('button, summary, a, input') !== null;
}

/** Lets keys act: those of `acts` everywhere, those of `inLanes` where the lanes have the focus. */
export function listenForKeys(acts, inLanes) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !byId('keys-enabled').checked) return;
    const lanes = event.target.closest('#lanes');
    if (lanes && inLanes[event.key]) {
      event.preventDefault();
      inLanes[event.key]();
      return;
    }
    if (event.shiftKey && event.key.startsWith('Arrow')) {
      lanes?.scrollBy({ left: event.key === 'ArrowRight' ? 120 : -120 });
      return;
    }
    const act = acts[event.key];
    if (!act || isTaken(event.target, event.key)) return;
    event.preventDefault();
    act();
  });
}
