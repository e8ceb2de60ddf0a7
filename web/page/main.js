/**
 * The page: signs in, shows terminals in tabs, and what can be done with them.
 *
 * @module
 */

import { standing, shareLink, signIn, signInLink, signOut, socketUrl, takeFragment } from './access.js';
import { ask, byId, closeAsk, element, plain, say, sizeText } from './ask.js';
import { connect } from '../client/index.js';
import { download, upload } from './files.js';
import { showKeys } from './keys.js';
import { showProcesses } from './processes.js';
import { change, settings } from './settings.js';
import { allowScriptedStyles } from './style_sheets.js';
import { TerminalView } from './terminal.js';
import { Workspace } from './workspace.js';

const LEAST_FONT = 8;
const MOST_FONT = 40;

/** @typedef {{view: TerminalView, tab: any, label: any, panel: any}} Tab */

const workspace = new Workspace();
/** @type {Tab[]} */
const tabs = [];
/** @type {Tab | null} */
let current = null;

// -- tabs -----------------------------------------------------------------------------------------------------------

/** @param {import('./terminal.js').Facts} facts @returns {Tab} */
function addTab(facts) {
  const id = `panel-${facts.processId}`;
  const panel = element('div', { className: 'panel', role: 'tabpanel', id, 'aria-labelledby': `tab-${facts.processId}` });
  byId('panels').append(panel);
  const label = element('button', { type: 'button', role: 'tab', id: `tab-${facts.processId}`, 'aria-controls': id });
  const close = element('span', { className: 'close', textContent: '✕', 'aria-hidden': 'true', title: 'Close' });
  const tab = element('div', { className: 'tab', role: 'presentation' }, label, close);
  const made = { view: new TerminalView(panel, facts), tab, label, panel };
  label.addEventListener('click', () => select(made));
  label.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => moveAlong(event, made));
  close.addEventListener('click', () => void closeTab(made));
  byId('tabs').append(tab);
  tabs.push(made);
  made.view.onchange = () => showLabel(made);
  showLabel(made);
  dropInto(made);
  select(made);
  return made;
}

/** @param {Tab} tab */
function showLabel(tab) {
  tab.label.textContent = tab.view.title;
  tab.tab.classList.toggle('ended', tab.view.ended);
  if (tab === current) document.title = `${tab.view.title} – exec-server`;
}

/** @param {Tab | null} tab */
function select(tab) {
  current = tab;
  for (const each of tabs) {
    each.panel.hidden = each !== tab;
    each.tab.classList.toggle('on', each === tab);
    each.label.setAttribute('aria-selected', String(each === tab));
    each.label.tabIndex = each === tab ? 0 : -1;
  }
  byId('empty')?.remove();
  if (tab === null) {
    byId('panels').append(element('p', { id: 'empty', textContent: 'No terminal. + opens one.' }));
    document.title = 'exec-server';
  } else {
    showLabel(tab);
    tab.view.focus();
  }
}

/** @param {KeyboardEvent} event @param {Tab} tab */
function moveAlong(event, tab) {
  if (event.key === 'Delete' && !tab.view.facts.readOnly) void closeTab(tab);
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined) return;
  const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
  select(next);
  next.label.focus();
  event.preventDefault();
}

/** @param {Tab} tab */
async function closeTab(tab) {
  const { readOnly, sessionId, processId } = tab.view.facts;
  if (!readOnly && !tab.view.ended && sessionId === workspace.sessionId) {
    const answer = await ask(
      `Close ${tab.view.title}?`,
      [element('p', {}, 'Its program is running.')],
      [
        { label: 'End the program', value: 'end', primary: true },
        { label: 'Leave it running', value: 'leave' },
        { label: 'Cancel', value: '' },
      ],
    );
    if (answer === null) return;
    if (answer === 'end') await tab.view.terminate()?.catch(() => {});
  }
  change({ hidden: [...settings().hidden, processId].slice(-500) });
  removeTab(tab);
}

/** @param {Tab} tab */
function removeTab(tab) {
  const at = tabs.indexOf(tab);
  tabs.splice(at, 1);
  tab.view.close();
  tab.tab.remove();
  tab.panel.remove();
  if (current === tab) select(tabs[Math.min(at, tabs.length - 1)] ?? null);
}

/** @param {Tab} tab */
function dropInto(tab) {
  const { panel, view } = tab;
  if (view.facts.readOnly) return;
  panel.addEventListener('dragover', (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    panel.classList.add('drop');
  });
  panel.addEventListener('dragleave', () => panel.classList.remove('drop'));
  panel.addEventListener('drop', (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    panel.classList.remove('drop');
    void uploadAll(tab, [...(event.dataTransfer?.files ?? [])]);
  });
}

