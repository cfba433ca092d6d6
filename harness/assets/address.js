// What stands in the browser's address after `#`: the experiment, or the run that is shown.

/** How long edits pause before the address is written, in milliseconds. */
const KEEP_AFTER_MS = 100;

let timer;
let unwritten = null;
let unanswered = null;

/** The address as it stands. */
export const inAddress = () => new URLSearchParams(location.hash.slice(1));

/** Writes the address, once edits pause: browsers throttle pages that do so all the time. */
export function keep(address) {
  clearTimeout(timer);
  unwritten = address;
  unanswered = null;
  timer = setTimeout(write, KEEP_AFTER_MS);
}

/** Remembers the address of an edit that the server has not answered yet; null where it was refused. */
export function expect(address) {
  unanswered = address;
}

function write() {
  if (unwritten !== null) history.replaceState(null, '', `#${unwritten}`);
  unwritten = null;
}

/** Writes what waits to be written, and an edit that nobody waits for the answer of any more: it was made all the same. */
export function writeNow() {
  if (unanswered !== null && inAddress().has('run')) history.pushState(null, '', `#${unanswered}`);
  else unwritten = unanswered ?? unwritten;
  write();
  leave();
}

/** Forgets what waits to be written. */
export function leave() {
  clearTimeout(timer);
  unwritten = null;
  unanswered = null;
}

/** Writes the address of something else, from which the browser's back button leads to what was there before. */
export function turnTo(address) {
  writeNow();
  if (`#${address}` !== location.hash) history.pushState(null, '', `#${address}`);
}
