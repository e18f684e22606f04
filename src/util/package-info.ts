import { readFileSync } from 'node:fs';

/** The directory of package.json, for both `src/` and the built `dist/`. */
export const packageRoot = new URL('../../', import.meta.url);

export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('package.json', packageRoot), 'utf8'));
  if (typeof manifest === 'object' && manifest !== null && 'version' in manifest)
    return String(manifest.version);
  throw new Error('package.json has no version');
}
