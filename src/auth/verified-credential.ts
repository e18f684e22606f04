/** How a caller proved who it is. Identifies the credential and does not hold it: every field may be logged. */
export type VerifiedCredential =
  | {
      readonly kind: 'token';
      /** The first 8 hex digits of the token's SHA-256. */
      readonly tokenHash: string;
    }
  | {
      readonly kind: 'certificate';
      /** The name that matched the configuration. */
      readonly certificateName: string;
      /** SHA-256 of the certificate in the form of OpenSSL: `AB:CD:...`. */
      readonly certificateFingerprint: string;
    }
  | {
      readonly kind: 'jwt';
      /** Bounded, one line of plain ASCII each. */
      readonly issuer: string;
      readonly subject: string;
      /** `kid` of the header. */
      readonly keyId?: string | undefined;
      /** `jti` of the claims. */
      readonly tokenId?: string | undefined;
    }
  | { readonly kind: 'anonymous' };
