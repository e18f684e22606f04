import type { TlsFiles, TlsUser } from '../tls/files.ts';
import type { TlsPart } from '../tls/material.ts';
import type { Path } from './problem.ts';
import type { Config } from './schema.ts';

/** All certificate, key and CA files of a configuration by user, with the configuration path of each. */
export function tlsFilesOf({ proxy, environments, keys }: Config) {
  const { certFile, keyFile, clientCaFile, clientCrlFile } = proxy.tls ?? {};
  const vault = keys.source === 'vault' ? keys.vault : undefined;
  const groups: { user: TlsUser; files: TlsFiles; paths: Readonly<Record<TlsPart, Path>> }[] = [
    {
      user: { role: 'listener' },
      files: { cert: certFile, key: keyFile, ca: clientCaFile, crl: clientCrlFile },
      paths: pathsBelow(['proxy', 'tls'], 'clientCaFile'),
    },
    {
      user: { role: 'vault' },
      files: { cert: vault?.certFile, key: vault?.keyFile, ca: vault?.caFile },
      paths: pathsBelow(['keys', 'vault']),
    },
    ...Object.entries(environments).map(([environment, { caFile }]) => ({
      user: { role: 'gateway' as const, environment },
      files: { ca: caFile },
      paths: pathsBelow(['environments', environment]),
    })),
  ];
  return groups.filter(({ files }) => Object.values(files).some((file) => file !== undefined));
}

function pathsBelow(at: Path, caField = 'caFile'): Readonly<Record<TlsPart, Path>> {
  return {
    cert: [...at, 'certFile'],
    key: [...at, 'keyFile'],
    ca: [...at, caField],
    crl: [...at, 'clientCrlFile'],
  };
}
