/** The samples of a metrics page in the text format: series -> value. */
export function samples(page: string): Map<string, number> {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

/** `name{a="1",b="2"}`, in the given order of labels. */
export function series(name: string, labels: Readonly<Record<string, string>>): string {
  const parts = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return `${name}{${parts.join(',')}}`;
}
