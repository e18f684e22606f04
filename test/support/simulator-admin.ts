import type { JournalEntry } from '../../src/simulator/journal.ts';
import { listenSimulatorWithAdmin } from '../../src/simulator/listen.ts';
import { loadScenario } from './scenario.ts';
import { type Draft, gatewayKeys, noon, post, shippedScenario } from './simulator.ts';

/** The shipped scenario with the admin API, both on free ports, at noon. */
export async function startWithAdmin(options: { allowedHosts?: string[] } = {}) {
  const listening = await listenSimulatorWithAdmin({
    scenario: loadScenario(shippedScenario()),
    keys: new Map(['acme', 'beta'].map((login) => [login, gatewayKeys])),
    clock: () => noon,
    serialNumber: () => 'sn-1',
    port: 0,
    admin: { port: 0, ...options },
  });
  const { url, adminUrl } = listening;
  return { ...listening, call: callTo(adminUrl), send: (draft: Draft) => post(url, draft) };
}

type Call = ReturnType<typeof callTo>;

/** A body that is text is sent as it is, everything else as JSON. */
function callTo(adminUrl: string) {
  return async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(`${adminUrl}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), text, response };
  };
}

export async function journalOf({ call }: { call: Call }): Promise<JournalEntry[]> {
  return (await call('GET', '/journal')).body.entries;
}
