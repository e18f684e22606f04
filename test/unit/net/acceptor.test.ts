import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Acceptor } from '../../../src/net/acceptor.ts';
import { RawConnection } from '../../support/raw-http.ts';

const get = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';
const serverThatSays = (text: string) => createServer((_request, response) => response.end(text));

let acceptor: Acceptor;
let url: string;
let dropped: number;

beforeEach(async () => {
  dropped = 0;
  acceptor = new Acceptor(() => {
    dropped += 1;
  });
  acceptor.use(serverThatSays('first'));
  url = await acceptor.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(() => {
  acceptor.stopListening();
  acceptor.destroyAll();
});

const textOn = async (connection: RawConnection): Promise<string> =>
  (await connection.send(get).response()).body.toString();

describe('an acceptor', () => {
  it('passes new connections to the server in use, and leaves those that are open where they are', async () => {
    const before = await RawConnection.open(url);
    expect(await textOn(before)).toBe('first');
    acceptor.use(serverThatSays('second'));
    expect(await textOn(await RawConnection.open(url))).toBe('second');
    expect(await textOn(before)).toBe('first');
  });

  it('has the server end heads that take too long, though that server does not listen itself', async () => {
    const hasty = createServer({ headersTimeout: 100, requestTimeout: 100, connectionsCheckingInterval: 50 });
    acceptor.use(hasty);
    const connection = await RawConnection.open(url);
    expect((await connection.send('GET / HTTP/1.1\r\n').response()).status).toBe(408);
    hasty.close();
  });

  it('closes connections beyond its limit, and says so', async () => {
    acceptor.maxConnections = 1;
    const first = await RawConnection.open(url);
    expect(await textOn(first)).toBe('first');
    const second = await RawConnection.open(url);
    expect(await second.ended()).toBe('FIN');
    expect(dropped).toBe(1);
    expect(await textOn(first)).toBe('first');
  });

  it('that is closed accepts no connection, and those that are open go on', async () => {
    const open = await RawConnection.open(url);
    expect(await textOn(open)).toBe('first');
    acceptor.stopListening();
    await expect(RawConnection.open(url)).rejects.toThrow('ECONNREFUSED');
    expect(await textOn(open)).toBe('first');
  });

  it('can end all connections, also those after CONNECT, of which no server knows', async () => {
    const server = serverThatSays('first');
    const tunnelled = new Promise((resolve) => server.once('connect', resolve));
    acceptor.use(server);
    const [idle, tunnel] = [await RawConnection.open(url), await RawConnection.open(url)];
    tunnel.send('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n');
    await tunnelled;
    acceptor.destroyAll();
    await Promise.all([idle.gone(), tunnel.gone()]);
  });
});
