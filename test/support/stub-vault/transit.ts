import { generateKeyPairSync, type KeyObject, privateEncrypt } from 'node:crypto';
import {
  type Backend,
  empty,
  envelope,
  errors,
  notFound,
  type StubRequest,
  type StubResponse,
  seconds,
  text,
} from './protocol.ts';

interface Version {
  readonly createdAt: number;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

interface Key {
  readonly type: string;
  readonly exportable: boolean;
  readonly versions: Version[];
  readonly settings: Record<string, unknown>;
}

/** Of EMSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 9.2, note 1). */
const digestInfo = Buffer.from('3031300d060960864801650304020105000420', 'hex');

/** The secrets engine `transit`, mounted at one path: RSA keys and signatures, as OpenBao 2.6.2 responds. */
export class Transit {
  readonly #keys = new Map<string, Key>();

  /** `path` without the mount. */
  readonly backend: Backend = (call) => {
    const [, view = '', name = '', rest = ''] =
      /^(keys|sign)\/(\w(?:[\w.-]*\w)?)(?:\/(.+))?$/.exec(call.path) ?? [];
    switch (`${call.method} ${view} ${rest}`) {
      case 'POST keys ':
        return this.#create(name, call);
      case 'GET keys ':
        return this.#describe(name);
      case 'POST keys rotate':
        return this.#rotate(name, call);
      case 'POST keys config':
        return this.#configure(name, call);
      case 'DELETE keys ':
        return this.#delete(name);
      case 'POST sign sha2-256':
        return this.#sign(name, call);
      default:
        return undefined;
    }
  };

  /** A key that exists stays as it is. */
  #create(name: string, { body, now }: StubRequest): StubResponse {
    if (!this.#keys.has(name)) {
      const type = text(body['type']);
      const exportable = body['exportable'] === true;
      this.#keys.set(name, { type, exportable, versions: [newVersion(type, now)], settings: {} });
    }
    return this.#describe(name);
  }

  #rotate(name: string, { now }: StubRequest): StubResponse {
    const key = this.#keys.get(name);
    if (key === undefined) return errors(400, 'no existing key named could be found');
    key.versions.push(newVersion(key.type, now));
    return this.#describe(name);
  }

  #configure(name: string, { body }: StubRequest): StubResponse {
    const key = this.#keys.get(name);
    if (key === undefined) return errors(400, 'no existing key named could be found');
    const { auto_rotate_period: period } = body;
    Object.assign(key.settings, body, period && { auto_rotate_period: seconds(period, 0) });
    return this.#describe(name);
  }

  #delete(name: string): StubResponse {
    const key = this.#keys.get(name);
    if (key?.settings['deletion_allowed'] !== true)
      return errors(400, 'error deleting policy: deletion is not allowed for this key');
    this.#keys.delete(name);
    return empty;
  }

  #describe(name: string): StubResponse {
    const key = this.#keys.get(name);
    if (key === undefined) return notFound;
    const versions = key.versions.map(({ createdAt, publicKey }, index) => [
      index + 1,
      {
        creation_time: new Date(createdAt).toISOString(),
        name: key.type,
        public_key: publicKey.export({ type: 'spki', format: 'pem' }),
      },
    ]);
    const defaults = { allow_plaintext_backup: false, auto_rotate_period: 0, deletion_allowed: false };
    const data = {
      ...defaults,
      exportable: key.exportable,
      keys: Object.fromEntries(versions),
      latest_version: key.versions.length,
      min_encryption_version: 0,
      name,
      type: key.type,
      ...key.settings,
    };
    return envelope({ data });
  }

  #sign(name: string, { body }: StubRequest): StubResponse {
    const key = this.#keys.get(name);
    if (key === undefined) return errors(400, 'signing key not found');
    const number = Number(body['key_version'] ?? key.versions.length);
    const outOfRange = (how: string) =>
      errors(500, `1 error occurred:\n\t* requested version for signing is ${how}\n\n`);
    const version = key.versions[number - 1];
    if (version === undefined) return outOfRange('higher than the latest key version');
    if (number < Number(key.settings['min_encryption_version'] ?? 0))
      return outOfRange('less than the minimum encryption key version');
    const digest = Buffer.from(text(body['input']), 'base64');
    // Without these two, Vault would hash the digest again, or sign with PSS.
    if (body['prehashed'] !== true || body['signature_algorithm'] !== 'pkcs1v15' || digest.length !== 32)
      return errors(400, 'unsupported by this stub');
    const signature = privateEncrypt(version.privateKey, Buffer.concat([digestInfo, digest]));
    return envelope({
      data: { key_version: number, signature: `vault:v${number}:${signature.toString('base64')}` },
    });
  }
}

function newVersion(type: string, createdAt: number): Version {
  const bits = Number(/^rsa-(\d+)$/.exec(type)?.[1] ?? Number.NaN);
  if (Number.isNaN(bits)) return { createdAt, ...generateKeyPairSync('ed25519') };
  return { createdAt, ...generateKeyPairSync('rsa', { modulusLength: bits }) };
}
