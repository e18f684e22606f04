import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/**
 * Makes the files of a release from the commit that is checked out, in the folder `release` or the one given: the npm
 * package, the same with its dependencies for a machine without npm, the chart, the SBOM, and their checksums. On the same
 * Node and npm, the same commit gives the same bytes: whoever doubts a release makes it again.
 */
const root = fileURLToPath(new URL('..', import.meta.url));
const target = resolve(process.argv[2] ?? join(root, 'release'));
const run = (cwd: string, command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }).trim();

const quietly = ['--no-audit', '--no-fund', '--prefer-offline'];

/** A tar file whose bytes depend on nothing but the names and contents of the files. */
function pack(parent: string, name: string, file: string, ...options: readonly string[]): void {
  const constant = [
    '--sort=name',
    '--mtime=@0',
    '--owner=0',
    '--group=0',
    '--numeric-owner',
    '--mode=u=rwX,go=rX',
    ...options,
  ];
  run(parent, 'tar', ...constant, '--use-compress-program=gzip -n', '-cf', join(target, file), name);
}

if (run(root, 'git', 'status', '--porcelain') !== '') {
  process.stderr.write(
    'There are changes that are not committed: a release is made of a commit. Commit or stash them.\n',
  );
  process.exit(1);
}
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const temporary = mkdtempSync(join(tmpdir(), 'countersign-release-'));
// npm writes the name of the folder into the SBOM.
const folder = join(temporary, 'countersign');
try {
  // Its own installation: node_modules of a checkout may have been changed.
  run(root, 'git', 'worktree', 'add', '--detach', folder, 'HEAD');
  run(folder, 'npm', 'ci', '--ignore-scripts', ...quietly);
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
  const name = `countersign-${version}`;
  run(folder, 'npm', 'pack', '--silent', '--pack-destination', target);
  const stage = join(folder, 'stage', name);
  mkdirSync(stage, { recursive: true });
  run(folder, 'tar', '-xzf', join(target, `${name}.tgz`), '--strip-components=1', '-C', stage);
  cpSync(join(folder, 'package-lock.json'), join(stage, 'package-lock.json'));
  run(stage, 'npm', 'ci', '--ignore-scripts', '--omit=dev', '--omit=optional', ...quietly);
  pack(join(folder, 'stage'), name, `${name}.tar.gz`);
  // As `helm package`, which has a time in its bytes: files in place of links to them, without what is ignored.
  const asHelm = ['--dereference', '--exclude-ignore-recursive=.helmignore'];
  pack(join(folder, 'helm'), 'countersign', `countersign-chart-${version}.tgz`, ...asHelm);
  cpSync(join(folder, 'sbom.cdx.json'), join(target, `${name}.cdx.json`));
} finally {
  run(root, 'git', 'worktree', 'remove', '--force', folder);
  rmSync(temporary, { recursive: true, force: true });
}
const sums = readdirSync(target)
  .sort()
  .map((name) => {
    const sum = createHash('sha256')
      .update(readFileSync(join(target, name)))
      .digest('hex');
    return `${sum}  ${name}\n`;
  });
writeFileSync(join(target, 'SHA256SUMS'), sums.join(''));
process.stdout.write(sums.join(''));
