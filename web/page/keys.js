/**
 * Keys that a phone does not have.
 *
 * @module
 */

import { element } from './ask.js';

/** @typedef {import('./terminal.js').TerminalView} TerminalView */

const KEYS = [
  ['Esc', '\x1b'], ['Tab', '\t'], ['←', 'D'], ['↓', 'B'], ['↑', 'A'], ['→', 'C'], ['^C', '\x03'], ['^D', '\x04'],
  ['Home', 'H'], ['End', 'F'], ['|', '|'], ['/', '/'], ['~', '~'], ['-', '-'],
];
const NAMES = { '←': 'Left', '↓': 'Down', '↑': 'Up', '→': 'Right', '^C': 'Control C', '^D': 'Control D' };
const CURSOR = new Set(['←', '↓', '↑', '→', 'Home', 'End']);

/** @param {HTMLElement} row @param {() => TerminalView | null} current */
export function showKeys(row, current) {
  let control = false;
  const ctrl = element('button', { type: 'button', textContent: 'Ctrl', 'aria-pressed': 'false' });
  const press = (/** @type {boolean} */ on) => {
    control = on;
    ctrl.setAttribute('aria-pressed', String(on));
  };
  ctrl.addEventListener('click', () => {
    press(!control);
    current()?.term.focus();
  });
  row.append(ctrl);
  for (const [label, keys] of KEYS) {
    const name = /** @type {Record<string, string>} */ (NAMES)[label] ?? label;
    const button = element('button', { type: 'button', textContent: label, 'aria-label': name });
    button.addEventListener('pointerdown', (/** @type {Event} */ event) => event.preventDefault()); // the keyboard stays
    button.addEventListener('click', () => {
      const view = current();
      if (view === null) return;
      const lead = view.term.modes.applicationCursorKeysMode ? '\x1bO' : '\x1b[';
      view.term.input(CURSOR.has(label) ? lead + keys : keys);
    });
    row.append(button);
  }
  document.addEventListener('keydown', (event) => {
    // The next letter of a phone's keyboard goes with Ctrl.
    const view = current();
    if (!control || view === null || event.key.length !== 1) return;
    press(false);
    event.preventDefault();
    event.stopPropagation();
    view.term.input(String.fromCharCode(event.key.toUpperCase().charCodeAt(0) & 0x1f));
  }, { capture: true });
}
