import { createPublicKey, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { Secret } from '../../secret.ts';
import type { Accounts } from '../accounts.ts';
import { fingerprintOf, type GatewayKeys } from '../signature.ts';
import { AdminError } from './admin-error.ts';

/** Of one kind and login. Every request is verified with all of them. */
const maxKeys = 20;
const tooMany = `must have at most ${maxKeys} keys`;

const controlKey = z
  .string()
  .min(1)
  .refine((text) => text.isWellFormed(), 'must be valid Unicode')
  .transform((text) => new Secret(text));

const publicKey = z.string().transform((pem, context) => {
  const key = parsePublicKey(pem);
  if (typeof key !== 'string') return key;
  context.addIssue({ code: 'custom', message: key });
  return z.NEVER;
});

/** Keys of one login; a kind that is absent stays as it is. */
export const keysBody = z
  .strictObject({
    controlKeys: z.array(controlKey).max(maxKeys, tooMany).optional().describe('Texts of control keys.'),
    publicKeys: z
      .array(publicKey)
      .max(maxKeys, tooMany)
      .optional()
      .describe('PEM texts of RSA public keys (`openssl pkey -in private_key.pem -pubout`).'),
  })
  .refine(({ controlKeys, publicKeys }) => controlKeys !== undefined || publicKeys !== undefined, {
    error: 'must have controlKeys or publicKeys',
  });

/** The number of control keys, and SHA-256 of the public keys (SPKI, DER) in hexadecimal. */
export function shownKeys({ controlKeys, publicKeys }: GatewayKeys) {
  return { controlKeys: controlKeys.length, publicKeys: publicKeys.map(fingerprintOf) };
}

/**
 * Accepts these keys besides those that are accepted already, or in place of those of the same kind.
 *
 * @throws AdminError for an unknown login, or if they would be too many
 */
export function changeKeys(
  accounts: Accounts,
  login: string,
  given: z.output<typeof keysBody>,
  how: 'add' | 'replace',
): ReturnType<typeof shownKeys> {
  const current = accounts.keysOf(login);
  if (current === undefined) throw new AdminError(404, 'Unknown login. Add it to the scenario under logins');
  const changed = <T>(old: readonly T[], more: readonly T[] | undefined): readonly T[] =>
    how === 'add' ? [...old, ...(more ?? [])] : (more ?? old);
  const keys = {
    controlKeys: changed(current.controlKeys, given.controlKeys),
    publicKeys: changed(current.publicKeys, given.publicKeys),
  };
  if (how === 'add' && Math.max(keys.controlKeys.length, keys.publicKeys.length) > maxKeys) {
    throw new AdminError(409, `A login has at most ${maxKeys} keys of a kind. Replace them with PUT`);
  }
  accounts.setKeys(login, keys);
  return shownKeys(keys);
}

/** @returns the key, or what is wrong; without the error of OpenSSL, which might quote the text */
function parsePublicKey(pem: string): KeyObject | string {
  if (/PRIVATE KEY-----/.test(pem)) {
    return 'must be a public key, not a private one: openssl pkey -in private_key.pem -pubout';
  }
  try {
    const key = createPublicKey(pem);
    return key.asymmetricKeyType === 'rsa' ? key : 'must be an RSA public key';
  } catch {
    return 'must be the PEM text of an RSA public key: -----BEGIN PUBLIC KEY-----';
  }
}
