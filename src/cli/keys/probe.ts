import { randomBytes } from 'node:crypto';
import type { EnvironmentConfig } from '../../config/schema.ts';
import { type QueryAbout, readOnlyQuery } from '../../gateway/read-only-query.ts';
import type { Routes } from '../../gateway/router.ts';
import type { UsableKey } from '../../keys/key-source.ts';
import type { KeyKind, MethodName } from '../../oauth1/methods.ts';
import { sign } from '../../oauth1/sign.ts';
import { unlimitedMemory } from '../../proxy/memory-budget.ts';
import { skewOf } from '../../proxy/outbound/clock-skew.ts';
import { buildUpstreamRequest, unsignedRequest } from '../../proxy/outbound/signed-request.ts';
import type { UpstreamClient } from '../../proxy/outbound/upstream-client.ts';
import { type GatewayResponse, UpstreamError } from '../../proxy/outbound/upstream-request.ts';

/** What the gateway responded to a query signed with one key. */
export interface ProbeResult {
  readonly result: 'accepted' | 'rejected' | 'inconclusive' | 'no-response' | 'unusable' | 'skipped';
  readonly status?: number;
  readonly detail?: string;
}

/** The gateway to query, with the environment's own timeouts. */
export interface ProbeContext extends Routes {
  readonly settings: EnvironmentConfig;
  readonly upstream: UpstreamClient;
  readonly userAgent: string;
}

/** Seconds of clock skew worth reporting; the same as in the alert. */
const notableSkew = 30;

/** Sends one read-only query signed with this key. No retries. */
export async function probeKey(
  query: QueryAbout,
  { kind, key }: UsableKey,
  context: ProbeContext,
): Promise<ProbeResult> {
  const readOnly = readOnlyQuery(context, query, signatureFor(kind));
  if (readOnly === 'no-operation') {
    return { result: 'skipped', detail: 'no read-only operation uses this key type' };
  }
  if (readOnly === 'no-endpoint') {
    return { result: 'skipped', detail: 'a status query requires --endpoint ID' };
  }
  const { destination, form } = readOnly;
  const unsigned = unsignedRequest(
    { destination, login: query.login, form },
    randomBytes(16).toString('hex'),
    Math.floor(Date.now() / 1000),
  );
  const signed = await sign(unsigned, key);
  const { connect, request: total } = context.settings.timeouts;
  const request = buildUpstreamRequest(destination.url, signed, context.userAgent);
  try {
    const memory = unlimitedMemory();
    const response = await context.upstream.send(request, {
      dedicatedConnection: true,
      connect,
      total,
      memory,
    });
    return resultOf(response, kind);
  } catch (error) {
    if (error instanceof UpstreamError) return { result: 'no-response', detail: error.reason };
    throw error;
  }
}

function signatureFor(kind: KeyKind): MethodName {
  return kind === 'control_key' ? 'HMAC-SHA1' : 'RSA-SHA256';
}

/** docs/gateway-interface.md sections 4.1, 4.2 and 7: 200 for a valid signature, 403 for an invalid one. */
function resultOf({ status, headers, rest }: GatewayResponse, kind: KeyKind): ProbeResult {
  rest?.destroy();
  if (status === 200) return { result: 'accepted', status };
  if (status !== 401 && status !== 403) return { result: 'inconclusive', status };
  const skew = Math.abs(skewOf(headers.date, Date.now()) ?? 0);
  const notes = [
    ...(kind === 'control_key' ? ['wrong key, or balances are not enabled'] : []),
    ...(skew > notableSkew ? [`clock skew of ${Math.round(skew)} s`] : []),
  ];
  return { result: 'rejected', status, ...(notes.length === 0 ? {} : { detail: notes.join('; ') }) };
}
