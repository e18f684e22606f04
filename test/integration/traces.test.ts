import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { auditIn } from '../support/audit.ts';
import { everything, tokenCredential } from '../support/config.ts';
import { paths, statusForm } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { spansIn, treeOf } from '../support/otlp.ts';
import type { RecordingGateway } from '../support/recording-gateway.ts';
import { nextKeys, oldKeys, startRotating } from '../support/rotating.ts';
import type { ProxyOptions, TestProxy } from '../support/service.ts';
import { VaultTestEnvironment, vaultKeys } from '../support/stub-vault/harness.ts';
import { spanNamed, spansOf, startReceiver, tracingTo } from '../support/traced.ts';
import { until } from '../support/until.ts';

const starts = harness();
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const callerSpan = '00f067aa0ba902b7';
const transferRoute = 'POST /sandbox/gw/api/v4/transfer/{endpoint}';
const statusRoute = 'POST /sandbox/gw/api/v4/status/{endpoint}';

interface Traced {
  readonly proxy: TestProxy;
  readonly receiver: RecordingGateway;
  readonly gateway: RecordingGateway;
}

async function startTraced(options: ProxyOptions = {}): Promise<Traced> {
  const receiver = await startReceiver(starts);
  const tracing = tracingTo(receiver);
  const proxy = await starts.edge({ ...options, config: { tracing, ...options.config } });
  return { receiver, proxy, gateway: proxy.gateway };
}

describe('the trace of', () => {
  it('a payment has its steps, with durations that fit into each other', async () => {
    const audit = { ...auditIn(starts.folder()), required: true };
    const { proxy, receiver } = await startTraced({ config: { audit } });
    await proxy.transfer();
    const spans = await spansOf(proxy, receiver);
    expect(
      treeOf(spans, [
        'countersign.key.lookup',
        'countersign.signer',
        'countersign.signature.method',
        'http.response.status_code',
      ]),
    ).toBe(
      [
        `${transferRoute} status_code=200`,
        '  key lookup lookup=fetched',
        '    key source read',
        '  signature signer=process method=RSA-SHA256',
        '  audit record',
        '  upstream request status_code=200',
      ].join('\n'),
    );
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    for (const { name, start, end, parentSpanId } of spans) {
      expect({ name, order: start <= end }).toEqual({ name, order: true });
      const parent = byId.get(parentSpanId);
      const fits = parent === undefined || (parent.start <= start && end <= parent.end);
      expect({ name, fits }).toEqual({ name, fits: true });
    }
    expect(spanNamed(spans, transferRoute)).toMatchObject({
      kind: 'SPAN_KIND_SERVER',
      parentSpanId: '',
      isError: false,
      resource: { 'service.name': 'countersign', 'service.version': expect.stringMatching(/^\d/) },
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/sandbox/gw/api/v4/transfer/{endpoint}',
        'countersign.caller': 'local',
        'countersign.login': 'acme',
        'countersign.operation': 'transfer',
        'countersign.outcome': 'answered',
        'countersign.attempts': 1,
      },
    });
    expect(spanNamed(spans, 'upstream request')).toMatchObject({
      kind: 'SPAN_KIND_CLIENT',
      events: ['connected'],
      attributes: { 'server.address': '127.0.0.1', 'countersign.connection': 'dedicated' },
    });
  });

  it('a query that is sent again with another key has both gateway requests', async () => {
    const receiver = await startReceiver(starts);
    const { proxy, accept, putInSource } = await startRotating(starts, {
      config: { tracing: tracingTo(receiver) },
    });
    await proxy.status();
    accept(nextKeys);
    putInSource(nextKeys);
    const headers = { traceparent: `00-${traceId}-${callerSpan}-01` };
    expect((await proxy.post(paths.status, statusForm, headers)).status).toBe(200);
    const spans = (await spansOf(proxy, receiver)).filter((span) => span.traceId === traceId);
    const shown = ['http.response.status_code', 'http.request.resend_count', 'countersign.key.lookup'];
    expect(treeOf(spans, shown)).toBe(
      [
        `${statusRoute} status_code=200`,
        '  key lookup lookup=fresh',
        '  signature',
        '  upstream request status_code=403',
        '  key source read',
        '  wait for a look',
        '  signature',
        '  upstream request status_code=200 resend_count=1',
      ].join('\n'),
    );
    expect(spans.find(({ isError }) => isError)?.attributes).toMatchObject({ 'error.type': '403' });
    const versions = spans.flatMap(({ name, attributes }) =>
      name === 'signature' ? [attributes['countersign.key.version']] : [],
    );
    expect(new Set(versions).size).toBe(2);
  });

  it('a request whose keys are read from Vault has the requests to Vault', async () => {
    const vault = starts.closing(await new VaultTestEnvironment({ clock: () => Date.now() }).open());
    await vault.admin.put('gateway/sandbox/acme', { control_key: oldKeys.controlKey });
    const token = await vault.admin.token({ policies: ['countersign'], ttl: '1h' });
    const keys = vaultKeys(vault.vault.address, { auth: { method: 'token', token } });
    const { proxy, receiver } = await startTraced({ config: { keys } });
    expect((await proxy.balance()).status).toBe(200);
    expect((await proxy.balance()).status).toBe(200);
    const spans = await spansOf(proxy, receiver);
    expect(treeOf(spans, ['countersign.key.lookup', 'countersign.key.source'])).toBe(
      [
        'POST /sandbox/gw/api/v2/get-balance/manager/{login}',
        '  key lookup lookup=fetched',
        '    key source read source=vault',
        '      Vault request',
        '  signature',
        '  upstream request',
        'POST /sandbox/gw/api/v2/get-balance/manager/{login}',
        '  key lookup lookup=fresh',
        '  signature',
        '  upstream request',
      ].join('\n'),
    );
    expect(spanNamed(spans, 'Vault request')).toMatchObject({
      kind: 'SPAN_KIND_CLIENT',
      attributes: { 'http.request.method': 'GET', 'http.response.status_code': 200 },
    });
  });

  it('requests that wait for a signing slot shows that', async () => {
    const { proxy, receiver } = await startTraced({ config: { signing: { concurrency: 1 } } });
    await Promise.all(Array.from({ length: 8 }, () => proxy.status()));
    const spans = await spansOf(proxy, receiver);
    expect(spans.filter(({ name }) => name === 'wait for a signing slot').length).toBeGreaterThan(0);
  });
});

