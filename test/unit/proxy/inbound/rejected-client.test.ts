import { X509Certificate } from 'node:crypto';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { describe, expect, it } from '@jest/globals';
import { configSchema } from '../../../../src/config/schema.ts';
import { ProxyError } from '../../../../src/errors.ts';
import { createRoutes } from '../../../../src/gateway/router.ts';
import { clientDetails, rejectedTarget } from '../../../../src/proxy/inbound/rejected-client.ts';
import { Folder } from '../../../support/folder.ts';
import { itWith } from '../../../support/requires.ts';
import { Ca } from '../../../support/stub-vault/certificates.ts';

const { resolve } = createRoutes(
  configSchema.parse({
    environments: { sandbox: { baseUrl: 'https://gateway.example', product: 'gw' } },
    keys: { source: 'directory', directory: 'keys' },
  }),
);
const lookup = { resolve, isKnownLogin: ({ login }: { login: string }) => login === 'acme' };
const facts = { environment: 'sandbox', operation: 'manager-balance' };
const path = '/sandbox/gw/api/v2/get-balance/manager/ghost';

describe('the target of a rejected request', () => {
  it('before authentication is the environment and operation that the path resolves to, without the login', () => {
    expect(rejectedTarget({}, undefined, path, lookup)).toEqual(facts);
  });

  it.each(['/', '/nowhere/gw/api/v4/transfer/1', '/sandbox/gw/api/v4/transfer/%20', '*', '/%zz/%zz'])(
    'is absent if the path %s does not resolve',
    (target) => {
      expect(rejectedTarget({}, undefined, target, lookup)).toEqual({});
    },
  );

  it.each([
    ['acme', 'acme'],
    ['ghost', 'unknown'],
  ])('after authorization has the login %s as %s', (denied, login) => {
    expect(rejectedTarget(facts, denied, path, lookup)).toEqual({ login });
  });
});

itWith('openssl')('the certificate of a client that was verified may have expired since', () => {
  const folder = new Folder();
  try {
    const issued = new Ca(folder.path, 'ca').issue('service', { names: 'DNS:service.example' });
    const certificate = new X509Certificate(issued.cert);
    const verified = { authorized: true, getPeerX509Certificate: () => certificate };
    const request = new IncomingMessage(Object.assign(new TLSSocket(new Socket()), verified));
    const expiry = certificate.validToDate.getTime();
    const error = new ProxyError('not-allowed', 'No grant.');
    const problems = [expiry, expiry + 1].map(
      (now) => clientDetails(request, now, error, undefined)?.certificateProblem,
    );
    expect(problems).toEqual([undefined, 'CERT_HAS_EXPIRED']);
  } finally {
    folder.remove();
  }
});
