import { type ChildProcess, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { kill } from './listening-program.ts';

/** What `openssl s_client` says of a handshake: `TLSv1.2 AES128-SHA`, or `undefined` if it failed. */
interface ClientRun {
  readonly negotiated: string | undefined;
  /** Whether the session of an earlier connection was resumed. */
  readonly resumed: boolean;
  readonly output: string;
}

/** `@SECLEVEL=0` enables all that this OpenSSL has, also what its default forbids. */
export const weakest = '@SECLEVEL=0';

/** Connects with `openssl s_client`, sends `input`, and waits for the end. */
export async function opensslClient(url: string, args: readonly string[], input = ''): Promise<ClientRun> {
  const { hostname, port } = new URL(url);
  const client = spawn('openssl', ['s_client', '-connect', `${hostname}:${port}`, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  client.stdin.on('error', () => {}).end(input);
  const [out, err] = await Promise.all([text(client.stdout), text(client.stderr)]);
  const [, kind, version, cipher] = /^(New|Reused), (\S+), Cipher is (\S+)$/m.exec(out) ?? [];
  // `TLSv1.0` beside a suite is the version that introduced it, not that of the connection.
  const protocol = /^ +Protocol *: (\S+)$/m.exec(out)?.[1] ?? version;
  return {
    negotiated: cipher === undefined || cipher === '(NONE)' ? undefined : `${protocol} ${cipher}`,
    resumed: kind === 'Reused',
    output: `${out}${err}`,
  };
}

export interface OpensslServer {
  readonly url: string;
  /** What it wrote so far. */
  readonly output: () => string;
  readonly process: ChildProcess;
  close(): Promise<void>;
}

/** Starts `openssl s_server` on a free port. Its responses are pages about the connection, to GET only. */
export async function opensslServer(args: readonly string[]): Promise<OpensslServer> {
  const server = spawn('openssl', ['s_server', '-accept', '127.0.0.1:0', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  const { promise: listening, resolve, reject } = Promise.withResolvers<string>();
  const read = (chunk: Buffer): void => {
    output += chunk.toString();
    const port = /^ACCEPT \S*:(\d+)$/m.exec(output)?.[1];
    if (port !== undefined) resolve(port);
  };
  server.stdout.on('data', read);
  server.stderr.on('data', read);
  server.once('exit', () => reject(new Error(`openssl s_server ended: ${output}`)));
  const url = `https://127.0.0.1:${await listening}`;
  return {
    url,
    output: () => output,
    process: server,
    close: () => kill(server),
  };
}
