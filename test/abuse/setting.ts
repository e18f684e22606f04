import { createServer } from 'node:http';
import { everything, tokenCredential } from '../support/config.ts';
import { jwtCaller } from '../support/jwt.ts';
import { listen } from '../support/listening.ts';
import { probeOptions } from '../support/loop-probe.ts';
import { startOidcServer } from '../support/oidc-server.ts';
import { type CountersignProcess, startProcess } from '../support/process.ts';
import { testKeys } from '../support/service.ts';
import type { Target } from './ways.ts';

/** What is special about the attacked process. */
export interface SettingOptions {
  /** One unless given. */
  readonly logins?: number;
  /** How many milliseconds the issuer takes for its keys after the first time. */
  readonly issuerDelay?: number;
}

/** A process under attack, with what it needs. */
export interface Setting {
  readonly target: Target;
  readonly process: CountersignProcess;
  readonly close: () => Promise<void>;
}

export async function startSetting(options: SettingOptions): Promise<Setting> {
  const { logins = 1, issuerDelay = 0 } = options;
  // Accepts whatever it receives, and keeps nothing of it.
  const gateway = await listen(
    createServer((request, response) => {
      request.resume().once('end', () => response.end('OK'));
    }),
  );
  const issuer = await startOidcServer();
  const { respond } = issuer;
  issuer.respond = (...call) => {
    setTimeout(() => respond(...call), issuer.fetches() > 1 ? issuerDelay : 0);
  };
  const names = Array.from({ length: logins }, (_, index) => `login-${index}`);
  const process = await startProcess({
    gateway: `http://127.0.0.1:${gateway.port}`,
    config: {
      jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign' } },
      callers: [
        { name: 'victim', credentials: [tokenCredential('victim')], allow: [everything] },
        { name: 'greedy', credentials: [tokenCredential('greedy')], allow: [everything], maxInFlight: 2 },
        jwtCaller('billing', { subject: 'billing' }),
      ],
    },
    sandbox: { endpoints: Object.fromEntries(names.map((login, index) => [String(1000 + index), login])) },
    keys: Object.fromEntries(names.map((login) => [login, testKeys])),
    nodeOptions: probeOptions,
  });
  const { url, adminUrl } = process;
  return {
    target: { url, adminUrl, issuer: issuer.url, logins },
    process,
    close: async () => {
      await process.close();
      await Promise.all([gateway.close(), issuer.close()]);
    },
  };
}