describe('a trace', () => {
  it('continues that of a known caller; span, log line and exemplar have its ID, and the gateway gets nothing of it', async () => {
    const { proxy, receiver, gateway } = await startTraced();
    await proxy.post(paths.status, statusForm, {
      traceparent: `00-${traceId}-${callerSpan}-00`,
      tracestate: 'vendor=1',
      baggage: 'a=1',
    });
    const headers = { Accept: 'application/openmetrics-text' };
    const page = await (await fetch(`${proxy.adminUrl}/metrics`, { headers })).text();
    expect(page).toContain(`trace_id="${traceId}"`);
    expect(await proxy.requestLines()).toMatchObject([{ traceId }]);
    const spans = await spansOf(proxy, receiver);
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    expect(spanNamed(spans, statusRoute).parentSpanId).toBe(callerSpan);
    const [sent] = gateway.requests;
    expect(Object.keys(sent?.headers ?? {})).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/^(traceparent|tracestate|baggage)$/)]),
    );
  });

  it('of an unknown client is not recorded', async () => {
    const callers = [
      { name: 'billing', credentials: [tokenCredential('token-of-billing')], allow: [everything] },
    ];
    const { proxy, receiver } = await startTraced({ config: { callers } });
    const traceparent = `00-${traceId}-${callerSpan}-01`;
    expect((await proxy.post(paths.status, statusForm, { traceparent })).status).toBe(401);
    const authorized = { Authorization: 'Bearer token-of-billing' };
    expect((await proxy.post(paths.status, statusForm, authorized)).status).toBe(200);
    const spans = await spansOf(proxy, receiver);
    expect(spans.filter(({ kind }) => kind === 'SPAN_KIND_SERVER')).toHaveLength(1);
    expect(spans.map((span) => span.traceId)).not.toContain(traceId);
  });

  it('shows a login that looks like a card number only as the log does', async () => {
    const { proxy, receiver } = await startTraced({ keys: { '4111111111111111': oldKeys } });
    await proxy.post('/sandbox/gw/api/v2/get-balance/manager/4111111111111111', '');
    const spans = await spansOf(proxy, receiver);
    expect(spans.at(-1)?.attributes['countersign.login']).toBe('[redacted: looks like a card number]');
    expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.toContain('4111111111111111');
  });
});

