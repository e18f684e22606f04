import type { TlsFiles, TlsUser } from '../tls/files.ts';
import type { TlsPart } from '../tls/material.ts';
import type { Path } from './problem.ts';
import type { Config } from './schema.ts';

/** The PEM files of one user of certificates, and the configuration path of each. */
export interface TlsFileGroup {
  readonly user: TlsUser;
  readonly files: TlsFiles;
  readonly paths: Readonly<Record<TlsPart, Path>>;
}

/** All certificate, key and CA files of a configuration. */
export function tlsFilesOf({ proxy, environments, keys }: Config): TlsFileGroup[] {
  const { certFile, keyFile, clientCaFile } = proxy.tls ?? {};
  const vault = keys.source === 'vault' ? keys.vault : undefined;
  const groups = [
    {
      user: { role: 'listener' } as const,
      files: { cert: certFile, key: keyFile, ca: clientCaFile },
      paths: pathsBelow(['proxy', 'tls'], 'clientCaFile'),
    },
    {
      user: { role: 'vault' } as const,
      files: { cert: vault?.certFile, key: vault?.keyFile, ca: vault?.caFile },
      paths: pathsBelow(['keys', 'vault']),
    },
    ...Object.entries(environments).map(([environment, { caFile }]) => ({
      user: { role: 'gateway', environment } as const,
      files: { ca: caFile },
      paths: pathsBelow(['environments', environment]),
    })),
  ];
  return groups.filter(({ files }) => Object.values(files).some((file) => file !== undefined));
}

function pathsBelow(at: Path, caField = 'caFile'): Readonly<Record<TlsPart, Path>> {
  return { cert: [...at, 'certFile'], key: [...at, 'keyFile'], ca: [...at, caField] };
}
