import { hash, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { loadConfig } from '../../config/load.ts';
import { fromEnvironment } from '../../config/variables.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { type Severity, severities } from '../../observability/status/finding-codes.ts';
import { secretText } from '../../util/secret-text.ts';
import { findDemo } from '../demo/ready-file.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { list, type OptionValues, oneOf, parsed, wholeNumber } from '../shared/command.ts';

import type { AllSettings, StatusServer } from './read-status.ts';

const defaultUrl = 'http://127.0.0.1:9090';

export const options = {
  'url URL': `Admin port of the instance (default: that of the running demo, or else ${defaultUrl})`,
  'all URL': list(
    'All instances in one table, in place of --url: a name with an address for each, such as a headless Service; or one URL for each, separated by commas',
    String,
  ),
  'server-name NAME': 'With --all: the name in the certificates of the instances (default: that of the URL)',
  'allow-plaintext':
    'With --all: send the token without TLS beyond loopback too, to whatever addresses DNS gives',
  'timeout SECONDS': parsed('Seconds for the status of an instance, 1 to 60', wholeNumber(1, 60), '5'),
  'token-file FILE':
    'File with the token of the page (admin.tokenSha256 is its hash); - reads standard input',
  'token-env NAME': 'Environment variable with the token, in place of a file',
  'ca-file FILE': 'Verify the certificate of an https URL with this CA',
  'config FILE':
    'Configuration of an instance on this host: the address of its admin port and its certificate',
  'cert-file FILE': 'Client certificate, where admin.tls.clientCaFile requires one',
  'key-file FILE': 'Private key of that certificate',
  'ready-file FILE': 'Ready file of the demo to show (default: the demo that was started last)',
  watch: 'Keep updating the status until Ctrl-C',
  'interval SECONDS': parsed(
    'With --watch: seconds between two readings, 1 to 3600',
    wholeNumber(1, 3600),
    '2',
  ),
  'fail-on SEVERITY': parsed(
    'Exit with 1 also for a finding of this severity or worse: warn or bad',
    // What is only for information is no reason to fail.
    oneOf(['warn', 'bad']),
  ),
  'failures N': parsed(
    'How many lines of failed requests to show, 0 to 100; equal ones share a line',
    wholeNumber(0, 100),
    '10',
  ),
  json: 'Print JSON; with --watch, each status in one line',
};

export interface StatusSettings {
  /** One instance, or all. */
  readonly of: StatusServer | AllSettings;
  /** Milliseconds for the status of an instance. */
  readonly timeout: number;
  /** Milliseconds between two readings. Absent: one reading. */
  readonly interval: number | undefined;
  /** How many lines of failed requests are shown. */
  readonly failures: number;
  readonly json: boolean;
  /** Findings that make the command fail. */
  readonly failOn: readonly Severity[];
}

type Values = OptionValues<typeof options>;

/** @throws CliError for invalid options; an error of node:fs for an unreadable file */
export async function settingsFrom(values: Values): Promise<StatusSettings> {
  const { url, 'ready-file': readyFile, config, 'fail-on': failOn } = values;
  const all = values.all.length === 0 ? undefined : values.all.join();
  assertOneOf({ all, url, 'ready-file': readyFile, config });
  assertOneOf({ 'ca-file': values['ca-file'], config });
  if ((values['cert-file'] === undefined) !== (values['key-file'] === undefined))
    throw new CliError('--cert-file and --key-file are only valid together', exitCode.usage);
  const isOnlyForAll = values['server-name'] !== undefined || values['allow-plaintext'];
  if (all === undefined && isOnlyForAll)
    throw new CliError('--server-name and --allow-plaintext are only valid with --all', exitCode.usage);
  return {
    of: all === undefined ? await serverFrom(values) : await allFrom(all, values),
    timeout: values.timeout * 1000,
    interval: values.watch ? values.interval * 1000 : undefined,
    failures: values.failures,
    json: values.json,
    failOn: failOn === undefined ? [] : severities.slice(0, severities.indexOf(failOn) + 1),
  };
}

async function serverFrom(values: Values): Promise<StatusServer> {
  const { url, 'ready-file': readyFile, config } = values;
  const configured = config === undefined ? undefined : await adminPortOf(config);
  const access = await accessFrom(values);
  return {
    ...access,
    url: statusUrl(configured?.url ?? url ?? findDemo(readyFile)?.adminUrl ?? defaultUrl, '--url'),
    tls: { ...access.tls, pinned: configured?.certificate },
  };
}

async function allFrom(all: string, values: Values): Promise<AllSettings> {
  const urls = all.split(',').map((one) => statusUrl(one, '--all'));
  const access = await accessFrom(values);
  return {
    urls,
    access: { ...access, option: '--all', tls: { ...access.tls, serverName: values['server-name'] } },
    allowPlaintext: values['allow-plaintext'],
  };
}

async function accessFrom(values: Values): Promise<Omit<StatusServer, 'url'>> {
  return {
    token: await readToken(values),
    tls: {
      ca: await readGiven(values['ca-file']),
      cert: await readGiven(values['cert-file']),
      key: await readGiven(values['key-file']),
    },
  };
}

/** @throws CliError if more than one of these options is given */
function assertOneOf(values: Readonly<Record<string, string | undefined>>): void {
  const given = Object.keys(values).filter((name) => values[name] !== undefined);
  if (given.length < 2) return;
  const names = given.map((name) => `--${name}`).join(' and ');
  throw new CliError(`${names} are mutually exclusive`, exitCode.usage);
}

async function readGiven(file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : readFile(file, 'utf8');
}

/**
 * Where an instance with this configuration listens, and the certificate that it has then. Values of variables that are
 * not set here are not needed.
 */
async function adminPortOf(file: string): Promise<{ url: string; certificate: string | undefined }> {
  const lookUp = (name: string): string => fromEnvironment(name) ?? hash('sha256', name);
  const loaded = await loadConfig(file, builtInOperations, { lookUp, skipFiles: true });
  if ('problems' in loaded)
    throw new CliError(`${file} is not valid. Run: countersign check ${file}`, exitCode.usage);
  const { host, port, tls } = loaded.config.admin;
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`,
    // Not those of the CAs behind it.
    certificate: tls && new X509Certificate(await readFile(tls.certFile)).toString(),
  };
}

/** A password in the URL would be in the history of the shell and in the list of processes. */
function statusUrl(text: string, option: '--url' | '--all'): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.username + url.password !== '') {
    throw new CliError(`${option} must not hold credentials: use --token-file FILE`, exitCode.usage);
  }
  const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && url.search + url.hash === '';
  if (!isPlain || !['/', '/status.json'].includes(url.pathname)) {
    throw new CliError(`${option} must be http://HOST:PORT or https://HOST:PORT`, exitCode.usage);
  }
  return new URL('/status.json', url);
}

/**
 * The token for the status page. Never part of a message.
 *
 * @throws CliError for options that exclude each other, a variable that is not set, or what is no token
 */
async function readToken(values: Values): Promise<string | undefined> {
  const { 'token-file': file, 'token-env': name } = values;
  assertOneOf({ 'token-file': file, 'token-env': name });
  if (file === '-') return checked(await buffer(process.stdin), 'standard input');
  if (file !== undefined) return checked(await readFile(file), file);
  // The name is not repeated: it may be the token, given by mistake.
  return name === undefined ? undefined : checked(fromEnvironment(name) ?? '', 'the variable of --token-env');
}

/** What fits into a header. */
function checked(content: string | Uint8Array, place: string): string {
  const read = secretText(content, 'token');
  if ('text' in read && read.text.length <= 4096) return read.text;
  const fault = 'fault' in read ? read.fault.replace(/^is empty$/, 'is empty or not set') : 'is too long';
  throw new CliError(`${place} ${fault}: it must hold the token and nothing else`, exitCode.usage);
}
