/**
 * One terminal of the page: xterm.js on a process of the server, in step over reloads and cuts.
 *
 * @module
 */

import { ClipboardAddon } from '../vendor/addon-clipboard/addon-clipboard.mjs';
import { FitAddon } from '../vendor/addon-fit/addon-fit.mjs';
import { SearchAddon } from '../vendor/addon-search/addon-search.mjs';
import { SerializeAddon } from '../vendor/addon-serialize/addon-serialize.mjs';
import { UnicodeGraphemesAddon } from '../vendor/addon-unicode-graphemes/addon-unicode-graphemes.mjs';
import { WebLinksAddon } from '../vendor/addon-web-links/addon-web-links.mjs';
import { WebglAddon } from '../vendor/addon-webgl/addon-webgl.mjs';
import { Terminal } from '../vendor/xterm/xterm.mjs';
import { ask, element, plain, say, sizeText } from './ask.js';
import { incompleteBytes } from './sequences.js';
import { change, keepScreen, settings, takeScreen } from './settings.js';

const SCROLLBACK = 10_000;
/** Bytes that xterm.js may have before it; more wait in the client, which holds the process. */
const AHEAD = 256 << 10;
/** Bytes of output that are shown again when a page comes back; beyond them it begins with the screen as it is now. */
const REPLAY = 2 << 20;
/** Bytes at the end of the output that are kept to see where it can be cut. */
const TAIL = 4096;
/** Inputs that wait for their process: keys, and pastes. */
const EARLY_INPUTS = 1000;
/** Lines of scrollback that are kept over a reload: fewer, if they are too long for the tab's storage. */
const KEPT_LINES = [SCROLLBACK, 2000, 200, 0];

const LIGHT = {
  background: '#ffffff', foreground: '#1c2430', cursor: '#1c2430', cursorAccent: '#ffffff', selectionBackground: '#b9d7f4',
  black: '#1c2430', red: '#a3261b', green: '#17693a', yellow: '#7a5200', blue: '#1d4fb0', magenta: '#8a2a86', cyan: '#0b6470',
  white: '#5b6675', brightBlack: '#4c5868', brightRed: '#c22f22', brightGreen: '#1a7f46', brightYellow: '#8f6300',
  brightBlue: '#2a62d1', brightMagenta: '#a63aa1', brightCyan: '#107986', brightWhite: '#2b3645',
};
const DARK = {
  background: '#0c1016', foreground: '#e8edf2', cursor: '#e8edf2', cursorAccent: '#0c1016', selectionBackground: '#2f4b6b',
  black: '#1a212b', red: '#ff8b80', green: '#7fd1ae', yellow: '#e6c37a', blue: '#86b6ff', magenta: '#e0a3e6', cyan: '#7ed4e0',
  white: '#d4dbe3', brightBlack: '#7d8b9c', brightRed: '#ffaaa2', brightGreen: '#a3e4c8', brightYellow: '#f3d99f',
  brightBlue: '#abccff', brightMagenta: '#efc0f3', brightCyan: '#a6e6ee', brightWhite: '#ffffff',
};
/**
 * @typedef {object} Facts
 * @property {string} processId
 * @property {string | null} sessionId of the session that it belongs to; null: one that is only watched
 * @property {string[]} argv
 * @property {boolean} readOnly
 * @property {boolean} answers whether what a program asks of its terminal is answered here; of several pages one does
 * @property {boolean} fresh whether it was started just now, and nothing of its output was ever shown
 */

/** Questions that a terminal answers by itself: DA, DSR, DECRQM, DECRQSS (ECMA-48, the manuals of the VT series). */
const QUESTIONS = [
  { final: 'c' }, { prefix: '>', final: 'c' }, { prefix: '=', final: 'c' }, { final: 'n' }, { prefix: '?', final: 'n' },
  { intermediates: '$', final: 'p' }, { prefix: '?', intermediates: '$', final: 'p' },
];
/** Colours that a program can ask for. */
const COLOUR_QUESTIONS = [4, 10, 11, 12];

const dark = matchMedia('(prefers-color-scheme: dark)');

/** Text that the page itself writes into a terminal: numbers and our own words. @param {string} text */
const notice = (text) => `\r\n\x1b[0;7m ${text} \x1b[0m\r\n`;

/** One terminal. `title` and `ended` change; `onchange` hears of it. */
export class TerminalView {
  title = '';
  ended = false;
  onchange = () => {};
  /** How much of the output is on the screen. @type {import('../client/protocol.js').Position} */
  #shown = { seq: 0, offset: 0 };
  #tail = new Uint8Array(0);
  #ahead = 0;
  /** @type {(() => void) | null} */
  #roomy = null;
  /** @type {import('../client/process.js').Process | null} */
  #process = null;
  /** What was typed before there was a process. @type {(string | Uint8Array)[]} */
  #early = [];
  #generation = 0;
  #closed = false;
  #fitTimer = 0;
  /** Something is missing, so that what fills the screen may be wrong. */
  #redrawLater = false;
  /** What is shown now was shown before: nobody waits for an answer any more. */
  #isHistory = false;

