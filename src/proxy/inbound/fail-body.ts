import type { IncomingMessage } from 'node:http';

/**
 * Reports an error of a body that is not complete to the handler that reads it. It may begin to do so only after its
 * caller is authenticated.
 */
export function failBody(request: IncomingMessage, error: Error): void {
  setImmediate(() => {
    if (request.listenerCount('error') > 0) request.emit('error', error);
    else onceHeard(request, () => failBody(request, error));
  });
}

function onceHeard(request: IncomingMessage, callback: () => void): void {
  const onListener = (event: string | symbol): void => {
    if (event !== 'error') return;
    request.off('newListener', onListener);
    callback();
  };
  request.on('newListener', onListener);
}
