/**
 * Files to the server and back, in blocks, with a bar and a way to end it.
 *
 * @module
 */

import { randomId } from '../client/ids.js';
import { ask, byId, element, plain, say, sizeText } from './ask.js';

/** @typedef {import('../client/client.js').ExecServerClient} Client */

const BLOCK = 256 << 10;
/** Blocks on the way at a time. */
const WINDOW = 4;
/** Bytes of a download, which a page has to hold as a whole. */
const MOST_DOWNLOAD = 1 << 30;

class Cancelled extends Error {}

/** A bar in the corner. @param {string} name @param {number} total */
function bar(name, total) {
  const progress = element('progress', { max: Math.max(1, total), value: 0, 'aria-label': name });
  const cancel = element('button', { type: 'button', textContent: '✕', 'aria-label': `Cancel ${name}` });
  const row = element('div', { className: 'transfer' }, element('span', { textContent: plain(name), title: plain(name) }), progress, cancel);
  byId('transfers').append(row);
  const state = {
    cancelled: false,
    /** @param {number} done */
    at(done) {
      if (state.cancelled) throw new Cancelled();
      progress.value = done;
    },
    remove: () => row.remove(),
  };
  cancel.addEventListener('click', () => {
    state.cancelled = true;
  });
  return state;
}

/** @param {string} folder a `file:` URI @param {string} name */
const inFolder = (folder, name) => `${folder.replace(/\/$/, '')}/${encodeURIComponent(name)}`;
const handle = () => randomId().replaceAll('-', '');

/**
 * Put a file into a folder. It has its name when it is whole; ended on the way, nothing of it is left.
 *
 * @param {Client} client
 * @param {File} file
 * @param {string} folder a `file:` URI
 */
export async function upload(client, file, folder) {
  const target = inFolder(folder, file.name);
  if (await exists(client, target)) {
    const replace = [{ label: 'Replace', value: 'yes', primary: true }, { label: 'Cancel', value: '' }];
    if ((await ask(`Replace ${plain(file.name)}?`, [element('p', {}, 'A file of this name is there.')], replace)) === null) return;
  }
  const partial = inFolder(folder, `.${randomId().slice(0, 8)}.upload`);
  const progress = bar(file.name, file.size);
  const handleId = handle();
  try {
    await client.call('fs/open', { handleId, path: partial, mode: 'replace' });
    await sendBlocks(client, file, handleId, progress);
    await client.call('fs/close', { handleId });
    const { exitCode, stderr } = await client.run(['mv', '-f', '--', native(partial), native(target)]);
    if (exitCode !== 0) throw new Error(new TextDecoder().decode(stderr));
    say(`${plain(file.name)}: ${sizeText(file.size)} uploaded`);
  } catch (error) {
    await client.call('fs/close', { handleId }).catch(() => {});
    await client.call('fs/remove', { path: partial, force: true }).catch(() => {});
    if (error instanceof Cancelled) say(`${plain(file.name)} was not uploaded`);
    else say(`${plain(file.name)}: ${plain(/** @type {Error} */ (error).message, 200)}`, { bad: true });
  } finally {
    progress.remove();
  }
}

/** @param {Client} client @param {File} file @param {string} handleId @param {ReturnType<typeof bar>} progress */
async function sendBlocks(client, file, handleId, progress) {
  /** @type {Promise<unknown>[]} */
  const answers = [];
  for (let offset = 0; offset < file.size; offset += BLOCK) {
    progress.at(offset);
    const chunk = new Uint8Array(await file.slice(offset, offset + BLOCK).arrayBuffer());
    const answer = client.call('fs/writeBlock', { handleId, offset, chunk });
    answer.catch(() => {});
    answers.push(answer);
    if (answers.length >= WINDOW) await answers.shift();
  }
  await Promise.all(answers);
  progress.at(file.size);
}

/**
 * Bring a file of the server to the browser's downloads.
 *
 * @param {Client} client
 * @param {string} path absolute, or below `folder`
 * @param {string} folder a `file:` URI
 */
export async function download(client, path, folder) {
  const full = path.startsWith('/') ? path : `${folder.replace(/\/$/, '')}/${path.split('/').map(encodeURIComponent).join('/')}`;
  const name = path.split('/').pop() ?? 'file';
  const handleId = handle();
  let progress;
  try {
    const { size } = await client.call('fs/getMetadata', { path: full });
    if (size > MOST_DOWNLOAD) throw new Error(`${sizeText(size)} are too many for a page; \`exec-server cp\` takes them`);
    progress = bar(name, size);
    await client.call('fs/open', { handleId, path: full });
    const parts = [];
    for (let offset = 0, eof = false; !eof; ) {
      progress.at(offset);
      const block = await client.call('fs/readBlock', { handleId, offset, len: BLOCK });
      parts.push(/** @type {BlobPart} */ (block.chunk));
      offset += block.chunk.length;
      eof = block.eof;
    }
    const url = URL.createObjectURL(new Blob(parts, { type: 'application/octet-stream' }));
    element('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    if (!(error instanceof Cancelled)) say(`${plain(path)}: ${plain(/** @type {Error} */ (error).message, 200)}`, { bad: true });
  } finally {
    await client.call('fs/close', { handleId }).catch(() => {});
    progress?.remove();
  }
}

/** @param {Client} client @param {string} path */
async function exists(client, path) {
  return client.call('fs/getMetadata', { path }).then(() => true, () => false);
}

/** @param {string} uri */
const native = (uri) => decodeURIComponent(uri.replace('file://', ''));
