#!/usr/bin/env node
'use strict';

/**
 * What `countersign` runs where it is built: bin/countersign of the package, and the image. Plain JavaScript, like the
 * preflight, which comes first: a Node that is too old may not even be able to load main.
 *
 * Source maps are enabled here rather than by an option of Node, so that every way to start has them, and only for
 * our own files: stack traces in the log name `src/*.ts`. An error pays for that when its stack is first read.
 */
require('./preflight.cjs');
const { setSourceMapsSupport } = require('module');

setSourceMapsSupport(true, { nodeModules: false });
void import('./main.ts');
