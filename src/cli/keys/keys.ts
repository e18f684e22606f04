import { group } from '../shared/command.ts';

/** Manages keys, for the platform team (docs/key-rotation.md). */
export const keys = group('keys', [
  ['list', 'List versions, ages and fingerprints', async () => (await import('./list.ts')).listKeys],
  [
    'generate',
    'Generate an RSA key pair and store the private key in Vault',
    async () => (await import('./generate.ts')).generateKey,
  ],
  [
    'import',
    'Import an existing control key or private key',
    async () => (await import('./import.ts')).importKey,
  ],
  [
    'verify',
    'Test which key versions the gateway accepts',
    async () => (await import('./verify.ts')).verifyKeys,
  ],
  ['rollback', 'Restore an earlier version', async () => (await import('./rollback.ts')).rollBack],
]);
