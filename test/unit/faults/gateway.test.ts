import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { FaultName, SiteName } from '../../faults/fault-table.ts';
import { type FaultGateway, startFaultGateway } from '../../faults/gateway.ts';
import { inspectBody } from '../../faults/gateway-response.ts';
import { newRecord, type RequestRecord } from '../../faults/ledger.ts';
import { orderIdOf } from '../../faults/plan.ts';
import { codeOf, RawConnection } from '../../support/raw-http.ts';

const records: RequestRecord[] = [];
let gateway: FaultGateway;
beforeAll(async () => {
  const recordOf = (index: number): RequestRecord | undefined => records[index];
  gateway = await startFaultGateway({ seed: 1, recordOf, ca: undefined });
});
afterAll(() => gateway.close());

/** A record for a new request with this fault, and the text of the request. */
function plan(fault: FaultName, site: SiteName = 'plain'): { record: RequestRecord; text: string } {
  const index = records.length;
  const orderId = orderIdOf(1, index);
  const record = newRecord({
    index,
    orderId,
    operation: 'order-status',
    site,
    fault,
    caller: 'single',
    session: index,
    position: 0,
    padding: 0,
    chunked: false,
  });
  records.push(record);
  return { record, text: `POST /gw/api/v4/status/${orderId} HTTP/1.1\r\nContent-Length: 3\r\n\r\na=1` };
}

const open = (site: SiteName = 'plain'): Promise<RawConnection> =>
  RawConnection.open(gateway.urls.get(site) ?? '');

/** Milliseconds for what must come, on a busy machine too, and for what must not. */
const [patient, brief] = [5_000, 300];

/**
 * What the connection gives for one request: responses, then how it ends; `timeout` where it stays open.
 *
 * @param count how many of these must come
 */
async function sent(
  fault: FaultName,
  site?: SiteName,
  count = 1,
): Promise<{ record: RequestRecord; results: string[] }> {
  const { record, text } = plan(fault, site);
  const connection = await open(site);
  connection.send(text);
  const results: string[] = [];
  for (let over = false; !over; ) {
    const response = await connection.responseOrEnd(results.length < count ? patient : brief);
    over = typeof response === 'string' || !response.complete;
    if (typeof response === 'string') results.push(response);
    else
      results.push(
        `${response.status} ${inspectBody(response.body).state}${response.complete ? '' : ' broken'}`,
      );
  }
  connection.close();
  return { record, results };
}

describe('the fault gateway', () => {
  it.each<[FaultName, readonly string[]]>([
    ['good', ['200 whole', 'timeout']],
    ['good-chunked', ['200 whole', 'timeout']],
    ['good-close', ['200 whole', 'FIN']],
    ['good-large', ['200 whole', 'timeout']],
    ['status-403', ['403 whole', 'timeout']],
    ['request-close', ['FIN']],
    ['request-reset', ['ECONNRESET']],
    ['read-close', ['FIN']],
    ['read-reset', ['ECONNRESET']],
    ['hang', ['timeout']],
    ['body-close', ['200 part broken']],
    ['length-too-long', ['200 whole broken']],
    ['close-after', ['200 whole', 'FIN']],
    ['surplus-joined', ['200 whole', '200 whole', 'timeout']],
    ['surplus-next', ['200 whole', '200 whole', 'timeout']],
    ['surplus-later', ['200 whole', '200 whole', 'timeout']],
  ])('does %s', async (fault, expected) => {
    const { record, results } = await sent(
      fault,
      undefined,
      expected.filter((one) => one !== 'timeout').length,
    );
    expect(results).toEqual(expected);
    expect(record.upstreamRequests).toEqual([
      expect.objectContaining({ fault, attempt: 1, surplus: undefined }),
    ]);
  });

  it('sends a Content-Length that is too short, so that the rest of the body looks like the next response', async () => {
    const { text } = plan('length-too-short');
    const connection = await open();
    connection.send(text);
    const response = await connection.responseOrEnd(patient);
    expect(typeof response === 'string' ? response : inspectBody(response.body).state).toBe('part');
    expect(connection.pending).toBe(50);
    connection.close();
  });

  it('records that a request came after a surplus response, and after which', async () => {
    for (const [fault, joined] of [['surplus-joined', true] as const, ['surplus-next', false] as const]) {
      const connection = await open();
      connection.send(plan(fault).text);
      await connection.responseOrEnd(patient);
      await connection.responseOrEnd(patient);
      const { record, text } = plan('good');
      connection.send(text);
      await connection.responseOrEnd(patient);
      connection.close();
      expect(record.upstreamRequests).toMatchObject([{ surplus: { joined } }]);
    }
  });

  it('does not send a delayed surplus response if the next request was faster', async () => {
    const connection = await open();
    const [first, second] = [plan('surplus-later'), plan('hang')];
    connection.send(first.text + second.text);
    expect(await connection.responseOrEnd(patient)).toMatchObject({ status: 200 });
    expect(await connection.responseOrEnd(brief)).toBe('timeout');
    connection.close();
  });

  it('refuses connections after a reset, and accepts them later', async () => {
    const { results } = await sent('read-reset-then-refused', 'flapping');
    expect(results).toEqual(['ECONNRESET']);
    await expect(open('flapping')).rejects.toThrow('ECONNREFUSED');
    await new Promise((resolve) => {
      setTimeout(resolve, 1_000);
    });
    expect((await sent('good-while-flapping', 'flapping')).results).toEqual(['200 whole', 'timeout']);
  });

  it('has sites that refuse, close and reset connections', async () => {
    await expect(open('refused')).rejects.toThrow('ECONNREFUSED');
    expect(await (await open('accept-close')).responseOrEnd(patient)).toBe('FIN');
    const reset = open('accept-reset').then((connection) => connection.responseOrEnd(patient));
    expect(await reset.catch(codeOf)).toBe('ECONNRESET');
  });

  it('records that a request was incomplete', async () => {
    const { record, text } = plan('good');
    const connection = await open();
    connection.send(text.slice(0, -1));
    await connection.responseOrEnd(100);
    connection.close();
    expect(record.upstreamRequests).toMatchObject([{ whole: false }]);
  });
});
