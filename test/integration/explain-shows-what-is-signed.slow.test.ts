import { writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { explain } from '../../src/cli/explain/explain.ts';
import { runCommandHere } from '../support/cli.ts';
import { harness } from '../support/harness.ts';
import { otherBaseString } from '../support/oauth-sign.ts';
import type { Recorded, RecordingGateway } from '../support/recording-gateway.ts';
import { type TestProxy, testControlKey, testKeys, writeKeys } from '../support/service.ts';
import { receivedFrom, verifyAuthorization } from '../support/verify.ts';

const seed = 5849;
const count = 5_000;
const path = '/gw/api/v2/get-balance/manager/acme';

const words = (text: string) => fc.constantFrom(...text.split(' '));
/** Control characters and byte order marks, encoded and not, and every byte, encoded and not. */
const piece = fc.oneof(
  { weight: 12, arbitrary: words('client_orderid=lf-1 & = + amount=1.50 é 😀 %41 %C3%A9 %26') },
  { weight: 6, arbitrary: words('%0A %0D%0A %00 %09 %1b %7F %C2%85 %E2%80%A8 %EF%BB%BF') },
  { weight: 1, arbitrary: fc.constantFrom(...Array.from('\n\r\0\t\x1b\x7f\x85\u2028\ufeff')) },
  {
    weight: 2,
    arbitrary: fc
      .oneof({ weight: 9, arbitrary: fc.nat(0x7f) }, { weight: 1, arbitrary: fc.nat(0xff) })
      .map((byte) => `%${byte.toString(16).padStart(2, '0')}`),
  },
);
const anyByte = fc.nat(0xff).map((byte) => Buffer.of(byte));
const bodies = fc
  .array(
    fc.oneof(
      { weight: 40, arbitrary: piece.map((text) => Buffer.from(text)) },
      { weight: 1, arbitrary: anyByte },
    ),
    { maxLength: 10 },
  )
  .map((parts) => Buffer.concat(parts));

const starts = harness(afterAll);
let gateway: RecordingGateway;
let proxy: TestProxy;
let explainFile: (body: Buffer, ...more: string[]) => ReturnType<typeof runCommandHere>;

beforeAll(async () => {
  gateway = await starts.recordingGateway();
  proxy = await starts.proxy({ gateway: gateway.url });
  const folder = starts.folder();
  writeKeys(folder.at('keys'), 'sandbox', 'acme', testKeys);
  const config = folder.file(
    'config.yaml',
    `environments: { sandbox: { baseUrl: "${gateway.url}", product: gw } }
keys: { source: directory, directory: keys }
`,
  );
  explainFile = (body, ...more) => {
    writeFileSync(folder.at('form'), body);
    const argv = ['--config', config, '--target', `/sandbox${path}`, '--form', folder.at('form')];
    return runCommandHere(explain, ...argv, '--show-values', ...more);
  };
});

describe(`${count} forms of any bytes (seed ${seed})`, () => {
  it('are signed as they are or rejected, and explain shows the same', async () => {
    const agent = new Agent({ keepAlive: true });
    const ends = { signed: 0, rejected: 0 };
    for (const [index, body] of fc.sample(bodies, { seed, numRuns: count }).entries()) {
      gateway.requests.length = 0;
      const response = await send(body, agent);
      const [received] = gateway.requests;
      const problem =
        received === undefined ? rejectedWrongly(body, response) : signedWrongly(body, received);
      ends[received === undefined ? 'rejected' : 'signed'] += 1;
      const wrong = problem ?? (await explainedWrongly(body, response, received));
      if (wrong !== undefined) {
        throw new Error(`${wrong}: form ${index}, ${JSON.stringify(body.toString('latin1'))}`);
      }
    }
    agent.destroy();
    expect(ends.rejected).toBeGreaterThan(count / 5);
    expect(ends.signed).toBeGreaterThan(count / 5);
  }, 900_000);
});

async function send(body: Buffer, agent: Agent): Promise<string> {
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  httpRequest(`${proxy.url}/sandbox${path}`, { method: 'POST', agent, headers })
    .once('error', reject)
    .once('response', (response) => void buffer(response).then((bytes) => resolve(String(bytes)), reject))
    .end(body);
  return promise;
}

/** What a form must not have, independently of src/oauth1. */
function isMalformed(body: Buffer): boolean {
  const text = body.toString('latin1');
  if (/[^ -\xff]|\x7f|^\xef\xbb\xbf|%(?![0-9A-Fa-f]{2})/.test(text)) return true;
  const decoded = text
    .split(/[&=]/)
    .map((part) =>
      part.replace(/%(..)/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16))),
    );
  return decoded.some((part) => Buffer.from(part, 'latin1').toString('utf8').includes('\ufffd'));
}

function rejectedWrongly(body: Buffer, response: string): string | undefined {
  if (!isMalformed(body)) return `it was rejected: ${response}`;
  return JSON.parse(response).reason === 'malformed-form' ? undefined : response;
}

function signedWrongly(body: Buffer, received: Recorded): string | undefined {
  if (isMalformed(body)) return 'it was signed';
  const { form } = verifyAuthorization(receivedFrom(received), { controlKey: testControlKey });
  // URLSearchParams drops a leading "?"; the empty part before it prevents that.
  // A byte of UTF-8 may be escaped and the next one not.
  const escaped = body.toString('latin1').replace(/[^ -~]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  const expected = [...new URLSearchParams(`&${escaped}`)];
  return JSON.stringify(form) === JSON.stringify(expected) ? undefined : 'its pairs have changed';
}

/** The base string of the received bytes, or the error of the response. */
async function explainedWrongly(
  body: Buffer,
  response: string,
  received: Recorded | undefined,
): Promise<string | undefined> {
  if (received === undefined) {
    const { err } = await explainFile(body);
    const { reason, detail } = JSON.parse(response);
    return err.includes(`(${reason}): ${detail}`) ? undefined : `explain says ${err}`;
  }
  const sent = [...new URLSearchParams(received.body.toString())];
  const { oauth_nonce: nonce = '', oauth_timestamp: timestamp = '' } = Object.fromEntries(sent);
  const { out } = await explainFile(body, '--nonce', nonce, '--timestamp', timestamp);
  const baseString = otherBaseString('POST', `${gateway.url}${path}`, sent);
  return out.includes(`\n  ${baseString}\n`) ? undefined : `explain shows ${out}, not ${baseString}`;
}
