import { decisions } from '../../gateway/payment-status.ts';
import { createAgent } from '../../net/agent.ts';
import { readTlsMaterial } from '../../net/tls-files.ts';
import { printable } from '../../util/text.ts';
import { CliError, exitCode } from '../shared/cli-error.ts';
import { command, type Io, type OptionValues, parsed } from '../shared/command.ts';
import { table } from '../shared/table.ts';
import { readToken } from '../shared/token-file.ts';
import { asciiJson } from '../status/render.ts';
import { type PaymentResult, type Proxy, queryStatus } from './query-status.ts';
import { readPayments } from './read-payments.ts';

const options = {
  'url URL': parsed('Proxy port of Countersign', proxyUrl, 'http://127.0.0.1:8080'),
  'token-file FILE': 'File with the token of a caller that may query the order status',
  'ca-file FILE': 'Verify the certificate of an https URL with this CA',
  'cert-file FILE': 'Client certificate of a caller',
  'key-file FILE': 'Private key of that certificate',
  json: 'Print a line of JSON for each payment',
};

const spec = {
  name: 'payments query',
  usage: '[--url URL] [--token-file FILE] [--json] [options]',
  about:
    'Reads the payments of unknown outcome from standard input, which is /status.json of an instance or lines of its log, queries the status of each through the proxy, as its callers do, and prints what to do about it (docs/payments.md). Sends no payment.',
  options,
  exitCodes:
    '0 each is paid or not paid; 1 one is refunded, for the support of the gateway, or has to be queried again; 2 invalid usage',
};

export const queryPayments = command(spec, async ({ values }, io) => {
  const proxy = await proxyFrom(values);
  if (process.stdin.isTTY)
    throw new CliError(
      'no input. Run: countersign status --json | countersign payments query',
      exitCode.usage,
    );
  const payments = await readPayments(process.stdin, Date.now());
  if (payments.length === 0) io.err('No payment of unknown outcome.');
  const results: PaymentResult[] = [];
  // One at a time: several could exceed the limit of the caller.
  for (const payment of payments) {
    const result = await queryStatus(payment, proxy, Date.now);
    results.push(result);
    if (values.json) io.out(asciiJson(result));
  }
  if (results.length > 0 && !values.json) print(results, io);
  const isSettled = results.every(({ decision }) => decision === 'paid' || decision === 'not-paid');
  return isSettled ? exitCode.done : exitCode.failed;
});

async function proxyFrom(values: OptionValues<typeof options>): Promise<Proxy> {
  const { url, 'ca-file': caFile, 'cert-file': certFile, 'key-file': keyFile } = values;
  if ((certFile === undefined) !== (keyFile === undefined))
    throw new CliError('--cert-file and --key-file are only valid together', exitCode.usage);
  if (values['token-file'] === '-')
    throw new CliError('--token-file must be a file: standard input has the payments', exitCode.usage);
  const tls = readTlsMaterial({ caFile, certFile, keyFile });
  const agent = createAgent(url.href, tls, { keepAlive: false });
  return { url, agent, token: await readToken(values['token-file']) };
}

function print(results: readonly PaymentResult[], io: Io): void {
  const sorted = results.toSorted(
    (one, other) => decisions.indexOf(one.decision) - decisions.indexOf(other.decision),
  );
  const rows = sorted.map(({ decision, orderId, login, at, row, advice, detail, requestId }) => {
    const request = decision === 'ask-support' ? `request ${requestId}` : '';
    const more = [detail, request].filter((part) => part !== '').join(', ');
    const text = `${row}: ${advice.replaceAll('`', '')}${more === '' ? '' : ` (${more})`}`;
    return [decision.replace('-', ' '), orderId === '' ? '-' : orderId, login === '' ? '-' : login, at, text];
  });
  for (const line of table(['DECISION', 'ORDER', 'LOGIN', 'TIME', 'THE QUERY SAYS'], rows))
    io.out(printable(line));
}

/** A password in the URL would be in the history of the shell and in the list of processes. */
function proxyUrl(text: string, option: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.href !== `${url.origin}/`)
    throw new CliError(`${option} must be http://HOST:PORT or https://HOST:PORT`, exitCode.usage);
  return url;
}
