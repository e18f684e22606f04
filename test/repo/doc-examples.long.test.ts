import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { blocksOf, normalized, type Step, stepsOf } from '../support/doc-examples.ts';
import { chart, template } from '../support/helm.ts';
import { acquire } from '../support/port-lock.ts';
import { itWith } from '../support/requires.ts';
import { sampleLog } from '../support/sample-log.ts';
import { root } from '../support/sources.ts';

/** Pages of which every session is run, or marked as not run. CONTRIBUTING.md explains the marks. */
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'helm/countersign/README.md',
  ...globSync('docs/**/*.md', { cwd: root }).sort(),
].map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

const start = 'npm ci && npm start';
const readme = pages[0]?.text ?? '';
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));

const marks: Readonly<Record<string, readonly string[]>> = {
  console: ['', 'background', 'not-run'],
  sh: ['not-run', 'chart'],
};

/** Milliseconds: a rotation of the demo is slow on purpose. */
const timeout = 60_000;

/** With UPDATE_DOC_EXAMPLES=1 the pages get the output that differs, instead of failing. */
const updating = process.env['UPDATE_DOC_EXAMPLES'] === '1';

/** A folder in which the pages' files may be created: everything of the project is linked into it. */
let folder: string;
let service: ChildProcess;
let release: () => void;

beforeAll(async () => {
  release = await acquire();
  folder = mkdtempSync(join(tmpdir(), 'countersign-docs-'));
  for (const name of readdirSync(root)) symlinkSync(join(root, name), join(folder, name));
  for (const { text } of pages) {
    for (const { info, text: file } of blocksOf(text, 'yaml')) {
      if (info !== '') writeFileSync(join(folder, info), file);
    }
  }
  writeFileSync(join(folder, 'countersign.log'), sampleLog());
  service = spawn('npm', ['start'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  await new Promise<void>((resolve, reject) => {
    service.once('exit', (code) => reject(new Error(`npm start ended with ${code}`)));
    service.stdout?.on('data', (text: Buffer) => text.includes('"started"') && resolve());
  });
});

afterAll(async () => {
  await end(service);
  rmSync(folder, { recursive: true, force: true });
  release();
});

describe('the README', () => {
  it('begins with the command that starts everything', () => {
    expect(stepsOf(blocksOf(readme, 'console')[0]?.text ?? '')[0]?.command).toBe(start);
  });

  it('has 110 lines at most', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(110);
  });
});

describe.each(pages)('$path', ({ path, text }) => {
  it('marks what is not run, and names npm scripts that exist', () => {
    // blocksOf does not see these.
    expect(text).not.toMatch(/^ .*```(?:console|sh)\b/m);
    for (const [language, known] of Object.entries(marks)) {
      const blocks = blocksOf(text, language);
      for (const { info } of blocks) expect(known).toContain(info);
      const named = blocks.flatMap((block) => [...block.text.matchAll(/\bnpm run (?:-s )?([\w:-]+)/g)]);
      expect(Object.keys(scripts)).toEqual(expect.arrayContaining(named.map(([, name]) => name)));
    }
  });

  const background: ChildProcess[] = [];
  afterAll(() => Promise.all(background.map(end)));

  const steps = blocksOf(text, 'console')
    .filter(({ info }) => info !== 'not-run')
    .flatMap(({ info, text: block }) => stepsOf(block).map((step) => ({ ...step, info })))
    .filter(({ command }) => command !== start);
  // The other steps of such a page need the keys that openssl makes.
  const itOfPage = steps.some(({ command }) => command.includes('openssl')) ? itWith('openssl') : it;
  for (const { command, output, info } of steps) {
    const itRuns = /\bjq\b/.test(command) ? itWith('jq') : itOfPage;
    if (info === 'background') {
      itRuns(`starts, and prints: ${command}`, () => startInBackground(command, output, background));
      continue;
    }
    itRuns(
      `shows what this prints: ${command}`,
      async () => {
        const actual = await run(command);
        if (updating && normalized(actual) !== normalized(output)) update(path, { command, output }, actual);
        else expect(normalized(actual)).toBe(normalized(output));
      },
      timeout,
    );
  }

  for (const { text: command } of blocksOf(text, 'sh').filter(({ info }) => info === 'chart')) {
    itWith('helm')('shows a command that installs the chart', () => {
      const [, , , from, ...options] = command.trim().split(/\s+/);
      expect(from).toBe(chart);
      const given = options.map((option) => (option.endsWith('.yaml') ? join(folder, option) : option));
      expect(template(given)).toMatchObject({ status: 0, stderr: '' });
    });
  }
});

itWith('jq')('the filters for a log in docs/troubleshooting.md are valid', async () => {
  const page = pages.find(({ path }) => path === 'docs/troubleshooting.md')?.text ?? '';
  const filters = [...page.matchAll(/\| `(select\(.*)` \|$/gm)].map(([, filter = '']) =>
    filter.replaceAll('\\|', '|'),
  );
  expect(filters.length).toBeGreaterThan(5);
  expect(await run(filters.map((filter) => `jq -c '${filter}' countersign.log >found.json`).join('\n'))).toBe(
    '',
  );
});

/** Runs a command until the end of its page, once it has printed what the page shows. */
async function startInBackground(command: string, output: string, running: ChildProcess[]): Promise<void> {
  const child = spawn('bash', ['-c', command], { cwd: folder, detached: true });
  running.push(child);
  let printed = '';
  await new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      printed += chunk.toString();
      if (normalized(printed).includes(normalized(output))) resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('close', () => reject(new Error(`${command} ended. It printed:\n${printed}`)));
    // It shows nothing: what follows needs it.
    if (output === '') setTimeout(resolve, 500);
  });
}

/** Ends a process and those that it started. */
async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('close', resolve));
  process.kill(-child.pid, 'SIGTERM');
  await ended;
}

function update(page: string, { command, output }: Step, actual: string): void {
  const file = join(root, page);
  const session = (printed: string) => `$ ${command}\n${printed === '' ? '' : `${printed}\n`}`;
  const text = readFileSync(file, 'utf8');
  writeFileSync(
    file,
    text.replace(session(output), () => session(actual.trimEnd())),
  );
}

/** What a terminal shows. */
function run(command: string): Promise<string> {
  return new Promise((resolve) => {
    const both = `exec 2>&1\n${command}`;
    execFile('bash', ['-c', both], { cwd: folder, maxBuffer: 1e7 }, (_error, out) => resolve(out));
  });
}
