'use strict';

/**
 * Rejects an installation of the checkout by another package manager: only npm reads package-lock.json, which pins every
 * package by its hash. Plain JavaScript, since it runs before anything is installed, on any Node. The package that is
 * published does not contain it, so other package managers can install that.
 */
const { npm_config_user_agent: agent = 'npm' } = process.env;

if (agent.indexOf('npm') !== 0) {
  process.stderr.write(
    `Countersign is installed with npm, which installs exactly the packages of package-lock.json, and not with ${
      agent.split('/')[0]
    }: run "npm ci".\n`,
  );
  process.exit(1);
}
