import { fromEnvironment } from '../config/load.ts';

/** Options of Node under which no secret should be used, by name or by the beginning of one. */
const unsafeOptions: readonly (readonly [name: RegExp, why: string])[] = [
  [/^--inspect/, 'opens a debugger, which can read every key'],
  [/^--report-(on-signal|on-fatalerror|uncaught-exception)$/, 'writes environment variables to a file'],
  [/^--(heapsnapshot-.+|heap-prof|cpu-prof|build-snapshot)$/, 'writes what is in memory to a file'],
  [/^--abort-on-uncaught-exception$/, 'leaves a core file with the keys that were in memory'],
  [/^--tls-keylog$/, 'writes the secrets of TLS connections to a file'],
  [/^--trace-tls$/, 'prints what is sent over TLS connections'],
  [/^--unhandled-rejections$/, 'prints the texts of errors, which may hold card data'],
  [/^--insecure-http-parser$/, 'accepts requests that another server would read in another way'],
  [/^--security-revert$/, 'brings a closed security hole back'],
  [/^--experimental-(default-)?config-file$/, 'sets options that cannot be checked here'],
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
    'NODE_TLS_REJECT_UNAUTHORIZED=0 switches the verification of certificates off. Unset it; trust a CA with caFile.',
  ],
  [
    'NODE_DEBUG',
    isSet,
    'NODE_DEBUG makes Node print the headers of requests, Vault tokens and signatures among them. Unset it.',
  ],
  ['NODE_DEBUG_NATIVE', isSet, 'NODE_DEBUG_NATIVE makes Node print its inner workings. Unset it.'],
  ['DEBUG', isSet, 'DEBUG makes the client of Vault print tokens and keys. Unset it.'],
];

/** What is wrong with the settings of the process and what to do about it. Covers NODE_OPTIONS. */
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

function optionProblems(words: readonly string[], place: string): string[] {
  return words.flatMap((word) => {
    // Node takes _ for - in the name of an option.
    const name = (word.split('=')[0] ?? '').replaceAll('_', '-');
    const found = unsafeOptions.find(([pattern]) => pattern.test(name));
    return found === undefined ? [] : [`${name} ${found[1]}. Remove it from ${place}.`];
  });
}

/** Node's quotes and backslashes may stand anywhere in a word; no option's name needs them. */
function wordsOf(options: string): string[] {
  return options.replace(/["\\]/g, '').split(/\s+/);
}

function isSet(value: string): boolean {
  return value !== '';
}
