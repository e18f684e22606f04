import { readFileSync } from 'node:fs';
import type { Config } from '../config/schema.ts';
import { fromEnvironment } from '../config/variables.ts';
import type { Logger } from '../observability/logger.ts';
import { goodVersions, keepsResponsesApart } from '../preflight.cjs';

/**
 * Whether a Node is used that can mix up responses on connections that are used again. Connections are used once there
 * (net/agent.ts), and the log says so.
 *
 * @returns why Countersign does not start on it, unless this is the demo or the configuration allows it
 */
export function nodeVersionFault(
  { allowUnsafeNode }: Pick<Config, 'allowUnsafeNode'>,
  isDemo: boolean,
  log: Pick<Logger, 'message'>,
  version = process.version,
): string | undefined {
  if (keepsResponsesApart(version)) return undefined;
  if (!isDemo && !allowUnsafeNode)
    return `Node ${version} can give a request the response to another one (CVE-2026-48931). Use ${goodVersions}; for development, allowUnsafeNode: true starts without reused connections`;
  log.message('warn', 'connections are not used again: this Node version can mix up their responses', {
    node: version,
  });
  return undefined;
}

/**
 * What to do if a crash may write the memory of this process to a file; `undefined`: it may not, or that is unknown.
 *
 * @param limits the text of `/proc/self/limits`, see proc_pid_limits(5); the soft limit counts
 */
export function coreDumpProblem(limits = readLimits()): string | undefined {
  if (!/^Max core file size\s+(?!0\s)\S/m.test(limits)) return undefined;
  return 'core dumps are allowed: that of a crash would hold keys; forbid them (ulimit -c 0, LimitCORE=0, docker run --ulimit core=0)';
}

/** Logs a warning if core dumps are allowed. */
export function warnOfCoreDumps(log: Logger): void {
  const problem = coreDumpProblem();
  if (problem !== undefined) log.message('warn', problem);
}

/** Only Linux has the file; elsewhere the limit is unknown. */
function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}

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

/** Environment variables of the same kind. Of the first, only the value 0. */
const unsafeVariables: Readonly<Record<string, string>> = {
  NODE_TLS_REJECT_UNAUTHORIZED: '=0 disables certificate verification. Unset it; trust a CA with caFile.',
  NODE_DEBUG: ' makes Node print request headers, including Vault tokens and signatures. Unset it.',
  NODE_DEBUG_NATIVE: ' makes Node print internal data. Unset it.',
  DEBUG: ' makes the Vault client print tokens and keys. Unset it.',
};

/** Unsafe settings of the process, and what to do. Includes NODE_OPTIONS. */
export function unsafeSettings(
  lookUp: (name: string) => string | undefined = fromEnvironment,
  execArgv: readonly string[] = process.execArgv,
): string[] {
  const variables = Object.entries(unsafeVariables).filter(([name]) => {
    const value = lookUp(name) ?? '';
    return name === 'NODE_TLS_REJECT_UNAUTHORIZED' ? value === '0' : value !== '';
  });
  return [
    ...variables.map(([name, problem]) => name + problem),
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
  return proxyVariables.filter((name) => lookUp(name));
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
