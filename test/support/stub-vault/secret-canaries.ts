/** All encodings of a text that must not leak. */
export function formsOf(mark: string): readonly string[] {
  const bytes = Buffer.from(mark);
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
  // Base64 of a text inside a longer one starts at any of three offsets.
  const inside = [0, 1, 2].map((offset) => {
    const whole = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    return whole.slice(4, -4);
  });
  return [mark, encodeURIComponent(mark), ...inside, bytes.toString('hex'), percent].flatMap((form) => [
    form,
    form.toUpperCase(),
    form.toLowerCase(),
  ]);
}

/** Names of the marks that occur in a text. */
export function marksIn(text: string, marks: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(marks)
    .filter(([, mark]) => formsOf(mark).some((form) => text.includes(form)))
    .map(([name]) => name);
}