/** @param {Tab} tab @param {File[]} files */
async function uploadAll(tab, files) {
  const folder = await folderOf(tab);
  for (const file of files) await upload(workspace.client, file, folder);
}

/** The folder that the program of a terminal is in now. @param {Tab} tab */
async function folderOf(tab) {
  const { sessionId, processId } = tab.view.facts;
  const { processes } = await workspace.client.call('process/list', workspace.of(sessionId ?? ''));
  const found = processes.find((each) => each.processId === processId);
  try {
    const { path } = await workspace.client.call('fs/canonicalize', { path: `/proc/${found?.pid}/cwd` });
    return path;
  } catch {
    return found?.cwd ?? workspace.client.environmentInfo.cwd;
  }
}

// -- terminals ------------------------------------------------------------------------------------------------------

/** @param {string[]} argv @param {string} [cwd] */
async function startTerminal(argv, cwd) {
  const size = current?.view.term ?? { rows: 24, cols: 80 };
  try {
    const process = await workspace.start(argv, { cwd, rows: size.rows, cols: size.cols });
    const sessionId = workspace.client.sessionId;
    const facts = { processId: process.id, sessionId, argv, readOnly: false, answers: true, fresh: true };
    const tab = addTab(facts);
    await tab.view.show(workspace.client, async (after) => (after === undefined ? process : workspace.handle(process.id, sessionId, after)));
    tab.view.focus();
  } catch (error) {
    say(`Not started: ${plain(/** @type {Error} */ (error).message, 300)}`, { bad: true });
  }
}

const loginShell = () => [workspace.client.environmentInfo.shell.path || '/bin/sh', '-l'];

async function askForTerminal() {
  const command = element('input', { id: 'command', value: loginShell().join(' '), spellcheck: false, autocomplete: 'off' });
  const folder = element('input', { id: 'folder', spellcheck: false, autocomplete: 'off', placeholder: 'the server’s own' });
  const answer = await ask(
    'New terminal',
    [element('label', { for: 'command' }, 'Command'), command, element('label', { for: 'folder' }, 'Folder'), folder],
    [{ label: 'Start', value: 'start', primary: true }, { label: 'Cancel', value: '' }],
  );
  if (answer === null) return;
  const text = command.value.trim();
  const argv = text === loginShell().join(' ') || text === '' ? loginShell() : ['/bin/sh', '-c', text];
  await startTerminal(argv, folder.value.trim() || undefined);
}

/** Show a process of any session whose id is known. @param {string} sessionId @param {{processId: string, argv: string[]}} entry */
async function openProcess(sessionId, { processId, argv }) {
  const there = tabs.find(({ view }) => view.facts.processId === processId && view.facts.sessionId === sessionId);
  if (there !== undefined) return select(there);
  change({ hidden: settings().hidden.filter((each) => each !== processId) });
  const answers = workspace.holds || sessionId !== workspace.sessionId;
  const tab = addTab({ processId, sessionId, argv, readOnly: false, answers, fresh: false });
  await showTab(tab);
}

/** @param {Tab} tab */
async function showTab(tab) {
  const { processId, sessionId } = tab.view.facts;
  try {
    await tab.view.show(workspace.client, (after) => workspace.handle(processId, sessionId ?? '', after));
  } catch (error) {
    say(`Not shown: ${plain(/** @type {Error} */ (error).message, 300)}`, { bad: true });
    removeTab(tab);
  }
}

// -- the connection -------------------------------------------------------------------------------------------------

async function openWorkspace() {
  await workspace.open();
  say('');
  for (const tab of [...tabs]) {
    tab.view.facts.answers = workspace.holds || tab.view.facts.sessionId !== workspace.sessionId;
    await showTab(tab);
  }
  const { hidden } = settings();
  const { processes } = await workspace.client.call('process/list', workspace.of(workspace.sessionId));
  for (const entry of processes.filter(({ tty, processId, running }) => tty && running && !hidden.includes(processId))) {
    if (!tabs.some(({ view }) => view.facts.processId === entry.processId)) await openProcess(workspace.sessionId, entry);
  }
  if (tabs.length === 0) await startTerminal(loginShell());
}

workspace.onlost = () => {
  void boot().catch((error) => say(`No connection: ${plain(error.message, 200)}`, { bad: true, lasting: true }));
};
workspace.onreconnected = () => say('Connected again');
workspace.ondisconnected = () => {
  say('The connection is cut; trying again…', { bad: true, lasting: true });
  void standing().then(
    ({ signedIn }) => (signedIn ? undefined : boot()),
    () => undefined,
  );
};

