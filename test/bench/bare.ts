import { Agent } from 'node:http';
import express from 'express';
import { createProxyMiddleware } from 'http-proxy-middleware';

/** http-proxy-middleware and nothing else. Arguments: upstream, port. */
const [target = '', port] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });

express().use(createProxyMiddleware({ target, agent })).listen(Number(port), '127.0.0.1');
