import { hash, X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type ConfigInput, everything, tokenCredential } from '../support/config.ts';
import { type HttpResponse, paths, post } from '../support/forwarding.ts';
import { harness } from '../support/harness.ts';
import { sameBytes } from '../support/jwt.ts';
import { describeWith } from '../support/requires.ts';
import type { TestProxy } from '../support/service.ts';
import { Ca, type Issued } from '../support/stub-vault/certificates.ts';

type Revoked = NonNullable<ConfigInput['revokedCertificates']>;

const starts = harness(afterAll);
let ca: Ca;
let server: Issued;
let first: Issued;
let second: Issued;

const fingerprintOf = ({ cert }: Issued): string => new X509Certificate(cert).fingerprint256;

const publicKeyOf = ({ cert }: Issued): string =>
  hash('sha256', new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' }));

/** FIPS 186-4 section D.1.2. */
const curves = {
  'P-256': 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n,
  'P-384': 2n ** 384n - 1388124618062372383947042015309946732620727252194336364173n,
  'P-521':
    0x1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409n,
} as const;
type Curve = keyof typeof curves;

/** A DER integer of at most 127 bytes. */
function integer(value: bigint): Buffer {
  const hex = value.toString(16);
  const even = hex.length % 2 === 0 ? hex : `0${hex}`;
  const bytes = Buffer.from(/^[89a-f]/.test(even) ? `00${even}` : even, 'hex');
  return Buffer.concat([Buffer.from([2, bytes.length]), bytes]);
}

/** The same certificate with the signature (r, n - s), which is as valid as (r, s). Lengths have two bytes at most. */
function withOtherSignature({ cert, key }: Issued, curve: Curve): Pick<Issued, 'cert' | 'key'> {
  const { raw } = new X509Certificate(cert);
  const tbsLength = raw.readUInt16BE(6) + 4;
  const algorithmLength = raw.readUInt8(4 + tbsLength + 1) + 2;
  const signed = raw.subarray(4, 4 + tbsLength + algorithmLength);
  const signature = raw.subarray(4 + signed.length);
  const pair = signature.subarray(signature.readUInt8(1) === 0x81 ? 4 : 3);
  const numbers = pair.subarray(pair.readUInt8(1) === 0x81 ? 3 : 2);
  const rLength = numbers.readUInt8(1) + 2;
  const s = BigInt(`0x${numbers.subarray(rLength + 2).toString('hex')}`);
  const wrap = (tag: number, content: Buffer): Buffer => {
    const long = content.length < 128 ? [] : content.length < 256 ? [0x81] : [0x82, content.length >> 8];
    return Buffer.concat([Buffer.from([tag, ...long, content.length & 0xff]), content]);
  };
  const other = wrap(0x30, Buffer.concat([numbers.subarray(0, rLength), integer(curves[curve] - s)]));
  const der = wrap(0x30, Buffer.concat([signed, wrap(3, Buffer.concat([Buffer.from([0]), other]))]));
  const body = der.toString('base64').replaceAll(/.{1,64}/g, '$&\n');
  return { cert: Buffer.from(`-----BEGIN CERTIFICATE-----\n${body}-----END CERTIFICATE-----\n`), key };
}

describeWith('openssl')('a revoked certificate', () => {
  beforeAll(() => {
    ca = new Ca(starts.folder().path, 'ours');
    server = ca.issue('server');
    first = ca.issue('first', { names: 'DNS:billing.internal' });
    second = ca.issue('second', { names: 'DNS:billing.internal, DNS:reports.internal' });
  });

  const configWith = (
    revoked: { all?: Revoked; billing?: Revoked } = {},
  ): Pick<ConfigInput, 'proxy' | 'callers' | 'revokedCertificates'> => ({
    proxy: { port: 0, tls: { certFile: server.certFile, keyFile: server.keyFile, clientCaFile: ca.file } },
    revokedCertificates: revoked.all ?? [],
    callers: [
      {
        name: 'billing',
        revokedCertificates: revoked.billing ?? [],
        credentials: [{ certificateDns: 'billing.internal' }, tokenCredential('billing-token')],
        allow: [everything],
      },
      { name: 'reports', credentials: [{ certificateDns: 'reports.internal' }], allow: [everything] },
      { name: 'anyone', credentials: [{ anonymous: true }], allow: [everything] },
    ],
  });

  async function start(config = configWith()): Promise<TestProxy> {
    const gateway = await starts.recordingGateway();
    return starts.proxy({ gateway: gateway.url, config });
  }

  /** @param agent keeps its connection, unless it is absent */
  function send(
    proxy: TestProxy,
    own: Pick<Issued, 'cert' | 'key'> | undefined,
    headers = {},
    agent?: Agent,
  ) {
    const client = agent ?? new Agent({ ca: ca.cert, cert: own?.cert, key: own?.key });
    return postOver(client, proxy, headers);
  }

  const postOver = (agent: Agent, proxy: TestProxy, headers = {}): Promise<HttpResponse> =>
    post(`${proxy.url}${paths.balance}`, '', headers, { agent });

  it('is rejected like any wrong credential, and the log says why', async () => {
    const proxy = await start(configWith({ all: [fingerprintOf(first)] }));
    const response = await send(proxy, first);
    expect(response.status).toBe(401);
    const wrong = await send(proxy, second, { Authorization: 'Bearer wrong' });
    expect(sameBytes(response)).toBe(sameBytes(wrong));
    const lines = await proxy.requestLines(2);
    expect(lines[0]).toMatchObject({ credential: 'certificate', certificateProblem: 'CERT_REVOKED' });
    expect(lines[1]).not.toHaveProperty('certificateProblem');
    expect((await send(proxy, second)).status).toBe(200);
  });

  it('is rejected for all also together with a token, and is no anonymous caller', async () => {
    const proxy = await start(configWith({ all: [fingerprintOf(first)] }));
    expect((await send(proxy, first, { Authorization: 'Bearer billing-token' })).status).toBe(401);
    expect((await send(proxy, undefined, { Authorization: 'Bearer billing-token' })).status).toBe(200);
    expect((await send(proxy, undefined)).status).toBe(200);
  });

  it.each<Curve>(['P-256', 'P-384', 'P-521'])(
    'of a CA with %s is rejected with the other form of its signature, for all and for one caller',
    async (curve) => {
      const signer = new Ca(starts.folder().path, `ca-${curve}`, curve);
      const own = signer.issue(`client-${curve}`, { names: 'DNS:billing.internal' });
      const varied = withOtherSignature(own, curve);
      expect(new X509Certificate(varied.cert).fingerprint256).not.toBe(fingerprintOf(own));
      writeFileSync(signer.file, Buffer.concat([signer.cert, ca.cert]));
      const tls = { certFile: server.certFile, keyFile: server.keyFile, clientCaFile: signer.file };
      const config = (lists: Parameters<typeof configWith>[0]) => ({
        ...configWith(lists),
        proxy: { port: 0, tls },
      });
      const proxy = await start(config({}));
      expect((await send(proxy, varied)).status).toBe(200);
      expect((await proxy.requestLines(1))[0]).toMatchObject({ caller: 'billing' });
      for (const lists of [{ all: [fingerprintOf(own)] }, { billing: [fingerprintOf(own)] }]) {
        await proxy.reload(config(lists));
        expect((await send(proxy, varied)).status).toBe(401);
        expect((await send(proxy, own)).status).toBe(401);
        expect((await send(proxy, second)).status).toBe(200);
      }
    },
  );

  it('is rejected by its public key, for all and for one caller, and so is a renewed one with that key', async () => {
    const entry = { publicKeySha256: publicKeyOf(first) };
    for (const lists of [{ all: [entry] }, { billing: [entry] }]) {
      const proxy = await start(configWith(lists));
      expect((await send(proxy, first)).status).toBe(401);
      expect((await send(proxy, withOtherSignature(first, 'P-256'))).status).toBe(401);
      expect((await send(proxy, second)).status).toBe(200);
    }
  });

  it.each([
    ['as OpenSSL prints it', (text: string) => text],
    ['in lower case without colons', (text: string) => text.replaceAll(':', '').toLowerCase()],
  ])('may be written %s', async (_, write) => {
    const proxy = await start(configWith({ all: [write(fingerprintOf(first))] }));
    expect((await send(proxy, first)).status).toBe(401);
  });

  it('of one caller is not accepted as another one or as anonymous', async () => {
    const proxy = await start(configWith({ billing: [fingerprintOf(first), fingerprintOf(second)] }));
    expect((await send(proxy, first)).status).toBe(401);
    expect((await send(proxy, second)).status).toBe(401);
    // The token of the same caller is another credential.
    expect((await send(proxy, first, { Authorization: 'Bearer billing-token' })).status).toBe(200);
  });

  it('loses access at a reload, on its open connection', async () => {
    const proxy = await start();
    const agent = new Agent({
      keepAlive: true,
      maxSockets: 1,
      ca: ca.cert,
      cert: first.cert,
      key: first.key,
    });
    try {
      expect((await send(proxy, first, {}, agent)).status).toBe(200);
      const [kept] = Object.values(agent.freeSockets).flat();
      const before = kept?.bytesRead ?? 0;
      await proxy.reload(configWith({ all: [fingerprintOf(first)] }));
      expect((await send(proxy, first, {}, agent)).status).toBe(401);
      expect(kept?.bytesRead).toBeGreaterThan(before);
      await proxy.reload(configWith());
      expect((await send(proxy, first, {}, agent)).status).toBe(200);
    } finally {
      agent.destroy();
    }
  });
});
