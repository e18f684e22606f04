import { randomBytes } from 'node:crypto';
import type { Config, EnvironmentConfig } from '../config/shape.ts';
import { type QueryAbout, readOnlyQuery } from '../gateway/read-only-query.ts';
import type { UsableKey } from '../keys/source.ts';
import type { KeyKind, MethodName } from '../oauth1/methods.ts';
import { sign } from '../oauth1/sign.ts';
import { CrossingFailure, type GatewayReply } from '../proxy/crossing.ts';
import type { Forwarder } from '../proxy/forward.ts';
import { unlimitedMemory } from '../proxy/memory-budget.ts';
import { postOf } from '../proxy/post.ts';

/** What the gateway made of one key. */
export interface Verdict {
  readonly result: 'accepted' | 'refused' | 'unclear' | 'no-answer' | 'unusable' | 'not-asked';
  /** HTTP status. */
  readonly status?: number;
  readonly detail?: string;
}

/** Where it is asked, with the environment's own deadlines. */
export interface Asker {
  readonly config: Config;
  readonly settings: EnvironmentConfig;
  readonly forwarder: Forwarder;
  readonly userAgent: string;
}

/** Seconds by which clocks may differ before it is worth a word; as the alert has it. */
const notableSkew = 30;

/** Asks the gateway one harmless thing, signed with this key. Once: nothing is repeated. */
export async function ask(query: QueryAbout, { kind, key }: UsableKey, asker: Asker): Promise<Verdict> {
  const readOnly = readOnlyQuery(asker.config, query, signatureFor(kind));
  if (readOnly === 'no-operation') {
    return { result: 'not-asked', detail: 'no operation that only looks is signed with this kind of key' };
  }
  if (readOnly === 'no-endpoint') {
    return { result: 'not-asked', detail: 'a status query needs --endpoint ID' };
  }
  const { destination, form } = readOnly;
  const unsigned = {
    method: 'POST',
    url: destination.url,
    form,
    signatureMethod: destination.operation.signature,
    consumerKey: query.login,
    nonce: randomBytes(16).toString('hex'),
    timestamp: Math.floor(Date.now() / 1000),
  };
  const signed = await sign(unsigned, key);
  const { connect, exchange } = asker.settings.deadlines;
  const post = postOf(destination.url, signed, asker.userAgent);
  try {
    const memory = unlimitedMemory().reservation();
    return verdictOn(
      await asker.forwarder.send(post, { ownConnection: true, connect, exchange, memory }),
      kind,
    );
  } catch (error) {
    if (error instanceof CrossingFailure) return { result: 'no-answer', detail: error.reason };
    throw error;
  }
}

function signatureFor(kind: KeyKind): MethodName {
  return kind === 'control_key' ? 'HMAC-SHA1' : 'RSA-SHA256';
}

/** Interface sections 4.1, 4.2 and 7: 200 is the answer to a right signature, 403 to a wrong one. */
function verdictOn({ status, headers, rest }: GatewayReply, kind: KeyKind): Verdict {
  rest?.destroy();
  if (status === 200) return { result: 'accepted', status };
  if (status !== 401 && status !== 403) return { result: 'unclear', status };
  const skew = (Date.parse(headers.date ?? '') - Date.now()) / 1000;
  const notes = [
    ...(kind === 'control_key' ? ['wrong key, or balances are not enabled'] : []),
    ...(Math.abs(skew) > notableSkew ? [`the clocks differ by ${Math.round(Math.abs(skew))} s`] : []),
  ];
  return { result: 'refused', status, ...(notes.length === 0 ? {} : { detail: notes.join('; ') }) };
}
