import { hash } from 'node:crypto';
import { createServer } from 'node:http';
import { createAdminApp } from '../../src/observability/admin-app.ts';
import { renderStatusPage } from '../../src/observability/status/page.ts';
import type { Status } from '../../src/observability/status/schema.ts';
import { listen } from './listening.ts';

export interface ServedPage {
  readonly url: string;
  /** Shows another status from now on. */
  readonly show: (status: Status) => void;
  readonly close: () => Promise<void>;
}

/** An admin port whose page shows this status. @param onPort 0: any */
export async function servePage(first: Status, onPort = 0): Promise<ServedPage> {
  let current = first;
  const app = createAdminApp({
    monotonic: () => performance.now(),
    interval: 0,
    page: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
    readiness: () => current.health,
    status: () => Promise.resolve(current),
    statusAccess: () => 'granted',
  });
  const { port, close } = await listen(createServer(app), onPort);
  const show = (status: Status): void => {
    current = status;
  };
  return { url: `http://127.0.0.1:${port}`, show, close };
}

/** SHA-256 of the page of this status, hex. */
export function pageDigest(status: Status): string {
  return hash('sha256', renderStatusPage(status));
}
