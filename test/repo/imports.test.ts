import { describe, expect, it } from '@jest/globals';
import { type Import, type Source, sourcesIn } from '../support/sources.ts';

const sources = sourcesIn('src/**/*.ts');

/**
 * Who may import whom: folders or files of src, after `type:` only their types. Every file may import the leaves
 * below, and files in the same folder.
 */
const allowed: Readonly<Record<string, string>> = {
  main: 'cli/run service/signals service/thread-pool',
  cli: 'audit auth config gateway keys net oauth1 observability once proxy service simulator',
  service: 'audit auth config gateway keys net observability once proxy',
  proxy:
    'auth gateway keys/ring net oauth1 once ' +
    'type:audit type:config/schema type:keys type:observability type:request-context',
  observability:
    'auth/jwt/jwt-error gateway/response keys/key-source net request-context ' +
    'type:audit type:auth type:config/schema type:gateway type:keys type:oauth1',
  audit: 'type:request-context',
  auth: 'net type:config/schema',
  gateway: 'request-context type:config/schema',
  keys: 'net type:config/schema type:oauth1/methods',
  once: 'net',
  // Never oauth1: a verifier that shares a step with the signer cannot find its mistakes.
  simulator:
    'config/operations-file config/parse-value config/problem config/rules config/schema gateway/operations net/http',
  config: 'audit/key net/tls-files net/tls-material',
  'request-context': 'type:auth type:net/network-failure type:oauth1/methods',
};
const leaves = new Set(
  'errors identifiers preflight.cjs read-files redact-card-data secret trace util'.split(' '),
);

/** Packages, and modules, that only these folders or files of src import. */
const importers: Readonly<Record<string, string>> = {
  '@redis/client': 'once/redis-connection',
  '@opentelemetry/api': 'observability/tracing/request-tracer',
  '@opentelemetry/otlp-exporter-base': 'observability/tracing/export-spans',
  '@opentelemetry/otlp-transformer': 'observability/tracing/export-spans',
  '@opentelemetry/resources': 'observability/tracing/request-tracer',
  '@opentelemetry/sdk-trace': 'observability/tracing',
  express: 'service/app proxy observability/admin-app simulator',
  helmet: 'service/app observability/admin-app simulator',
  'http-proxy-middleware': 'proxy/outbound/upstream-client',
  jose: 'auth/jwt',
  'lru-cache': 'keys/table keys/vault/transit',
  'node-vault': 'keys/vault/client',
  pino: 'observability/logger',
  'prom-client': 'observability',
  'sonic-boom': 'observability/log-destination',
  yaml: 'config',
  zod: 'cli/demo/ready-file config keys/vault observability/status simulator',
  // Which key signs, and when the source is read, is decided in one place.
  'src/keys/choice.ts': 'keys/selector keys/table keys/key-state',
  'src/keys/reader.ts': 'keys/selector service/key-services',
  'src/keys/table.ts': 'keys/reader keys/selector service/key-services service/status',
  'src/util/slots.ts': 'keys/reader keys/selector keys/directory/source proxy/signing-pool',
};

describe('imports', () => {
  it('go only where the table allows', () => {
    const wrong = sources.flatMap((source) =>
      source.imports
        .filter((one) => one.of.startsWith('src/') && !isAllowed(source, one))
        .map((one) => `${source.path} -> ${one.typeOnly ? 'type ' : ''}${one.of}`),
    );
    expect(wrong).toEqual([]);
  });

  it('make no circle, not even of types', () => {
    const imports = new Map(sources.map((source) => [source.path, source.imports.map(({ of }) => of)]));
    const done = new Set<string>();
    /** @param way the files that led here */
    const circlesFrom = (path: string, way: readonly string[]): string[] => {
      if (way.includes(path)) return [[...way.slice(way.indexOf(path)), path].join(' -> ')];
      if (done.has(path)) return [];
      const found = (imports.get(path) ?? []).flatMap((next) => circlesFrom(next, [...way, path]));
      done.add(path);
      return found;
    };
    expect(sources.flatMap(({ path }) => circlesFrom(path, []))).toEqual([]);
  });

  it('of packages and some modules are only in the files that may have them, each of which does', () => {
    const restricted = sources.flatMap(({ path, imports }) =>
      imports
        .filter(({ of }) => Object.hasOwn(importers, of) || !/^(src\/|node:)/.test(of))
        .map(({ of }) => ({ path, of })),
    );
    const placesOf = (of: string) => (importers[of] ?? '').split(' ');
    const wrong = restricted.filter(({ path, of }) => !placesOf(of).some((place) => covers(place, path)));
    expect(wrong).toEqual([]);
    const unused = Object.keys(importers).flatMap((name) =>
      placesOf(name).filter(
        (place) => !restricted.some(({ path, of }) => of === name && covers(place, path)),
      ),
    );
    expect(unused).toEqual([]);
  });

  it('of the table are all needed, and types suffice where it says so', () => {
    const unused = Object.keys(allowed).flatMap((from) => {
      const imports = sources
        .filter(({ path }) => groupOf(path) === from)
        .flatMap((source) => source.imports);
      return rulesOf(from)
        .filter(
          ({ place, typeOnly }) => !imports.some((one) => covers(place, one.of) && one.typeOnly === typeOnly),
        )
        .map(({ place }) => `${from}: ${place}`);
    });
    expect(unused).toEqual([]);
  });

  it('of util are of nothing that reads files or uses the network', () => {
    const wrong = sources
      .filter(({ path }) => path.startsWith('src/util/'))
      .flatMap(({ imports }) => imports.filter(({ typeOnly }) => !typeOnly))
      .filter(({ of }) => /^node:(child_process|dns|fs|https?|tls)/.test(of));
    expect(wrong).toEqual([]);
  });

  it('lead to the text of a secret only in the modules that use it', () => {
    const revealing = sources.filter(({ text }) => /\breveal\b/.test(text)).map(({ path }) => path);
    const places =
      'secret oauth1/methods keys/key keys/vault simulator/signature observability/tracing/export-spans net/egress-proxy';
    expect(revealing).toContain('src/oauth1/methods.ts');
    expect(revealing.filter((path) => !places.split(' ').some((place) => covers(place, path)))).toEqual([]);
  });
});

