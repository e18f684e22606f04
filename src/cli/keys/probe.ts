import { randomBytes } from 'node:crypto';
import type { Config, EnvironmentConfig } from '../../config/schema.ts';
import { type QueryAbout, readOnlyQuery } from '../../gateway/read-only-query.ts';
import type { UsableKey } from '../../keys/key-source.ts';
import type { KeyKind, MethodName } from '../../oauth1/methods.ts';
import { sign } from '../../oauth1/sign.ts';
import { unlimitedMemory } from '../../proxy/memory-budget.ts';
import { buildUpstreamRequest } from '../../proxy/outbound/signed-request.ts';
import type { UpstreamClient } from '../../proxy/outbound/upstream-client.ts';
import { type GatewayResponse, UpstreamError } from '../../proxy/outbound/upstream-request.ts';

/** What the gateway made of one key. */
export interface ProbeResult {
  readonly result: 'accepted' | 'refused' | 'unclear' | 'no-answer' | 'unusable' | 'not-asked';
  /** HTTP status. */
  readonly status?: number;
  readonly detail?: string;
}

/** Where it is asked, with the environment's own timeouts. */
export interface ProbeContext {
  readonly config: Config;
  readonly settings: EnvironmentConfig;
  readonly forwarder: UpstreamClient;
  readonly userAgent: string;
}

/** Seconds by which clocks may differ before it is worth a word; as the alert has it. */
const notableSkew = 30;

/** Asks the gateway one harmless thing, signed with this key. Once: nothing is repeated. */
export async function probeKey(
  query: QueryAbout,
  { kind, key }: UsableKey,
  asker: ProbeContext,
): Promise<ProbeResult> {
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
  const { connect, request: exchange } = asker.settings.timeouts;
  const post = buildUpstreamRequest(destination.url, signed, asker.userAgent);
  try {
    const memory = unlimitedMemory().reservation();
    return verdictOn(
      await asker.forwarder.send(post, { dedicatedConnection: true, connect, total: exchange, memory }),
      kind,
    );
  } catch (error) {
    if (error instanceof UpstreamError) return { result: 'no-answer', detail: error.reason };
    throw error;
  }
}

function signatureFor(kind: KeyKind): MethodName {
  return kind === 'control_key' ? 'HMAC-SHA1' : 'RSA-SHA256';
}

/** Interface sections 4.1, 4.2 and 7: 200 is the answer to a right signature, 403 to a wrong one. */
function verdictOn({ status, headers, rest }: GatewayResponse, kind: KeyKind): ProbeResult {
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
