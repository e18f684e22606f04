import { hash } from 'node:crypto';
import { createServer } from 'node:http';
import { createAdminApp } from '../../src/observability/admin-app.ts';
import { renderStatusPage } from '../../src/observability/status/page.ts';
import type { Status } from '../../src/observability/status/schema.ts';
import { listen } from './listening.ts';

export interface ServedPage {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** An admin port whose page shows this status. */
export async function servePage(status: Status): Promise<ServedPage> {
  const { health } = status;
  const app = createAdminApp({
    page: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
    readiness: () => health,
    status: () => Promise.resolve(status),
    statusAccess: () => 'granted',
  });
  const { port, close } = await listen(createServer(app));
  return { url: `http://127.0.0.1:${port}`, close };
}

/** SHA-256 of the page of this status, hex. */
export function pageDigest(status: Status): string {
  return hash('sha256', renderStatusPage(status));
}
