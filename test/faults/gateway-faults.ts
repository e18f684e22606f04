import type { Random } from '../support/random.ts';
import type { FaultName } from './fault-table.ts';
import { bodyFor, chunkedResponse, responseWith } from './gateway-response.ts';

/** One request at the gateway, and actions on its connection. */
export interface GatewayRequest {
  readonly orderId: string;
  readonly fault: FaultName;
  readonly random: Random;
  readonly write: (bytes: string | Buffer) => void;
  /** @param joined whether the bytes include the proper response, so that both arrive together */
  readonly writeSurplus: (bytes: Buffer, joined: boolean) => void;
  readonly end: () => void;
  readonly reset: () => void;
  readonly pauseReading: (milliseconds: number) => void;
  readonly after: (milliseconds: number, act: () => void) => void;
  /** No further request has begun on the connection. */
  readonly isLast: () => boolean;
  readonly refuse: (milliseconds: number) => void;
}

type Act = (request: GatewayRequest) => void;

export function respond(request: GatewayRequest): void {
  acts[request.fault](request);
}

function good({ orderId, random, write }: GatewayRequest): void {
  write(responseWith({ body: bodyFor(orderId, sizeOf(random)) }));
}

/** Mostly small; some need more than one read of a socket. */
function sizeOf(random: Random): number {
  return random.chance(0.06) ? random.int(20_000, 200_000) : random.int(0, 200);
}

const withStatus =
  (status: string, headers: readonly string[] = []): Act =>
  ({ orderId, write }) =>
    write(responseWith({ status, headers, body: bodyFor(orderId) }));

/** Writes so much of a good response and then ends the connection. */
const cut =
  (share: (random: Random) => number, ending: 'end' | 'reset', size = 300): Act =>
  ({ orderId, random, write, end, reset }) => {
    const bytes = responseWith({ body: bodyFor(orderId, size) });
    write(bytes.subarray(0, Math.max(1, Math.floor(bytes.length * share(random)))));
    if (ending === 'end') end();
    else reset();
  };

const inHead = (random: Random): number => random.next() * 0.15;
const inBody = (random: Random): number => 0.4 + random.next() * 0.55;

function closeAfter({ orderId, random, write, end }: GatewayRequest): void {
  write(responseWith({ body: bodyFor(orderId, sizeOf(random)), headers: ['Connection: close'] }));
  end();
}

/** A complete response, after which the connection ends without announcing it. */
const goodThen =
  (act: (request: GatewayRequest) => void): Act =>
  (request) => {
    good(request);
    act(request);
  };

function surplusOf({ orderId, random }: GatewayRequest): Buffer {
  return responseWith({ body: bodyFor(`surplus-${orderId}`, sizeOf(random)) });
}

function drip(bytes: Buffer, every: number, { write, after }: GatewayRequest, size = 1): void {
  const next = (at: number): void => {
    write(bytes.subarray(at, at + size));
    if (at + size < bytes.length) after(every, () => next(at + size));
  };
  next(0);
}

function flood(request: GatewayRequest): void {
  request.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'.repeat(20));
  request.after(5, () => flood(request));
}

const unreachableHere: Act = ({ reset }) => reset();

const acts: Readonly<Record<FaultName, Act>> = {
  good,
  'good-slow': (request) => {
    const bytes = responseWith({ body: bodyFor(request.orderId, 200) });
    drip(bytes, request.random.int(5, 25), request, Math.ceil(bytes.length / 12));
  },
  'good-chunked': ({ orderId, random, write }) => {
    for (const piece of chunkedResponse(bodyFor(orderId, sizeOf(random)), random.int(1, 8))) write(piece);
  },
  'good-close': closeAfter,
  'good-large': ({ orderId, random, write }) =>
    write(responseWith({ body: bodyFor(orderId, random.int(1_100_000, 3_000_000)) })),
  'good-while-flapping': good,
  'status-403': withStatus('403 Forbidden'),
  'status-429': withStatus('429 Too Many Requests', ['Retry-After: 1']),
  'status-500': withStatus('500 Internal Server Error'),

  refused: unreachableHere,
  'black-hole': unreachableHere,
  'accept-close': unreachableHere,
  'accept-reset': unreachableHere,
  'tls-wrong-name': unreachableHere,
  'tls-handshake-cut': unreachableHere,

  'request-close': ({ end }) => end(),
  'request-reset': ({ reset }) => reset(),
  'early-response': (request) => {
    request.pauseReading(request.random.int(20, 100));
    good(request);
  },
  'early-response-close': (request) => {
    request.pauseReading(100);
    closeAfter(request);
    request.after(20, request.reset);
  },

  'read-close': ({ end }) => end(),
  'read-reset': ({ reset }) => reset(),
  // Longer than all further attempts of the proxy together.
  'read-reset-then-refused': ({ reset, refuse }) => {
    refuse(900);
    reset();
  },
  hang: () => {},

  'head-close': cut(inHead, 'end'),
  'head-reset': cut(inHead, 'reset'),
  'body-close': cut(inBody, 'end'),
  'body-reset': cut(inBody, 'reset'),
  'large-reset': ({ orderId, random, write, after, reset }) => {
    const bytes = responseWith({ body: bodyFor(orderId, 2_500_000) });
    write(bytes.subarray(0, random.int(1_200_000, 2_400_000)));
    after(random.int(20, 100), reset);
  },
  'length-too-long': ({ orderId, write, end }) => {
    const body = bodyFor(orderId, 100);
    write(responseWith({ body, length: body.length + 50 }));
    end();
  },
  'length-too-short': ({ orderId, write }) => {
    const body = bodyFor(orderId, 100);
    write(responseWith({ body, length: body.length - 50 }));
  },
  'chunks-broken': ({ orderId, write }) => {
    const [head, chunk] = chunkedResponse(bodyFor(orderId, 100), 1);
    write(
      Buffer.concat([head ?? Buffer.alloc(0), chunk ?? Buffer.alloc(0), Buffer.from('zz\r\nbroken\r\n')]),
    );
  },
  'chunks-cut': ({ orderId, write, end }) => {
    for (const piece of chunkedResponse(bodyFor(orderId, 100), 4).slice(0, 3)) write(piece);
    end();
  },
  drip: (request) => drip(responseWith({ body: bodyFor(request.orderId, 300) }), 40, request),
  'flood-1xx': (request) => {
    request.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(request.random.int(1, 500)));
    good(request);
  },
  'flood-1xx-endless': flood,
  'switch-101': ({ write }) =>
    write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nother bytes'),
  garbage: ({ write, random, end, after }) => {
    write(Buffer.from(Array.from({ length: random.int(1, 400) }, () => random.int(0, 255))));
    after(random.int(0, 100), end);
  },

  'close-after': goodThen(({ end }) => end()),
  'reset-after': goodThen(({ after, reset }) => after(1, reset)),
  'close-later': goodThen(({ after, end, random }) => after(random.int(2, 80), end)),
  'surplus-joined': (request) => {
    const { orderId, random, writeSurplus } = request;
    const proper = responseWith({ body: bodyFor(orderId, sizeOf(random)) });
    writeSurplus(Buffer.concat([proper, surplusOf(request)]), true);
  },
  'surplus-next': goodThen((request) => request.writeSurplus(surplusOf(request), false)),
  'surplus-later': goodThen((request) =>
    request.after(request.random.int(1, 60), () => {
      if (request.isLast()) request.writeSurplus(surplusOf(request), false);
    }),
  ),
};
