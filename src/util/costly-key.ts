import type { KeyObject } from 'node:crypto';

/** A verification with the largest takes 0.5 ms; with an exponent as long as its modulus it would take a hundred times that. */
const maxRsaBits = 8192;
const maxRsaExponent = 0xffff_ffffn;

/** Whether a verification with this public key, which a stranger may have chosen, takes too long. */
export function isCostlyKey({ asymmetricKeyDetails = {} }: KeyObject): boolean {
  const { modulusLength = 0, publicExponent = 0n } = asymmetricKeyDetails;
  return modulusLength > maxRsaBits || publicExponent > maxRsaExponent;
}
