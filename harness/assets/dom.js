// Small helpers: elements, text, times and names. Nothing here knows of the drill's rules.

const SVG = 'http://www.w3.org/2000/svg';

/** The length of a drill in ticks of 0.1 s. */
export const END = 600;

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; children are nodes or text, which is never parsed. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets the text of an element, and touches the document only if it changes. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Ticks as model seconds with one decimal and the unit. */
export const seconds = (tick) => `${(tick / 10).toFixed(1)} s`;

/** A place on the time axis, in percent of its length. */
export const percent = (tick) => `${Math.round(Math.min(Math.max(tick, 0), END) * (10000 / END)) / 100}%`;

const ACRONYMS = new Map([['sigterm', 'SIGTERM'], ['sigkill', 'SIGKILL'], ['pid', 'PID']]);

/** `ready_only_routing` as words: "Ready only routing". A unit at the end is left out. */
export function label(name, unit = '') {
  let words = name.split('_');
  if (unit === 's' && words.at(-1) === 's') words = words.slice(0, -1);
  if (unit === '%' && words.at(-1) === 'percent') words = words.slice(0, -1);
  const text = words.map((word) => ACRONYMS.get(word) ?? word).join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A status as the trace has it, in words. */
export function statusText(status) {
  if (!status) return 'none';
  if (status.signal) return `killed by ${status.signal}`;
  return `exit code ${status.code}`;
}

/** `3 requests`, `1 request`. */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** Words as a sentence: with a capital, and with a full stop where they lack one. */
export const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? '' : '.');

/** What a text says as JSON, or null where it is none. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What the server answered, or an error with its words. With a body it is a POST. */
export async function ask(path, body) {
  const options = { cache: 'no-store' };
  if (body !== undefined) {
    options.method = 'POST';
    options.headers = { 'content-type': 'application/json' };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw Object.assign(new Error('The server does not answer. Is termdrill serve still running?'), { status: 0 });
  }
  const text = await response.text();
  const document = parsed(text);
  if (!response.ok) {
    const words = [document?.error ?? `the server answered ${response.status}`, document?.hint].filter(Boolean);
    throw Object.assign(new Error(words.map(sentence).join(' ')), { status: response.status, document });
  }
  return document;
}
