import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { admits, execForm, instructionsOf, readStages } from '../support/image.ts';

const dockerfile = readFileSync('Dockerfile', 'utf8');
const instructions = instructionsOf(dockerfile);
const last = readStages(dockerfile).at(-1);
const textsOf = (name: string): string[] =>
  instructions.filter((one) => one.name === name).map(({ text }) => text);

it('every base image and its digest are arguments without a default digest', () => {
  expect(textsOf('ARG')).toContain('NODE_DIGEST=');
  const froms = readStages(dockerfile).map(({ from }) => from);
  expect(new Set(froms)).toEqual(new Set(['${NODE_IMAGE}${NODE_DIGEST:+@${NODE_DIGEST}}']));
  expect(dockerfile).not.toMatch(/sha256:[0-9a-f]/);
});

it('the process is node in exec form, so that it receives signals', () => {
  const options =
    '--disable-sigusr1 --disable-proto=delete --disallow-code-generation-from-strings --no-addons';
  expect(execForm(dockerfile, 'ENTRYPOINT').join(' ')).toBe(`node ${options} /app/dist/bin.cjs`);
  expect(execForm(dockerfile, 'CMD')[0]).toBe('serve');
  expect(execForm(dockerfile, 'HEALTHCHECK')[0]).toBe('node');
});

it('the user is a number other than root', () => {
  const users = last?.instructions.filter(({ name }) => name === 'USER').map(({ text }) => text);
  expect(users).toEqual(['65532:65532']);
});

it('no argument, variable or label contains a secret', () => {
  const settings = ['ARG', 'ENV', 'LABEL'].flatMap(textsOf).join('\n');
  expect(settings).not.toMatch(/token|secret|password|passphrase|api.?key|private/i);
});

it('the image has the OCI labels', () => {
  const names = textsOf('LABEL')
    .join(' ')
    .match(/(?<=org\.opencontainers\.image\.)\w+(?==)/g);
  expect(names?.join(' ')).toBe('title description licenses version revision created source');
});

it.each([
  ['src/main.ts', true],
  ['config/embedded.yaml', true],
  ['.git/config', false],
  ['node_modules/express/index.js', false],
  ['test/vectors/keys/rsa-2048-pkcs8.pem', false],
  ['src/debug.log', false],
  ['countersign.yaml', false],
])('the build sees %s: %s', (path, seen) => {
  expect(admits(readFileSync('.dockerignore', 'utf8'), path)).toBe(seen);
});

it('.dockerignore admits everything that the build copies', () => {
  const dockerignore = readFileSync('.dockerignore', 'utf8');
  const copied = textsOf('COPY')
    .filter((text) => !text.startsWith('--from='))
    .flatMap((text) => text.split(' ').slice(0, -1));
  expect(copied.filter((path) => !admits(dockerignore, path))).toEqual([]);
});
