/**
 * What this browser remembers: nothing that lets anybody in.
 *
 * @module
 */

const KEY = `exec-server ${new URL('.', location.href).pathname}`;

/** @typedef {{fontSize: number, screenReader: boolean, clipboard: boolean, session: string | null, others: string[], hidden: string[]}} Settings */

/** @type {Settings} */
const DEFAULTS = { fontSize: 14, screenReader: false, clipboard: false, session: null, others: [], hidden: [] };

/** @returns {Settings} */
export function settings() {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? '{}') };
  } catch {
    return { ...DEFAULTS };
  }
}

/** @param {Partial<Settings>} changes */
export function change(changes) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...settings(), ...changes }));
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
}

/**
 * Screens of this tab, over a reload: in the tab's own storage, which ends with it.
 *
 * @param {string} name
 * @param {unknown} screen
 */
export function keepScreen(name, screen) {
  try {
    sessionStorage.setItem(`${KEY} ${name}`, JSON.stringify(screen));
    return true;
  } catch {
    return false; // too long
  }
}

/** The screen that was kept; it is kept no more. @param {string} name @returns {any} */
export function takeScreen(name) {
  const kept = sessionStorage.getItem(`${KEY} ${name}`);
  sessionStorage.removeItem(`${KEY} ${name}`);
  try {
    return kept === null ? null : JSON.parse(kept);
  } catch {
    return null;
  }
}
