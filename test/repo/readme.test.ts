import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { withTables } from '../../scripts/docs/tables.ts';
import { blocksOf, normalised, stepsOf } from '../support/doc-examples.ts';
import { chart, template, values } from '../support/helm.ts';
import { KeysTestEnvironment } from '../support/keys-test-environment.ts';
import { acquire } from '../support/port-lock.ts';
import { itWith } from '../support/requires.ts';
import { root } from '../support/sources.ts';
import { rootToken } from '../support/stub-vault/state.ts';
import { PageRunner, plainly } from '../support/vault-page.ts';

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const start = 'npm ci && npm start';
const steps = blocksOf(readme, 'console')
  .filter(({ info }) => info === '')
  .flatMap(({ text }) => stepsOf(text))
  .filter(({ command }) => command !== start);

/** A folder in which the README's files may be made: everything of the project is there by links. */
let folder: string;
let service: ChildProcess;
let release: () => void;

beforeAll(async () => {
  release = await acquire();
  folder = mkdtempSync(join(tmpdir(), 'countersign-readme-'));
  for (const name of readdirSync(root)) symlinkSync(join(root, name), join(folder, name));
  for (const { info, text } of blocksOf(readme, 'yaml')) {
    if (info !== '') writeFileSync(join(folder, info), text);
  }
  service = spawn('npm', ['start'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], detached: true });
  await new Promise<void>((resolve, reject) => {
    service.once('exit', (code) => reject(new Error(`npm start ended with ${code}`)));
    service.stdout?.on('data', (text: Buffer) => text.includes('"started"') && resolve());
  });
});

afterAll(async () => {
  const ended = new Promise((resolve) => service.once('close', resolve));
  if (service.pid !== undefined) process.kill(-service.pid, 'SIGTERM');
  await ended;
  rmSync(folder, { recursive: true, force: true });
  release();
});

describe('the README', () => {
  it('begins with the command that starts everything', () => {
    expect(stepsOf(blocksOf(readme, 'console')[0]?.text ?? '')[0]?.command).toBe(start);
  });

  it.each(steps.map((step) => [step.command, step.output]))(
    'prints what this prints: %s',
    async (command, output) => {
      expect(normalised(await run(command))).toBe(normalised(output));
    },
  );

  it('has the tables that the code makes (node scripts/generate-readme.ts writes them)', () => {
    expect(withTables(readme)).toBe(readme);
  });

  it('has no link to a file or heading that is not there', () => {
    const anchors = new Set([...readme.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => anchorOf(title)));
    const links = [...readme.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
    const broken = links.filter((link) => {
      if (/^https?:/.test(link)) return false;
      if (link.startsWith('#')) return !anchors.has(link.slice(1));
      return !readdirSync(join(root, link, '..')).includes(link.replace(/#.*$/, '').split('/').at(-1) ?? '');
    });
    expect(links.length).toBeGreaterThan(5);
    expect(broken).toEqual([]);
  });
});

describe('the door for those who rotate keys', () => {
  const bench = new KeysTestEnvironment();
  let runner: PageRunner;
  const session = blocksOf(readme, 'console')
    .filter(({ info }) => info === 'vault')
    .flatMap(({ text }) => stepsOf(text));

  beforeAll(async () => {
    await bench.open();
    runner = new PageRunner(bench, rootToken);
  });
  afterAll(() => bench.close());

  it.each(session.map((step) => [step.command, step] as const))(
    'shows what this prints: %s',
    async (_name, step) => {
      expect(plainly(await runner.run(step))).toBe(plainly(step.output));
    },
  );
});

itWith('helm')('the command that installs the chart is one that helm takes', () => {
  const command = blocksOf(readme, 'sh').find(({ text }) => text.startsWith('helm install '))?.text ?? '';
  const [, , , from, ...options] = command.trim().split(/\s+/);
  expect(from).toBe(chart);
  const given = options.join(' ').replace('--values my-values.yaml', values('vault-kubernetes').join(' '));
  expect(template(given.split(' ')).status).toBe(0);
});

/** Standard output, and what a command says when it fails. */
function run(command: string): Promise<string> {
  return new Promise((resolve) => {
    execFile('bash', ['-c', command], { cwd: folder, maxBuffer: 1e7 }, (_error, out, err) =>
      resolve(out + err),
    );
  });
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w -]/g, '')
    .replaceAll(' ', '-');
}
