/**
 * The list of processes: of this browser's session, and of others whose ids the person has.
 *
 * @module
 */

import { ask, closeAsk, element, plain, say, sizeText } from './ask.js';
import { change, settings } from './settings.js';

/** @typedef {import('./workspace.js').Workspace} Workspace */
/** @typedef {import('../client/protocol.js').ProcessEntry} ProcessEntry */

/**
 * @param {Workspace} workspace
 * @param {(sessionId: string, entry: ProcessEntry) => Promise<void>} open
 * @param {() => void} begin asks for a new terminal
 */
export async function showProcesses(workspace, open, begin) {
  const body = element('tbody', {});
  const head = element('tr', {}, ...['Command', 'State', 'Age', 'Output', ''].map((text) => element('th', { textContent: text, scope: 'col' })));
  const session = element('input', { id: 'session', spellcheck: false, autocomplete: 'off', placeholder: 'id of a session' });
  const refresh = async () => body.replaceChildren(...(await rows(workspace, open, refresh)));
  await refresh();
  const timer = setInterval(() => void refresh().catch(() => {}), 2000);
  const answer = await ask(
    'Processes',
    [element('table', {}, element('thead', {}, head), body), element('label', { for: 'session' }, 'Add a session'), session],
    [
      { label: 'Add', value: 'add', primary: true },
      { label: 'New terminal…', value: 'new' },
      { label: 'Close', value: '' },
    ],
  );
  clearInterval(timer);
  if (answer === 'new') begin();
  if (answer !== 'add' || session.value.trim() === '') return;
  const id = session.value.trim();
  try {
    await workspace.client.call('process/list', { sessionId: id });
    change({ others: [...new Set([...settings().others, id])].slice(-50) });
  } catch (error) {
    say(plain(/** @type {Error} */ (error).message, 200), { bad: true });
  }
  await showProcesses(workspace, open, begin);
}

/** @param {Workspace} workspace @param {(sessionId: string, entry: ProcessEntry) => Promise<void>} open @param {() => Promise<void>} refresh */
async function rows(workspace, open, refresh) {
  const found = [];
  for (const sessionId of new Set([workspace.sessionId, ...settings().others])) {
    try {
      const { processes } = await workspace.client.call('process/list', workspace.of(sessionId));
      for (const entry of processes) found.push(await row(workspace, sessionId, entry, open, refresh));
    } catch {
      change({ others: settings().others.filter((each) => each !== sessionId) }); // it has ended
    }
  }
  return found;
}

/** @param {Workspace} workspace @param {string} sessionId @param {ProcessEntry} entry @param {(sessionId: string, entry: ProcessEntry) => Promise<void>} open @param {() => Promise<void>} refresh */
async function row(workspace, sessionId, entry, open, refresh) {
  const { processId } = entry;
  const target = { processId, ...workspace.of(sessionId) };
  const button = (/** @type {string} */ label, /** @type {() => Promise<unknown>} */ action) => {
    const click = () => void action().then(refresh, (error) => say(plain(error.message, 200), { bad: true }));
    return element('button', { type: 'button', textContent: label, 'aria-label': `${label} ${plain(entry.argv.join(' '), 60)}`, on: { click } });
  };
  const show = button('Show', async () => {
    closeAsk();
    await open(sessionId, entry);
  });
  const interrupt = button('Interrupt', () => workspace.client.call('process/signal', { ...target, signal: 'interrupt' }));
  const end = button('End', () => workspace.client.call('process/terminate', { ...target, mode: 'graceful', timeoutMs: 2000 }));
  const cell = (/** @type {string} */ text, className = '') => element('td', { textContent: text, className });
  return element(
    'tr',
    {},
    cell(plain(entry.argv.join(' '), 120), 'text'),
    cell(stateText(entry)),
    cell(entry.startedAtMs > 0 ? ageText(Date.now() - entry.startedAtMs) : '', 'wide'),
    cell(sizeText(await outputBytes(workspace, target)), 'wide'),
    element('td', {}, ...(entry.running ? [show, interrupt, end] : [show])),
  );
}

/** All output that a process ever had. @param {Workspace} workspace @param {{processId: string, sessionId?: string}} target */
async function outputBytes(workspace, target) {
  const { nextSeq, evictedBytes = 0 } = await workspace.client.call('process/read', { ...target, afterSeq: Number.MAX_SAFE_INTEGER });
  const { chunks } = await workspace.client.call('process/read', { ...target, afterSeq: Math.max(0, nextSeq - 4) });
  const last = chunks.at(-1);
  return last === undefined ? evictedBytes : (last.offset ?? 0) + last.chunk.length;
}

/** @param {ProcessEntry} entry */
function stateText({ running, exitCode, signal }) {
  if (running) return 'running';
  return signal ? `ended by ${plain(signal)}` : `ended with ${exitCode}`;
}

/** @param {number} ms */
function ageText(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} days`;
}
