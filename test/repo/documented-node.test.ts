import { expect, it } from '@jest/globals';
import { sourcesIn } from '../support/sources.ts';

/** Names of Node that its documentation does not have: they may change with any release. */
const undocumented: readonly RegExp[] = [
  // `_handle`, `_parent`, `_httpMessage`, `_last`, `_events` and so on. Streams document `_read`, `_write` and `_final`.
  /(\.|'|\[')_(?!(?:read|write|writev|final|destroy|construct|transform|flush)\b)[a-z]\w*/,
  /getOwnPropertySymbols|\bk[A-Z]\w+\]|Symbol\.for\('nodejs\.(?!util\.inspect\.custom)/,
  /\bdestroySoon\b|\bresetAndClosing\b|\bparser\.(?:consume|incoming|socket)\b|\bwritableState\b|\breadableState\b/,
  // The listeners of Node itself.
  /\.(?:rawListeners|listeners|removeAllListeners)\('(?:data|end|close|drain|error|connection|secureConnection)'\)/,
  /process\.binding|internalBinding|--expose-internals|\b(?:_http_|_tls_|_stream_)\w+/,
  /\b(?:NetServer|Server|Socket|TLSSocket)\.prototype\b/,
];

/** What has no documented way, with the file that may use it. */
const exceptions: readonly { readonly file: string; readonly text: RegExp }[] = [
  // Node's only way to send a response after the client's FIN; without it a half-closed client would lose its response.
  { file: 'src/proxy/inbound/server.ts', text: /httpAllowHalfOpen/ },
  // Node's parser must get no bytes behind the last response: with output that did not drain, an assertion ends the process.
  { file: 'src/proxy/inbound/connection.ts', text: /\.removeAllListeners\('data'\)/ },
  // What http-proxy-middleware needs.
  { file: 'src/proxy/outbound/upstream-client.ts', text: /./ },
];

it('only documented parts of Node are used', () => {
  const used = sourcesIn('src/**/*.ts').flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, index) => {
      if (exceptions.some(({ file, text: allowed }) => file === path && allowed.test(line))) return [];
      const isUsed = [...undocumented, /httpAllowHalfOpen/].some((name) => name.test(line));
      return isUsed ? [`${path}:${index + 1}: ${line.trim()}`] : [];
    }),
  );
  expect(used).toEqual([]);
});
