import { createHmac, randomBytes } from 'node:crypto';
import { Agent } from 'node:http';
import express, { type Request, type Response } from 'express';
import helmet from 'helmet';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { collectDefaultMetrics, Histogram } from 'prom-client';

/** What a team would write in a day. It signs and measures; it has no access rules, log or rotation of keys. */
const [target = '', port, controlKey = ''] = process.argv.slice(2);

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function sign(url: string, login: string, form: string): { body: string; authorization: string } {
  const oauth = {
    oauth_consumer_key: login,
    oauth_nonce: randomBytes(16).toString('hex'),
    oauth_signature_method: 'HMAC-SHA1',
    oauth_timestamp: String(Math.floor(Date.now() / 1000)),
    oauth_version: '1.0',
  };
  const pairs = [...new URLSearchParams(form), ...Object.entries(oauth)];
  const body = pairs
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const baseString = `POST&${encode(url)}&${encode(body)}`;
  const signature = createHmac('sha1', `${encode(controlKey)}&`)
    .update(baseString)
    .digest('base64');
  const fields = Object.entries({ ...oauth, oauth_signature: signature });
  const authorization = `OAuth ${fields.map(([name, value]) => `${name}="${encode(value)}"`).join(', ')}`;
  return { body, authorization };
}

collectDefaultMetrics();
const labelNames = ['method', 'route', 'status'];
const durations = new Histogram({ name: 'http_request_duration_seconds', help: 'Duration', labelNames });
const proxy = createProxyMiddleware<Request, Response>({
  target,
  changeOrigin: true,
  agent: new Agent({ keepAlive: true }),
  on: {
    proxyReq(upstreamRequest, { path, body: form }) {
      const { body, authorization } = sign(target + path, path.split('/').at(-1) ?? '', form);
      upstreamRequest.setHeader('Authorization', authorization);
      upstreamRequest.setHeader('Content-Length', Buffer.byteLength(body));
      upstreamRequest.write(body);
    },
  },
});

express()
  .use(helmet())
  .use(express.text({ type: 'application/x-www-form-urlencoded' }))
  .use(({ method }, response, next) => {
    const end = durations.startTimer({ method, route: 'get-balance' });
    response.once('finish', () => end({ status: response.statusCode }));
    next();
  })
  .use(proxy)
  .listen(Number(port), '127.0.0.1');
