import { constants } from 'node:crypto';

/**
 * For every TLS connection, in both directions: only suites with forward secrecy and authenticated encryption. Of the
 * Diffie-Hellman ones only those on elliptic curves, because the server alone chooses the group of the others (RFC 9325
 * sections 4.2 and 4.4). Without renegotiation, a connection keeps the peer that was verified.
 */
export const tlsPolicy = {
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
  ].join(':'),
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
} as const;

export type MinVersion = 'TLSv1.2' | 'TLSv1.3';