/** Ask for what lets this page in, until the server takes it. @param {'code' | 'token'} asksFor */
function signInByHand(asksFor) {
  const dialog = byId('signin');
  const secret = byId('secret');
  const token = asksFor === 'token';
  byId('signin-hint').textContent = token
    ? 'This server asks for the token that its clients have.'
    : 'Open the link that exec-server printed, or type the code from it. Each code is good once.';
  byId('secret-label').textContent = token ? 'Token' : 'Code';
  secret.value = '';
  return /** @type {Promise<void>} */ (
    new Promise((resolve) => {
      const go = async () => {
        const typed = secret.value.trim().replace(/^.*#code=/, '');
        const refused = await signIn(token ? 'Bearer' : 'Code', typed).catch((error) => error.message);
        secret.value = '';
        byId('signin-error').textContent = refused === null ? '' : plain(refused, 200);
        if (refused !== null) return;
        dialog.close();
        resolve();
      };
      byId('signin-go').onclick = go;
      secret.onkeydown = (/** @type {KeyboardEvent} */ event) => {
        if (event.key === 'Enter') void go();
      };
      dialog.oncancel = (/** @type {Event} */ event) => event.preventDefault();
      if (!dialog.open) dialog.showModal();
    })
  );
}

/** Whoever came by a share link sees one terminal, and nothing else. @param {string} observeId @param {string} processId */
async function watchOnly(observeId, processId) {
  document.body.classList.add('watching');
  for (const id of ['new', 'list', 'share', 'files']) byId(id).hidden = true;
  const tab = addTab({ processId, sessionId: null, argv: ['shared terminal'], readOnly: true, answers: false, fresh: false });
  tab.tab.querySelector('.close').hidden = true;
  const open = async () => {
    const client = await connect(socketUrl(), { clientName: 'exec-server page (watching)', sessionTtlMs: 0 });
    client.addEventListener('lost', () => void open().catch(() => setTimeout(open, 3000)));
    client.addEventListener('disconnected', () => say('The connection is cut; trying again…', { bad: true, lasting: true }));
    await tab.view.show(client, (after) => client.watch(processId, { observeId, after }));
    say('You are watching; nothing that you type is sent', { lasting: true });
  };
  await open();
}

async function boot() {
  const fragment = takeFragment();
  let now = await standing();
  if (fragment.code !== null || fragment.share !== null) {
    const refused = fragment.code !== null ? await signIn('Code', fragment.code) : await signIn('Share', fragment.share ?? '');
    now = await standing();
    if (refused !== null && !now.signedIn) say(plain(refused, 200), { bad: true });
  }
  if (fragment.process !== null) sessionStorage.setItem('exec-server watched process', fragment.process);
  if (now.watches !== null) {
    await watchOnly(now.watches, sessionStorage.getItem('exec-server watched process') ?? '');
    return;
  }
  if (!now.signedIn) await signInByHand(now.asksFor);
  await openWorkspace();
}

// -- tools ----------------------------------------------------------------------------------------------------------

byId('new').addEventListener('click', (/** @type {MouseEvent} */ event) => {
  void (event.shiftKey ? askForTerminal() : startTerminal(loginShell()));
});
byId('new').addEventListener('contextmenu', (/** @type {MouseEvent} */ event) => {
  event.preventDefault();
  void askForTerminal();
});
byId('list').addEventListener('click', () => {
  void showProcesses(workspace, openProcess, () => void askForTerminal());
});

byId('share').addEventListener('click', async () => {
  if (current === null) return;
  const { sessionId, processId } = current.view.facts;
  if (sessionId !== workspace.sessionId || !workspace.holds) {
    say('Only the first page of this browser can share its terminals', { bad: true });
    return;
  }
  try {
    await showLink(
      'Share this terminal',
      'Whoever opens this link within a day watches this session’s terminals: no input, no list, no files.',
      await shareLink(workspace.observeId, processId),
    );
  } catch (error) {
    say(plain(/** @type {Error} */ (error).message, 200), { bad: true });
  }
});

/** @param {string} title @param {string} text @param {string} link */
async function showLink(title, text, link) {
  const field = element('input', { value: link, readOnly: true, 'aria-label': 'Link', id: 'link' });
  const answer = await ask(title, [element('p', {}, text), field], [
    { label: 'Copy', value: 'copy', primary: true },
    { label: 'Close', value: '' },
  ]);
  if (answer === 'copy') await navigator.clipboard?.writeText(link).catch(() => say('Copy it by hand', { bad: true }));
}

byId('files').addEventListener('click', async () => {
  if (current === null) return;
  const folder = plain(await folderOf(current), 1000);
  const path = element('input', { id: 'path', spellcheck: false, autocomplete: 'off', placeholder: '/path/of/a/file' });
  const files = element('input', { id: 'upload', type: 'file', multiple: true });
  const answer = await ask(
    'Files',
    [
      element('label', { for: 'upload' }, `Upload into ${decodeURIComponent(folder.replace('file://', ''))}`),
      files,
      element('label', { for: 'path' }, 'Download'),
      path,
    ],
    [
      { label: 'Go', value: 'go', primary: true },
      { label: 'Cancel', value: '' },
    ],
  );
  if (answer === null || current === null) return;
  if (files.files.length > 0) await uploadAll(current, [...files.files]);
  if (path.value.trim() !== '') await download(workspace.client, path.value.trim(), folder);
});

byId('settings').addEventListener('click', async () => {
  const reader = element('input', { type: 'checkbox', id: 'reader', checked: settings().screenReader });
  const clipboard = element('input', { type: 'checkbox', id: 'clipboard', checked: settings().clipboard });
  const size = element('input', { type: 'number', id: 'size', min: LEAST_FONT, max: MOST_FONT, value: settings().fontSize });
  const answer = await ask(
    'Settings',
    [
      element('label', { for: 'size' }, 'Size of the letters'),
      size,
      element('p', {}, reader, element('label', { for: 'reader' }, ' For a screen reader')),
      element('p', {}, clipboard, element('label', { for: 'clipboard' }, ' Programs may write to the clipboard without asking')),
    ],
    [
      { label: 'Use', value: 'use', primary: true },
      { label: 'Sign in elsewhere…', value: 'link' },
      { label: 'Sign out', value: 'out' },
      { label: 'Cancel', value: '' },
    ],
  );
  if (answer === 'use') {
    change({ screenReader: reader.checked, clipboard: clipboard.checked });
    setFont(Number(size.value));
    for (const { view } of tabs) view.term.options.screenReaderMode = reader.checked;
  } else if (answer === 'link') {
    await showLink('Sign in elsewhere', 'This link lets another browser in, once, within 15 minutes.', await signInLink());
  } else if (answer === 'out') {
    await signOut();
    workspace.onlost = () => {};
    workspace.close();
    location.reload();
  }
});

/** @param {number} size */
function setFont(size) {
  const fontSize = Math.min(MOST_FONT, Math.max(LEAST_FONT, Math.round(size) || LEAST_FONT));
  change({ fontSize });
  for (const { view } of tabs) view.setFontSize(fontSize);
}

const LOOK = { incremental: false, decorations: undefined };
byId('find').addEventListener('click', () => {
  byId('searchbar').hidden = !byId('searchbar').hidden;
  if (byId('searchbar').hidden) current?.view.focus();
  else byId('needle').focus();
});
byId('next').addEventListener('click', () => current?.view.search.findNext(byId('needle').value, LOOK));
byId('previous').addEventListener('click', () => current?.view.search.findPrevious(byId('needle').value, LOOK));
byId('nosearch').addEventListener('click', () => {
  byId('searchbar').hidden = true;
  current?.view.focus();
});
byId('needle').addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
  if (event.key === 'Enter') byId(event.shiftKey ? 'previous' : 'next').click();
  if (event.key === 'Escape') byId('nosearch').click();
});

document.addEventListener('keydown', (event) => {
  if (!event.ctrlKey || !event.shiftKey || event.altKey) return;
  const action = {
    KeyF: () => byId('find').click(),
    KeyC: () => navigator.clipboard?.writeText(current?.view.term.getSelection() ?? ''),
    Equal: () => setFont(settings().fontSize + 1),
    Minus: () => setFont(settings().fontSize - 1),
    KeyK: () => byId('list').click(),
  }[event.code];
  if (action === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  void action();
}, { capture: true });

addEventListener('pagehide', () => {
  for (const { view } of tabs) view.keep();
});
for (const event of ['online', 'pageshow']) addEventListener(event, () => workspace.client?.hurry());
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') workspace.client?.hurry();
});

allowScriptedStyles();
showKeys(byId('keys'), () => current?.view ?? null);
closeAsk();
Object.assign(window, { execServerPage: { tabs, sizeText } }); // for tests, and for whoever debugs
boot().catch((error) => say(`The server cannot be reached: ${plain(error.message, 200)}`, { bad: true, lasting: true }));
