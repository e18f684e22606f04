import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Puts throw-away keys into a Vault in dev mode and into the folder of the gateway simulator, and lets
 * Countersign log in by AppRole. Run by deploy/compose.yaml; can be run again.
 */
const { VAULT_ADDR = '', VAULT_TOKEN = '', KEYS_DIR = '', LOGIN_DIR = '' } = process.env;
const environment = 'sandbox';
/** Those of config/scenario.yaml. */
const logins = ['acme', 'beta'];
/** What Countersign needs and no more: keys, and how old they are. */
const policy = {
  path: {
    'secret/data/gateway/*': { capabilities: ['read'] },
    'secret/metadata/gateway/*': { capabilities: ['read'] },
  },
};

for (const login of logins) {
  const keys = keysIn(join(KEYS_DIR, environment, login));
  await vault('POST', `secret/data/gateway/${environment}/${login}`, { data: keys });
}
await vault('POST', 'sys/policies/acl/countersign', { policy: JSON.stringify(policy) });
await vault('POST', 'sys/auth/approle', { type: 'approle' }).catch(unlessInUse);
await vault('POST', 'auth/approle/role/countersign', { token_policies: ['countersign'], token_ttl: '1h' });
const role = await vault('GET', 'auth/approle/role/countersign/role-id');
const secret = await vault('POST', 'auth/approle/role/countersign/secret-id', {});
writeFileSync(join(LOGIN_DIR, 'role_id'), String(role['role_id']));
writeFileSync(join(LOGIN_DIR, 'secret_id'), String(secret['secret_id']));
process.stdout.write(`${VAULT_ADDR} has keys for ${logins.join(', ')} in ${environment}\n`);

/** The keys in a folder, made where there are none. */
function keysIn(folder: string): { control_key: string; private_key: string } {
  const files = { control: join(folder, 'control_key'), private: join(folder, 'private_key.pem') };
  if (!existsSync(files.private)) {
    mkdirSync(folder, { recursive: true });
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    writeFileSync(files.control, randomBytes(24).toString('base64url'));
    writeFileSync(files.private, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  }
  return {
    control_key: readFileSync(files.control, 'utf8'),
    private_key: readFileSync(files.private, 'utf8'),
  };
}

/** The `data` of Vault's reply. */
async function vault(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(`${VAULT_ADDR}/v1/${path}`, {
    method,
    headers: { 'X-Vault-Token': VAULT_TOKEN },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? {} : (JSON.parse(text).data ?? {});
}

function unlessInUse(error: Error): void {
  if (!error.message.includes('path is already in use')) throw error;
}
