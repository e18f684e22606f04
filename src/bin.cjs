#!/usr/bin/env node
'use strict';

/**
 * What `countersign` runs where it is installed: as `bin` of the package, and in the image. Plain JavaScript, like the
 * preflight, which comes first: a Node that is too old may not even be able to load main.
 *
 * Source maps are enabled here rather than by an option of Node, so that every way to start has them, and only for
 * our own files: stack traces in the log name `src/*.ts`. They are read when a stack trace is made.
 */
require('./preflight.cjs');
const { setSourceMapsSupport } = require('module');

setSourceMapsSupport(true, { nodeModules: false });
void import('./main.ts');