describe('a reload', () => {
  const roots = (receiver: RecordingGateway): number =>
    receiver.requests.flatMap(spansIn).filter(({ kind }) => kind === 'SPAN_KIND_SERVER').length;

  it('sends what waits, and what follows, to another receiver; off, what waits is sent, and no more; and on again', async () => {
    const { proxy, receiver: first } = await startTraced();
    const next = await startReceiver(starts);
    await proxy.status();
    await proxy.requestLines(1);
    await proxy.reload({ tracing: tracingTo(next) });
    await proxy.status();
    await proxy.requestLines(2);
    await proxy.reload({});
    await until(() => roots(next) === 2);
    await proxy.status();
    await proxy.requestLines(3);
    await proxy.reload({ tracing: tracingTo(next) });
    await proxy.status();
    await proxy.stop();
    expect([roots(first), roots(next)]).toEqual([0, 3]);
    const lines = await proxy.requestLines(4);
    expect(lines.map(({ traceId: id }) => id !== undefined)).toEqual([true, true, false, true]);
  });
});

describe('without tracing, a trace ID', () => {
  const openMetrics = async ({ adminUrl }: TestProxy): Promise<string> =>
    (await fetch(`${adminUrl}/metrics`, { headers: { Accept: 'application/openmetrics-text' } })).text();

  it.each([
    ['is logged and an exemplar if the caller sampled it', `00-${traceId}-${callerSpan}-01`, true],
    ['is logged, and no exemplar, if the caller did not', `00-${traceId}-${callerSpan}-00`, false],
    ['is found in a traceparent of a later version', `01-${traceId}-${callerSpan}-01-more`, true],
  ])('%s', async (_what, traceparent, isExemplar) => {
    const proxy = await starts.edge();
    await proxy.post(paths.status, statusForm, { traceparent });
    expect(await proxy.requestLines()).toMatchObject([{ traceId }]);
    expect((await openMetrics(proxy)).includes(`trace_id="${traceId}"`)).toBe(isExemplar);
  });

  it('of a stranger is in neither exemplars nor the log', async () => {
    const callers = [{ name: 'billing', credentials: [tokenCredential('right')], allow: [everything] }];
    const proxy = await starts.edge({ config: { callers } });
    const send = async (headers: Readonly<Record<string, string>>) =>
      (await proxy.post(paths.balance, '', { traceparent: `00-${traceId}-${callerSpan}-01`, ...headers }))
        .status;
    const wrong = { Authorization: 'Bearer wrong' };
    expect([await send({}), await send(wrong)]).toEqual([401, 401]);
    // Before the caller is known, too.
    expect(await send({ 'Content-Type': 'text/plain', 'Content-Length': '3' })).toBe(415);
    expect((await openMetrics(proxy)) + proxy.logText()).not.toContain(traceId);
    expect(await send({ Authorization: 'Bearer right' })).toBe(200);
    await proxy.requestLines(4);
    expect(await openMetrics(proxy)).toContain(`trace_id="${traceId}"`);
    expect(proxy.logLines()).toContainEqual(expect.objectContaining({ traceId, status: 200 }));
  });
});

it('docs/traces.md has each step and each attribute, and no others', () => {
  const source = readFileSync('src/trace.ts', 'utf8');
  const page = readFileSync('docs/traces.md', 'utf8');
  const [, union = ''] = /export type SpanName =([^;]*);/.exec(source) ?? [];
  const steps = [...union.matchAll(/'([^']+)'/g)].map(([, name]) => name);
  const rows = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
  expect(new Set(rows)).toEqual(new Set([...steps, 'POST']));
  const own = (text: string) => new Set(text.match(/\bcountersign\.[a-z_.]+[a-z]\b/g));
  expect([...own(page)].filter((name) => !own(source).has(name))).toEqual([]);
});
