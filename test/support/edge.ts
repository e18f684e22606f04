import { formRequest, type RawAnswer, RawConnection } from './raw-http.ts';
import { type RecordingGateway, startRecordingGateway } from './recording-gateway.ts';
import { type ProxyOptions, startProxy, type TestProxy } from './service.ts';

export const balance = '/sandbox/gw/api/v2/get-balance/manager/acme';
export const status = '/sandbox/gw/api/v4/status/1234';
export const transfer = '/sandbox/gw/api/v4/transfer/1234';
export const statusForm = 'login=acme&client_orderid=o-1';

/** A Countersign before a gateway that remembers what reaches it. */
export interface Edge {
  readonly proxy: TestProxy;
  readonly gateway: RecordingGateway;
  /** Sends the bytes over a connection of their own and gives the first answer. */
  readonly ask: (bytes: string | Buffer) => Promise<RawAnswer>;
  /** The log lines of exchanges that have ended, once there are so many. */
  readonly exchanges: (count: number) => Promise<Record<string, unknown>[]>;
  readonly stop: () => Promise<void>;
}

export async function startEdge(options: Partial<ProxyOptions> = {}): Promise<Edge> {
  const gateway = await startRecordingGateway();
  const proxy = await startProxy({ gateway: gateway.url, ...options });
  return {
    proxy,
    gateway,
    ask: async (bytes) => {
      const connection = await RawConnection.open(proxy.url);
      const answer = await connection.send(bytes).answer();
      connection.close();
      return answer;
    },
    exchanges: async (count) => {
      for (;;) {
        const lines = proxy.logLines().filter(({ msg }) => msg === 'request completed');
        if (lines.length >= count) return lines;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
    stop: async () => {
      await proxy.stop();
      await gateway.close();
    },
  };
}

/** Whether the connection still does its work: the request that follows is carried out. */
export async function nextIsServed(connection: RawConnection): Promise<boolean> {
  const answer = await connection.send(formRequest(balance)).answer();
  connection.close();
  return answer.status === 200 && answer.headers['countersign-outcome'] === 'answered';
}
