import { element } from './svg.ts';

type Point = readonly [x: number, y: number];

/** A line through the points, with a gap for missing values and a faint fill down to the base line. */
export function line(
  points: readonly (Point | undefined)[],
  base: number,
  color: string,
  fill: number,
): string {
  return runs(points)
    .map((run) => {
      const [[x, y] = [0, 0], second] = run;
      if (second === undefined) return element('circle', { cx: x, cy: y, r: 1.5, fill: color });
      const path = pathThrough(run);
      const area = { d: `${path}V${tenths(base) / 10}H${tenths(x) / 10}Z`, fill: color };
      return (
        element('path', { ...area, 'fill-opacity': String(fill) }) +
        element('path', { d: path, fill: 'none', stroke: color })
      );
    })
    .join('');
}

/** Splits the points at gaps. */
function runs(points: readonly (Point | undefined)[]): Point[][] {
  const found: Point[][] = [[]];
  for (const point of points) {
    if (point !== undefined) found.at(-1)?.push(point);
    else if (found.at(-1)?.length !== 0) found.push([]);
  }
  return found.filter((run) => run.length > 0);
}

/** Relative coordinates in tenths of a pixel, without points inside horizontal stretches, to keep the file small. */
function pathThrough(run: readonly Point[]): string {
  const points = run.map(([x, y]) => [tenths(x), tenths(y)] as const);
  const bends = points.filter(([, y], at) => y !== points[at - 1]?.[1] || y !== points[at + 1]?.[1]);
  return bends
    .map(([x, y], at) => {
      const [fromX, fromY] = bends[at - 1] ?? [0, 0];
      return `${at === 0 ? 'M' : 'l'}${(x - fromX) / 10},${(y - fromY) / 10}`;
    })
    .join('');
}

function tenths(pixels: number): number {
  return Math.round(pixels * 10);
}
