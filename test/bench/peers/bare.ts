import { Agent, createServer } from 'node:http';
import express from 'express';
import { createProxyMiddleware } from 'http-proxy-middleware';
import { answerUrl } from './peer.ts';

/**
 * http-proxy-middleware in an Express app, and nothing else: no log, no metrics, no authentication; with an
 * agent that keeps connections, as Countersign has one.
 */
const target = process.argv[2];
if (target === undefined) throw new TypeError('the URL of the upstream is missing');
const agent = new Agent({ keepAlive: true });

answerUrl(createServer(express().use(createProxyMiddleware({ target, agent }))));
