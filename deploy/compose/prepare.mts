import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes throwaway keys to a Vault in dev mode and to the key directory of the gateway simulator, and creates an AppRole
 * for Countersign. Run by deploy/compose.yaml; idempotent.
 */
const { VAULT_ADDR = '', VAULT_TOKEN = '', KEYS_DIR = '', LOGIN_DIR = '' } = process.env;
const environment = 'sandbox';
/** Those of config/scenario.yaml. */
const logins = ['acme', 'beta'];
/** Role and policy as deploy/vault/setup.sh names them. */
const role = `countersign-${environment}`;
const policy = { path: { [`secret/data/gateway/${environment}/*`]: { capabilities: ['read'] } } };

for (const login of logins) {
  const keys = readOrGenerateKeys(join(KEYS_DIR, environment, login));
  await vault('POST', `secret/data/gateway/${environment}/${login}`, { data: keys });
}
await vault('POST', `sys/policies/acl/${role}-proxy`, { policy: JSON.stringify(policy) });
await vault('POST', 'sys/auth/approle', { type: 'approle' }).catch(ignoreInUse);
await vault('POST', `auth/approle/role/${role}`, { token_policies: [`${role}-proxy`], token_ttl: '1h' });
const id = await vault('GET', `auth/approle/role/${role}/role-id`);
const secret = await vault('POST', `auth/approle/role/${role}/secret-id`, {});
writeFileSync(join(LOGIN_DIR, 'role_id'), String(id['role_id']));
writeFileSync(join(LOGIN_DIR, 'secret_id'), String(secret['secret_id']));
process.stdout.write(`${VAULT_ADDR} has keys for ${logins.join(', ')} in ${environment}\n`);

/** Reads the keys in a directory, after generating missing ones. */
function readOrGenerateKeys(folder: string): { control_key: string; private_key: string } {
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

/** @returns `data` of Vault's response */
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

function ignoreInUse(error: Error): void {
  if (!error.message.includes('path is already in use')) throw error;
}
