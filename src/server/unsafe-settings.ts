import { fromEnvironment } from '../config/load.ts';

/** Options of Node that can leak secrets or weaken the proxy, by name or prefix. */
const unsafeOptions: readonly (readonly [name: RegExp, effect: string])[] = [
  [/^--inspect/, 'opens a debugger, which can read every key'],
  [/^--report-(on-signal|on-fatalerror|uncaught-exception)$/, 'writes environment variables to a file'],
  [/^--(heapsnapshot-.+|heap-prof|cpu-prof|build-snapshot)$/, 'writes the memory of the process to a file'],
  [/^--abort-on-uncaught-exception$/, 'writes a core file that contains keys'],
  [/^--tls-keylog$/, 'writes the secrets of TLS connections to a file'],
  [/^--trace-tls$/, 'prints the data of TLS connections'],
  [/^--unhandled-rejections$/, 'prints error messages, which may contain card data'],
  [/^--insecure-http-parser$/, 'accepts requests that other servers parse differently'],
  [/^--security-revert$/, 'reverts security fixes'],
  [/^--experimental-(default-)?config-file$/, 'sets options that Countersign cannot check'],
];

/** Environment variables of the same kind. */
const unsafeVariables: readonly (readonly [
  name: string,
  isUnsafe: (value: string) => boolean,
  problem: string,
])[] = [
  [
    'NODE_TLS_REJECT_UNAUTHORIZED',
    (value) => value === '0',
    'NODE_TLS_REJECT_UNAUTHORIZED=0 disables certificate verification. Unset it; trust a CA with caFile.',
  ],
  [
    'NODE_DEBUG',
    isSet,
    'NODE_DEBUG makes Node print request headers, including Vault tokens and signatures. Unset it.',
  ],
  ['NODE_DEBUG_NATIVE', isSet, 'NODE_DEBUG_NATIVE makes Node print internal data. Unset it.'],
  ['DEBUG', isSet, 'DEBUG makes the Vault client print tokens and keys. Unset it.'],
];

/** Unsafe settings of the process, and what to do. Includes NODE_OPTIONS. */
export function unsafeSettings(
  lookUp: (name: string) => string | undefined = fromEnvironment,
  execArgv: readonly string[] = process.execArgv,
): string[] {
  const variables = unsafeVariables.filter(([name, isUnsafe]) => isUnsafe(lookUp(name) ?? ''));
  return [
    ...variables.map(([, , problem]) => problem),
    ...optionProblems(execArgv, 'the command line'),
    ...optionProblems(wordsOf(lookUp('NODE_OPTIONS') ?? ''), 'NODE_OPTIONS'),
  ];
}

const proxyVariables = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

/** Variables that other programs take an HTTP proxy from, and Countersign does not. */
export function unusedProxyVariables(
  lookUp: (name: string) => string | undefined = fromEnvironment,
): readonly string[] {
  return proxyVariables.filter((name) => isSet(lookUp(name) ?? ''));
}

function optionProblems(words: readonly string[], place: string): string[] {
  return words.flatMap((word) => {
    // Node accepts _ for - in option names.
    const name = (word.split('=')[0] ?? '').replaceAll('_', '-');
    const found = unsafeOptions.find(([pattern]) => pattern.test(name));
    return found === undefined ? [] : [`${name} ${found[1]}. Remove it from ${place}.`];
  });
}

/** NODE_OPTIONS may contain quotes and backslashes anywhere in a word; option names need none. */
function wordsOf(options: string): string[] {
  return options.replace(/["\\]/g, '').split(/\s+/);
}

function isSet(value: string): boolean {
  return value !== '';
}
