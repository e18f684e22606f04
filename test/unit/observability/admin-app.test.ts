import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { computeReadiness, type ReadinessInputs } from '../../../src/observability/readiness.ts';
import { createPageSharing } from '../../../src/observability/shared-page.ts';

it('pages are rendered one after the other, with a turn of the event loop between two, also after a failed one', async () => {
  const share = createPageSharing({ interval: 0, monotonic: () => performance.now() });
  const order: string[] = [];
  const page = (name: string, failure?: Error) =>
    share(async () => {
      order.push(name);
      await nextTurn();
      order.push('rendered');
      setImmediate(() => order.push('turn'));
      if (failure !== undefined) throw failure;
      return { contentType: 'text/plain', body: name };
    });
  const pages = [page('first'), page('second', new Error('broken')), page('third')];
  const read = pages.map((send) => send(new ServerResponse(new IncomingMessage(new Socket()))));
  await Promise.allSettled(read);
  const one = ['rendered', 'turn'];
  expect(order.slice(0, 8)).toEqual(['first', ...one, 'second', ...one, 'third', 'rendered']);
});

describe('an instance is ready', () => {
  const healthy: ReadinessInputs = {
    draining: false,
    keySourceReady: true,
    keysCached: false,
    jwtKeysAvailable: true,
    auditUnavailable: false,
    logLinesDropped: false,
    logStalled: false,
  };
  it.each<[string, Partial<ReadinessInputs>, readonly string[], (readonly string[])?]>([
    ['once its key source has responded', {}, []],
    ['with cached keys, though the source fails', { keySourceReady: false, keysCached: true }, []],
    ['not before it has a key', { keySourceReady: false }, ['key-source-never-reached']],
    ['not while it is draining', { draining: true }, ['draining']],
    ['not without audit records that it needs', { auditUnavailable: true }, ['audit-unavailable']],
    [
      'not, for all reasons',
      { draining: true, keySourceReady: false, auditUnavailable: true },
      ['draining', 'key-source-never-reached', 'audit-unavailable'],
    ],
    [
      'without its log and the keys of JWT issuers, with warnings',
      { jwtKeysAvailable: false, logLinesDropped: true, logStalled: true },
      [],
      ['jwt-keys-unavailable', 'log-lines-dropped', 'log-stalled'],
    ],
  ])('%s', (_name, inputs, reasons, warnings = []) => {
    const ready = reasons.length === 0;
    expect(computeReadiness({ ...healthy, ...inputs })).toEqual({ ready, reasons, warnings });
  });
});