  /**
   * @param {HTMLElement} panel
   * @param {Facts} facts
   */
  constructor(panel, facts) {
    this.facts = facts;
    this.panel = panel;
    this.title = plain(facts.argv.join(' ')) || 'terminal';
    this.term = new Terminal({
      allowProposedApi: true,
      scrollback: SCROLLBACK,
      fontSize: settings().fontSize,
      fontFamily: 'ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", Menlo, Consolas, monospace',
      theme: dark.matches ? DARK : LIGHT,
      minimumContrastRatio: 4.5,
      screenReaderMode: settings().screenReader,
      disableStdin: facts.readOnly,
      linkHandler: { activate: (_event, uri) => openLink(uri), allowNonHttpProtocols: false },
    });
    this.fit = new FitAddon();
    this.search = new SearchAddon();
    this.#serialize = new SerializeAddon();
    for (const addon of [this.fit, this.search, this.#serialize, new UnicodeGraphemesAddon()]) this.term.loadAddon(addon);
    this.term.loadAddon(new WebLinksAddon((_event, uri) => openLink(uri)));
    this.#guardClipboard();
    this.#guardQuestions();
    this.term.onTitleChange((title) => {
      this.title = plain(title) || this.title;
      this.onchange();
    });
    this.term.open(panel);
    this.#accelerate();
    dark.addEventListener('change', this.#recolour);
    this.#watcher = new ResizeObserver(() => this.#refit());
    if (!facts.readOnly) this.#watcher.observe(panel);
    this.term.onData((data) => this.input(data));
    this.term.onBinary((data) => this.input(Uint8Array.from(data, (character) => character.charCodeAt(0))));
    this.term.onResize(({ rows, cols }) => this.#process?.resize(rows, cols).catch(() => {}));
  }

  #serialize;
  #watcher;
  #recolour = () => {
    this.term.options.theme = dark.matches ? DARK : LIGHT;
  };

  get name() {
    return `screen ${this.facts.sessionId ?? ''} ${this.facts.processId}`;
  }

  /** Output that is on the screen, in bytes. */
  get bytes() {
    return this.#shown.offset;
  }

  get position() {
    return this.#shown;
  }

  // -- the process -----------------------------------------------------------------------------------------------

  /**
   * Show the process, from where this tab left it, or else from its beginning; if that is gone, from its screen.
   *
   * @param {import('../client/client.js').ExecServerClient} client
   * @param {(after: import('../client/protocol.js').Position | undefined) => Promise<import('../client/process.js').Process>} open
   */
  async show(client, open) {
    this.#generation += 1;
    const generation = this.#generation;
    if (this.#shown.seq === 0 && !this.facts.fresh) await this.#restore();
    const end = this.facts.fresh ? null : await this.#endOfOutput(client);
    const skipped = end === null ? 0 : end.offset - Math.max(end.evicted, this.#shown.offset);
    const skips = skipped > REPLAY && client.extensions.includes('screen');
    const isHistory = this.#shown.seq === 0 && !skips;
    const after = skips && end !== null ? end : this.#shown;
    const process = await open(after.seq === 0 ? undefined : { seq: after.seq, offset: after.offset });
    if (generation !== this.#generation || this.#closed) return;
    this.#process = process;
    for (const data of this.#early.splice(0)) this.input(data);
    if (skips) await this.#paint(process, skipped);
    if (this.facts.readOnly) void this.#takeSize(process);
    else if (this.#redrawLater && this.term.buffer.active.type === 'alternate') this.#redraw();
    else void process.resize(this.term.rows, this.term.cols).catch(() => {});
    const historyEnd = isHistory && end !== null ? end.seq : 0;
    this.#isHistory = historyEnd > 0;
    void this.#follow(process, generation, historyEnd);
  }

  /**
   * Where the output ends now, and how much of its beginning is gone; null for a process that is only watched.
   *
   * @param {import('../client/client.js').ExecServerClient} client
   */
  async #endOfOutput(client) {
    const { processId, sessionId } = this.facts;
    if (sessionId === null) return null;
    const target = sessionId === client.sessionId ? { processId } : { processId, sessionId };
    const { nextSeq, evictedBytes = 0 } = await client.call('process/read', { ...target, afterSeq: Number.MAX_SAFE_INTEGER });
    const { chunks } = await client.call('process/read', { ...target, afterSeq: Math.max(0, nextSeq - 4), maxBytes: 1 << 20 });
    const last = chunks.at(-1);
    if (last === undefined) return { seq: 0, offset: evictedBytes, evicted: evictedBytes };
    return { seq: last.seq, offset: (last.offset ?? 0) + last.chunk.length, evicted: evictedBytes };
  }

  /**
   * @param {import('../client/process.js').Process} process
   * @param {number} generation
   * @param {number} historyEnd
   */
  async #follow(process, generation, historyEnd) {
    for await (const event of process.events()) {
      if (generation !== this.#generation) return;
      if (this.#isHistory && event.type !== 'failed' && 'seq' in event && event.seq > historyEnd) {
        await this.#print('');
        this.#isHistory = false;
        if (this.#redrawLater && this.term.buffer.active.type === 'alternate') this.#redraw();
      }
      if (event.type === 'output') {
        await this.#write(event.data, process.position);
      } else if (event.type === 'gap') {
        const size = event.bytes === null ? 'Some output' : sizeText(event.bytes);
        await this.#print(notice(`${size} could not be kept, and is missing here`));
        this.#shown = process.position;
        this.#redrawLater = true;
      } else if (event.type === 'exited') {
        const { exitCode, signal } = event.status;
        this.ended = true;
        await this.#print(notice(signal === null ? `ended with status ${exitCode}` : `ended by ${plain(signal)}`));
        this.onchange();
      } else if (event.type === 'failed' && !this.#closed) {
        say(`The connection to this terminal is lost: ${plain(event.reason, 200)}`, { bad: true });
      }
      if (event.type === 'closed') this.#shown = process.position;
    }
  }

  /** Begin with the screen as the server knows it. @param {import('../client/process.js').Process} process @param {number} skipped */
  async #paint(process, skipped) {
    this.#shown = process.position;
    await this.#print(notice(`${sizeText(skipped)} of output are not shown again`));
    try {
      const { rows, cursor } = await process.screen();
      const text = rows.map((row) => plain(row, 1000)).join('\r\n');
      await this.#print(`${'\n'.repeat(this.term.rows)}\x1b[2J\x1b[H${text}\x1b[${cursor.row + 1};${cursor.col + 1}H`);
    } catch {
      // The live output tells, as far as it goes.
    }
    this.#redraw();
  }

  /** Have a program that fills the screen draw it anew: it is told of another size, and then of its own. */
  #redraw() {
    this.#redrawLater = false;
    const process = this.#process;
    if (process === null || this.facts.readOnly || this.term.rows < 3) return;
    const { rows, cols } = this.term;
    void process.resize(rows - 1, cols).then(() => process.resize(rows, cols)).catch(() => {});
  }

  /** A watcher has the size that the terminal has. @param {import('../client/process.js').Process} process */
  async #takeSize(process) {
    try {
      const { rows, cols } = await process.screen();
      this.term.resize(cols, rows.length);
    } catch {
      // A server without screens: the usual size.
    }
  }

  /** @param {Uint8Array} data @param {import('../client/protocol.js').Position} position behind it */
  async #write(data, position) {
    this.#ahead += data.length;
    this.term.write(data, () => {
      this.#ahead -= data.length;
      this.#shown = position;
      this.#keepTail(data);
      if (this.#ahead < AHEAD && this.#roomy !== null) this.#roomy();
    });
    if (this.#ahead >= AHEAD) {
      await new Promise((resolve) => {
        this.#roomy = () => {
          this.#roomy = null;
          resolve(undefined);
        };
      });
    }
  }

  /** @param {string} text @returns {Promise<void>} */
  #print(text) {
    return new Promise((resolve) => this.term.write(text, () => resolve()));
  }

  /** @param {Uint8Array} data */
  #keepTail(data) {
    if (data.length >= TAIL) {
      this.#tail = data.slice(data.length - TAIL);
    } else {
      const joined = new Uint8Array(this.#tail.length + data.length);
      joined.set(this.#tail);
      joined.set(data, this.#tail.length);
      this.#tail = joined.slice(Math.max(0, joined.length - TAIL));
    }
  }

  // -- over a reload ---------------------------------------------------------------------------------------------

  /** Keep what is on the screen for the next page of this tab. */
  keep() {
    if (this.#shown.seq === 0 || this.#closed) return;
    const pending = Array.from(this.#tail.slice(this.#tail.length - incompleteBytes(this.#tail)));
    for (const scrollback of KEPT_LINES) {
      const { rows, cols } = this.term;
      const { cursorX, cursorY } = this.term.buffer.active;
      const cursor = cursorX < cols ? `\x1b[${cursorY + 1};${cursorX + 1}H` : ''; // the addon may be off by one
      const data = this.#serialize.serialize({ scrollback }) + cursor;
      if (keepScreen(this.name, { data, pending, rows, cols, shown: this.#shown, title: this.title })) return;
    }
  }

  async #restore() {
    const kept = takeScreen(this.name);
    if (kept === null) return;
    this.term.resize(kept.cols, kept.rows);
    await this.#print(kept.data);
    const pending = Uint8Array.from(kept.pending);
    await new Promise((resolve) => this.term.write(pending, () => resolve(undefined)));
    this.#keepTail(pending);
    this.#shown = kept.shown;
    this.title = plain(kept.title);
    this.#redrawLater = this.term.buffer.active.type === 'alternate'; // its scroll region, say, was not kept
    this.#refit();
    this.onchange();
  }

  // -- input -----------------------------------------------------------------------------------------------------

  /** @param {string | Uint8Array} data */
  input(data) {
    if (this.facts.readOnly || this.ended) return;
    if (this.#process === null) {
      if (this.#early.length < EARLY_INPUTS) this.#early.push(data);
      return;
    }
    this.#process.write(data).catch((error) => {
      if (!this.ended) say(`Input was not taken: ${plain(error.message, 200)}`, { bad: true });
    });
  }

  /** @param {string} name */
  signal(name) {
    return this.#process?.signal(name);
  }

  terminate() {
    return this.#process?.terminate(2000);
  }

  /** OSC 52: writing only where the person allows it, reading never. */
  #guardClipboard() {
    const provider = {
      readText: async () => '',
      writeText: (/** @type {string} */ _selection, /** @type {string} */ text) => writeClipboard(text),
    };
    this.term.loadAddon(new ClipboardAddon(undefined, provider));
    this.term.parser.registerOscHandler(52, (data) => this.facts.readOnly || /^[^;]*;\s*\?/.test(data));
  }

  /** Answer what programs ask only here, and only the first time. */
  #guardQuestions() {
    const muted = () => this.#isHistory || !this.facts.answers;
    const { parser } = this.term;
    for (const question of QUESTIONS) parser.registerCsiHandler(question, muted);
    parser.registerDcsHandler({ intermediates: '$', final: 'q' }, muted);
    for (const code of COLOUR_QUESTIONS) parser.registerOscHandler(code, (data) => data.includes('?') && muted());
  }

  // -- the look --------------------------------------------------------------------------------------------------

  /** Draw with the graphics card where there is one. */
  #accelerate() {
    if (!hasGraphicsCard()) return;
    try {
      const webgl = new WebglAddon();
      webgl.onContextLoss(() => webgl.dispose());
      this.term.loadAddon(webgl);
    } catch {
      // Drawn by the browser's own means, which is slower and otherwise the same.
    }
  }

  #refit() {
    clearTimeout(this.#fitTimer);
    this.#fitTimer = window.setTimeout(() => {
      if (!this.#closed && this.panel.offsetParent !== null && !this.facts.readOnly) this.fit.fit();
    }, 30);
  }

  /** @param {number} fontSize */
  setFontSize(fontSize) {
    this.term.options.fontSize = fontSize;
    this.#refit();
  }

  focus() {
    this.#refit();
    this.term.focus();
  }

  /** Show no more. The process goes on. */
  close() {
    this.#closed = true;
    this.#generation += 1;
    clearTimeout(this.#fitTimer);
    this.#watcher.disconnect();
    dark.removeEventListener('change', this.#recolour);
    void this.#process?.detach().catch(() => {});
    this.term.dispose();
  }
}

/** Whether WebGL is drawn by more than the processor, which draws text faster by the browser's own means. */
function hasGraphicsCard() {
  const gl = document.createElement('canvas').getContext('webgl2');
  const about = gl?.getExtension('WEBGL_debug_renderer_info');
  if (!gl || !about) return gl !== null;
  const renderer = String(gl.getParameter(about.UNMASKED_RENDERER_WEBGL));
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return !/swiftshader|llvmpipe|software|basic render/i.test(renderer);
}

/** Show a link before it is opened; nothing but http and https. @param {string} uri */
async function openLink(uri) {
  let url;
  try {
    url = new URL(uri);
  } catch {
    return;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return;
  const answer = await ask(
    'Open this link?',
    [element('p', {}, 'A program in the terminal wants to send you to'), element('code', { textContent: plain(url.href, 2000) })],
    [{ label: 'Open', value: 'open', primary: true }, { label: 'Cancel', value: '' }],
  );
  if (answer === 'open') window.open(url.href, '_blank', 'noopener,noreferrer');
}

/** @param {string} text */
async function writeClipboard(text) {
  if (!settings().clipboard) {
    const answer = await ask(
      'Let the program write to the clipboard?',
      [element('p', {}, `It wants to put ${text.length} characters there:`), element('code', { textContent: plain(text, 300) })],
      [
        { label: 'This time', value: 'once', primary: true },
        { label: 'Always', value: 'always' },
        { label: 'No', value: '' },
      ],
    );
    if (answer === null) return;
    if (answer === 'always') change({ clipboard: true });
  }
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    say('The browser did not let the page write to the clipboard', { bad: true });
  }
}