/**
 * The same for files outside src: folders or files of the project, and what they may import besides their own folder.
 * The first entry that has the file counts.
 */
const allowedOutside: readonly (readonly [from: string, to: readonly string[]])[] = [
  ['deploy', []],
  ['scripts/docs', ['src']],
  ['scripts/dashboards', []],
  ['scripts/pictures', ['scripts/dashboards']],
  ['scripts/recording', ['src', 'test/support']],
  ['scripts', ['scripts', 'test/support']],
  ['test/support', ['src']],
  ['test/bench', ['test/support']],
  ['test/faults', ['test/support']],
  ['test/rotation-model', ['src', 'test/support']],
  ['test/rotations', ['test/support']],
  ['test/unit', ['src', 'scripts', 'test/support', 'test/rotation-model']],
  ['test/integration', ['src', 'scripts', 'test/support', 'test/faults']],
  ['test/repo', ['src', 'scripts', 'test/support']],
];

describe('imports outside of src', () => {
  const outside = sourcesIn('{deploy,scripts,test}/**/*.{ts,mts}');
  const ownImports = ({ imports }: Source): Import[] =>
    imports.filter(({ of }) => /^(src|deploy|scripts|test)\//.test(of));
  const isIn = (folder: string, path: string): boolean => path.startsWith(`${folder}/`);

  it('go only where the table allows', () => {
    const wrong = outside.flatMap((source) => {
      const [from, to] = allowedOutside.find(([folder]) => isIn(folder, source.path)) ?? ['', []];
      return ownImports(source)
        .filter(({ of }) => ![from, ...to].some((folder) => isIn(folder, of)))
        .map(({ of }) => `${source.path} -> ${of}`);
    });
    expect(wrong).toEqual([]);
  });

  it('do not lead to a test', () => {
    const wrong = [...sources, ...outside].flatMap((source) =>
      ownImports(source)
        .filter(({ of }) => of.endsWith('.test.ts'))
        .map(({ of }) => `${source.path} -> ${of}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe('the environment of the process', () => {
  it.each([
    ['process.env', /^src\/(config\/variables|service\/thread-pool)\.ts$/],
    // The script of the page runs in a browser.
    ['Date.now', /^src\/((cli|service)\/|observability\/status\/page\/script\.ts$)/],
    ['Math.random', /^src\/(cli|service)\//],
    ['randomBytes', /^src\/(cli|service)\//],
    ['console.', /^never$/],
  ])('is accessed through %s only in %s', (name, place) => {
    const wrong = sources.filter(({ path, text }) => code(text).includes(name) && !place.test(path));
    expect(wrong.map(({ path }) => path)).toEqual([]);
  });
});

it.each([
  ['bypass of the type checker', /\bas any\b|: any\b|as unknown as|@ts-ignore|@ts-expect-error|@ts-nocheck/],
  ['TODO', /\b(TODO|FIXME|XXX|HACK)\b/],
])('src contains no %s', (_what, pattern) => {
  expect(sources.filter(({ text }) => pattern.test(text)).map(({ path }) => path)).toEqual([]);
});

/** What a group of src may import. */
function rulesOf(group: string): { place: string; typeOnly: boolean }[] {
  const rules = (allowed[group] ?? '').split(' ');
  return rules.map((rule) => ({ place: rule.replace('type:', ''), typeOnly: rule.startsWith('type:') }));
}

function isAllowed(source: Source, one: Import): boolean {
  const from = groupOf(source.path);
  const to = groupOf(one.of);
  if (from === to || leaves.has(to)) return true;
  return rulesOf(from).some(({ place, typeOnly }) => covers(place, one.of) && (!typeOnly || one.typeOnly));
}

function covers(place: string, path: string): boolean {
  return path === `src/${place}.ts` || path.startsWith(`src/${place}/`);
}

/** The folder or the file below src. */
function groupOf(path: string): string {
  return (path.split('/')[1] ?? '').replace(/\.ts$/, '');
}

function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
}
