import type { Child } from './child.ts';
import { logins } from './countersign.ts';
import { balanceCall, type Call, statusCall } from './traffic.ts';

export type WayName = 'direct' | 'bare' | 'hmac' | 'rsa-2048' | 'rsa-4096';

/** A way from the load generator to the upstream and back. */
export interface Way {
  /** Where the form is posted. */
  readonly url: string;
  readonly body: string;
  /** The process in between. */
  readonly proxy?: Child;
  /** Of the requests of a round: RSA takes its time. */
  readonly share: number;
}

export type Ways = Readonly<Record<WayName, Way>>;

export interface Place {
  readonly child: Child;
  readonly url: string;
}

export function waysThrough(upstream: Place, bare: Place, countersign: Place): Ways {
  const signed = { proxy: countersign.child };
  return {
    direct: { ...callAt(upstream.url, balanceCall), share: 1 },
    bare: { ...callAt(bare.url, balanceCall), proxy: bare.child, share: 1 },
    hmac: { ...callAt(countersign.url, balanceCall), ...signed, share: 1 },
    'rsa-2048': { ...callAt(countersign.url, statusCall(logins[2048])), ...signed, share: 1 / 2 },
    'rsa-4096': { ...callAt(countersign.url, statusCall(logins[4096])), ...signed, share: 1 / 4 },
  };
}

function callAt(base: string, { path, body }: Call): Pick<Way, 'url' | 'body'> {
  return { url: `${base}${path}`, body };
}
