/** Types that users see fit what comes over the wire, and are those of today's source. Lost: types that lie. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

const HERE = fileURLToPath(new URL('..', import.meta.url));
const GOLDEN = fileURLToPath(new URL('../../../tests/protocol/golden/0.1.json', import.meta.url));
const TSC = process.env.TSC ?? 'tsc';
/** Members that are base64 in JSON, and bytes here. */
const BYTES = new Set(['chunk', 'dataBase64', 'bodyBase64', 'deltaBase64', 'stdout', 'stderr', 'terminal']);

/** @param {string[]} args */
function compile(args) {
  const { status, stdout, error } = spawnSync(process.execPath, [TSC, ...args], { cwd: HERE, encoding: 'utf8' });
  assert.equal(error, undefined, 'TSC has to name the TypeScript compiler; `make test-web` does');
  assert.equal(status, 0, stdout);
}

/** The value as TypeScript, bytes as such. @param {unknown} value @param {string} [name] @returns {string} */
function typescript(value, name = '') {
  if (typeof value === 'string' && BYTES.has(name)) return 'new Uint8Array()';
  if (Array.isArray(value)) return `[${value.map((each) => typescript(each)).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${typescript(member, key)}`);
  return `{${members.join(', ')}}`;
}

test('the declarations are those of the source: `npx tsc -p web/client` makes them', () => {
  const folder = mkdtempSync(join(tmpdir(), 'types-'));
  try {
    compile(['-p', '.', '--outDir', folder]);
    assert.deepEqual(readdirSync(join(HERE, 'types')).sort(), readdirSync(folder).sort());
    for (const name of readdirSync(folder)) {
      assert.equal(readFileSync(join(HERE, 'types', name), 'utf8'), readFileSync(join(folder, name), 'utf8'), name);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('every member of every golden frame has its type', () => {
  const golden = JSON.parse(readFileSync(GOLDEN, 'utf8'));
  const lines = [`import type { Methods, Notifications } from '${HERE}src/index.js';`];
  const assign = (/** @type {string} */ type, /** @type {unknown} */ value) => {
    lines.push(`export const value${lines.length}: ${type} = ${typescript(value)};`);
  };
  for (const [method, { full, minimal }] of Object.entries(golden.results)) {
    for (const frame of [full, minimal]) assign(`Methods['${method}']['result']`, JSON.parse(frame).result);
  }
  for (const [method, { minimal }] of Object.entries(golden.requests)) {
    assign(`Methods['${method}']['params']`, JSON.parse(minimal).params ?? {});
  }
  for (const [method, { full, minimal }] of Object.entries(golden.notifications)) {
    if (method === 'initialized') continue;
    for (const frame of [full, minimal]) assign(`Notifications['${method}']`, JSON.parse(frame).params);
  }
  const folder = mkdtempSync(join(tmpdir(), 'golden-'));
  const file = join(folder, 'golden.mts');
  try {
    writeFileSync(file, lines.join('\n'));
    const strict = ['--noEmit', '--strict', '--allowJs', '--skipLibCheck', '--typeRoots', folder];
    compile([...strict, '--target', 'es2022', '--lib', 'es2023,dom', '--module', 'nodenext', file]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
