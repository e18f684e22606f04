import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { loadConfig } from '../../config/load.ts';
import { fromEnvironment, placeholder } from '../../config/variables.ts';
import { builtInOperations } from '../../gateway/operations.ts';
import { type Severity, severities } from '../../observability/status/thresholds.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { type OptionValues, oneOf, parsed } from '../shared/command.ts';
import { adminPortVariable, configFileOf } from '../shared/config-file.ts';
import { readToken } from '../shared/token-file.ts';
import type { StatusServer } from './read-status.ts';

const defaultUrl = 'http://127.0.0.1:9090';

export const options = {
  'url URL': `Admin port of the instance (default: that of the configuration, or ${defaultUrl})`,
  'token-file FILE':
    'File with the token of the page (admin.tokenSha256 is its hash); - reads standard input',
  'ca-file FILE': 'Verify the certificate of an https URL with this CA',
  'config FILE':
    'Configuration of an instance on this host: the address of its admin port and its certificate (COUNTERSIGN_CONFIG, COUNTERSIGN_ADMIN_PORT)',
  'cert-file FILE': 'Client certificate, where admin.tls.clientCaFile requires one',
  'key-file FILE': 'Private key of that certificate',
  watch: 'Show it again every 2 seconds, until Ctrl-C',
  'fail-on SEVERITY': parsed(
    'Exit with 1 also for a finding of this severity or worse: warn or bad',
    // What is only for information is no reason to fail.
    oneOf(['warn', 'bad']),
  ),
  json: 'Print JSON; with --watch, each status in one line',
};

export interface StatusSettings {
  readonly of: StatusServer;
  readonly watch: boolean;
  readonly json: boolean;
  /** Findings that make the command fail. */
  readonly failOn: readonly Severity[];
}

type Values = OptionValues<typeof options>;

/** @throws CliError for invalid options; an error of node:fs for an unreadable file */
export async function settingsFrom(values: Values): Promise<StatusSettings> {
  const { url, config, 'ca-file': caFile, 'cert-file': certFile, 'key-file': keyFile } = values;
  const { 'fail-on': failOn, 'token-file': tokenFile, watch, json } = values;
  for (const [name, given] of Object.entries({ '--url': url, '--ca-file': caFile }))
    if (given !== undefined && config !== undefined)
      throw new CliError(`${name} and --config are mutually exclusive`, exitCode.usage);
  if ((certFile === undefined) !== (keyFile === undefined))
    throw new CliError('--cert-file and --key-file are only valid together', exitCode.usage);
  const read = async (file: string | undefined) => (file === undefined ? undefined : readFile(file, 'utf8'));
  const local: AdminPort = url === undefined ? await localAdminPort(config) : { url };
  return {
    of: {
      url: statusUrl(local.url),
      token: await readToken(tokenFile),
      tls: {
        ca: await read(caFile),
        cert: await read(certFile),
        key: await read(keyFile),
        pinned: caFile === undefined ? local.certificate : undefined,
      },
    },
    watch,
    json,
    failOn: failOn === undefined ? [] : severities.slice(0, severities.indexOf(failOn) + 1),
  };
}

interface AdminPort {
  readonly url: string;
  readonly certificate?: string | undefined;
}

/**
 * Where an instance with the configuration that it would take here listens, and the certificate that it has then; without
 * a configuration the default. Values of variables that are not set here are not needed.
 */
async function localAdminPort(option: string | undefined): Promise<AdminPort> {
  const file = configFileOf(option);
  const portVariable = adminPortVariable();
  if (file === undefined)
    return { url: portVariable === undefined ? defaultUrl : `http://127.0.0.1:${portVariable}` };
  const lookUp = (name: string): string => fromEnvironment(name) ?? placeholder(name);
  const loaded = await loadConfig(file, builtInOperations, { lookUp, skipFiles: true });
  if ('problems' in loaded)
    throw new CliError(
      `${file} is not valid: name the admin port with --url, such as ${defaultUrl}. Run: countersign check ${file}`,
      exitCode.usage,
    );
  const { host, tls } = loaded.config.admin;
  const port = portVariable ?? loaded.config.admin.port;
  if (port === 0)
    throw new CliError('the admin port is a free one: name it with --url, as the log has it', exitCode.usage);
  // At :: there is IPv4, too, and a machine without IPv6 has nothing else.
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return {
    url: `${tls === undefined ? 'http' : 'https'}://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`,
    // Not those of the CAs behind it.
    certificate: tls && new X509Certificate(await readFile(tls.certFile)).toString(),
  };
}

/** A password in the URL would be in the history of the shell and in the list of processes. */
function statusUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && url.username + url.password !== '')
    throw new CliError('--url must not hold credentials: use --token-file FILE', exitCode.usage);
  const isPlain = url !== undefined && /^https?:$/.test(url.protocol) && url.search + url.hash === '';
  if (!isPlain || !['/', '/status.json'].includes(url.pathname))
    throw new CliError('--url must be http://HOST:PORT or https://HOST:PORT', exitCode.usage);
  return new URL('/status.json', url);
}
