import {
  type Backend,
  empty,
  envelope,
  errors,
  notFound,
  type StubRequest,
  type StubResponse,
} from './protocol.ts';

interface Version {
  readonly version: number;
  readonly createdAt: number;
  data: unknown;
  deletedAt: number | undefined;
  destroyed: boolean;
}

interface Secret {
  current: number;
  maxVersions: number;
  readonly versions: Map<number, Version>;
}

/** Of a mount or secret with `max_versions` 0. */
const defaultMaxVersions = 10;

/** The secrets engine `kv`, version 2, mounted at one path. */
export class Kv2 {
  readonly #secrets = new Map<string, Secret>();
  #maxVersions = 0;

  /** `path` without the mount. */
  readonly backend: Backend = (call) => {
    if (call.path === 'config') return this.#configureMount(call);
    const [, view, path = ''] = /^(data|metadata|delete|undelete|destroy)\/(.*)$/.exec(call.path) ?? [];
    switch (`${call.method} ${view}`) {
      case 'GET data':
        return this.#read(path, call);
      case 'POST data':
        return this.#write(path, call);
      case 'DELETE data':
        return this.#change([this.#secrets.get(path)?.current ?? 0], path, { deletedAt: call.now });
      case 'POST delete':
        return this.#change(numbers(call), path, { deletedAt: call.now });
      case 'POST undelete':
        return this.#change(numbers(call), path, { deletedAt: undefined });
      case 'POST destroy':
        return this.#change(numbers(call), path, { destroyed: true, data: null });
      case 'GET metadata':
        return this.#metadata(path);
      case 'POST metadata':
        return this.#configure(path, call);
      case 'LIST metadata':
        return this.#list(path);
      case 'DELETE metadata':
        this.#secrets.delete(path);
        return empty;
      default:
        return undefined;
    }
  };

  #read(path: string, { query, now }: StubRequest): StubResponse {
    const secret = this.#secrets.get(path);
    const requested = Number(query.get('version') ?? 0);
    const version = secret?.versions.get(requested === 0 ? secret.current : requested);
    if (secret === undefined || version === undefined) return notFound;
    const isDeleted = version.destroyed || (version.deletedAt !== undefined && version.deletedAt <= now);
    const data = { data: isDeleted ? null : version.data, metadata: described(version) };
    return envelope({ data }, isDeleted ? 404 : 200);
  }

  #write(path: string, { body, now }: StubRequest): StubResponse {
    const { data, options } = body as { data?: unknown; options?: { cas?: number } };
    if (typeof data !== 'object' || data === null) return errors(400, 'no data provided');
    const secret = this.#secrets.get(path) ?? blank();
    if (options?.cas !== undefined && options.cas !== secret.current)
      return errors(400, 'check-and-set parameter did not match the current version');
    secret.current += 1;
    const version = { version: secret.current, createdAt: now, data, deletedAt: undefined, destroyed: false };
    secret.versions.set(secret.current, version);
    this.#removeOldest(secret);
    this.#secrets.set(path, secret);
    return envelope({ data: described(version) });
  }

  /** The secret's limit, or the mount's. A lower one than before removes all versions beyond it with the next write. */
  #removeOldest({ current, maxVersions, versions }: Secret): void {
    const limit = [maxVersions, this.#maxVersions].find((one) => one > 0) ?? defaultMaxVersions;
    for (const number of versions.keys()) if (number <= current - limit) versions.delete(number);
  }

  #configureMount({ method, body }: StubRequest): StubResponse | undefined {
    if (method !== 'POST') return undefined;
    this.#maxVersions = Number(body['max_versions'] ?? this.#maxVersions);
    return empty;
  }

  #change(numbersOf: readonly number[], path: string, change: Partial<Version>): StubResponse {
    for (const number of numbersOf) {
      const version = this.#secrets.get(path)?.versions.get(number);
      if (version !== undefined) Object.assign(version, change);
    }
    return empty;
  }

  #metadata(path: string): StubResponse {
    const secret = this.#secrets.get(path);
    if (secret === undefined) return notFound;
    const versions = [...secret.versions.values()];
    const data = {
      cas_required: false,
      current_version: secret.current,
      custom_metadata: null,
      max_versions: secret.maxVersions,
      oldest_version: versions[0]?.version ?? 0,
      versions: Object.fromEntries(versions.map((version) => [version.version, timesOf(version)])),
    };
    return envelope({ data });
  }

  #configure(path: string, { body }: StubRequest): StubResponse {
    const secret = this.#secrets.get(path) ?? blank();
    secret.maxVersions = Number(body['max_versions'] ?? secret.maxVersions);
    this.#secrets.set(path, secret);
    return empty;
  }

  /** Names in a folder; those of folders end in a slash. */
  #list(path: string): StubResponse {
    const folder = path === '' || path.endsWith('/') ? path : `${path}/`;
    const inside = [...this.#secrets.keys()].filter((name) => name.startsWith(folder));
    const keys = new Set(inside.map((name) => name.slice(folder.length).replace(/\/.*$/, '/')));
    return keys.size === 0 ? notFound : envelope({ data: { keys: [...keys].sort() } });
  }
}

const blank = (): Secret => ({ current: 0, maxVersions: 0, versions: new Map() });

function numbers({ body }: StubRequest): number[] {
  return Array.isArray(body['versions']) ? body['versions'].map(Number) : [];
}

function timesOf({ createdAt, deletedAt, destroyed }: Version): object {
  const deletion_time = deletedAt === undefined ? '' : new Date(deletedAt).toISOString();
  return { created_time: new Date(createdAt).toISOString(), deletion_time, destroyed };
}

/** Metadata of a response about one version. */
const described = (version: Version): object => ({
  ...timesOf(version),
  custom_metadata: null,
  version: version.version,
});
