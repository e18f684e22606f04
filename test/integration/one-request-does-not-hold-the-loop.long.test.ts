import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { auditIn } from '../support/audit.ts';
import { texts } from '../support/client-inputs.ts';
import { type Cost, growthProblem } from '../support/cpu-time.ts';
import { paths } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { openProbe, probeOptions } from '../support/loop-probe.ts';
import type { CountersignProcess } from '../support/process.ts';

const starts = harness(afterAll);
let proxy: CountersignProcess;
let measure: (work: () => Promise<unknown>) => Promise<Cost>;

/** A real process with an audit trail, and with more parameters than by default. */
beforeAll(async () => {
  const gateway = await starts.recordingGateway();
  proxy = await starts.process({
    gateway: gateway.url,
    nodeOptions: probeOptions,
    config: {
      proxy: { port: 0, maxParameters: 10_000, timeouts: { shutdownDelay: '0s' } },
      audit: auditIn(starts.folder()),
    },
  });
  measure = await openProbe(proxy.stderr);
  for (let request = 0; request < 200; request += 1) await proxy.transfer();
});

function request(target: string, headers: string, body = ''): Buffer {
  const bytes = Buffer.from(body);
  const head = `POST ${target} HTTP/1.1\r\nHost: x\r\n${headers}Content-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes]);
}

const form = 'Content-Type: application/x-www-form-urlencoded\r\n';
const kibibytes = (...sizes: number[]): number[] => sizes.map((size) => size * 1024);
/** Node accepts heads of 16 KiB. */
const sizes = { head: kibibytes(3.5, 7, 14), body: kibibytes(16, 32, 63) };

/** Requests that are large by their form, in several sizes. A chunk of a single byte is six times as much to parse. */
const chunkPerByte = (text: string): string => Array.from(text, (byte) => `1\r\n${byte}\r\n`).join('');
const framings: Readonly<Record<string, Buffer[]>> = {
  'many headers': sizes.head.map((bytes) => request(paths.balance, 'a:b\r\n'.repeat(bytes / 5))),
  'many cookies': sizes.head.map((bytes) => request(paths.balance, 'Cookie: a=b\r\n'.repeat(bytes / 13))),
  'many names of headers': sizes.head.map((bytes) =>
    request(paths.balance, Array.from({ length: bytes / 8 }, (_, name) => `a${name}:\r\n`).join('')),
  ),
  'a body in chunks of single bytes': sizes.body.map((bytes) => {
    const head = `POST ${paths.transfer} HTTP/1.1\r\nHost: x\r\n${form}Transfer-Encoding: chunked\r\n\r\n`;
    return Buffer.from(`${head}${chunkPerByte(`client_orderid=1&a=${'a'.repeat(bytes - 19)}`)}0\r\n\r\n`);
  }),
};

/** Milliseconds of CPU. A small request costs half of it, with what measures it. */
const floor = 4;

const problemOf = (requests: readonly Buffer[]): Promise<string | undefined> =>
  growthProblem(requests.length, floor, (size) =>
    measure(() => proxy.send(requests[size] ?? Buffer.alloc(0))),
  );

describe('the CPU time of a request grows linearly, and holds the event loop for less than 20 ms', () => {
  it('any text as the value of a parameter', async () => {
    const problems: Record<string, string> = {};
    for (const [name, input] of Object.entries(texts)) {
      const requests = sizes.body.map((size) => request(paths.transfer, form, `order_desc=${input(size)}`));
      const problem = await problemOf(requests);
      if (problem !== undefined) problems[name] = problem;
    }
    expect(problems).toEqual({});
  }, 300_000);

  it.each(Object.entries(framings))(
    '%s',
    async (_, requests) => {
      expect(await problemOf(requests)).toBeUndefined();
    },
    60_000,
  );

  it('the process is well afterwards: a transfer is answered', async () => {
    expect((await proxy.transfer()).status).toBe(200);
  });
});
