import { describe, expect, it } from '@jest/globals';
import { type Import, type Source, sourcesIn } from '../support/sources.ts';

const sources = sourcesIn('src/**/*.ts');

/**
 * Who may import whom. A pattern is a folder or a file of src; after `type ` only its types. Every file may
 * import the leaves below, and files in the same folder.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  main: ['cli/run', 'service/signals', 'service/thread-pool'],
  cli: [
    'audit',
    'auth',
    'config',
    'gateway',
    'keys',
    'net',
    'oauth1',
    'observability',
    'once',
    'proxy',
    'service',
    'simulator',
  ],
  service: ['audit', 'auth', 'config', 'gateway', 'keys', 'net', 'observability', 'once', 'proxy'],
  proxy: [
    'type config/schema',
    'type request-context',
    'type audit',
    'auth',
    'gateway',
    'keys/ring',
    'net',
    'type keys/key-source',
    'type keys/login-ref',
    'type keys/selector',
    'oauth1',
    'once',
    'type observability/debug-log',
    'type observability/logger',
    'type observability/login-redactor',
    'type observability/events',
    'type observability/tracing/request-tracer',
    'type observability/tracing/tracing',
  ],
  observability: [
    'type config/schema/values',
    'request-context',
    'gateway/response',
    'type gateway/router',
    'auth/jwt/jwt-error',
    'type auth/jwt/verify',
    'type audit/chain',
    'type auth/authenticate',
    'type keys/choice',
    'keys/key-source',
    'type keys/selector',
    'type keys/key-state',
    'type keys/login-ref',
    'type keys/ring',
    'type oauth1/methods',
    'net',
  ],
  audit: ['type request-context'],
  auth: ['type config/schema', 'net'],
  gateway: ['type config/schema', 'request-context'],
  keys: ['type config/schema', 'type oauth1/methods', 'net'],
  net: [],
  once: ['net'],
  // Never oauth1: a verifier that shares a step with the signer cannot find its mistakes.
  simulator: [
    'gateway/operations',
    'net/http',
    'config/operations-file',
    'config/problem',
    'config/rules',
    'config/schema/operation',
    'config/schema/values',
    'config/parse-value',
  ],
  config: ['net/tls-files', 'net/tls-material', 'audit/key'],
  oauth1: [],
  'request-context': [
    'type auth/jwt/jwt-error',
    'type auth/authenticate',
    'type net/network-failure',
    'type oauth1/methods',
  ],
  errors: [],
  identifiers: [],
  'read-files': [],
  'redact-card-data': [],
  secret: [],
  trace: [],
  util: [],
};

const leaves: ReadonlySet<string> = new Set([
  'errors',
  'identifiers',
  'preflight.cjs',
  'read-files',
  'redact-card-data',
  'secret',
  'trace',
  'util',
]);

/** Packages that only these files may import. */
const importers: Readonly<Record<string, readonly RegExp[]>> = {
  '@redis/client': [/^src\/once\/redis-connection\.ts$/],
  '@opentelemetry/api': [/^src\/observability\/tracing\/request-tracer\.ts$/],
  '@opentelemetry/otlp-exporter-base': [/^src\/observability\/tracing\/export-spans\.ts$/],
  '@opentelemetry/otlp-transformer': [/^src\/observability\/tracing\/export-spans\.ts$/],
  '@opentelemetry/resources': [/^src\/observability\/tracing\/request-tracer\.ts$/],
  '@opentelemetry/sdk-trace': [/^src\/observability\/tracing\//],
  express: [
    /^src\/service\/app\.ts$/,
    /^src\/proxy\//,
    /^src\/observability\/admin-app\.ts$/,
    /^src\/simulator\//,
  ],
  helmet: [/^src\/service\/app\.ts$/, /^src\/observability\/admin-app\.ts$/, /^src\/simulator\//],
  'http-proxy-middleware': [/^src\/proxy\/outbound\/upstream-client\.ts$/],
  jose: [/^src\/auth\/jwt\//],
  'lru-cache': [/^src\/keys\/(table|vault\/transit)\.ts$/],
  'node-vault': [/^src\/keys\/vault\/client\.ts$/],
  pino: [/^src\/observability\/logger\.ts$/],
  'prom-client': [/^src\/observability\//],
  'sonic-boom': [/^src\/observability\/log-destination\.ts$/],
  yaml: [/^src\/config\//],
  zod: [
    /^src\/config\//,
    /^src\/keys\/vault\//,
    /^src\/observability\/status\/(facts|schema)\.ts$/,
    /^src\/simulator\//,
  ],
};

/** Modules of src that only these files may import: which key signs, and when the source is read, is decided in one place. */
const importersOfModules: typeof importers = {
  'keys/choice': [/^src\/keys\/(selector|table|key-state)\.ts$/, /^src\/observability\/debug-log\.ts$/],
  'keys/reader': [/^src\/keys\/selector\.ts$/, /^src\/service\/key-services\.ts$/],
  'keys/table': [/^src\/keys\/(reader|selector)\.ts$/, /^src\/service\/(key-services|status)\.ts$/],
  'util/slots': [/^src\/keys\/(reader|selector|directory\/source)\.ts$/, /^src\/proxy\/signing-pool\.ts$/],
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

  it('of packages are only in the files that may have them', () => {
    const wrong = sources.flatMap((source) =>
      source.imports
        .filter((one) => !one.of.startsWith('src/') && !one.of.startsWith('node:'))
        .filter((one) => !(importers[one.of] ?? []).some((place) => place.test(source.path)))
        .map((one) => `${source.path} -> ${one.of}`),
    );
    expect(wrong).toEqual([]);
  });

  it('of some modules are only in the files that may have them, each of which does', () => {
    for (const [name, places] of Object.entries(importersOfModules)) {
      const from = sources
        .filter(({ imports }) => imports.some(({ of }) => of === `src/${name}.ts`))
        .map(({ path }) => path);
      expect(from.filter((path) => !places.some((place) => place.test(path)))).toEqual([]);
      expect(places.filter((place) => !from.some((path) => place.test(path)))).toEqual([]);
    }
  });

  it('of the table are all needed, and types suffice where it says so', () => {
    const unused = Object.entries(allowed).flatMap(([from, patterns]) => {
      const imports = sources
        .filter(({ path }) => groupOf(path) === from)
        .flatMap((source) => source.imports);
      return patterns
        .filter((pattern) => {
          const typesOnly = pattern.startsWith('type ');
          const place = pattern.replace(/^type /, '');
          return !imports.some((one) => covers(place, one.of) && one.typeOnly === typesOnly);
        })
        .map((pattern) => `${from}: ${pattern}`);
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
    expect(revealing).toEqual(expect.arrayContaining(['src/oauth1/methods.ts', 'src/secret.ts']));
    const places = [
      /^src\/secret\.ts$/,
      /^src\/oauth1\/methods\.ts$/,
      /^src\/keys\/key\.ts$/,
      /^src\/keys\/vault\//,
      /^src\/simulator\/signature\.ts$/,
      /^src\/observability\/tracing\/export-spans\.ts$/,
      /^src\/net\/egress-proxy\.ts$/,
    ];
    expect(revealing.filter((path) => !places.some((place) => place.test(path)))).toEqual([]);
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
  ['test/abuse', ['test/support']],
  ['test/bench', ['test/support']],
  ['test/faults', ['test/support']],
  ['test/rotation-model', ['src', 'test/support']],
  ['test/rotations', ['test/support']],
  ['test/unit', ['src', 'scripts', 'test/support', 'test/faults', 'test/rotation-model', 'test/rotations']],
  ['test/integration', ['src', 'scripts', 'test/support', 'test/faults']],
  ['test/repo', ['src', 'scripts', 'test/support', 'test/bench']],
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
  ])('is accessed through %s only in the composition root and the CLI', (name, place) => {
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

function isAllowed(source: Source, one: Import): boolean {
  const from = groupOf(source.path);
  const to = groupOf(one.of);
  if (from === to || leaves.has(to)) return true;
  return (allowed[from] ?? []).some((pattern) => {
    const typesOnly = pattern.startsWith('type ');
    return covers(pattern.replace(/^type /, ''), one.of) && (!typesOnly || one.typeOnly);
  });
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
