/**
 * Questions to the person, in dialogs. All text is text: nothing that a program says becomes HTML.
 *
 * @module
 */

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * An element with text, attributes and children.
 *
 * @param {string} name
 * @param {Record<string, any>} [properties] of the element; `on` has its listeners
 * @param {(Node | string)[]} children
 * @returns {any}
 */
export function element(name, { on = {}, ...properties } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || key === 'role' || key === 'for') made.setAttribute(key, value);
    else /** @type {any} */ (made)[key] = value;
  }
  for (const [event, listener] of Object.entries(on)) made.addEventListener(event, listener);
  made.append(...children);
  return made;
}

/** Text of a program as it may be shown: without what changes direction or is invisible. @param {string} text @param {number} [most] */
export function plain(text, most = 100) {
  const clean = text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '');
  return clean.length > most ? `${clean.slice(0, most)}…` : clean;
}

/**
 * Ask. Resolves with the value of the button, or null if the person turns away.
 *
 * @param {string} title
 * @param {(Node | string)[]} body
 * @param {{label: string, value: string, primary?: boolean}[]} buttons
 * @returns {Promise<string | null>}
 */
export function ask(title, body, buttons) {
  const dialog = byId('ask');
  if (dialog.open) dialog.close('');
  byId('ask-title').textContent = title;
  byId('ask-body').replaceChildren(...body);
  byId('ask-buttons').replaceChildren(
    ...buttons.map(({ label, value, primary }) => {
      const close = () => dialog.close(value);
      return element('button', { type: 'button', textContent: label, className: primary ? 'primary' : '', on: { click: close } });
    }),
  );
  dialog.returnValue = '';
  dialog.onkeydown = (/** @type {KeyboardEvent} */ event) => {
    const first = buttons.find(({ primary }) => primary);
    if (event.key === 'Enter' && event.target instanceof HTMLInputElement && first) dialog.close(first.value);
  };
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue || null), { once: true });
  });
}

/** Close the question that is open, if there is one. */
export function closeAsk() {
  if (byId('ask').open) byId('ask').close('');
}

let sayTimer = 0;

/** Tell something in the status line. @param {string} text @param {{bad?: boolean, lasting?: boolean}} [options] */
export function say(text, { bad = false, lasting = false } = {}) {
  const status = byId('status');
  clearTimeout(sayTimer);
  status.textContent = text;
  status.classList.toggle('bad', bad);
  if (!lasting && text !== '') sayTimer = window.setTimeout(() => say(''), 8000);
}

/** Bytes for people. @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = bytes / 1000;
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}
