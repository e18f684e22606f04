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

export const fontFamily = 'Inter, Roboto, Helvetica, Arial, sans-serif';

/** Of the widest font, as a part of its size. */
export const characterWidth = 0.62;

const axis = {
  axisLine: { show: false },
  axisTick: { show: false },
  axisLabel: { color: colors.faint },
  splitLine: { show: true, lineStyle: { color: colors.grid } },
};

/** Of the charting library. */
export const theme = {
  /** Of series, in Grafana's order. */
  color: '#73bf69 #f2cc0c #8ab8ff #ff780a #f2495c #5794f2 #b877d9 #705da0 #37872d #fade2a'.split(' '),
  textStyle: { fontFamily },
  title: {
    left: 0,
    top: 0,
    padding: 0,
    textStyle: { color: colors.text, fontWeight: 'normal', fontSize: 14 },
  },
  legend: { padding: 0, icon: 'rect', selectedMode: false, textStyle: { color: colors.text } },
  timeAxis: axis,
  valueAxis: axis,
  line: { showSymbol: false, lineStyle: { width: 1 } },
};

/** Pixels. */
export const sizes = { width: 1200, margin: 12, gap: 8, cell: 24, padding: 10, title: 34, line: 18 };

/** A grid as large as its chart. */
export const whole = { left: 0, right: 0, top: 0, bottom: 0 };

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}
