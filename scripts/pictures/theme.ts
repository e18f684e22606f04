/** Colors of Grafana's dark theme. */
export const colors = {
  page: '#111217',
  panel: '#181b1f',
  border: '#2b2d33',
  grid: '#26292e',
  text: '#ccccdc',
  faint: '#9a9ca8',
  note: '#f2cc0c',
  green: '#73bf69',
  red: '#f2495c',
};

/** Colors of series, in Grafana's order. */
export const palette =
  '#73bf69 #f2cc0c #8ab8ff #ff780a #f2495c #5794f2 #b877d9 #705da0 #37872d #fade2a'.split(' ');

export const fontFamily = 'Inter, Roboto, Helvetica, Arial, sans-serif';

/** Pixels. */
export const sizes = { width: 1200, margin: 12, gap: 8, cell: 24, padding: 10, title: 34, line: 18 };

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}
