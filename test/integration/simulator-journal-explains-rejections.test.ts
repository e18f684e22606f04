import { describe, expect, it } from '@jest/globals';
import type { JournalEntry } from '../../src/simulator/journal.ts';
import { harness } from '../support/harness.ts';
import {
  balanceDraft,
  controlKey,
  type Draft,
  noon,
  send,
  signatureOf,
  statusDraft,
  transferDraft,
  wireOf,
  withOAuth,
} from '../support/simulator.ts';
import { journalOf, startWithAdmin } from '../support/simulator-admin.ts';

const starts = harness();

const start = async (options?: Parameters<typeof startWithAdmin>[0]) =>
  starts.closing(await startWithAdmin(options));

const status = () => statusDraft([['client_orderid', 'invoice-1']]);

describe('the journal', () => {
  it('shows each step of an accepted request, and the key that made the signature', async () => {
    const started = await start();
    await started.send(status());
    const [entry] = await journalOf(started);
    expect(entry).toMatchObject({
      id: 1,
      time: '2026-01-15T12:00:00.000Z',
      method: 'POST',
      path: '/gw/api/v4/status/1234',
      operation: 'order-status',
      login: 'acme',
      parameters: [
        { name: 'login', value: 'acme' },
        { name: 'client_orderid', value: 'invoice-1' },
      ],
      status: 200,
    });
    for (const absent of ['rejection', 'hint', 'fault', 'omittedParameters'])
      expect(entry).not.toHaveProperty(absent);
    expect(entry?.steps.map(({ step, result }) => `${step} ${result}`)).toEqual([
      'form passed',
      'authorization passed',
      'oauth-parameters passed',
      'method passed',
      'timestamp passed',
      'login passed',
      'base-string passed',
      'signature passed',
      'nonce passed',
      'operation passed',
    ]);
    const [fingerprint] = (await started.call('GET', '/keys')).body.acme.publicKeys;
    expect(entry?.steps.find(({ step }) => step === 'signature')?.key).toEqual({
      kind: 'private_key',
      index: 0,
      fingerprint,
    });
    expect(entry?.steps.find(({ step }) => step === 'base-string')?.baseString).toContain(
      'client_orderid%3Dinvoice-1%26login%3Dacme%26oauth_consumer_key%3Dacme',
    );
  });

  it.each<[string, Draft, object, object]>([
    [
      'a signature of another key: the keys that were tried',
      { ...balanceDraft(), key: 'another' },
      { step: 'signature', rejection: 'signature-wrong', triedKeys: [{ kind: 'control_key', index: 0 }] },
      { hint: expect.stringContaining('No key of the login made this signature') },
    ],
    [
      'a timestamp: how far it is from the clock',
      withOAuth(balanceDraft(), 'oauth_timestamp', String(noon / 1000 - 400)),
      {
        step: 'timestamp',
        rejection: 'timestamp-outside-window',
        timestamp: noon / 1000 - 400,
        clock: noon / 1000,
        windowSeconds: 300,
      },
      {},
    ],
    [
      'a signature method: the required one',
      { ...statusDraft([]), path: '/gw/api/v2/get-balance/manager/acme' },
      {
        step: 'method',
        rejection: 'method-wrong',
        requiredMethod: 'HMAC-SHA1',
        receivedMethod: 'RSA-SHA256',
      },
      {},
    ],
    [
      'a parameter: its name',
      balanceDraft([['oauth_token', 'x']]),
      { step: 'oauth-parameters', rejection: 'oauth-parameter-unexpected', parameter: 'oauth_token' },
      {},
    ],
    ['a login that is unknown', balanceDraft([], 'gamma'), { step: 'login', rejection: 'login-unknown' }, {}],
  ])('shows why it rejected %s', async (_, draft, step, fields) => {
    const started = await start();
    const response = await started.send(draft);
    const [entry] = await journalOf(started);
    expect(entry).toMatchObject({ status: 403, ...fields });
    expect(entry?.rejection).toBe(response.headers['simulator-rejection']);
    expect(entry?.steps.at(-1)).toMatchObject({ result: 'failed', ...step });
    expect(entry?.steps.slice(0, -1).every(({ result }) => result === 'passed')).toBe(true);
  });

  it('shows a replayed nonce after all other steps passed', async () => {
    const started = await start();
    const draft = balanceDraft();
    await started.send(draft);
    await started.send(draft);
    const [, entry] = await journalOf(started);
    expect(entry?.steps.at(-1)).toEqual({ step: 'nonce', result: 'failed', rejection: 'nonce-replayed' });
    expect(entry?.steps).toHaveLength(9);
  });

  it('holds no card data, keys or signatures', async () => {
    const started = await start();
    const card = '4111111111111111';
    const draft = transferDraft([
      ['client_orderid', 't-1'],
      ['credit_card_number', card],
      ['cvv2', 'marked-cvv'],
      ['card_printed_name', 'Ada Example'],
      ['order_desc', `paid with ${card}`],
      [card, 'x'],
    ]);
    await started.send(draft);
    await started.send({ ...draft, path: `/gw/api/v4/transfer/${card}` });
    await started.send({ ...balanceDraft(), key: 'secret-of-the-signer' });
    await started.send(balanceDraft([['oauth_4111-1111-1111-1111', 'x']], card));
    await started.send(withOAuth(balanceDraft(), 'oauth_signature_method', card));
    const signature = signatureOf(started.url, draft).slice(0, 20);
    const { text, body } = await started.call('GET', '/journal');
    expect(body.entries).toHaveLength(5);
    expect(text).toContain('"cvv2"');
    for (const secret of [
      card,
      'marked-cvv',
      'Ada',
      '4111-1111',
      controlKey,
      'AF4B7DE6',
      'secret-of-',
      signature,
    ]) {
      expect(text).not.toContain(secret);
    }
  });

  it('is bounded, also for large forms', async () => {
    const started = await start();
    const form = Array.from({ length: 299 }, (_, index) => [`p${index}`, 'v'.repeat(2000)] as const);
    await started.send(transferDraft([['whole', 'v'.repeat(256)], ...form]));
    const [entry] = await journalOf(started);
    expect(entry?.parameters).toHaveLength(100);
    expect(entry?.omittedParameters).toBe(200);
    expect(entry?.parameters[0]?.value).toBe('v'.repeat(256));
    expect(entry?.parameters[1]?.value).toBe(`${'v'.repeat(256)}... (1744 more characters)`);
    expect(JSON.stringify(entry).length).toBeLessThan(50_000);
  });

  it('has requests for unknown paths, and bodies that cannot be read', async () => {
    const started = await start();
    await send(started.url, { ...wireOf(started.url, status()), path: '/gw/api/v4/refund/1234' });
    await send(started.url, { ...wireOf(started.url, status()), headers: { 'Content-Encoding': 'gzip' } });
    const entries = await journalOf(started);
    expect(entries.map(({ path, status, steps }) => [path, status, steps.length])).toEqual([
      ['/gw/api/v4/refund/1234', 404, 0],
      ['/gw/api/v4/status/1234', 415, 0],
    ]);
    expect(entries[0]?.hint).toBe('No operation of the scenario has this method and path.');
  });

  it('is filtered by operation, login and ID', async () => {
    const started = await start();
    for (const draft of [balanceDraft(), balanceDraft([], 'beta'), status()]) await started.send(draft);
    const idsOf = async (query: string) => {
      const { body } = await started.call('GET', `/journal?${query}`);
      return [body.total, ...body.entries.map(({ id }: JournalEntry) => id)];
    };
    expect(await idsOf('operation=manager-balance')).toEqual([3, 1, 2]);
    expect(await idsOf('login=acme')).toEqual([3, 1, 3]);
    expect(await idsOf('login=acme&after=1')).toEqual([3, 3]);
  });
});
