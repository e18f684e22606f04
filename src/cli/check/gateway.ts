import { once } from 'node:events';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { hostOf } from '../../config/url.ts';
import { verifiedTls } from '../../util/agent.ts';
import { errorCode } from '../../util/error-code.ts';

/**
 * Connects to a gateway as the proxy would, and disconnects. Returns what is known of the connection.
 *
 * @param ca PEM of a CA to trust instead of the public ones
 * @param timeout milliseconds, TLS included
 * @throws Error of the connection or of the certificate
 */
export async function probeConnection(
  baseUrl: string,
  ca: string | undefined,
  timeout: number,
): Promise<string> {
  const url = new URL(baseUrl);
  const host = hostOf(url);
  const secure = url.protocol === 'https:';
  const port = Number(url.port === '' ? (secure ? 443 : 80) : url.port);
  const socket = secure ? openTls(host, port, ca) : connectPlain({ host, port });
  try {
    await once(socket, secure ? 'secureConnect' : 'connect', { signal: AbortSignal.timeout(timeout) });
    return describe(socket);
  } catch (error) {
    throw new Error(problemOf(error, timeout), { cause: error });
  } finally {
    socket.destroy();
  }
}

function openTls(host: string, port: number, ca: string | undefined): TLSSocket {
  return connectTls({
    host,
    port,
    ...verifiedTls,
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === undefined ? {} : { ca }),
  });
}

function describe(socket: Socket): string {
  if (!(socket instanceof TLSSocket)) return 'connected without TLS';
  const expiry = new Date(socket.getPeerCertificate().valid_to);
  return `${socket.getProtocol() ?? 'TLS'}, certificate valid until ${expiry.toISOString().slice(0, 10)}`;
}

function problemOf(error: unknown, timeout: number): string {
  const code = errorCode(error) ?? 'no code';
  return code === 'ABORT_ERR' ? `no connection within ${timeout / 1000} s` : `no connection: ${code}`;
}
