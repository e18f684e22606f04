import { type ChildProcessWithoutNullStreams as Child, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { buildTree, execForm, makeReadOnly } from '../support/image.ts';

const dockerfile = readFileSync('Dockerfile', 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'countersign-image-'));
const keys = join(folder, 'keys');
const children: Child[] = [];
let tree = '';

/** Runs the steps of the Dockerfile in a directory that is read-only for the user of the image. */
beforeAll(() => {
  chmodSync(folder, 0o755);
  tree = buildTree(process.cwd(), join(folder, 'stages'));
  makeReadOnly(join(tree, 'app'));
  cpSync('test/vectors/keys/rsa-2048-pkcs8.pem', join(keys, 'sandbox/acme/private_key.pem'));
  writeFileSync(join(keys, 'sandbox/acme/control_key'), 'AF4B7DE6&with=reserved');
}, 120_000);

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Starts a command of the image, as its user if possible, with nothing in its environment but a path to Node. */
function run(command: readonly string[]): Child {
  const [program = '', ...words] = command.map((word) =>
    /^\/(app|usr)\//.test(word) ? join(tree, word) : word,
  );
  const user = process.getuid?.() === 0 ? { uid: 65_532, gid: 65_532 } : {};
  const child = spawn(program === 'node' ? process.execPath : program, words, {
    cwd: join(tree, 'app'),
    env: { NODE_ENV: 'production', PATH: dirname(process.execPath) },
    ...user,
  });
  children.push(child);
  return child;
}

const [node = '', ...entryPoint] = execForm(dockerfile, 'ENTRYPOINT');
const countersign = (...args: string[]): Child => run([node, ...entryPoint, ...args]);

/** The first match in the output. @throws Error with the output if the process exits without a match */
async function printed(child: Child, pattern: RegExp): Promise<string[]> {
  let output = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    output += String(chunk);
    const found = pattern.exec(output);
    if (found !== null) return found.slice(1);
  }
  throw new Error(`no ${String(pattern)} in: ${output}${await text(child.stderr)}`);
}

/** The proxy in front of the simulator, both from the tree. */
async function serve(
  nodeOptions: readonly string[] = [],
): Promise<{ child: Child; proxy: string; file: string }> {
  const simulator = countersign('simulate', '--keys', keys, '--port', '0');
  const [gateway] = await printed(simulator, /Gateway simulator: (http:\/\/[\d.:]+)/);
  const file = join(folder, 'config.yaml');
  writeFileSync(
    file,
    `proxy: { port: 0 }
admin: { port: 0 }
environments: { sandbox: { baseUrl: "${gateway}", product: gw } }
keys: { source: directory, directory: "${keys}" }
callers:
  - name: local
    credentials: [{ anonymous: true }]
    allow: [{ environments: ["*"], operations: ["*"], logins: ["*"] }]
`,
  );
  const child = run([node, ...nodeOptions, ...entryPoint, 'serve', '--config', file]);
  const [proxy = ''] = await printed(child, /"proxy":"([^"]+)"/);
  return { child, proxy, file };
}

it('the image signs a balance query and an order status, and shuts down gracefully', async () => {
  const { child, proxy } = await serve();
  const post = (path: string, body: string) =>
    fetch(`${proxy}/sandbox/gw/api${path}`, { method: 'POST', body: new URLSearchParams(body) });
  const balance = await post('/v2/get-balance/manager/acme', 'balance-name=Main USD');
  expect({ status: balance.status, body: await balance.json() }).toMatchObject({
    status: 200,
    body: [{ name: 'Main USD', amount: 12500.5, merchantLogin: 'acme' }],
  });
  const status = await post('/v4/status/1234', 'login=acme&client_orderid=invoice-1');
  expect({ status: status.status, body: await status.text() }).toMatchObject({
    status: 200,
    body: expect.stringContaining('merchant-order-id=invoice-1'),
  });
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});

it('a missing file is reported, with the exit code of an invalid configuration', async () => {
  const child = run([...execForm(dockerfile, 'ENTRYPOINT'), ...execForm(dockerfile, 'CMD')]);
  expect(await text(child.stderr)).toContain('does not exist');
  expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(2);
});

it('other commands run in place of the default one, and in a container that runs', async () => {
  const { file } = await serve();
  const own = countersign('check', '--config', file);
  const inside = run(['/usr/local/bin/countersign', 'check', '--config', file]);
  const [first, second] = await Promise.all([text(own.stdout), text(inside.stdout)]);
  expect(first).toContain('sandbox');
  expect(second).toBe(first);
  const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'));
  expect(await text(run(['/usr/local/bin/countersign', '--version']).stdout)).toBe(`${version}\n`);
});

it('a stack trace in the log leads to the lines of src', async () => {
  const breaksHmac = `import crypto from 'node:crypto'; import { syncBuiltinESMExports } from 'node:module';
    const { hash } = crypto;
    crypto.hash = (name, ...more) => { if (name === 'sha1') throw new Error('broken'); return hash(name, ...more); };
    syncBuiltinESMExports();`;
  const script = `data:text/javascript,${encodeURIComponent(breaksHmac)}`;
  const { child, proxy } = await serve(['--import', script]);
  const frame = printed(child, /"stack":\[.*?at [^"]*?\/app\/(src\/oauth1\/[\w-]+\.ts):(\d+):\d+/);
  const balance = `${proxy}/sandbox/gw/api/v2/get-balance/manager/acme`;
  expect(await fetch(balance, { method: 'POST', body: new URLSearchParams() })).toMatchObject({
    status: 500,
  });
  const [file = '', line] = await frame;
  expect(readFileSync(file, 'utf8').split('\n')[Number(line) - 1]).toContain("hash('sha1'");
});

it('the image contains only compiled code, data files and production dependencies', () => {
  const app = join(tree, 'app');
  expect(readdirSync(app).sort().join(' ')).toBe(
    'LICENSE config dist node_modules package.json sbom.cdx.json',
  );
  const files = readdirSync(app, { recursive: true, encoding: 'utf8' });
  const built = files.filter((file) => file.startsWith('dist/'));
  expect(built.filter((file) => /\.m?ts$/.test(file))).toEqual([]);
  const programs = built.filter((file) => /\.c?js$/.test(file));
  expect(built.filter((file) => file.endsWith('.map')).sort()).toEqual(
    programs.map((file) => `${file}.map`).sort(),
  );
  expect(files.filter((file) => file.endsWith('.node'))).toEqual([]);
  const installed = packagesOf(join(app, 'node_modules/.package-lock.json'));
  const wanted = packagesOf('package-lock.json').filter(([, { dev, optional, devOptional }]) =>
    [dev, optional, devOptional].every((flag) => flag !== true),
  );
  expect(installed.map(([path]) => path)).toEqual(wanted.map(([path]) => path));
});

interface Locked {
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly devOptional?: boolean;
}

function packagesOf(lockFile: string): [path: string, locked: Locked][] {
  const { packages }: { packages: Record<string, Locked> } = JSON.parse(readFileSync(lockFile, 'utf8'));
  return Object.entries(packages).filter(([path]) => path !== '');
}
