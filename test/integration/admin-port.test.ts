import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type AdminAppOptions, createAdminApp } from '../../src/observability/admin-app.ts';
import { createPrometheus } from '../../src/observability/prometheus.ts';
import type { Readiness } from '../../src/observability/readiness.ts';
import { listen } from '../support/listening.ts';
import { RawConnection } from '../support/raw-http.ts';
import { noReadings, routesOf } from '../support/routes.ts';
import { calmStatus } from '../support/status.ts';
import { until } from '../support/until.ts';

const metrics = createPrometheus({ version: '1', routes: routesOf() });
let state: Readiness;
let server: Server;
let origin: string;

async function serve(options: Partial<AdminAppOptions> = {}): Promise<void> {
  const defaults: AdminAppOptions = {
    page: (openMetrics) => metrics.page(openMetrics, noReadings),
    readiness: () => state,
    status: () => Promise.reject(new Error('not part of these tests')),
    statusAccess: () => 'off',
    monotonic: () => performance.now(),
    interval: 0,
  };
  server = createServer(createAdminApp({ ...defaults, ...options }));
  origin = `http://127.0.0.1:${(await listen(server)).port}`;
}

function get(path: string, init?: RequestInit): Promise<Response> {
  return fetch(`${origin}${path}`, init);
}

beforeEach(async () => {
  state = { ready: true, reasons: [], warnings: [] };
  await serve();
});

afterEach(async () => {
  server.close();
  server.closeAllConnections();
  await once(server, 'close');
});

describe('/metrics', () => {
  it.each([
    ['no Accept', {}, 'text/plain; version=0.0.4; charset=utf-8'],
    ['a browser', { Accept: 'text/html,*/*;q=0.8' }, 'text/plain; version=0.0.4; charset=utf-8'],
    [
      'Prometheus',
      { Accept: 'Application/OpenMetrics-Text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;q=0.3' },
      'application/openmetrics-text; version=1.0.0; charset=utf-8',
    ],
  ])('is in the format of %s', async (_name, headers, type) => {
    const response = await get('/metrics', { headers });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe(type);
    expect(response.headers.get('vary')).toContain('Accept');
    expect(await response.text()).toContain('countersign_build_info');
  });

  it('that cannot be rendered is a 500 without the error text', async () => {
    const broken = () => Promise.reject(new Error('s3cret detail'));
    server.close();
    await serve({ page: broken });
    const response = await get('/metrics');
    expect(response.status).toBe(500);
    expect(await response.text()).toBe('failed to render the page\n');
  });
});

describe('the Host header', () => {
  beforeEach(async () => {
    server.close();
    await serve({ allowedHosts: ['pay-admin.prod.svc', 'countersign'] });
  });

  /** fetch cannot send another Host. */
  async function getWithHost(path: string, host: string) {
    const sent = request(`${origin}${path}`, { headers: { host }, setHost: false }).end();
    const [response] = await once(sent, 'response');
    return { status: response.statusCode, body: await text(response) };
  }

  it.each(['127.0.0.1', '[fd00::7]:9090', 'LocalHost:9090', 'countersign:9090', 'PAY-admin.prod.svc'])(
    'with an IP address or a configured name is accepted: %s',
    async (host) => {
      expect((await getWithHost('/metrics', host)).status).toBe(200);
    },
  );

  it.each(['evil.test', '127.0.0.1.evil.test', 'countersign:x', '[evil.test]', '2130706433', ''])(
    'of another site is rejected with advice, without the name: "%s"',
    async (host) => {
      expect(await getWithHost('/metrics', host)).toEqual({
        status: 421,
        body: 'Unknown Host. Use an IP address, or add the name to admin.allowedHosts.\n',
      });
    },
  );

  it.each(['/healthz', '/readyz'])('is ignored by the probe %s', async (path) => {
    expect((await getWithHost(path, 'evil.test')).status).toBe(200);
  });
});

it('pages need a client certificate where it is required, and probes do not', async () => {
  server.close();
  await serve({ certificateRequired: true });
  expect([(await get('/metrics')).status, (await get('/healthz')).status]).toEqual([403, 200]);
});

describe('health', () => {
  it('/healthz is ok even if /readyz is not', async () => {
    state = { ready: false, reasons: ['draining'], warnings: [] };
    const response = await get('/healthz');
    expect([response.status, await response.text()]).toEqual([200, 'ok\n']);
  });

  it('/readyz is 200 when ready, else 503 with the reasons', async () => {
    expect((await get('/readyz')).status).toBe(200);
    state = { ready: false, reasons: ['key-source-never-reached'], warnings: ['log-lines-dropped'] };
    const response = await get('/readyz');
    expect(response.status).toBe(503);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(await response.json()).toEqual(state);
  });
});

describe('everything else', () => {
  it.each(['/', '/metrics/', '/Metrics', '/sandbox/gw/api/v4/status/1'])('%s is not found', async (path) => {
    expect((await get(path)).status).toBe(404);
  });

  it.each(['POST', 'OPTIONS'])('%s is not allowed', async (method) => {
    const response = await get('/metrics', { method });
    expect(response.status).toBe(405);
    expect(response.headers.get('allow')).toBe('GET, HEAD');
  });

  it('HEAD is the same as GET, without a body', async () => {
    const response = await get('/metrics', { method: 'HEAD' });
    expect([response.status, await response.text()]).toEqual([200, '']);
  });

  it('has security headers and does not name its framework', async () => {
    const { headers } = await get('/healthz');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toContain("default-src 'self'");
    expect(headers.has('x-powered-by')).toBe(false);
  });
});

it.each(['/', '/?refresh=off', '/status.json', '/metrics'])(
  'renders %s at most once in an interval, for all who ask',
  async (path) => {
    let [renderings, answered] = [0, 0];
    server.close();
    await serve({
      page: async () => ({ contentType: 'text/plain', body: String((renderings += 1)) }),
      status: async () => {
        renderings += 1;
        return calmStatus();
      },
      statusAccess: () => 'granted',
      interval: 100,
    });
    const ends = performance.now() + 350;
    const ask = async (): Promise<void> => {
      while (performance.now() < ends) {
        expect((await get(path)).status).toBe(200);
        answered += 1;
      }
    };
    await Promise.all([ask(), ask(), ask(), ask(), ask()]);
    expect(renderings).toBeGreaterThan(1);
    // At 0, 100, 200 and 300 ms, and once more for who came before the end.
    expect(renderings).toBeLessThanOrEqual(5);
    expect(answered).toBeGreaterThan(renderings);
  },
);

it('a reader who is several renderings behind is cut off, and the others are served', async () => {
  server.close();
  await serve({ page: async () => ({ contentType: 'text/plain', body: 'a'.repeat(16_000_000) }) });
  const slow = (await RawConnection.open(origin)).send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await slow.received(1);
  slow.pause();
  for (let later = 0; later < 4; later += 1) {
    expect((await (await get('/metrics')).text()).length).toBe(16_000_000);
  }
  slow.socket.resume();
  await until(() => slow.ending !== undefined);
  expect(slow.pending).toBeLessThan(16_000_000);
});
