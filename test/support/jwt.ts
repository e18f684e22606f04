import { type ConfigInput, everything } from './config.ts';
import type { HttpResponse } from './forwarding.ts';
import type { OidcServer } from './oidc-server.ts';
import type { TestProxy } from './service.ts';

type CallerInput = NonNullable<ConfigInput['callers']>[number];
type JwtCredential = Extract<CallerInput['credentials'][number], { jwt: unknown }>['jwt'];
export type IssuerInput = NonNullable<ConfigInput['jwtIssuers']>[string];

/** A caller who may do everything, by tokens of the issuer `idp`. */
export const jwtCaller = (name: string, jwt: Omit<JwtCredential, 'issuer'>, issuer = 'idp') => ({
  name,
  credentials: [{ jwt: { issuer, ...jwt } }],
  allow: [everything],
});

/** The issuer `idp`, found by discovery, and the caller `billing` with the subject of the same name. */
export function jwtConfig(
  issuer: Pick<OidcServer, 'url'>,
  settings: Partial<IssuerInput> = {},
): { jwtIssuers: ConfigInput['jwtIssuers']; callers: CallerInput[] } {
  return {
    jwtIssuers: { idp: { issuer: issuer.url, audience: 'countersign', ...settings } },
    callers: [jwtCaller('billing', { subject: 'billing' })],
  };
}

/** A balance query with a bearer token. */
export function queryWith(proxy: Pick<TestProxy, 'post'>, token: string): Promise<HttpResponse> {
  return proxy.post('/sandbox/gw/api/v2/get-balance/manager/acme', '', { Authorization: `Bearer ${token}` });
}

/** Without what differs between any two responses. */
export function sameBytes({ status, headers, body }: HttpResponse): string {
  const { date: _, 'x-request-id': requestId = '', ...others } = headers;
  return JSON.stringify([status, others, body.replaceAll(String(requestId), 'ID')]);
}
