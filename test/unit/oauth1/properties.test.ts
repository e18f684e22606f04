import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { ProxyError } from '../../../src/errors.ts';
import { decodeForm } from '../../../src/oauth1/decode-form.ts';
import type { SigningKey } from '../../../src/oauth1/methods.ts';
import { encodePairs, joinPairs, type Pair } from '../../../src/oauth1/parameters.ts';
import { prepare, sign, type Unsigned } from '../../../src/oauth1/sign.ts';
import { Secret } from '../../../src/secret.ts';
import { formArbitrary } from '../../support/form.ts';
import { otherBaseString, otherHmacSha1 } from '../../support/oauth-sign.ts';
import { privateKeyOf, publicKeyOf } from '../../support/vectors.ts';
import { verifyAuthorization } from '../../support/verify.ts';

/** The same forms in every run; fast-check prints seed and path with the smallest form that fails. */
const seed = 5849;
const many = { seed, numRuns: 500 };
const url = 'https://gateway.example/gw/api/v4/transfer/7';
const controlKey = 'c&ntrol %key+é';
const privateKey: SigningKey = { kind: 'private_key', privateKey: privateKeyOf('rsa-2048-pkcs8.pem') };

describe('decodeForm', () => {
  it('decodes every encoded form to the original', () => {
    fc.assert(
      fc.property(formArbitrary, (form) => {
        expect(decodeForm(Buffer.from(joinPairs(encodePairs(form))))).toEqual(form);
      }),
      many,
    );
  });

  it('rejects bytes, or decodes them like URLSearchParams to text that can be signed', () => {
    let accepted = 0;
    fc.assert(
      fc.property(bodyArbitrary, (body) => {
        const pairs = decodeOrReject(body);
        if (pairs === undefined) return;
        accepted += 1;
        expect(decodeForm(Buffer.from(joinPairs(encodePairs(pairs))))).toEqual(pairs);
        // URLSearchParams drops a leading "?"; the empty part before it prevents that.
        expect([...new URLSearchParams(`&${body.toString()}`)]).toEqual(pairs);
      }),
      many,
    );

    expect(accepted).toBeGreaterThan(250);
    expect(accepted).toBeLessThan(475);
  });
});

describe('generated forms', () => {
  it('get the base string and the HMAC-SHA1 that oauth-sign computes, and verify as received bytes', async () => {
    const key: SigningKey = { kind: 'control_key', secret: new Secret(controlKey) };
    await fc.assert(
      fc.asyncProperty(formArbitrary, async (form) => {
        const request = unsigned(form, 'HMAC-SHA1');
        const { baseString, oauth } = prepare(request);
        const { authorization, body } = await sign(request, key);
        const all = [...form, ...oauth];
        const expected = encodeURIComponent(otherHmacSha1('POST', url, all, controlKey, ''));

        expect(baseString).toBe(otherBaseString('POST', url, all));
        expect(authorization.endsWith(`, oauth_signature="${expected}"`)).toBe(true);
        expect(
          verifyAuthorization({ method: 'POST', url, authorization, body }, { controlKey }).form,
        ).toEqual(form);
      }),
      many,
    );
  });

  it('get an RSA-SHA256 signature that node:crypto verifies over the base string of oauth-sign', async () => {
    const publicKey = publicKeyOf('rsa-2048-public.pem');
    await fc.assert(
      fc.asyncProperty(formArbitrary, async (form) => {
        const { authorization, body } = await sign(unsigned(form, 'RSA-SHA256'), privateKey);

        expect(verifyAuthorization({ method: 'POST', url, authorization, body }, { publicKey }).form).toEqual(
          form,
        );
      }),
      // Like the HMAC of the same base string, and each takes a millisecond.
      { seed, numRuns: 100 },
    );
  });
});

/** Bytes that look like a form: mostly valid escapes, separators and UTF-8, sometimes invalid ones. */
const bodyArbitrary = fc
  .array(
    fc
      .oneof(
        {
          weight: 8,
          arbitrary: fc.constantFrom(...'%41 %C3%A9 %F0%9F%98%80 %2B %26 %3d %EF%BB%BF %00 é 😀'.split(' ')),
        },
        { weight: 8, arbitrary: fc.constantFrom(...'& = + ; ? a b=c __proto__= \ufeff'.split(' ')) },
        { weight: 1, arbitrary: fc.constantFrom(...'% %4 %zz %C3 %A9 %ED%A0%80 %C0%AF'.split(' ')) },
      )
      .map((text) => Buffer.from(text)),
    { maxLength: 12 },
  )
  .map((parts) => Buffer.concat(parts));

function decodeOrReject(body: Buffer): Pair[] | undefined {
  try {
    return decodeForm(body);
  } catch (error) {
    expect(error).toBeInstanceOf(ProxyError);
    return undefined;
  }
}

function unsigned(form: readonly Pair[], signatureMethod: Unsigned['signatureMethod']): Unsigned {
  return {
    method: 'POST',
    url: new URL(url),
    form,
    signatureMethod,
    consumerKey: 'acme',
    nonce: '0123456789abcdef0123456789abcdef',
    timestamp: 1_700_000_000,
  };
}
