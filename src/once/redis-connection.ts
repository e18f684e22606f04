import { isIP } from 'node:net';
import { isNativeError } from 'node:util/types';
import { createClient } from '@redis/client';
import { errorCode } from '../errors.ts';
import { maxCertificateBytes } from '../net/tls-files.ts';
import { type MinVersion, tlsPolicy } from '../net/tls-policy.ts';
import { readSecret, readText } from '../read-files.ts';
import { endsWithin } from '../util/promises.ts';
import { printable } from '../util/text.ts';
import { StoreUnavailable } from './store.ts';

export interface RedisServer {
  readonly host: string;
  readonly port: number;
  readonly database: number;
  /** Absent without TLS. */
  readonly tls?: { readonly minVersion: MinVersion; readonly caFile?: string | undefined } | undefined;
  readonly username?: string | undefined;
  readonly passwordFile?: string | undefined;
  /** Milliseconds that it has to respond. */
  readonly timeout: number;
}

/** One connection to a server. Whatever fails ends it, and all that is under way on it: no command is sent twice. */
export class RedisConnection {
  /** Resolves with the problem that ended it. */
  readonly ended: Promise<string>;
  readonly #client: ReturnType<typeof createClient>;
  readonly #timeout: number;
  readonly #end: (problem: string) => void;

  /** @throws StoreUnavailable */
  static async open(server: RedisServer): Promise<RedisConnection> {
    const { tls, passwordFile } = server;
    const files = await Promise.all([
      tls?.caFile && readText(tls.caFile, maxCertificateBytes),
      passwordFile && readSecret(passwordFile, 'passphrase'),
    ]).catch((error: unknown): never => {
      throw new StoreUnavailable(problemOf(error));
    });
    const connection = new RedisConnection(server, ...files);
    await connection.#within(connection.#client.connect());
    return connection;
  }

  private constructor(
    { timeout, host, port, database, tls, username }: RedisServer,
    ca: string | undefined,
    password: string | undefined,
  ) {
    const { promise, resolve } = Promise.withResolvers<string>();
    [this.ended, this.#end, this.#timeout] = [promise, resolve, timeout];
    const servername = isIP(host) === 0 ? host : undefined;
    const socket = { host, port, connectTimeout: timeout, reconnectStrategy: false as const };
    this.#client = createClient({
      socket:
        tls === undefined
          ? socket
          : { ...socket, ...tlsPolicy, ca, minVersion: tls.minVersion, servername, tls: true as const },
      database,
      RESP: 2,
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: 'disabled',
      ...(password === undefined ? {} : { username: username ?? 'default', password }),
    });
    this.#client.on('error', (error: unknown) => this.end(problemOf(error)));
  }

  /** @throws StoreUnavailable, and the connection has ended */
  send(...command: string[]): Promise<unknown> {
    return this.#within(this.#client.sendCommand(command));
  }

  /** @param problem the first one counts */
  end(problem: string): void {
    this.#end(problem);
    this.#client.destroy();
  }

  async #within<T>(work: Promise<T>): Promise<T> {
    try {
      if (await endsWithin(this.#timeout, work)) return await work;
      this.end('no response in time');
    } catch (error) {
      this.end(problemOf(error));
    }
    throw new StoreUnavailable(await this.ended);
  }
}

/** Texts of Node, of OpenSSL and of the server, without what the server repeats: it may be the password. */
function problemOf(error: unknown): string {
  const message = isNativeError(error) ? error.message.replace(/,? (?:with args|script:).*$/s, '') : '';
  // An AggregateError, of a name with several addresses, has none.
  return printable(message === '' ? (errorCode(error) ?? 'unknown') : message).slice(0, 200);
}
